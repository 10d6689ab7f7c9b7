import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacenda.word_classes import CLASSES, coarser_class, word_class


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("deglazing", "x:ing"), ("unhappiness", "x:ness"), ("zorb", "x"), ("sing", "x"),
        ("ing", "x"), ("Grzegorzewski", "Xx:ski"), ("Smith", "Xx"), ("NASA", "XX"), ("Q", "X"),
        ("iPhone", "xX"), ("naïvely", "x:ly"), ("o'clock", "x'x"), ("long-winded", "x-x:ed"),
        ("New-York", "Xx-x"), ("U.S.", "X.X"), ("e.g.", "x.x"), ("a_b", "x_x"), ("1984", "0"),
        ("3,000.5", "0,0"), ("10-20", "0-0"), ("1/2", "0/0"), ("10:30", "time"), ("1990s", "0x"),
        ("B2B", "X0"), ("x86", "x0"), ("12-year-old", "0-x"), ("5%", "0%"), ("$5", "$0"),
        ("€3.2bn", "$0"), ("http://a.b/c", "url"), ("example.com", "url"), ("a.b@c.org", "email"),
        ("@home", "@x"), ("#tag", "#x"), ("--", "punct"), ("", "punct"), ("😀", "symbol"),
        ("+", "symbol"), ("Москва", "cyrillic"), ("λόγος", "greek"), ("日本", "cjk"),
        ("カナ", "cjk"), ("한국", "hangul"), ("שלום", "hebrew"), ("سلام", "arabic"),
        ("ภาษา", "script"),
    ],
)  # fmt: skip
def test_words_go_to_the_class_of_their_shape_and_suffix(word, name):
    assert word_class(word) == f"<oov:{name}>"


def test_there_are_about_a_hundred_classes():
    assert 80 <= len(CLASSES) <= 130
    assert len(set(CLASSES)) == len(CLASSES)


@given(st.text(st.characters(), max_size=20) | st.text(string.printable, max_size=20))
def test_every_string_has_a_known_class(word):
    assert word_class(word) in CLASSES


@pytest.mark.parametrize("name", CLASSES)
def test_classes_are_their_own_class_and_lead_to_a_shape(name):
    assert word_class(name) == name
    coarser = coarser_class(name)
    assert coarser is None or (coarser in CLASSES and coarser_class(coarser) is None)


@pytest.mark.parametrize("word", ["x@" + "a." * 50_000 + "@", "a-" * 50_000, "1," * 50_000])
def test_a_very_long_word_has_a_class_too(word):
    assert word_class(word) in CLASSES
