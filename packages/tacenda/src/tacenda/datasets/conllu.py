"""Reader of CoNLL-U, the format of Universal Dependencies (universaldependencies.org/format.html).

Each word has a row of ten columns, separated by tabs: ID FORM LEMMA UPOS XPOS FEATS HEAD DEPREL DEPS MISC. A row with
the ID ``3-4`` is a multiword token, the surface form of words 3 and 4, and a row with the ID ``8.1`` is an empty node;
neither is a word. Files compressed as ``.xz`` or ``.gz`` are read directly.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tacenda.corpus.lines import LONGEST_SENTENCE, numbered_lines, whole_number
from tacenda.errors import DataError
from tacenda.store import path_of

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


class _Builder:
    """Collects the rows of a sentence, and checks what takes more than one row to see."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: list[tuple[str, str, str, int, str, bool]] = []
        self.text: str | None = None
        self.sent_id: str | None = None
        self.surface: list[str] = []
        self.span: tuple[int, int, bool] | None = None

    def fault(self, number: int, message: str) -> DataError:
        return DataError(f"{self.path}, line {number}: {message}; is it CoNLL-U?")

    def comment(self, line: str) -> None:
        key, equals, value = line[1:].partition("=")
        if equals and key.strip() == "text":
            self.text = value.strip()
        elif equals and key.strip() == "sent_id":
            self.sent_id = value.strip()

    def add(self, number: int, line: str) -> None:
        cells = line.split("\t")
        if len(cells) != _COLUMNS:
            raise self.fault(number, f"{len(cells)} tab-separated columns, expected {_COLUMNS}")
        if len(self.rows) == LONGEST_SENTENCE:
            raise self.fault(number, f"a sentence of more than {LONGEST_SENTENCE:,} words")
        identifier, form = cells[0], cells[1]
        if not form:
            raise self.fault(number, "the word is empty")
        spaced = "SpaceAfter=No" not in cells[9].split("|")
        if identifier == str(len(self.rows) + 1):
            self._add_word(number, cells, spaced)
        elif match := _RANGE.match(identifier):
            first, last = whole_number(match[1]), whole_number(match[2])
            next_one = first == len(self.rows) + 1
            if first is None or last is None or not next_one or last < first or self._open_span():
                raise self.fault(number, f"the multiword token {identifier:.80} is out of place")
            self.span = (first, last, spaced)
            self.surface.append(form + " " * spaced)
        elif not _EMPTY_NODE.match(identifier):
            raise self.fault(
                number, f"the id is {identifier!r:.80} where {len(self.rows) + 1} is expected"
            )

    def _open_span(self) -> bool:
        return self.span is not None and self.span[1] > len(self.rows)

    def _add_word(self, number: int, cells: list[str], spaced: bool) -> None:
        position = len(self.rows) + 1
        if self.span is not None and position <= self.span[1]:
            spaced = self.span[2] and position == self.span[1]
        else:
            self.surface.append(cells[1] + " " * spaced)
        head = -1 if cells[6] == "_" else whole_number(cells[6])
        if head is None:
            raise self.fault(number, f"the head {cells[6]!r:.80} is not a number")
        self.rows.append((cells[1], cells[3], cells[4], head, cells[7], spaced))

    def finish(self, number: int) -> Sentence:
        if not self.rows:
            raise self.fault(number, "a sentence without words ends here")
        if self._open_span():
            raise self.fault(number, "the sentence ends inside a multiword token")
        words, upos, xpos, heads, relations, space_after = zip(*self.rows, strict=True)
        if max(heads) > len(words):
            raise self.fault(
                number, f"a head is word {max(heads)} in a sentence of {len(words)} words"
            )
        text = self.text if self.text is not None else "".join(self.surface).rstrip(" ")
        return Sentence(words, upos, xpos, heads, relations, text, space_after, self.sent_id)


def read(path: str | Path) -> Iterator[Sentence]:
    """Yield the sentences of a CoNLL-U file one by one, whatever its length.

    Raises DataError, which names file and line, if it cannot be read, or a line is not CoNLL-U.
    """
    path = path_of(path, DataError)
    builder = _Builder(path)
    pending, number = False, 0
    for number, line in numbered_lines(path):
        if line.startswith("#") and not builder.rows:
            builder.comment(line)
            pending = True
        elif line.strip(" \t"):
            builder.add(number, line)
            pending = True
        elif pending:
            yield builder.finish(number)
            builder, pending = _Builder(path), False
    if pending:
        yield builder.finish(number)
