"""The outputs in pages: which differences count, and what is written."""

import pytest

from support.pages import agree, read_blocks, run_page, write_outputs


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("0.8081 and 1,234\n", "0.8082 and 1,234\n"),
        ("loss 251.104\n", "loss 251.2\n"),
        ("-1.25e-3\n", "-1.252e-3\n"),
        ("name   rank\n----   ----\none    2\n", "name  rank\n-----  --\none 2\n"),
        ("took 3 s on 2026-11-22\n", "took 12.5 s on 2027-01-03\n"),
        ("first\n...\nlast\n", "first\nsecond\nthird\nlast\n"),
        ("first\n...\n", "first\nsecond\n"),
        ("...\nthird\n...\nlast\n", "first\nsecond\nthird\nfourth\nlast\n"),
    ],
)
def test_small_differences_do_not_count(shown, printed):
    assert agree(shown, printed)


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        (None, "something\n"),
        ("something\n", ""),
        ("0.81\n", "0.84\n"),
        ("(5, 50)\n", "(5, 51)\n"),
        ("1,234\n", "1,235\n"),
        ("1.0\n", "-1.0\n"),
        ("said Alice\n", "said she\n"),
        ("first\n...\nlast\n", "first\nsecond\n"),
        ("first\n...\nthird\n...\nlast\n", "first\nsecond\nlast\n"),
        ("one\ntwo\n", "one\n"),
    ],
)
def test_others_count(shown, printed):
    assert not agree(shown, printed)


PAGE = """# A page

```python
total = 2 + 2
```

```python
print(total)
```

Text.

```python
for number in range(5):
    print(number)
```

```text
zero
...
```

```console
$ tacenda models --help
```
"""


@pytest.fixture
def page(tmp_path):
    path = tmp_path / "page.md"
    path.write_text(PAGE, encoding="utf8")
    write_outputs(path, list(run_page(path, {})))
    return path


def test_outputs_are_put_behind_the_blocks_that_print(page):
    none, total, numbers, usage = (
        block.output for block in read_blocks(page) if block.language != "text"
    )
    assert none is None
    assert total == "4\n"
    assert numbers == "0\n...\n", "cut where it was cut"
    assert "Usage: tacenda models" in usage


def test_a_page_that_shows_what_is_printed_stays_as_it_is(page):
    before = page.read_text(encoding="utf8").replace("```text\n4\n", "```text\n4 \n")
    page.write_text(before, encoding="utf8")
    write_outputs(page, list(run_page(page, {})))
    assert page.read_text(encoding="utf8") == before
