"""Reasons to doubt that a text is what its reader takes it for: sentences, one a line, of words.

A text of another kind can be read too: a model is fitted to the clauses of a Chinese text, or to the braces of JSON,
and nothing fails. So the first lines and the counts of the strings are looked at, and there is one warning where they
are unlike any text. The thresholds are far from all sound texts that were measured: 73 texts in seven languages
(novels, news, Wikipedia, the web), running and tokenized, their beginnings and the whole, split by ``"whitespace"``
and by ``"words"``.

=========================================  =====================  =============================  =========
measure                                    sound texts            other kinds                    threshold
=========================================  =====================  =============================  =========
first lines with a tab                     none                   tables, CoNLL-U: 72% or more   half
first lines that are JSON objects          none                   JSONL: all                     half
lines with a closing tag                   0.06% at most          HTML: 7 to 60%                 10%
tokens a line                              4 to 133               words, one a line: 1           1.5
                                                                  a book on one line: thousands  1,000
tokens in a script without spaces          0.006% at most         Chinese, Japanese: 26% or more 5%
length of these tokens, Chinese, Japanese  1.5 to 3 where split   4.9 to 30                      4
the same, Thai, Lao, Khmer, Burmese,       3 to 7 where split     20 to 70                       12
Tibetan
tokens that begin with a combining mark    0.03% at most          Hindi split by "words": 39%    5%
tokens that occur once, of 2,000 or more   75% at most (Turkish)  lists of identifiers: 100%     90%
words with punctuation at their end        0.03% if tokenized     running text: 5 to 14%         2%
``unk``, ``<`` and ``>``, the rarest       none                   <unk> cut up: 2.8 to 5.3%      0.1%
=========================================  =====================  =============================  =========
"""

from __future__ import annotations

import csv
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import dropwhile, islice
from typing import Final

from tacenda.tokenizers import ASCII_WHITESPACE, Tokenizer

FIRST_LINES: Final = 100
"""How many lines, from the first that is not empty, are looked at."""

_LONGEST: Final = 10_000  # characters of such a line that are looked at
_ENOUGH_LINES: Final = 10
_ENOUGH_TOKENS: Final = 500
_SPLIT_AT_SPACES: Final = ("whitespace", ASCII_WHITESPACE)

_MARKUP: Final = re.compile(r"<(!doctype|\?xml|html|head|body|doc|mediawiki|TEI)\b", re.IGNORECASE)
_CLOSING_TAG: Final = re.compile(r"</(?!s>)[A-Za-z][\w:.-]*\s*>")  # </s> is a mark of a sentence
_JSON: Final = re.compile(r"[\[{]\s*([\"\[{]|$)")
_FORMATS: Final = {"%PDF-": "a PDF file", "{\\rtf": "an RTF file", "PK\x03\x04": "a zip archive"}

#: Scripts that are written without spaces between words: a language, the longest mean of its words, its characters.
_WITHOUT_SPACES: Final = tuple(
    (language, longest, re.compile(f"[{characters}]"))
    for language, longest, characters in (
        ("ja", 4, "\u3041-\u30ff\u31f0-\u31ff\uff66-\uff9f"),
        ("zh", 4, "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"),
        ("th", 12, "\u0e01-\u0e5b"),
        ("bo", 12, "\u0f00-\u0fff"),
        ("", 12, "\u0e81-\u0edf\u1000-\u109f\u1780-\u17ff"),  # Lao, Burmese, Khmer
    )
)


def look_at(blocks: Iterable[list[str]], first: list[str]) -> Iterator[list[str]]:
    """Yield blocks of lines, and put the first lines, from the first that is not empty, into ``first``."""
    for block in blocks:
        if len(first) < FIRST_LINES:
            found = block if first else dropwhile(lambda line: not line.strip(), block)
            first += [line[:_LONGEST] for line in islice(found, FIRST_LINES - len(first))]
        yield block


def doubt_lines(first: Sequence[str]) -> str | None:
    """Return a sentence that says why a text with these first lines is probably not running text, or None."""
    lines = list(filter(str.strip, first))
    if not lines:
        return None
    for beginning, what in _FORMATS.items():
        if lines[0].startswith(beginning):
            return f"the text begins like {what}: save it as plain text"
    if any("\0" in line for line in lines):
        return (
            "the text holds NUL characters, as UTF-16 does that is read as UTF-8: name its encoding, such as "
            'encoding="utf-16"'
        )
    objects = (_parse(line) for line in lines if line.lstrip().startswith("{"))
    records = [record for record in objects if isinstance(record, dict)]
    if 2 * len(records) >= len(lines):
        lengths = {name: len(text) for name, text in records[0].items() if isinstance(text, str)}
        longest = max(lengths, key=lengths.__getitem__, default="text")
        field = "text" if "text" in lengths else longest
        return (
            f'the lines are JSON objects, and are read as text: text_field="{field}" reads a field of each, as it is '
            'done for files named *.jsonl with "text"'
        )
    if _JSON.match(lines[0]):
        return (
            "the text begins like a JSON document: save its text as plain text, or as one JSON object a line in a file "
            "named *.jsonl"
        )
    tagged = sum(bool(_CLOSING_TAG.search(line)) for line in lines)
    if _MARKUP.match(lines[0].lstrip()) or tagged * 10 >= max(len(lines), _ENOUGH_LINES):
        return "the text looks like HTML or XML: take out its tags, which are read as words"
    columns = find_columns(first)
    return columns and (
        f"the lines look like rows of a table, with {columns} between the columns: save the column with the text as a "
        "separate file, one sentence per line"
    )


