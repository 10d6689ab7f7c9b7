"""Ratings from text files: user, item, rating and possibly more in each line.

The formats of MovieLens (``u.data`` with tabs, ``ratings.dat`` with ``::``) and CSV with or without a header line are
recognized; files may be compressed.
"""

import csv
import math
import os
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.corpus.lines import numbered_lines
from tacenda.errors import DataError
from tacenda.ratings.ids import LONGEST_ID, IdIndex
from tacenda.ratings.table import Duplicates, Ratings
from tacenda.reading import path_of

_SEPARATORS = ("::", "\t", ",", ";", "|")
_FIRST_THREE = (0, 1, 2)
_MISSING = {"na", "nan", "n/a", "null", "none"}  # not the name of a column
_LARGEST_RATING = 1e38  # float32 overflows at 3.4e38
_INTEGER = re.compile(r"-?[0-9]+\Z")
NAMES = ("user", "item", "rating")


def read_ratings(
    path: str | os.PathLike[str],
    *,
    separator: str | None = None,
    header: bool | None = None,
    columns: Sequence[int] | None = None,
    scale: tuple[float, float] | None = None,
    duplicates: Duplicates = "error",
    encoding: str = "utf-8",
) -> Ratings:
    """Read ratings from a file; empty lines are skipped.

    Users and items are numbered in sorted order, integers by value.

    Parameters
    ----------
    path
        The file, plain or compressed.
    separator
        The text between fields; None finds it in the first line (``::``, tab, comma, semicolon, bar or white space).
    header
        Whether the first line is a header; None: if it has a word instead of the rating, but not one for a missing
        value.
    columns
        The places of user, item and rating, counted from 0; None: the first three, which a header may not contradict.
    scale, duplicates
        As in `Ratings`.
    encoding
        Of the file.

    Raises
    ------
    DataError
        The file cannot be read, a line has no rating, or an id is longer than 1,000 characters; the message names file
        and line. Or ``separator`` is empty, or ``columns`` are not three different places.
    """
    path = path_of(path, DataError)
    if separator is not None and not (isinstance(separator, str) and separator):
        raise DataError(
            f"separator is {separator!r:.40}; give the text between fields, or None to find it"
        )
    if columns is not None:
        columns = list(columns) if isinstance(columns, Iterable) else [columns]
        are_places = all(isinstance(at, int | np.integer) and at >= 0 for at in columns)
        if not are_places or len(columns) != 3 or len(set(columns)) != 3:
            raise DataError(
                f"columns is {columns!r}; give three different places, of user, item and rating, counted from 0"
            )
    users, items, values = _IdNumbering(), _IdNumbering(), array("f")
    user_at, item_at, _ = columns or _FIRST_THREE
    for fields, value in read_rated_rows(path, separator, header, columns, encoding):
        users.add(fields[user_at].strip())
        items.add(fields[item_at].strip())
        values.append(value)
    if not values:
        raise DataError(f"{path} has no ratings; give a file with user, item and rating a line")
    try:
        user_index, user_ids = users.finish("user")
        item_index, item_ids = items.finish("item")
        ratings = np.frombuffer(values, np.float32)
        options: dict[str, Any] = {"scale": scale, "duplicates": duplicates}
        return Ratings(user_ids, item_ids, ratings, user_index, item_index, **options)
    except DataError as error:
        raise DataError(f"{path}: {error}") from error


