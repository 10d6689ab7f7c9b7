"""ARPA files: what we write others score alike, what others write we read, what is damaged we name."""

import bz2
import dataclasses
import gzip
import io
import itertools
import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tacenda.errors import ArtifactError, DataError
from tacenda_lm import KneserNey, State
from tacenda_lm.ngram import arpa, arpa_lines, arpa_writing

TEXT = [
    "the cat sat on the mat", "the dog sat", "a cat saw the dog on a mat", "<unk> saw the cat",
    "the mat", "dogs <unk> cats", "a dog sat on the mat",
]  # fmt: skip
PROBES = [*TEXT, "", "never seen words", "the the the", "cat <unk> dog never", "mat on sat cat the"]

#: By hand: bigrams of two words, probabilities as logarithms of tenths.
SMALL = r"""
some words before the data are allowed

\data\
ngram 1=5
ngram 2=4

\1-grams:
-1	<unk>	0
-99	<s>	-0.30103
-0.39794	</s>
-0.69897	a	-0.1
-0.52288	b	-0.2

\2-grams:
-0.30103	<s> a
-0.1	a b
-0.2	b </s>
-0.4	b b

\end\
"""


@pytest.fixture
def read(write_file):
    """The model of a file with this text."""
    return lambda text, name="model.arpa": KneserNey.from_arpa(write_file(name, text))


@pytest.fixture(scope="module")
def model():
    return KneserNey(order=4).fit(TEXT)


def test_a_file_is_scored_as_it_says(read):
    model = read(SMALL)
    assert model.order == 2
    assert model.vocabulary.words == ("<unk>", "</s>", "a", "b")
    assert model.score("a b") == pytest.approx(-0.30103 - 0.1 - 0.2, abs=1e-6)
    assert model.score("b") == pytest.approx(-0.30103 - 0.52288 - 0.2, abs=1e-6)
    assert model.score("a a", eos=False) == pytest.approx(-0.30103 - 0.1 - 0.69897, abs=1e-6)
    assert model.score("x", bos=False, eos=False) == pytest.approx(-1, abs=1e-6)
    found = [tuple(row) for row in model.full_scores("a x")]
    assert [(length, oov) for _, length, oov in found] == [(2, False), (1, True), (1, False)]


def test_a_model_comes_back_from_its_file(model, tmp_path):
    for name in ("model.arpa", "model.arpa.gz", "model.arpa.GZ"):
        model.to_arpa(tmp_path / name)
        again = KneserNey.from_arpa(tmp_path / name)
        assert again.table.sizes == model.table.sizes
        assert again.fitted_on["arpa"] == name
        np.testing.assert_allclose(again.score_batch(PROBES), model.score_batch(PROBES), atol=1e-5)
        assert again.check_normalized(TEXT) < 1e-5
        again.to_arpa(tmp_path / "twice.arpa")
        assert KneserNey.from_arpa(tmp_path / "twice.arpa").score(TEXT[0]) == pytest.approx(
            again.score(TEXT[0]), abs=1e-6
        )
        content = (tmp_path / name).read_bytes()
        unpacked = gzip.decompress(content) if name != "model.arpa" else content
        assert unpacked == (tmp_path / "model.arpa").read_bytes()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        *(
            (f"m.{end}", r"m\..* has .* gzipped if they end in \.gz")
            for end in ("xz", "BZ2", "zst")
        ),
        ("nowhere/m.arpa", "cannot write .*nowhere"),
    ],
)
def test_a_path_that_cannot_be_written_is_refused(model, tmp_path, name, message):
    with pytest.raises(DataError, match=message):
        model.to_arpa(tmp_path / name)
    assert not (tmp_path / name).exists()


def test_the_compression_does_not_matter(read):
    assert read(bz2.compress(SMALL.encode()), "model.arpa.bz2").order == 2


