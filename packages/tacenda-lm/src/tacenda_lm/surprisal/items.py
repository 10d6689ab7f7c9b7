"""`read_items`: the texts of the items of an experiment, read from the file of the experiment."""

from __future__ import annotations

import csv
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby
from operator import ne
from pathlib import Path
from typing import Any, NamedTuple, TypedDict, Unpack, cast

from tacenda.corpus.lines import read_blocks, text_file
from tacenda.errors import DataError, warn

# the first line of Excel, which names the delimiter
_SEPARATOR = re.compile(r'\s*"?sep=([^\r\n])"?\s*')
#: Usual names of columns that distinguish the texts of an experiment.
_TEXT_COLUMN = re.compile(
    r"(item|cond(ition)?|subj(ect)?|participant|list|story)s?(_?(\d+|id|no|nr|num(ber)?|name|type|code))?",
    re.IGNORECASE,
)
_QUOTES_ADVICE = "; if its quotes are part of the text, read it with quotes=False (--no-quotes)"
_DELIMITER_ADVICE = "; if something else separates them, name it (delimiter, --delimiter)"


class Item(NamedTuple):
    """One text of an experiment, cut into regions."""

    name: str
    regions: list[str]
    others: dict[str, list[str]]  # the columns of the file, with a value for every region
    # whether a sentence begins with each region; None if the file does not say
    starts: list[bool] | None = None
    # with the file, in case an item of another file has this name
    longer_names: tuple[str, ...] = ()


class Form(TypedDict, total=False):
    """Keyword arguments of `read_items` for the format of a file with columns."""

    delimiter: str | None
    quotes: bool
    encoding: str
    errors: str


class _Row(NamedTuple):
    """A row of a file, and its first and last line."""

    start: int
    end: int
    values: list[str]


def read_items(
    path: str | os.PathLike[str] | Iterable[str],
    *,
    region: str,
    words: bool = False,
    text: str | Sequence[str] = (),
    sentence: str | None = None,
    **form: Unpack[Form],
) -> list[Item]:
    """Read a file with a row for each region, or for each sentence, in the order in which they are read.

    Additions of spreadsheets are ignored: a first line such as ``sep=;``, rows without a value, and columns with
    neither a name nor a value.

    Parameters
    ----------
    path
        The file, plain or compressed, or its lines; its first row names the columns.
    region
        The column that holds the region: a word, or several with spaces between them.
    words
        Whether that column holds whole sentences, each of whose words becomes a region. The other columns are repeated
        for every word.
    text
        The column or columns that distinguish texts, such as ``["item", "condition"]``. The rows of a text must be
        adjacent. By default the whole file is one text; with ``words``, each row is. A warning names another column,
        such as ``condition``, that has several values in one text.
    sentence
        A column that distinguishes the sentences of a text: a sentence begins where its value changes. By default a
        text is one sentence, unless scoring splits it at punctuation; with ``words``, each row begins a sentence.
    delimiter
        The separator of columns. By default it is read from a line ``sep=``, or else is a tab, a semicolon or a comma,
        whichever the first row has.
    quotes
        Whether values may be in double quotes. Turn this off if quotation marks in the file belong to the text.
    encoding, errors
        Of the file, as in ``open``.

    Raises
    ------
    CorpusError
        The file cannot be read.
    DataError
        There is neither a file nor lines, a column is missing, two have one name, a row has more or fewer values than
        there are columns, a region is empty or goes over several lines, or the rows of a text are not adjacent; the
        message names the row.
    """
    if not isinstance(text, Iterable):
        raise DataError(f"text is {text!r:.40}: name a column, or several in a list")
    if not isinstance(path, str | os.PathLike | Iterable):
        raise DataError(f"the items are {path!r:.40}: give a file, or its lines")
    names: tuple[str, ...] = ("standard input",)
    if isinstance(path, str | os.PathLike):
        path = text_file(path)
        names = (path.name, str(path))
    rows = list(_read_rows(path, names[-1], **form))
    text_columns = (text,) if isinstance(text, str) else tuple(text)
    items = _collect_items(rows, region, words, text_columns, sentence, names[-1])
    if text_columns or not words:  # otherwise each row is a text
        _warn_of_joined(items, {region, sentence, *text_columns}, names[-1])
    return _name_items(items, names)


def _collect_items(
    rows: Sequence[_Row],
    region: str,
    words: bool,
    text_columns: tuple[str, ...],
    sentence: str | None,
    file: str,
) -> dict[tuple[str, ...], Item]:
    """Return the texts of a file by the values that distinguish them. Raises DataError as `read_items`."""
    asked = [region, *text_columns] if sentence is None else [region, *text_columns, sentence]
    places = _locate_columns(rows, asked, file)
    # the table has a column "word" with the regions already
    other_columns = [name for name in places if words or (name, region) != ("word", "word")]
    rows_are_texts = words and not text_columns

    def find_text(numbered: tuple[int, _Row]) -> tuple[str, ...]:
        number, row = numbered
        if rows_are_texts:
            return (str(number),)
        return tuple(row.values[places[name]] for name in text_columns)

    items: dict[tuple[str, ...], Item] = {}
    for key, numbered in groupby(enumerate(rows[1:], start=1), find_text):
        of_text = [row for _, row in numbered]
        if key in items:
            raise DataError(
                f"row {of_text[0].end} of {file} goes back to the text {' '.join(key)!r}: sort the file, or name all "
                "columns that distinguish texts"
            )
        # the row of each region, the region, and whether it is the first of its row
        regions = [
            (row, part, i == 0)
            for row in of_text
            for i, part in enumerate(_split_regions(row.values[places[region]], words, row, file))
        ]
        starts = None
        if sentence is not None:
            numbers = [row.values[places[sentence]] for row, _, _ in regions]
            starts = [True, *map(ne, numbers, numbers[1:])]
        elif words and not rows_are_texts:
            starts = [is_first for _, _, is_first in regions]
        others = {
            name: [row.values[places[name]] for row, _, _ in regions] for name in other_columns
        }
        items[key] = Item("", [part for _, part, _ in regions], others, starts)
    return items


