"""`make demo`: a stranger sees vectors, tags, surprisals and a recommendation, without data of any kind."""

import re
from pathlib import Path

import pytest

from support.pages import agree
from support.processes import output_of

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def shown():
    quiet = {"TACENDA_DATA": None, "OMP_NUM_THREADS": "1", "TACENDA_PROGRESS": "0"}
    return output_of("examples/demo/demo.py", cwd=ROOT, **quiet)


def test_it_fits_a_terminal(shown):
    assert len(shown.splitlines()) < 50
    assert max(map(len, shown.splitlines())) <= 120


def test_near_words_are_related(shown):
    [line] = re.findall(r"^  physicist .*", shown, re.M)
    assert re.search("mathematician|chemist|scientist|astronomer|physics", line)
    assert re.search(r"^  neighbourhoods was never seen: neighbour \+ hood \+ s$", shown, re.M)


def test_a_verb_is_nearer_to_a_verb_than_to_the_noun_of_its_spelling(shown):
    row = shown.partition("bought a saw")[0].rpartition("saw the house")[2]
    itself, heard, noun, _, *_ = map(float, re.findall(r"-?[01]\.\d\d", row))
    assert itself == 1.0
    assert noun < heard


def test_the_tagger_is_mostly_right(shown):
    truth = ("DET", "ADJ", "NOUN", "ADV", "VERB", "NUM", "NOUN", "ADP", "DET", "ADJ", "NOUN",
             "PUNCT")  # fmt: skip
    [line] = re.findall(r"^  The/.*", shown, re.M)
    found = [each.rpartition("/")[2] for each in line.split()]
    assert sum(a == b for a, b in zip(found, truth, strict=True)) >= 10


def test_every_word_has_its_bits(shown):
    bits = dict(re.findall(r"^  (\S+) +(\d+\.\d)  #*$", shown, re.M))
    assert {"The", "old", "man", "boats", "."} <= bits.keys()
    assert float(bits["boats"]) > float(bits["."])


def test_somebody_new_who_likes_science_fiction_is_recommended_it(shown):
    [line] = re.findall(r"^  recommended: (.*)", shown, re.M)
    assert len(re.findall("The Matrix|Solaris|Metropolis|The Terminator|Gravity", line)) >= 2


def test_the_readme_shows_what_it_prints(shown):
    page = (ROOT / "README.md").read_text(encoding="utf8")
    [output] = re.findall(r"^make demo\n```\n\n```text\n(.*?)^```$", page, re.M | re.S)
    assert agree(output, shown.lstrip("\n"))