def doubt_tokens(
    counts: Mapping[str, int], n_sentences: int, tokenizer: str | Tokenizer | None
) -> str | None:
    """Return a sentence that says why these tokens are probably no words of sentences, or None.

    ``tokenizer`` is None where the text was tokenized elsewhere: then there is no doubt.
    """
    n_tokens = sum(counts.values())
    if tokenizer is None or n_tokens < _ENOUGH_TOKENS / 5:
        return None
    foreign = {word: n for word, n in counts.items() if not word.isascii()}
    if foreign and (said := _doubt_script(foreign, n_tokens)):
        return said
    if n_tokens < _ENOUGH_TOKENS:
        return None
    a_line = n_tokens / n_sentences
    if a_line < 1.5:
        return (
            f"a line is read as a sentence, and {n_sentences:,} lines have {a_line:.1f} tokens each: write all words "
            "of a sentence on one line"
        )
    if a_line > 1000:
        lines = (
            "the only line has" if n_sentences == 1 else f"{n_sentences:,} lines have on average"
        )
        return f"a line is read as a sentence, and {lines} {a_line:,.0f} tokens: write one sentence per line"
    marked = {w: n for w, n in foreign.items() if unicodedata.category(w[0]).startswith("M")}
    if sum(marked.values()) > 0.05 * n_tokens:
        return (
            f"{sum(marked.values()) / n_tokens:.0%} of the tokens begin with a combining mark, such as "
            f"{_first(marked)}: the tokenizer cuts words at their marks; name one for the language, such as "
            'tokenizer="spacy:hi", or write accented letters as one character (NFC)'
        )
    once = {word: n for word, n in counts.items() if n == 1}
    if n_tokens >= 2000 and len(once) > 0.9 * n_tokens:
        return (
            f"{len(once) / n_tokens:.0%} of the tokens occur only once, such as {_first(once)}: the text seems not to "
            "be split into words; choose another tokenizer"
        )
    if tokenizer in _SPLIT_AT_SPACES:
        # full stops tell nothing, as abbreviations keep theirs
        glued = {w: n for w, n in counts.items() if w[-1] in ",;:!?" and w[-2:-1].isalpha()}
        share = sum(glued.values()) / n_tokens
        return (
            None
            if share <= 0.02
            else (
                f"{share:.0%} of the tokens are words with punctuation at their end, such as {_first(glued)}: "
                'the text seems not to be tokenized; tokenizer="words" splits punctuation off'
            )
        )
    cut = min(counts.get(part, 0) for part in ("<", "unk", ">"))
    if cut <= 0.001 * n_tokens:
        return None
    return (
        f"the tokenizer cuts the mark <unk>, which is written about {cut:,} times, into words: the text is tokenized "
        'already, and tokenizer="whitespace" reads it as it is'
    )


def _doubt_script(foreign: Mapping[str, int], n_tokens: int) -> str | None:
    """Doubt tokens with many characters of a script that is written without spaces between words."""
    for language, longest, script in _WITHOUT_SPACES:
        found = {word: n for word, n in foreign.items() if script.search(word)}
        n_found = sum(found.values())
        length = sum(len(word) * n for word, n in found.items())
        if n_found > 0.05 * n_tokens and length > longest * n_found:
            advice = f'tokenizer="spacy:{language}" splits them' if language else "split them first"
            return (
                f"{n_found / n_tokens:.0%} of the tokens are in a script that is written without spaces between words, "
                f"and have {length / n_found:.0f} characters on average, such as {_first(found)}: {advice}"
            )
    return None


def find_columns(first: Sequence[str]) -> str | None:
    """Return what separates the columns where the lines look like rows of a table."""
    lines = list(dict.fromkeys(filter(str.strip, first)))
    if len(lines) < _ENOUGH_LINES:
        return None
    if sum("\t" in line.strip() for line in lines) * 2 >= len(lines):
        return "tabs"
    for separator, name in ((",", "commas"), (";", "semicolons"), ("|", "bars")):
        with suppress(csv.Error):
            widths = {len(row) for row in csv.reader(lines, delimiter=separator)}
            if len(widths) == 1 and widths.pop() > 2:
                return name
    # a word and its tags on each line, an empty line after each sentence
    n_words = {len(line.split()) for line in lines}
    is_tagged = len(n_words) == 1 and n_words <= set(range(2, 10)) and "" in map(str.strip, first)
    return "spaces" if is_tagged else None


def _parse(line: str) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return {} if len(line) == _LONGEST and _JSON.match(line) else None  # it was cut


def _first(words: Mapping[str, int]) -> str:
    """Return one of the words, quoted and not too long."""
    word = next(iter(words))
    return repr(word if len(word) <= 20 else f"{word[:20]}...")
