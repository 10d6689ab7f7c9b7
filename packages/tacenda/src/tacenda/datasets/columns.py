"""Reader of column files with one word on each line: CoNLL-2000, CoNLL-2003, WNUT-17 and many related formats.

Every row of a file has the same number of cells, separated by a tab or by spaces, and a blank row ends a sentence. The
training file of WNUT-17 ends most sentences with a row that holds only a tab, which counts as blank, and so do the rows
``-DOCSTART-`` of CoNLL-2003.

Entities are returned in IOB2, where ``B-`` opens every entity. CoNLL-2003 is distributed in IOB1 (Ramshaw and Marcus
1995; Tjong Kim Sang and Veenstra 1999), where ``I-`` opens an entity, and ``B-`` only one that follows another entity
of the same type.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from tacenda.corpus.lines import LONGEST_SENTENCE, numbered_lines
from tacenda.errors import DataError
from tacenda.reading import path_of

CONLL2000 = ("word", "pos", "chunk")
CONLL2003 = ("word", "pos", "chunk", "entity")

Scheme = Literal["iob1", "iob2"]


def _sentences(
    path: Path, width: int | None, separator: str | None
) -> Iterator[tuple[int, list[list[str]]]]:
    """Yield (number of the first line, rows); ``width`` None means that of the first row."""
    if separator is not None and not (isinstance(separator, str) and separator):
        raise DataError(
            f"the separator is {separator!r:.40}: name the string between cells, or None for any space"
        )
    rows: list[list[str]] = []
    first = 0
    for number, line in numbered_lines(path):
        if not line.strip(" \t") or line.split()[:1] == ["-DOCSTART-"]:
            if rows:
                yield first, rows
                rows = []
            continue
        if separator is not None:
            cells = line.split(separator)
        else:  # not str.split() alone: words of web text contain no-break and other exotic spaces
            cells = [cell for cell in line.replace("\t", " ").split(" ") if cell]
        width = len(cells) if width is None else width
        fault = None
        if len(cells) != width:
            fault = (
                f"{len(cells)} columns where {width} are expected: check the file and the separator"
            )
        elif not all(cells):
            fault = "an empty cell: check the separator"
        elif len(rows) == LONGEST_SENTENCE:
            fault = f"a sentence of more than {LONGEST_SENTENCE:,} words; a blank row ends one"
        if fault:
            raise DataError(f"{path}, line {number}: {fault}")
        first = first if rows else number
        rows.append(cells)
    if rows:
        yield first, rows


def read(
    path: str | Path, columns: Sequence[str], separator: str | None = None
) -> Iterator[dict[str, tuple[str, ...]]]:
    """Yield the sentences of a column file as ``{column name: cells, one for each word}``.

    ``columns`` are the names of every column in order, for example `CONLL2000`, and ``separator`` is the one string
    between cells; None means any run of spaces and tabs. Raises DataError, which names file and line, if the file
    cannot be read, or a row has another number of cells; also for an empty separator or repeated names.
    """
    names = () if columns is None or isinstance(columns, str) else tuple(columns)
    if not names or len(set(names)) != len(names):
        raise DataError(
            f"the column names {columns!r} are not a list of different names: name each once"
        )
    for _, rows in _sentences(path_of(path, DataError), len(names), separator):
        yield dict(zip(names, zip(*rows, strict=True), strict=True))


def iob1_to_iob2(tags: Sequence[str]) -> tuple[str, ...]:
    """Return the same entities with ``B-`` on the first word of each; valid IOB2 comes back unchanged.

    Raises DataError for a tag that is neither ``O`` nor ``B-`` or ``I-`` with a type.
    """
    tags = tuple(tags)
    for tag in tags:
        if not (isinstance(tag, str) and (tag == "O" or (tag[:2] in {"B-", "I-"} and tag[2:]))):
            raise DataError(f"{tag!r} is not an entity tag: expected O, B-TYPE or I-TYPE")
    return tuple(
        "B" + tag[1:] if tag[0] == "I" and tag[2:] != before[2:] else tag
        for before, tag in zip(("O", *tags), tags, strict=False)
    )


def read_ner(
    path: str | Path, scheme: Scheme = "iob2", separator: str | None = None
) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Yield ``(words, IOB2 tags)``: the first and the last column of every sentence.

    The first row settles the number of columns. ``scheme`` is how the file writes its tags: CoNLL-2003 ``"iob1"``,
    WNUT-17 ``"iob2"``; ``separator`` is as in `read`. Raises DataError if the file cannot be read, a row is malformed,
    or an ``I-`` breaks IOB2. A ``B-`` always opens an entity: two in CoNLL-2003 follow ``O``, which IOB1 forbids.
    """
    if scheme not in ("iob1", "iob2"):
        raise DataError(f"the tagging scheme {scheme!r} is unknown: choose iob1 or iob2")
    path = path_of(path, DataError)
    for first, rows in _sentences(path, None, separator):
        if len(rows[0]) < 2:
            raise DataError(f"{path}, line {first}: one column, expected a word and its tag")
        tags = [row[-1] for row in rows]
        try:
            converted = iob1_to_iob2(tags)
            for before, tag, other in zip(["O", *tags], tags, converted, strict=False):
                if tag != other and scheme == "iob2":
                    raise DataError(
                        f"{tag!r} follows {before!r}, which IOB2 forbids: try scheme='iob1'"
                    )
        except DataError as error:
            raise DataError(f"{path}, in the sentence of line {first}: {error}") from error
        yield tuple(row[0] for row in rows), converted
