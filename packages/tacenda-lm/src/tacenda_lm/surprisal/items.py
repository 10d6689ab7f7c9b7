"""`read_items`: the regions of an experiment's items, from the file that the experiment was run with."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple, cast

from tacenda.corpus.lines import read_blocks, text_file
from tacenda.errors import DataError

__all__ = ["Item", "items_of_lines", "read_items"]


class Item(NamedTuple):
    """One text of an experiment, cut into regions."""

    name: str
    regions: list[str]
    others: dict[str, list[str]]  # the other columns of the file, a value for every region


def read_items(
    path: str | os.PathLike[str],
    *,
    region: str,
    text: Sequence[str] = (),
    delimiter: str | None = None,
    quotes: bool = True,
    encoding: str = "utf-8",
    errors: str = "strict",
) -> list[Item]:
    """Read a file with a row for each region, in the order in which they are read.

    Parameters
    ----------
    path
        The file, plain or compressed; its first row names the columns.
    region
        The column that holds the region: a word, or several with spaces between them.
    text
        The columns that tell texts apart, such as ``["item", "condition"]``. The rows of a text stand together. Without
        any the whole file is one text.
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
        A column is missing, a row has more or fewer values than there are columns, a region is empty, or the rows of a
        text do not stand together; the message names the row.
    """
    file = text_file(path)
    lines = chain.from_iterable(read_blocks(file, encoding, errors))
    return items_of_lines(
        lines, file, file.name, region=region, text=text, delimiter=delimiter, quotes=quotes
    )


def items_of_lines(
    given: Iterable[str],
    file: object,
    whole: str,
    *,
    region: str,
    text: Sequence[str] = (),
    delimiter: str | None = None,
    quotes: bool = True,
) -> list[Item]:
    """Return what `read_items` does from lines without their ends.

    ``file`` is what errors call the lines, ``whole`` the name of the text where no columns tell texts apart.
    """
    lines = (f"{line}\n" for line in given)
    first = next(lines, "")
    if delimiter is None:
        delimiter = next((each for each in "\t;," if each in first), ",")
    rows = _rows(chain([first], lines), delimiter, quotes, whole)
    _, names = next(rows, (0, []))
    for name in (region, *text):
        if names.count(name) != 1:
            found = "two columns" if name in names else "no column"
            raise DataError(f"{file} has {found} {name!r}: its first row has {names!r:.300}")
    kept = [name for name in names if name != region]
    items: dict[str, Item] = {}
    last = None
    for number, values in rows:
        if len(values) != len(names):
            advice = "; if its quotes are part of the text, read it with quotes=False (--no-quotes)"
            raise DataError(
                f"row {number} of {file} has {len(values)} values and the first row has {len(names)}"
                f"{advice if quotes else ''}"
            )
        row = dict(zip(names, values, strict=True))
        name = " ".join(row[each] for each in text) if text else whole
        if name != last and name in items:
            raise DataError(
                f"row {number} of {file} goes back to the text {name!r}: sort the file, or name all columns that tell "
                "texts apart"
            )
        if not row[region].strip():
            raise DataError(f"row {number} of {file} has an empty region: fill it or leave it out")
        item = items.setdefault(name, Item(name, [], {each: [] for each in kept}))
        item.regions.append(row[region].strip())
        for each in kept:
            item.others[each].append(row[each])
        last = name
    return list(items.values())


def _rows(
    lines: Iterator[str], delimiter: str, quotes: bool, name: str
) -> Iterator[tuple[int, list[str]]]:
    """The values of each row that is not empty, with the line on which it ends."""
    style = {"delimiter": delimiter, "quoting": csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE}
    try:
        reader = csv.reader(lines, strict=True, **cast("Any", style))
        for values in reader:
            if values:
                yield reader.line_num, values
    except (csv.Error, TypeError) as error:
        raise DataError(f"{name} cannot be read as columns: {error}") from error
