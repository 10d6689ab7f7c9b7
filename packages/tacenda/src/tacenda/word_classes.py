"""Shape and suffix classes for words outside the vocabulary.

A word that is too rare to be a type still shows what it is: ``Grzegorzewski`` is a name, ``deglazing`` a participle,
``€3.2bn`` an amount. ``word_class`` puts every string into one of about a hundred classes, written ``<oov:SHAPE>`` or
``<oov:SHAPE:suffix>``; ``coarser_class`` gives the class to fall back on where the finer one was too rare to be kept.
These suffixes are English; shapes are not tied to a language. `learned_names` has any suffix of a word:
`tacenda.learned_classes` chooses those of a text.
"""

import re
import unicodedata
from functools import lru_cache
from typing import Final

_LOWER_SUFFIXES: Final = (
    "tion", "ness", "ment", "ity", "able", "less", "ful", "ous", "ic", "al", "ive", "ish", "ism",
    "ist", "ize", "ly", "ings", "ing", "ed", "ers", "er", "or", "est", "ant", "ent", "ance", "ence",
    "ies", "es", "s", "en", "y", "e", "a", "o", "i",
)  # fmt: skip
_TITLE_SUFFIXES: Final = (
    "ing", "ed", "ers", "er", "ly", "ian", "man", "an", "ese", "ish", "ism", "ist", "ics", "ic",
    "al", "son", "sen", "ton", "land", "burg", "berg", "ville", "ford", "ski", "ov", "ez", "us", "ia",
    "s", "a", "o", "i", "e", "y", "n",
)  # fmt: skip
_SUFFIXES: Final = {
    "x": _LOWER_SUFFIXES,
    "Xx": _TITLE_SUFFIXES,
    "x-x": ("ing", "ed", "s", "er", "ly"),
}
_SHAPES: Final = (
    "x", "Xx", "XX", "X", "xX", "x'x", "x-x", "Xx-x", "x.x", "X.X", "x_x", "0", "0,0", "0-0", "0/0",
    "time", "0x", "x0", "X0", "0-x", "0%", "$0", "url", "email", "@x", "#x", "punct", "symbol",
    "greek", "cyrillic", "hebrew", "arabic", "cjk", "hangul", "script", "mixed",
)  # fmt: skip

CLASSES: Final[tuple[str, ...]] = tuple(
    f"<oov:{shape}{suffix}>"
    for shape in _SHAPES
    for suffix in ("", *(f":{s}" for s in _SUFFIXES.get(shape, ())))
)
"""Every class there is, coarse ones before their finer ones."""

_MAX_LENGTH: Final = 100  # characters of a word, which is shortened beyond
SUFFIX_LETTERS: Final = 4  # of a learned class at most
_MIN_STEM_LETTERS: Final = 2  # before it at least
_NAME: Final = re.compile(
    f"<oov:({'|'.join(map(re.escape, _SHAPES))})(?::(.{{1,{SUFFIX_LETTERS}}}))?>", re.DOTALL
)
_KNOWN: Final = frozenset(CLASSES)
_URL: Final = re.compile(
    r"(?:[a-z][a-z0-9+.-]*://|www\.)\S+|\S+\.(?:com|org|net|edu|gov|html?|co\.uk)(?:/\S*)?", re.I
)
_EMAIL: Final = re.compile(r"[^\s@]+@[^\s@]+\.[^\s@]+")
# the first pattern that matches the whole word decides
_NUMERIC: Final = tuple(
    (re.compile(pattern), shape)
    for pattern, shape in (
        (r"\d+", "0"),
        (r"[+-]?\d*(?:[.,]\d+)+", "0,0"),
        (r"\d+(?:[-–—]\d+)+", "0-0"),
        (r"\d+(?:/\d+)+", "0/0"),
        (r"\d+(?::\d+)+", "time"),
        (r"[+-]?[\d.,]+[%‰]", "0%"),
        (r"[^\w\s]?[$€£¥][\d.,]+\w*|[\d.,]+[$€£¥]", "$0"),
        (r"\d[\d.,]*[^\W\d_]+\.?", "0x"),
        (r"\d[\d.,]*[-–][^\W\d_][^\s]*", "0-x"),
    )
)
_SCRIPTS: Final = (
    ("GREEK", "greek"), ("CYRILLIC", "cyrillic"), ("HEBREW", "hebrew"), ("ARABIC", "arabic"),
    ("CJK", "cjk"), ("HIRAGANA", "cjk"), ("KATAKANA", "cjk"), ("HANGUL", "hangul"),
)  # fmt: skip