def read_rated_rows(
    path: Path,
    separator: str | None,
    header: bool | None,
    columns: Sequence[int] | None,
    encoding: str,
    what: str = "rating",
) -> Iterator[tuple[list[str], float]]:
    """Yield the fields of every line that holds a rating, and the rating in float64.

    Arguments are the same as in `read_ratings`; errors call the number ``what``, as it may be a time. Raises DataError
    for a line that cannot be read.
    """
    user_at, item_at, value_at = columns or _FIRST_THREE
    needed = max(user_at, item_at, value_at) + 1
    first = True
    for line, fields in _rows(path, separator, encoding):
        if len(fields) < needed:
            raise DataError(
                f"{path}, line {line}: {len(fields)} fields where {needed} are needed; check separator and columns"
            )
        if first:
            first = False
            if header or (header is None and _is_label(fields[value_at])):
                if columns is None:
                    _check_header(path, line, fields)
                continue
        value = _parse_number(fields[value_at])
        if value is None or not abs(value) <= _LARGEST_RATING:
            if value is None:
                fault = "not a number"
            elif math.isfinite(value):
                fault = f"too large, beyond {_LARGEST_RATING:g}"
            else:
                fault = "not finite"
            raise DataError(
                f"{path}, line {line}: the {what} {fields[value_at]!r:.80} is {fault}; "
                "check separator, header and columns"
            )
        for at in (user_at, item_at):
            if len(fields[at]) > LONGEST_ID:
                raise DataError(
                    f"{path}, line {line}: an id of {len(fields[at]):,} characters, where {LONGEST_ID:,} are allowed; "
                    "check separator and columns"
                )
        yield fields, value


def place_of(name: str, labels: Sequence[str]) -> int | None:
    """Return which of the labels of columns is ``name``, ``name_id`` or ``nameid``, if any."""
    for place, label in enumerate(labels):
        if label.strip().casefold() in (name, f"{name}_id", f"{name}id"):
            return place
    return None


def _check_header(path: Path, line: int, labels: Sequence[str]) -> None:
    """Raise DataError for a header that has user, item or rating in another place than among the first three."""
    for at, what in enumerate(NAMES):
        if (place := place_of(what, labels)) not in (None, at):
            raise DataError(
                f"{path}, line {line}: the column {labels[place]!r} of the header is in place {place} and not {at}, "
                "counted from 0; give the places of user, item and rating as columns"
            )


def _is_label(text: str) -> bool:
    """Return whether a field looks like the name of a column: a word, but no number and no word for a missing value."""
    word = text.strip().casefold()
    return word[:1].isalpha() and word not in _MISSING and _parse_number(word) is None


def _parse_number(text: str) -> float | None:
    """Return the number that a text writes, which may be infinite or NaN; None if it is no number."""
    with suppress(ValueError):
        # ``float`` allows underscores between digits, files of ratings do not
        return None if "_" in text else float(text)
    return None


class _IdNumbering:
    """Numbers of ids: in order of appearance while a file is read (4 bytes a row), and in sorted order at the end."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.rows = array("i")

    def add(self, raw: str) -> None:
        """Note the id of the next row."""
        self.rows.append(self.numbers.setdefault(raw, len(self.numbers)))

    def finish(self, what: str) -> tuple[IdIndex, NDArray[np.int32]]:
        """Return the index of all ids, and the number of each row (rows,). Raises DataError for an empty id."""
        raw = list(self.numbers)
        if "" in self.numbers:
            raise DataError(f"an empty {what} id; every rating needs one")
        order = sorted(range(len(raw)), key=raw.__getitem__)
        if all(map(_INTEGER.match, raw)):
            order.sort(key=[*map(int, raw)].__getitem__)
        rank = np.empty(len(raw), np.int32)
        rank[order] = np.arange(len(raw), dtype=np.int32)
        return IdIndex([raw[n] for n in order], what), rank[np.frombuffer(self.rows, np.int32)]


def _rows(path: Path, separator: str | None, encoding: str) -> Iterator[tuple[int, list[str]]]:
    for number, line in numbered_lines(path, encoding=encoding):
        if not line.strip():
            continue
        if separator is None:
            separator = next((s for s in _SEPARATORS if s in line), " ")
        if separator == " ":
            yield number, line.split()
        elif len(separator) == 1 and '"' in line:
            try:
                # A quote after a blank begins a quoted field too.
                reader = csv.reader([line], delimiter=separator, skipinitialspace=True)
                yield number, next(reader)
            except csv.Error as error:  # a field of more than 131,072 characters, for one
                raise DataError(f"{path}, line {number}: {error}; is it the right file?") from error
        else:
            yield number, line.split(separator)