def test_spaces_for_tabs_and_missing_back_offs_are_read(model, read, tmp_path):
    model.to_arpa(tmp_path / "model.arpa")
    lines = (tmp_path / "model.arpa").read_text().replace("\t0\n", "\n").replace("\t", " ")
    assert "\t" not in lines
    again = read(lines.replace("\n", "\r\n"), "other.arpa")
    np.testing.assert_allclose(again.score_batch(PROBES), model.score_batch(PROBES), atol=1e-5)


def test_unigrams_in_any_permitted_form_are_read_alike(read):
    """Lines that compiled code leaves to others among those that it reads, and words of any bytes."""
    words = ["é", "日本", "a\u00a0b", "𝄞", "x\x0b", "0.5", "-inf", *(f"w{i}" for i in range(3000))]
    number = math.log10(1 / (len(words) + 2))
    lines = [f"{number:.7f}\t{word}" for word in ("<unk>", "</s>", *words)]
    plain = "\\data\\\nngram 1={}\n\n\\1-grams:\n{}\n\n\\end\\\n"
    expected = read(plain.format(len(lines), "\n".join(lines)))
    assert expected.vocabulary.words == ("<unk>", "</s>", *words)
    for i in range(0, len(lines), 7):
        lines[i] = (
            f"{number:.7f}0000000000000000 {lines[i].split(chr(9))[1]}\t-99.5  \r",
            f"{lines[i]}\t0\r",
            lines[i].replace("\t", " "),
        )[i % 3]
    found = read(plain.format(len(lines), "\n".join(lines)), "odd.arpa")
    assert found.vocabulary.words == expected.vocabulary.words
    assert found.score("é w7 w8") == expected.score("é w7 w8")
    assert found.score("nothing") == pytest.approx(2 * number, abs=1e-5)


def test_a_line_that_is_no_text_is_named(read):
    with pytest.raises(DataError, match="line 13: it is not UTF-8"):
        read(SMALL.encode().replace(b"\tb\t-0.2", b"\t\xff\xfe\t-0.2"))


def test_a_file_without_the_unknown_word_gives_it_next_to_nothing(read):
    model = read(SMALL.replace("-1	<unk>	0\n", "").replace("1=5", "1=4"))
    assert "unknown" in model.fitted_on
    assert model.score("x", bos=False, eos=False) == pytest.approx(-100)
    assert model.perplexity("a x b").n_oov == 1


def test_what_a_pruned_model_left_out_is_filled_in_without_changing_anything(read):
    """A trigram whose last two words are not listed as a bigram, and one whose first two are not."""
    text = SMALL.replace("ngram 2=4\n", "ngram 2=4\nngram 3=2\n").replace(
        "\\end\\", "\\3-grams:\n-0.05\ta b a\n-0.06\tb a b\n\n\\end\\"
    )
    model = read(text)
    assert model.fitted_on["n_grams_implied"] == 1  # "b a", needed by both
    assert model.score("a b a", eos=False) == pytest.approx(-0.30103 - 0.1 - 0.05, abs=1e-6)
    assert model.score("b a b", bos=False, eos=False) == pytest.approx(
        -0.52288 + (-0.2 - 0.69897) - 0.06, abs=1e-6
    )
    assert model.score("b b a", bos=False, eos=False) == pytest.approx(
        -0.52288 - 0.4 + (-0.2 - 0.69897), abs=1e-6
    )