def word_class(word: str) -> str:
    """Return the class of a word: that of "deglazing" is ``<oov:x:ing>``.

    Every string has a class, the empty one included; the name of a class is its own class. The
    function is fixed: saved vocabularies depend on it.
    """
    if word in _KNOWN:
        return word
    word = _shorten(word)
    shape = _shape(word)
    suffixes = _SUFFIXES.get(shape)
    if suffixes:
        for suffix in suffixes:
            # a suffix needs a stem: "sing" is no participle
            if word.endswith(suffix) and len(word) >= len(suffix) + 2:
                return f"<oov:{shape}:{suffix}>"
    return f"<oov:{shape}>"


def coarser_class(name: str) -> str | None:
    """Return the class without the suffix: ``<oov:x>`` for ``<oov:x:ing>``. One without a suffix gives None."""
    shape, _, suffix = name[5:-1].partition(":")
    return f"<oov:{shape}>" if suffix else None


def is_learned_name(word: str) -> bool:
    """Return whether a string is the name of a class that could be learned."""
    return word.startswith("<oov:") and _NAME.fullmatch(word) is not None


def learned_names(word: str) -> list[str]:
    """Return the names that a learned class of the word could have, the finest first.

    Those of "Wanderung" are ``<oov:Xx:rung>``, ``<oov:Xx:ung>``, ``<oov:Xx:ng>``, ``<oov:Xx:g>`` and ``<oov:Xx>``; a
    name leads to itself and to the coarser ones. A word of capital and small letters has their shape in any script.
    """
    if is_learned_name(word) and (found := _NAME.fullmatch(word)):
        shape, suffix = found[1], found[2] or ""
    else:
        word = _shorten(word)
        is_cased = word.isalpha() and word.lower() != word.upper()
        shape = _letters(word) if is_cased else _shape(word)
        suffix = word[_MIN_STEM_LETTERS:][-SUFFIX_LETTERS:]
    return [*(f"<oov:{shape}:{suffix[i:]}>" for i in range(len(suffix))), f"<oov:{shape}>"]


def _shorten(word: str) -> str:
    """Leave out the middle of a very long word, so that time stays linear; a capital there is not seen."""
    half = _MAX_LENGTH // 2
    return word if len(word) <= _MAX_LENGTH else word[:half] + word[-half:]


def _shape(word: str) -> str:
    if word.isascii() and word.isalpha():
        return _letters(word)
    if any(character.isdigit() for character in word):
        for pattern, shape in _NUMERIC:
            if pattern.fullmatch(word):
                return shape
    if _EMAIL.fullmatch(word):
        return "email"
    if _URL.fullmatch(word):
        return "url"
    if len(word) > 1 and word[0] in "@#" and word[1].isalnum():
        return f"{word[0]}x"
    if not any(character.isalnum() for character in word):
        is_symbol = any(unicodedata.category(character)[0] not in "PZ" for character in word)
        return "symbol" if is_symbol else "punct"
    first_letter = next(filter(str.isalpha, word), "a")
    return _script(first_letter) or (_letters(word) if word.isalpha() else _compound(word))


def _letters(word: str) -> str:
    if word.islower():
        return "x"
    if word.isupper():
        return "XX" if len(word) > 1 else "X"
    return "Xx" if word[0].isupper() and not any(c.isupper() for c in word[1:]) else "xX"


def _compound(word: str) -> str:
    """Words of Latin letters with something between them."""
    if any(character.isdigit() for character in word):
        return "X0" if word[0].isupper() else "x0"
    rest = "".join(character for character in word if character.isalpha())
    if "-" in word or "–" in word:
        return "x-x" if rest.islower() else "Xx-x"
    if "'" in word or "’" in word:
        return "x'x"
    if "." in word:
        return "X.X" if word[0].isupper() else "x.x"
    return "x_x" if "_" in word else "mixed"


@lru_cache(maxsize=4096)
def _script(character: str) -> str | None:
    """Return the shape of a letter's script; None where that is Latin."""
    name = unicodedata.name(character, "")
    if "LATIN" in name or character.isascii():
        return None
    return next((shape for prefix, shape in _SCRIPTS if name.startswith(prefix)), "script")
