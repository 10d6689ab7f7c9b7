"""Reader of CoNLL-U, the format of Universal Dependencies (universaldependencies.org/format.html).

Each word has a row of ten columns, separated by tabs: ID FORM LEMMA UPOS XPOS FEATS HEAD DEPREL DEPS MISC. A row with
the ID ``3-4`` is a multiword token, the surface form of words 3 and 4, and a row with the ID ``8.1`` is an empty node;
neither is a word. Files compressed as ``.xz`` or ``.gz`` are read directly.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tacenda.corpus.lines import LONGEST_LINE, LONGEST_SENTENCE, numbered_lines
from tacenda.errors import DataError
from tacenda.reading import path_of, whole_number

_COLUMNS = 10
_RANGE = re.compile(r"([1-9][0-9]*)-([1-9][0-9]*)\Z")
_EMPTY_NODE = re.compile(r"[0-9]+\.[1-9][0-9]*\Z")


class Sentence(NamedTuple):
    """A sentence of ``n`` syntactic words; every tuple in it has length ``n``."""

    words: tuple[str, ...]
    upos: tuple[str, ...]
    """Universal tags; ``_`` where the treebank has none."""
    xpos: tuple[str, ...]
    """The treebank's own tags; ``_`` where it has none."""
    heads: tuple[int, ...]
    """The position of each head, counted from 1; 0 for the root, and -1 where the treebank has none."""
    relations: tuple[str, ...]
    text: str
    """The ``# text`` comment or, without one, the surface tokens joined according to their spacing."""
    space_after: tuple[bool, ...]
    """Whether a space follows in the text; in a multiword token only its last word can have one."""
    sent_id: str | None


def read(path: str | Path) -> Iterator[Sentence]:
    """Yield the sentences of a CoNLL-U file one by one, whatever its length.

    Raises DataError, which names file and line, if it cannot be read, or a line is not CoNLL-U.
    """
    path = path_of(path, DataError)
    lines: list[str] = []
    number = size = 0
    for number, line in numbered_lines(path):
        if line.strip(" \t"):
            lines.append(line)
            size += len(line)
            if len(lines) > 3 * LONGEST_SENTENCE or size > LONGEST_LINE:
                raise _fault(path, number, f"a sentence of more than {LONGEST_SENTENCE:,} words")
        elif lines:
            yield _parse(path, number - len(lines), lines, number)
            lines, size = [], 0
    if lines:
        yield _parse(path, number - len(lines) + 1, lines, number)


def _fault(path: Path, number: int, message: str) -> DataError:
    return DataError(f"{path}, line {number}: {message}; is it CoNLL-U?")


def _parse(path: Path, first: int, lines: list[str], end_line: int) -> Sentence:
    """Parse the lines of one sentence, from line ``first``; ``end_line`` is blank, or the last of the file."""
    comments: dict[str, str] = {}
    rows: list[tuple[str, str, str, int, str, bool]] = []
    surface: list[str] = []
    last, spaced_last = 0, True  # of the multiword token that is open
    for number, line in enumerate(lines, first):
        if line.startswith("#") and not rows:
            key, equals, value = line[1:].partition("=")
            comments |= {key.strip(): value.strip()} if equals else {}
            continue
        cells = line.split("\t")
        if len(cells) != _COLUMNS:
            raise _fault(path, number, f"{len(cells)} tab-separated columns, expected {_COLUMNS}")
        identifier, form, position = cells[0], cells[1], len(rows) + 1
        if not form:
            raise _fault(path, number, "the word is empty")
        if position > LONGEST_SENTENCE:
            raise _fault(path, number, f"a sentence of more than {LONGEST_SENTENCE:,} words")
        spaced = "SpaceAfter=No" not in cells[9].split("|")
        if identifier == str(position):
            if position <= last:
                spaced = spaced_last and position == last
            else:
                surface.append(form + " " * spaced)
            head = -1 if cells[6] == "_" else whole_number(cells[6])
            if head is None:
                raise _fault(path, number, f"the head {cells[6]!r:.80} is not a number")
            rows.append((form, cells[3], cells[4], head, cells[7], spaced))
        elif match := _RANGE.match(identifier):
            begin, end = whole_number(match[1]), whole_number(match[2])
            if begin != position or end is None or end < position or last >= position:
                raise _fault(path, number, f"the multiword token {identifier:.80} is out of place")
            last, spaced_last = end, spaced
            surface.append(form + " " * spaced)
        elif not _EMPTY_NODE.match(identifier):
            raise _fault(path, number, f"the id is {identifier!r:.80} where {position} is expected")
    if not rows:
        raise _fault(path, end_line, "a sentence without words ends here")
    if last > len(rows):
        raise _fault(path, end_line, "the sentence ends inside a multiword token")
    words, upos, xpos, heads, relations, space_after = zip(*rows, strict=True)
    if max(heads) > len(words):
        raise _fault(
            path, end_line, f"a head is word {max(heads)} in a sentence of {len(words)} words"
        )
    text = comments.get("text", "".join(surface).rstrip(" "))
    return Sentence(words, upos, xpos, heads, relations, text, space_after, comments.get("sent_id"))