@pytest.mark.parametrize(
    ("damage", "line", "message"),
    [
        (("\\end\\\n", ""), 20, "cut short"),
        (("b </s>\n-0.4\tb b\n\n\\end\\\n", ""), 18, "'-0.2'"),
        (("ngram 2=4", "ngram 2=5"), 20, "ends after 4 n-grams of 5"),
        (("ngram 2=4", "ngram 2=3"), 19, "counts at the top are wrong"),
        (("ngram 1=5", "ngram 1=6"), 14, "ends after 5 n-grams of 6"),
        (("ngram 1=5", "ngram 1=50000"), 14, "ends after 5 n-grams of 50000"),
        (("ngram 1=5", "ngram 1=4"), 13, "counts at the top are wrong"),
        (("ngram 1=5", "ngram 1=0"), 8, "no unigram </s>"),
        (("ngram 2=4", "ngram 3=4"), 6, "ngram 2=COUNT"),
        (("ngram 2=4", "ngram 2=many"), 6, "ngram 2=COUNT"),
        (("-0.1	a b", "0.1	a b"), 17, "above zero"),
        (("-0.1	a b", "nan	a b"), 17, "'nan' is not a number"),
        (("-0.1	a b", "-0.1	a b	nan"), 17, "'nan' is not a number"),
        (("-0.1	a b", "x	a b"), 17, "not a number"),
        (("-0.1	a b", "-0_1	a b"), 17, "'-0_1' is not a number"),
        (("-0.1	a b", "-\u0661	a b"), 17, "is not a number"),
        (("-0.1	a b", "-0.1	a b	\v0"), 17, "is not a number"),
        (("-0.1	a b", "-0.1	a c"), 17, "'c' is no unigram"),
        (("-0.1	a b", "-0.1	a b b b"), 17, "2 words"),
        (("-0.1	a b", "-0.1	a b	inf"), 17, "not finite"),
        (("-0.69897	a	-0.1", "-0.69897	a	1e39"), 12, "1e39 is not finite"),
        (("-0.1	a b", "-0.1	a " + "b" * (1 << 23)), 17, "more than 1,048,576 characters"),
        (
            ("-0.69897	a	-0.1", "-0.69897	a	0.8"),
            None,
            "'</s>' after 'a' a probability above one",
        ),
        (("ngram 1=5", f"ngram 1={'5' * 5000}"), 5, "ngram 1=COUNT"),
        (("ngram 1=5", f"ngram {'1' * 5000}=5"), 5, "ngram 1=COUNT"),
        (("-0.1	a b", f"-0.1	a b	{'9' * 5000}"), 17, "not finite"),
        (("-0.1	a b", "-0.1	<s> a"), None, "the 2-gram '<s> a' is listed twice"),
        (("-0.69897	a	-0.1", "-0.69897	b	-0.1"), None, "listed twice"),
        (("-0.39794	</s>\n", "-0.39794	x\n"), None, "no unigram </s>"),
        (("\\data\\", "\\nothing\\"), 4, "no ARPA file"),
        ((SMALL, "a text\nof two lines\n"), None, "no ARPA file"),
        (("\\2-grams:", "\\3-grams:"), 15, "expected"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(write_file, damage, line, message):
    assert damage[0] in SMALL
    path = write_file("model.arpa", SMALL.replace(*damage))
    with pytest.raises(DataError) as caught:
        KneserNey.from_arpa(path)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)
    if line is not None:
        assert f"line {line}:" in str(caught.value)


@pytest.mark.parametrize("before", ["\\data\\\nngram 1=1\n\n\\1-grams:\n-1\t", "x"])
def test_of_a_line_without_end_only_the_beginning_is_read(monkeypatch, read, before):
    pieces = (b"a" * (1 << 16) for _ in range(1000))
    monkeypatch.setattr(arpa, "_BYTES_AT_ONCE", 1 << 16)
    monkeypatch.setattr(arpa, "byte_chunks", lambda _: itertools.chain([before.encode()], pieces))
    with pytest.raises(DataError, match="the line has more than"):
        read("")
    assert len(list(pieces)) > 1000 - 2 * (1 << 4)


@settings(max_examples=50)
@given(cut=st.integers(0, len(SMALL) - 8))
def test_a_file_cut_anywhere_is_refused(tmp_path_factory, cut):
    path = tmp_path_factory.mktemp("arpa") / "model.arpa"
    path.write_text(SMALL[:cut], encoding="utf8")
    with pytest.raises(DataError):
        KneserNey.from_arpa(path)


@pytest.mark.parametrize("content", [b"", b"\\data\\\n", b"\xff\xfe\x00", b"\x1f\x8b damaged"])
def test_what_is_no_arpa_file_is_refused(read, tmp_path, content):
    with pytest.raises(DataError, match=r"m\.arpa"):
        read(content, "m.arpa")
    with pytest.raises(DataError, match="there is no file"):
        KneserNey.from_arpa(tmp_path / "none.arpa")


@pytest.mark.parametrize("word", ["two words", "<s>", "", "a\tb", "\ud800"])
def test_a_word_that_no_file_can_hold_is_refused(tmp_path, word):
    model = KneserNey(order=2).fit([["a", word], ["b"]], marks="keep")
    with pytest.raises(DataError, match="cannot be written to an ARPA file"):
        model.to_arpa(tmp_path / "m.arpa")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("opened", [open, gzip.open])
@pytest.mark.parametrize("mode", ["wt", "rb"])
def test_a_file_that_takes_no_bytes_is_refused(model, tmp_path, opened, mode):
    (tmp_path / "m.arpa").touch()
    with (
        opened(tmp_path / "m.arpa", mode) as file,
        pytest.raises(DataError, match=r"m.arpa.*: open it in binary mode, such as with \"wb\""),
    ):
        model.to_arpa(file)


def test_the_unknown_word_in_capitals_is_one_word_in_all_orders(read):
    """As KenLM has it; the compiled reader and the other, which an exponent of many digits asks for."""
    text = SMALL.replace("-0.1\ta b", "-0.1\t<UNK> b").replace("-0.4\tb b", "-40e-2\ta <UNK>")
    expected = read(text.replace("<UNK>", "<unk>"))
    for odd in (text, text.replace("-0.1\t", "-0.1000000000000000000000\t")):
        model = read(odd.replace("<unk>", "<UNK>"), "capitals.arpa")
        assert model.vocabulary.words == expected.vocabulary.words
        for line in ("a x", "x b", "x x a", "<UNK> b"):
            assert list(model.full_scores(line)) == list(expected.full_scores(line))
    both = SMALL.replace("1=5", "1=6").replace("-0.69897\ta", "-2\t<UNK>\n-0.69897\ta")
    model = read(both.replace("a b", "<UNK> b"))
    assert model.score("<UNK> b", bos=False, eos=False) == pytest.approx(-2 - 0.1, abs=1e-6)


@pytest.mark.parametrize("number", ["-0.1", "-0.1000000000000000000000"])
def test_n_grams_of_no_sentence_are_left_out_with_one_warning(read, number):
    """Models of running text have them; no score of a sentence rests on them."""
    text = SMALL.replace("2=4\n", "2=7\nngram 3=3\n").replace(
        "\n\\end\\",
        f"{number}\t</s> <s>\n{number}\ta <s>\n-0.3\t</s> a\n\n\\3-grams:\n"
        f"{number}\tb </s> <s>\n-0.05\t<s> a b\n{number}\t</s> <s> a\n\n\\end\\",
    )
    with pytest.warns(UserWarning, match="left out") as caught:
        model = read(text)
    left_out = [str(each.message) for each in caught if "left out" in str(each.message)]
    assert len(left_out) == 1
    assert "5 are left out" in left_out[0]
    assert model.fitted_on["n_grams_left_out"] == 5
    assert model.table.sizes == [4, 4, 1]
    assert model.score("a b") == pytest.approx(-0.30103 - 0.05 - 0.2, abs=1e-6)


@settings(max_examples=300)
@given(
    st.lists(
        st.floats(-1e9, 1e9, width=32) | st.integers(-(10**9), 10**9).map(lambda i: i / 2**9),
        min_size=1,
    )
)
@example([0.0, -0.0, 1.0, -0.5, 99999999.0, 9999999.5, 99.9999999, -0.00099999999, 1e-4, 9.9999e-5])
@example([-math.inf, -1e40, 0.1 + 2**-30, 1 / 3, -99.0, 123456.785, 0.0009765625])
def test_numbers_are_written_as_python_writes_them(numbers):
    """Those with an exponent, and those half-way between two of 8 digits, are left to Python."""
    for number in numbers:
        for x in (number, -number):
            out = np.zeros(64, np.uint8)
            end, expected = arpa_lines.write_number(x, out, 7), f"{x:.8g}"
            if end < 0 and 1e-4 <= abs(x) < 1e7:
                exact = Decimal(abs(x))
                assert abs(exact.scaleb(7 - exact.adjusted()) % 1 - Decimal("0.5")) < Decimal(
                    "1e-5"
                )
            elif end < 0:
                assert abs(x) < 1e-4 or abs(x) >= 1e7
            else:
                assert out[7:end].tobytes().decode() == expected
            assert not out[:7].any()


def test_a_damaged_table_that_was_not_checked_is_not_written(monkeypatch):
    model = KneserNey(order=2).fit([["a", "b", "c"], ["b", "d", "a"]])
    artifact, n_damaged = model.to_artifact(), 0
    monkeypatch.setattr(type(model.table), "check_layout", lambda *_: None)  # as if it were large
    for bit in range(artifact.arrays["ngrams.data"].nbytes * 8):
        data = artifact.arrays["ngrams.data"].copy()
        data.view(np.uint8)[bit // 8] ^= 1 << bit % 8
        damaged = KneserNey.from_artifact(
            dataclasses.replace(artifact, arrays={**artifact.arrays, "ngrams.data": data})
        )
        if damaged.table.words_of(2).max() >= len(model.vocabulary):
            n_damaged += 1
            with pytest.raises(ArtifactError, match="no type: it is damaged"):
                damaged.to_arpa(io.BytesIO())
    assert n_damaged


def lines_of(model):
    """The n-grams of a file, written in plain Python."""
    found, words, table = [], [*model.vocabulary.words, "<s>"], model.table
    for n in range(1, table.order + 1):
        found.append(f"\\{n}-grams:")
        order = table.unpack(n)
        backoffs = [f"\t{x:.8g}" for x in (order.backoff * np.float32(1 / math.log(10))).tolist()]
        probs = (order.log_prob * np.float32(1 / math.log(10))).tolist()
        for i, ids in enumerate(table.words_of(n).tolist()):
            names = [words[w] for w in ids]
            names = ["<s>" if name == "</s>" else name for name in names[:-1]] + names[-1:]
            backoff = backoffs[i] if backoffs else ""
            if ids == [model.vocabulary.boundary_id]:
                found.append(f"{model.start_log_prob:.8g}\t<s>{backoff}")
                backoff = ""
            found.append(f"{probs[i]:.8g}\t{' '.join(names)}{backoff}")
    return found


@pytest.mark.parametrize("held", [1, 120, 1 << 18])
@pytest.mark.parametrize(
    "options",
    [*({"order": n} for n in range(1, 7)), {"order": 4, "prune": 1e-3}, {"order": 3, "bits": 4}],
    ids=str,
)
def test_every_line_is_what_the_table_says(monkeypatch, tmp_path, options, held):
    """However little is held at a time: words of many bytes, of 16 and of more than are held, a certain word."""
    monkeypatch.setattr(arpa_writing, "_BYTES_AT_ONCE", held)
    odd = ["é", "日本 𝄞 sixteen_bytes_xx", "w" * 150 + " a", "", "a <unk> b é", "sure sure thing"]
    model = KneserNey(**options).fit([line.split() for line in [*TEXT, *odd]])
    model.to_arpa(tmp_path / "m.arpa")
    lines = (tmp_path / "m.arpa").read_text("utf-8").splitlines()
    sizes = [f"ngram {n}={size + (n == 1)}" for n, size in enumerate(model.table.sizes, 1)]
    assert [line for line in lines if line] == ["\\data\\", *sizes, *lines_of(model), "\\end\\"]


def test_numbers_with_an_exponent_are_written_in_their_lines(read, tmp_path):
    with pytest.warns(UserWarning, match="not normalized"):
        model = read(SMALL.replace("-0.1\ta b", "-2.5e-06\ta b").replace("-99", "-1e-7"))
    model.to_arpa(tmp_path / "again.arpa")
    lines = (tmp_path / "again.arpa").read_text().splitlines()
    assert [line.split("\t")[1] for line in lines if "e-0" in line] == ["<s>", "a b"]
    assert [line for line in lines if line][3:-1] == lines_of(model)


def test_small_numbers_stand_as_they_are(read, tmp_path):
    text = SMALL
    for usual, small in (
        ("-0.69897\ta\t-0.1", "-120.5\ta\t-300"),
        ("-1\t<unk>\t0", "-inf\t<unk>"),
        ("-99\t<s>", "-inf\t<s>"),
        ("-0.2\tb </s>", "-1e40\tb </s>"),
    ):
        text = text.replace(usual, small)
    with pytest.warns(UserWarning, match="not normalized"):
        model = read(text)
    model.save(tmp_path / "saved")
    model.to_arpa(tmp_path / "again.arpa")
    with pytest.warns(UserWarning, match="not normalized"):
        again = KneserNey.from_arpa(tmp_path / "again.arpa")
    for lm in (model, KneserNey.load(tmp_path / "saved"), again, model.smaller(bits=8)):
        assert lm.score("a", bos=False, eos=False) == pytest.approx(-120.5, abs=1e-5)
        assert lm.score("a a", bos=False, eos=False) == pytest.approx(-541, abs=1e-4)
        assert lm.score("x", bos=False, eos=False) == lm.score("b") == -math.inf
        assert lm.score("<s>", bos=False, eos=False) == -math.inf
        assert lm.perplexity("a x") == math.inf
        assert lm.start_log_prob == -math.inf


# -- beside the kenlm module ---------------------------------------------------------------------------


@pytest.mark.parametrize("smoothing", ["interpolated", "backoff", "good_turing"])
@pytest.mark.parametrize("order", [2, 3, 5])
def test_kenlm_scores_our_files_as_we_do(kenlm, tmp_path, order, smoothing):
    model = KneserNey(order=order, smoothing=smoothing).fit(TEXT)
    model.to_arpa(tmp_path / "m.arpa")
    theirs = kenlm.Model(str(tmp_path / "m.arpa"))
    assert theirs.order == model.order
    for sentence in PROBES:
        for bos in (True, False):
            for eos in (True, False):
                expected = list(theirs.full_scores(sentence, bos=bos, eos=eos))
                found = list(model.full_scores(sentence, bos=bos, eos=eos))
                assert [row[1] for row in found] == [row[1] for row in expected]
                np.testing.assert_allclose(
                    [row[0] for row in found], [row[0] for row in expected], atol=2e-5
                )
                total = theirs.score(sentence, bos=bos, eos=eos)
                assert model.score(sentence, bos=bos, eos=eos) == pytest.approx(total, abs=1e-4)
        if sentence:
            assert model.perplexity(sentence) == pytest.approx(theirs.perplexity(sentence), 1e-4)


def test_odd_files_are_read_as_kenlm_reads_them(kenlm, write_file):
    text = SMALL.replace("some words before the data are allowed\n", "").replace("2=4", "2=6")
    text = text.replace("-1\t<unk>\t0", "-inf\t<UNK>").replace(
        "-0.69897\ta\t-0.1", "-120.5\ta\t-300"
    )
    text = text.replace("-0.1\ta b", "-0.1\t<UNK> b").replace("-0.2\tb </s>", "-1e40\tb </s>")
    text = text.replace("\n\\end", "-0.3\t</s> <s>\n-0.2\ta <s>\n\n\\end")
    path = write_file("model.arpa", text)
    theirs = kenlm.Model(str(path))
    with pytest.warns(UserWarning, match="2 are left out"):
        model = KneserNey.from_arpa(path)
    for sentence in ["", "a", "a a", "a b", "x b", "b", "b b", "x", "b x b"]:
        for bos, eos in [(True, True), (True, False), (False, True), (False, False)]:
            expected = theirs.score(sentence, bos=bos, eos=eos)
            assert model.score(sentence, bos=bos, eos=eos) == pytest.approx(expected, abs=1e-3)


def test_log_probabilities_are_never_above_zero_in_a_file(tmp_path):
    """Rounding to float32 must not make a certain word more than certain."""
    model = KneserNey(order=3).fit([["a"]] * 3)
    model.to_arpa(tmp_path / "m.arpa")
    lines = (tmp_path / "m.arpa").read_text().splitlines()
    probs = [float(line.split()[0]) for line in lines if line[:1] in "-0123456789" and line]
    assert len(probs) == sum(model.table.sizes) + 1
    assert max(probs) <= 0
    assert math.isclose(
        KneserNey.from_arpa(tmp_path / "m.arpa").score("a"), model.score("a"), abs_tol=1e-5
    )


def test_tables_that_do_not_sum_to_one_are_read_with_a_warning_and_saved_with_a_flag(
    read, tmp_path
):
    with pytest.warns(UserWarning, match=r"model\.arpa.* sum to") as caught:
        model = read(SMALL)
    assert len(caught) == 1
    assert not model.is_normalized
    model.save(tmp_path / "saved")
    again = KneserNey.load(tmp_path / "saved")
    assert not again.is_normalized
    assert again.score("a b") == model.score("a b")
    assert KneserNey(order=2).fit(TEXT).is_normalized


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("is_normalized", (0, None, "no")),
        ("start_log_prob", (0.5, "0", None, True, math.nan, -1e9)),
    ],
)
def test_what_a_file_may_change_is_checked_in_a_saved_model(model, name, values):
    for strange in values:
        with pytest.raises(ArtifactError, match=name):
            KneserNey.from_arrays({**model.config_dict(), name: strange}, model.arrays())


@pytest.mark.filterwarnings("ignore:.*not normalized")
@pytest.mark.parametrize("smoothing", ["interpolated", "backoff", "good_turing", None])
def test_the_sums_of_a_table_are_those_of_its_distributions(read, smoothing):
    """Also those of a file, which are not one."""
    model = KneserNey(order=4, smoothing=smoothing).fit(TEXT) if smoothing else read(SMALL)
    orders = range(1, model.order)
    rows = {tuple(row) for n in orders for row in model.table.words_of(n).tolist()}
    totals = np.exp(model.log_probs([State(()), *map(State, rows)])).sum(axis=1)
    sums = model.table.sums()
    assert (sums.low, sums.high) == pytest.approx((totals.min(), totals.max()), abs=1e-6)
    assert sums.above_one is None


def test_scoring_word_by_word_is_that_of_kenlm(kenlm, model, tmp_path):
    model.to_arpa(tmp_path / "m.arpa")
    theirs = kenlm.Model(str(tmp_path / "m.arpa"))
    a, b = kenlm.State(), kenlm.State()
    ours, next_ = State(), State()
    theirs.BeginSentenceWrite(a)
    model.BeginSentenceWrite(ours)
    for word in ["the", "cat", "never", "sat", "on", "<unk>", "mat", "</s>"]:
        expected = theirs.BaseFullScore(a, word, b)
        found = model.BaseFullScore(ours, word, next_)
        assert found.log_prob == pytest.approx(expected.log_prob, abs=1e-5)
        assert found.ngram_length == expected.ngram_length
        assert found.oov == expected.oov
        a, b, ours, next_ = b, a, next_, ours
