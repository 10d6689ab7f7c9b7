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


class Item(NamedTuple):
    """One text of an experiment, cut into regions."""

    name: str
    regions: list[str]
    others: dict[str, list[str]]  # the other columns of the file, a value for every region
    # whether a sentence begins with the region; None where the file says nothing
    starts: list[bool] | None = None
    longer_names: tuple[str, ...] = ()  # with the file, for where other files have this name too


def read_items(
    path: str | os.PathLike[str] | Iterable[str],
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
        The file, plain or compressed, or its lines; its first row names the columns.
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
        What separates columns; by default a tab, a semicolon or a comma, whichever the first row has.
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
    names: tuple[str, ...] = ("standard input",)
    if isinstance(path, str | os.PathLike):
        found = text_file(path)
        names = (found.name, str(found))
        path = chain.from_iterable(read_blocks(found, encoding, errors))
    file = names[-1]
    lines = (f"{line}\n" for line in path)
    first = next(lines, "")
    if delimiter is None:
        delimiter = next((each for each in "\t;," if each in first), ",")
    rows = list(_rows(chain([first], lines), delimiter, quotes, file)) or [(1, 1, [])]
    apart = (text,) if isinstance(text, str) else tuple(text)
    columns = _columns(rows, (region, *apart, *([sentence] if sentence else [])), file)
    kept = [name for name in columns if name != region and (name, sentence) != ("sentence",) * 2]
    items: dict[tuple[str, ...], Item] = {}
    last: tuple[str, ...] | None = None
    before = ""
    for start, end, values in rows[1:]:
        own = {name: values[place] for name, place in columns.items()}
        key = tuple(own[each] for each in apart)
        if key != last and key in items:
            raise DataError(
                f"row {end} of {file} goes back to the text {' '.join(key)!r}: sort the file, or name all columns that "
                "tell texts apart"
            )
        last = key
        if "\n" in own[region] or "\r" in own[region]:
            raise DataError(
                f"lines {start} to {end} of {file} are one region, {own[region]!r:.60}, for it stands in double "
                "quotes: if the quotes of this file are part of the text, read it with quotes=False (--no-quotes); "
                "if not, write the region in one line"
            )
        if not own[region].strip():
            raise DataError(f"row {end} of {file} has an empty region: fill it or leave it out")
        if key not in items:
            items[key] = Item("", [], {each: [] for each in kept}, [] if sentence else None)
        item = items[key]
        if item.starts is not None and sentence is not None:
            item.starts.append(not item.regions or own[sentence] != before)
            before = own[sentence]
        item.regions.append(own[region].strip())
        for each in kept:
            item.others[each].append(own[each])
    if not any(items):  # of one file without columns that tell texts apart
        own_names = [names for _ in items]
    else:
        short = [" ".join(key) for key in items]
        if len(set(short)) < len(short):
            short = [" ".join(map(repr, key)) for key in items]
        own_names = [(name, *(f"{each} {name}" for each in names)) for name in short]
    return [
        item._replace(name=each[0], longer_names=each[1:])
        for item, each in zip(items.values(), own_names, strict=True)
    ]


def _rows(
    lines: Iterator[str], delimiter: str, quotes: bool, file: str
) -> Iterator[tuple[int, int, list[str]]]:
    """Yield the first and the last line of each row that is not empty, and its values, as many as in the first."""
    advice = "; if its quotes are part of the text, read it with quotes=False (--no-quotes)"
    style = {"delimiter": delimiter, "quoting": csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE}
    n_columns, end = 0, 0
    try:
        reader = csv.reader(lines, strict=True, **cast("Any", style))
        for values in reader:
            start, end = end + 1, reader.line_num
            if not values:
                continue
            n_columns = n_columns or len(values)
            if len(values) != n_columns:
                raise DataError(
                    f"row {end} of {file} has {len(values)} values and the first row has {n_columns}"
                    f"{advice if quotes else ''}"
                )
            yield start, end, values
    except TypeError as error:
        raise DataError(f"{file} cannot be read as columns: {error}") from error
    except csv.Error as error:
        raise DataError(
            f"{file} cannot be read as columns: {error}{advice if quotes else ''}"
        ) from error


def _columns(
    rows: Sequence[tuple[int, int, list[str]]], asked: Sequence[str], file: str
) -> dict[str, int]:
    """The places of the columns by their names, without those that have neither a name nor a value."""
    names = rows[0][2]
    places = [
        i for i, name in enumerate(names) if name.strip() or any(row[2][i] for row in rows[1:])
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
