"""`read_items`: the regions of an experiment's items, from the file that the experiment was run with."""

from __future__ import annotations

import csv
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple, cast

from tacenda.corpus.lines import read_blocks, text_file
from tacenda.errors import DataError

__all__ = ["Item", "read_items"]


class Item(NamedTuple):
    """One text of an experiment, cut into regions."""

    name: str
    regions: list[str]
    others: dict[str, list[str]]  # the other columns of the file, a value for every region
    # whether a sentence begins with the region; None where the file says nothing
    starts: list[bool] | None = None
    longer_names: tuple[str, ...] = ()  # with the file, for where other files have this name too


class _Row(NamedTuple):
    """A row of a file, with the lines that it stands on."""

    first: int
    last: int
    values: list[str]


def read_items(
    path: str | os.PathLike[str],
    *,
    region: str,
    text: str | Sequence[str] = (),
    sentence: str | None = None,
    delimiter: str | None = None,
    quotes: bool = True,
    encoding: str = "utf-8",
    errors: str = "strict",
) -> list[Item]:
    """Read a file with a row for each region, in the order in which they are read.

    Columns without a name and without a value, as spreadsheets leave them, are left out.

    Parameters
    ----------
    path
        The file, plain or compressed; its first row names the columns.
    region
        The column that holds the region: a word, or several with spaces between them.
    text
        The column, or columns, that tell texts apart, such as ``["item", "condition"]``. The rows of a text stand
        together. Without any the whole file is one text.
    sentence
        A column that tells the sentences of a text apart: one begins where its value is another than in the row before.
        Without it a text is one sentence, unless it is split at its punctuation when it is scored. A column that is
        called ``sentence`` gives way to the numbers of the table.
    delimiter
        What stands between columns; by default a tab, a semicolon or a comma, whichever the first row has.
    quotes
        Whether a value may stand in double quotes. Turn it off for a file in which these are part of the text.
    encoding, errors
        Of the file, as in ``open``.

    Raises
    ------
    CorpusError
        The file cannot be read.
    DataError
        A column is missing, two have one name, a row has more or fewer values than there are columns, a region is
        empty or goes over several lines, or the rows of a text do not stand together; the message names the row.
    """
    file = text_file(path)
    return items_of_lines(
        chain.from_iterable(read_blocks(file, encoding, errors)),
        (file.name, str(file)),
        region=region,
        text=text,
        sentence=sentence,
        delimiter=delimiter,
        quotes=quotes,
    )


def items_of_lines(
    given: Iterable[str],
    of: Sequence[str],
    *,
    region: str,
    text: str | Sequence[str] = (),
    sentence: str | None = None,
    delimiter: str | None = None,
    quotes: bool = True,
) -> list[Item]:
    """Return what `read_items` does, from lines without their ends.

    ``of`` are the names of what the lines are, the shortest first; errors have the last.
    """
    file = of[-1]
    lines = (f"{line}\n" for line in given)
    first = next(lines, "")
    if delimiter is None:
        delimiter = next((each for each in "\t;," if each in first), ",")
    [head, *rows] = _rows(chain([first], lines), delimiter, quotes, file) or [_Row(1, 1, [])]
    apart = (text,) if isinstance(text, str) else tuple(text)
    columns = _columns(head.values, rows, (region, *apart, *([sentence] if sentence else [])), file)
    kept = [name for name in columns if name != region and (name, sentence) != ("sentence",) * 2]
    found: dict[tuple[str, ...], Item] = {}
    last: tuple[str, ...] | None = None
    before = ""
    for start, end, values in rows:
        own = {name: values[place] for name, place in columns.items()}
        key = tuple(own[each] for each in apart)
        if key != last and key in found:
            raise DataError(
                f"row {end} of {file} goes back to the text {' '.join(key)!r}: sort the file, or name all columns that "
                "tell texts apart"
            )
        _check_region(own[region], start, end, file)
        new = Item("", [], {each: [] for each in kept}, [] if sentence else None)
        item = found.setdefault(key, new)
        if item.starts is not None and sentence is not None:
            item.starts.append(item is new or own[sentence] != before)
            before = own[sentence]
        item.regions.append(own[region].strip())
        for each in kept:
            item.others[each].append(own[each])
        last = key
    names = _names(list(found), of)
    return [
        item._replace(name=each[0], longer_names=each[1:])
        for item, each in zip(found.values(), names, strict=True)
    ]


def _rows(lines: Iterator[str], delimiter: str, quotes: bool, file: str) -> list[_Row]:
    """The rows that are not empty, each with as many values as the first."""
    advice = "; if its quotes are part of the text, read it with quotes=False (--no-quotes)"
    style = {"delimiter": delimiter, "quoting": csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE}
    rows: list[_Row] = []
    end = 0
    try:
        reader = csv.reader(lines, strict=True, **cast("Any", style))
        for values in reader:
            start, end = end + 1, reader.line_num
            if values and rows and len(values) != len(rows[0].values):
                raise DataError(
                    f"row {end} of {file} has {len(values)} values and the first row has {len(rows[0].values)}"
                    f"{advice if quotes else ''}"
                )
            if values:
                rows.append(_Row(start, end, values))
    except TypeError as error:
        raise DataError(f"{file} cannot be read as columns: {error}") from error
    except csv.Error as error:
        raise DataError(
            f"{file} cannot be read as columns: {error}{advice if quotes else ''}"
        ) from error
    return rows


def _columns(
    names: Sequence[str], rows: Sequence[_Row], asked: Sequence[str], file: str
) -> dict[str, int]:
    """The places of the columns by their names, without those that have neither a name nor a value."""
    places = [
        i for i, name in enumerate(names) if name.strip() or any(row.values[i] for row in rows)
    ]
    named = Counter(names[i] for i in places)
    twice = next((name for name, n in named.items() if n > 1), None)
    if twice is not None:
        which = f"{named[twice]} columns {twice!r}" if twice else "several columns without a name"
        raise DataError(f"{file} has {which}: give each a name of its own in its first row")
    for name in asked:
        if name not in named:
            raise DataError(f"{file} has no column {name!r}: its first row has {names!r:.300}")
    return {names[i]: i for i in places}


def _check_region(region: str, start: int, end: int, file: str) -> None:
    """Raise DataError for a region without a word, and for one that has swallowed the rows below it."""
    if "\n" in region or "\r" in region:
        raise DataError(
            f"lines {start} to {end} of {file} are one region, {region!r:.60}, for it stands in double quotes: if the "
            "quotes of this file are part of the text, read it with quotes=False (--no-quotes); if not, write the "
            "region in one line"
        )
    if not region.strip():
        raise DataError(f"row {end} of {file} has an empty region: fill it or leave it out")


def _names(keys: Sequence[tuple[str, ...]], of: Sequence[str]) -> list[tuple[str, ...]]:
    """Names of the texts of a file, the shortest first, each of which no other text of the file has."""
    if not any(keys):
        return [tuple(of) for _ in keys]
    names = [" ".join(key) for key in keys]
    if len(set(names)) < len(names):
        names = [" ".join(map(repr, key)) for key in keys]
    return [(name, *(f"{each} {name}" for each in of)) for name in names]
