"""Checks that a text looks like one sentence of words per line.

Any text can be read: a model can be fitted to the clauses of a Chinese text, or to the braces of JSON, and nothing
fails. Therefore the first lines and the counts of the strings are examined, and a text that they do not fit causes one
warning. The thresholds are far from all suitable texts that were measured: 73 texts in seven languages (novels, news,
Wikipedia, the web), running and tokenized, their beginnings and the whole, split by ``"whitespace"`` and by
``"words"``.

=========================================  =====================  =============================  =========
measure                                    suitable texts         other kinds                    threshold
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

from tacenda.tokenizers import SPLIT_AT_SPACES, Tokenizer

FIRST_LINES: Final = 100
"""How many lines, from the first that is not empty, are examined."""

_LINE_PREFIX: Final = 10_000  # characters of such a line that are examined
_MIN_LINES: Final = 10  # fewer are not taken for a table
_MIN_TOKENS: Final = 500  # fewer say too little of a text

_MARKUP: Final = re.compile(r"<(!doctype|\?xml|html|head|body|doc|mediawiki|TEI)\b", re.IGNORECASE)
_CLOSING_TAG: Final = re.compile(r"</(?!s>)[A-Za-z][\w:.-]*\s*>")  # </s> is a mark of a sentence
_STRING: Final = r'"(?:[^"\\]|\\.)*"\s*'
# brackets and a string that the list continues or ends after, or a brace and a string with a colon; or the line ends
_JSON: Final = re.compile(rf"(\[\s*)+($|{_STRING}([,\]]|$))|(\[\s*)*{{\s*($|{_STRING}:)")
_FORMATS: Final = {
    "%PDF-": "a PDF file",
    "{\\rtf": "an RTF file",
    "PK\x03\x04": "a zip archive",
    "{{": "wiki markup",
    "[[File:": "wiki markup",
}

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


def collect_first_lines(blocks: Iterable[list[str]], first_lines: list[str]) -> Iterator[list[str]]:
    """Yield blocks of lines, and append the first `FIRST_LINES`, from the first that is not empty, to a list."""
    for block in blocks:
        if len(first_lines) < FIRST_LINES:
            lines = block if first_lines else dropwhile(lambda line: not line.strip(), block)
            missing = FIRST_LINES - len(first_lines)
            first_lines += [line[:_LINE_PREFIX] for line in islice(lines, missing)]
        yield block


def doubt_lines(first_lines: Sequence[str], advice: str | None = None) -> str | None:
    """Return a warning if a text with these first lines is probably not running text, and None otherwise.

    ``advice`` says what to do about JSON objects where no ``text_field`` can be named.
    """
    lines = list(filter(str.strip, first_lines))
    if not lines:
        return None
    for beginning, kind in _FORMATS.items():
        if lines[0].startswith(beginning):
            return f"the text begins like {kind}: save it as plain text"
    if any("\0" in line for line in lines):
        return (
            "the text holds NUL characters, as UTF-16 does that is read as UTF-8: name its encoding, such as "
            'encoding="utf-16"'
        )
    objects = (_parse_json(line) for line in lines if line.lstrip().startswith("{"))
    records = [record for record in objects if isinstance(record, dict)]
    if 2 * len(records) >= len(lines):
        lengths = {name: len(text) for name, text in records[0].items() if isinstance(text, str)}
        longest = max(lengths, key=lengths.__getitem__, default="text")
        field = "text" if "text" in lengths else longest
        advice = advice or (
            f'text_field="{field}" reads a field of each; in files named *.jsonl, the field "text" is read by default'
        )
        return f"the lines are JSON objects, and are read as text: {advice}"
    if _JSON.match(lines[0]):
        return (
            "the text begins like a JSON document: save its text as plain text, or as one JSON object a line in a file "
            "named *.jsonl"
        )
    tagged = sum(bool(_CLOSING_TAG.search(line)) for line in lines)
    if _MARKUP.match(lines[0].lstrip()) or tagged * 10 >= max(len(lines), _MIN_LINES):
        return "the text looks like HTML or XML: take out its tags, which are read as words"
    columns = find_columns(first_lines)
    if columns is None:
        return None
    return (
        f"the lines look like rows of a table, with {columns} between the columns: save the column with the text as a "
        "separate file, one sentence per line"
    )


def doubt_tokens(
    counts: Mapping[str, int], n_sentences: int, tokenizer: str | Tokenizer | None
) -> str | None:
    """Return a warning if these tokens are probably not the words of sentences, and None otherwise.

    ``tokenizer`` is None if the text was tokenized elsewhere, which is never doubted.
    """
    n_tokens = sum(counts.values())
    # a script is recognized in a fifth of the text that the other measures need
    if tokenizer is None or n_tokens < _MIN_TOKENS / 5:
        return None
    non_ascii = {word: n for word, n in counts.items() if not word.isascii()}
    for language, max_length, script in _WITHOUT_SPACES:
        found = {word: n for word, n in non_ascii.items() if script.search(word)}
        n_found = sum(found.values())
        length = sum(len(word) * n for word, n in found.items())
        if n_found > 0.05 * n_tokens and length > max_length * n_found:
            advice = f'tokenizer="spacy:{language}" splits them' if language else "split them first"
            return (
                f"{n_found / n_tokens:.0%} of the tokens are in a script that is written without spaces between words, "
                f"and have {length / n_found:.0f} characters on average, such as {_quote_first(found)}: {advice}"
            )
    if n_tokens < _MIN_TOKENS:
        return None
    line_length = n_tokens / n_sentences
    if line_length < 1.5:
        return (
            f"a line is read as a sentence, and {n_sentences:,} lines have {line_length:.1f} tokens each: write all "
            "words of a sentence on one line"
        )
    if line_length > 1000:
        lines = (
            "the only line has" if n_sentences == 1 else f"{n_sentences:,} lines have on average"
        )
        return f"a line is read as a sentence, and {lines} {line_length:,.0f} tokens: write one sentence per line"
    marked = {w: n for w, n in non_ascii.items() if unicodedata.category(w[0]).startswith("M")}
    if sum(marked.values()) > 0.05 * n_tokens:
        return (
            f"{sum(marked.values()) / n_tokens:.0%} of the tokens begin with a combining mark, such as "
            f"{_quote_first(marked)}: the tokenizer cuts words at their marks; name one for the language, such as "
            'tokenizer="spacy:hi", or write accented letters as one character (NFC)'
        )
    once = {word: n for word, n in counts.items() if n == 1}
    if n_tokens >= 2000 and len(once) > 0.9 * n_tokens:
        return (
            f"{len(once) / n_tokens:.0%} of the tokens occur only once, such as {_quote_first(once)}: the text seems "
            "not to be split into words; choose another tokenizer"
        )
    if tokenizer in SPLIT_AT_SPACES:
        # full stops say nothing, because abbreviations keep theirs
        glued = {w: n for w, n in counts.items() if w[-1] in ",;:!?" and w[-2:-1].isalpha()}
        share = sum(glued.values()) / n_tokens
        if share <= 0.02:
            return None
        return (
            f"{share:.0%} of the tokens are words with punctuation at their end, such as {_quote_first(glued)}: "
            'the text seems not to be tokenized; tokenizer="words" splits punctuation off'
        )
    n_cut = min(counts.get(part, 0) for part in ("<", "unk", ">"))
    if n_cut <= 0.001 * n_tokens:
        return None
    return (
        f"the tokenizer cuts the mark <unk>, which is written about {n_cut:,} times, into words: the text is "
        'tokenized already, and tokenizer="whitespace" reads it as it is'
    )


def find_columns(first_lines: Sequence[str]) -> str | None:
    """Return the separator of columns, in words, if the lines look like rows of a table, and None otherwise."""
    lines = list(dict.fromkeys(filter(str.strip, first_lines)))
    if len(lines) < _MIN_LINES:
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
    is_tagged = (
        len(n_words) == 1 and n_words <= set(range(2, 10)) and "" in map(str.strip, first_lines)
    )
    return "spaces" if is_tagged else None


def _parse_json(line: str) -> object:
    """Return the value of a line of JSON, an empty object for one that is only a prefix, or None."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return {} if len(line) == _LINE_PREFIX and _JSON.match(line) else None


def _quote_first(words: Mapping[str, int]) -> str:
    """Return the first word, quoted and shortened."""
    word = next(iter(words))
    return repr(word if len(word) <= 20 else f"{word[:20]}...")