def _warn_of_joined(items: dict[tuple[str, ...], Item], used: set[str | None], file: str) -> None:
    """Warn of a column that seems to distinguish texts, but was not named, and has several values in one of them."""
    for key, item in items.items():
        for name, values in item.others.items():
            first, *others = dict.fromkeys(values)
            if others and name not in used and _TEXT_COLUMN.fullmatch(name):
                text = f"the text {' '.join(key)!r} of {file}" if key else file
                warn(
                    f"{text} is read as one text, but its column {name!r} has several values, such as {first!r} and "
                    f"{others[0]!r}: name this column if it distinguishes texts (text, --item {name})"
                )
                return


def _split_regions(value: str, words: bool, row: _Row, file: str) -> list[str]:
    """Return the regions of one row. Raises DataError if it has none, or one over several lines."""
    if "\n" in value or "\r" in value:
        raise DataError(
            f"lines {row.start} to {row.end} of {file} are one region, {value!r:.60}, because it is in double "
            "quotes: if the quotes of this file are part of the text, read it with quotes=False (--no-quotes); "
            "if not, write the region in one line"
        )
    if not value.strip():
        raise DataError(f"row {row.end} of {file} has an empty region: fill it or leave it out")
    return value.split() if words else [value.strip()]


def _name_items(items: dict[tuple[str, ...], Item], names: Sequence[str]) -> list[Item]:
    """Name items by the values that distinguish them, or by their file if there are none."""
    if not any(items):  # of one file without columns that distinguish texts
        all_names = [tuple(names) for _ in items]
    else:
        short = [" ".join(key) for key in items]
        if len(set(short)) < len(short):
            short = [" ".join(map(repr, key)) for key in items]
        all_names = [(name, *(f"{file} {name}" for file in names)) for name in short]
    return [
        item._replace(name=first, longer_names=tuple(longer))
        for item, (first, *longer) in zip(items.values(), all_names, strict=True)
    ]


def _read_rows(
    lines: Path | Iterable[str],
    file: str,
    *,
    delimiter: str | None = None,
    quotes: bool = True,
    encoding: str = "utf-8",
    errors: str = "strict",
) -> Iterator[_Row]:
    """Yield the first row, which names the columns, and all rows with a value, each with as many values.

    Raises DataError for a row with more or fewer values, and for a file that cannot be read as columns.
    """
    if isinstance(lines, Path):
        lines = chain.from_iterable(read_blocks(lines, encoding, errors))
    ended = (f"{line}\n" for line in lines)
    first, n_skipped = next(ended, "").removeprefix("\ufeff"), 0
    while first and ((named := _SEPARATOR.fullmatch(first)) or not first.strip()):
        if named and delimiter is None:
            delimiter = named[1]
        first, n_skipped = next(ended, ""), n_skipped + 1
    if delimiter is None:
        delimiter = next((character for character in "\t;," if character in first), ",")
    style = {"delimiter": delimiter, "quoting": csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE}
    try:
        reader = csv.reader(chain([first], ended), strict=True, **cast("Any", style))
    except (TypeError, ValueError) as error:
        raise DataError(f"{file} cannot be read as columns: {error}{_DELIMITER_ADVICE}") from error
    n_columns, end = 0, n_skipped
    try:
        for values in reader:
            start, end = end + 1, reader.line_num + n_skipped
            if not any(map(str.strip, values)):
                continue
            n_columns = n_columns or len(values)
            if len(values) < n_columns or any(map(str.strip, values[n_columns:])):
                raise DataError(
                    f"row {end} of {file} has {len(values)} values, separated by {delimiter!r}, and the first row has "
                    f"{n_columns}{_DELIMITER_ADVICE}{_QUOTES_ADVICE if quotes else ''}"
                )
            yield _Row(start, end, values[:n_columns])
    except csv.Error as error:
        advice = _QUOTES_ADVICE if quotes else ""
        raise DataError(f"{file} cannot be read as columns: {error}{advice}") from error
    if not n_columns:
        yield _Row(1, 1, [])


def _locate_columns(rows: Sequence[_Row], asked: Sequence[str], file: str) -> dict[str, int]:
    """Return the places of columns by their names, except columns with neither a name nor a value.

    Raises DataError if an asked column is missing, or several columns have one name.
    """
    names = rows[0].values
    places = [
        i
        for i, name in enumerate(names)
        if name.strip() or any(row.values[i].strip() for row in rows[1:])
    ]
    times = Counter(names[i] for i in places)
    for name, n in times.items():
        if n > 1:
            which = f"{n} columns {name!r}" if name else "several columns without a name"
            raise DataError(
                f"{file} has {which}: give each column a different name in the first row"
            )
    for name in asked:
        if name not in list(times):  # a list of columns, which cannot be hashed, is no name either
            raise DataError(f"{file} has no column {name!r}: its first row has {names!r:.300}")
    return {names[i]: i for i in places}
