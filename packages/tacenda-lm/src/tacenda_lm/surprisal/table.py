"""`SurprisalTable`: a table with one row for each word of scored texts, which `tabulate` makes."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from itertools import chain
from numbers import Integral
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TextIO, TypeAlias, cast

import numpy as np

from tacenda.errors import ConfigurationError, DataError, importing, warn
from tacenda.reading import path_of
from tacenda.store import replacing
from tacenda_lm.sequences import sums_of_pieces
from tacenda_lm.surprisal.words import ScoredText, bare_length

_ROWS_PER_BLOCK = 1 << 14  # written at a time
_MAX_PREVIOUS = 1000  # words before; there are five columns for each
#: Endings of files that are not plain text.
_BINARY = (".gz", ".bz2", ".xz", ".zst", ".zip", ".xls", ".xlsx", ".xlsm", ".ods", ".parquet")

#: Numbers with a mask over what is missing.
Numbers: TypeAlias = np.ma.MaskedArray[Any, Any]
Column: TypeAlias = list[str] | Numbers
_ma: Any = np.ma  # its functions have no type annotations yet


class SurprisalTable:
    """One row for each word, in the order of the texts.

    ``table["surprisal"]`` is a column: a list of strings, or a masked NumPy array whose mask says what is missing.

    * ``text``: the name of the text
    * ``sentence``, ``word_index``: numbers of the sentence and of the word in the text, from 1
    * ``start``, ``end``: first character of the word, from 0, and the one after its last
    * ``word``: as written, with the punctuation that is attached to it
    * ``surprisal``: bits, without that punctuation
    * ``surprisal_with_punctuation``: bits, with it
    * ``known``: whether all of the word, its punctuation included, is in the vocabulary
    * ``log_frequency``: base-2 logarithm of the relative frequency in the training text, for a region of several
      words the sum; an unknown word counts as if it had occurred once; missing if the word was not counted, for
      example because only its several tokens were
    * ``length``: characters, without that punctuation
    * ``surprisal_prev1``, ``known_prev2`` ...: the same for the previous words; missing at the beginning of a text

    Attributes
    ----------
    columns
        Their names, in order. Columns of an item file come first.
    notes
        Sentences that point out values that are easy to misread.
    """

    def __init__(self, columns: dict[str, Column], notes: Sequence[str] = ()) -> None:
        self._columns = columns
        self.columns = tuple(columns)
        self.notes = tuple(notes)

    def __getitem__(self, name: str) -> Any:
        """Return a column: a list of strings, or a masked array. Raises KeyError for an unknown name."""
        return self._columns[name]

    def __len__(self) -> int:
        return len(self._columns["word"])

    def __iter__(self) -> Iterator[str]:
        """Yield the names of the columns, as those of a data frame; see `rows`."""
        return iter(self.columns)

    def __repr__(self) -> str:
        return f"<SurprisalTable of {len(self):,} words: {', '.join(self.columns)}>"

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the rows as dictionaries of Python values; missing values are None."""
        for start in range(0, len(self), _ROWS_PER_BLOCK):
            block = slice(start, start + _ROWS_PER_BLOCK)
            parts = [_to_list(column[block]) for column in self._columns.values()]
            for values in zip(*parts, strict=True):
                yield dict(zip(self.columns, values, strict=True))

    def write(
        self,
        target: str | os.PathLike[str] | TextIO,
        *,
        delimiter: str | None = None,
        header: bool = True,
    ) -> None:
        """Write the table as delimited text for R and pandas.

        Values that contain the delimiter, a quote or a line end are quoted. Missing values are empty, ``known`` is
        TRUE or FALSE, and numbers have ten digits. R reads the word NA as missing unless you give
        ``na.strings=""``; pandas also reads others, such as null, unless you give ``keep_default_na=False,
        na_values=[""]``.

        Parameters
        ----------
        target
            A file, which is replaced whole, or an open stream of text.
        delimiter
            By default a tab for a file whose name ends in .tsv or .tab, else a comma.
        header
            Whether the first row holds the names of the columns.

        Raises
        ------
        DataError
            The file cannot be written.
        ConfigurationError
            The delimiter is not one character, or a quote or line end; or the file name
            ends like a compressed file or a spreadsheet.
        """
        if delimiter is not None and (
            not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n'
        ):
            raise ConfigurationError(
                f"delimiter must be one character, no quote or line end, not {delimiter!r}"
            )
        if not hasattr(target, "write"):
            file = path_of(target, DataError)
            check_ending(file)
            delimiter = delimiter or ("\t" if file.suffix.lower() in (".tsv", ".tab") else ",")
            with replacing(file) as new, new.open("w", encoding="utf-8", newline="") as stream:
                self.write(stream, delimiter=delimiter, header=header)
            return
        put = cast("TextIO", target).write
        try:
            put("")
        except (TypeError, ValueError) as error:  # of bytes, for reading, or closed
            raise DataError(
                f'cannot write to {target!r:.120}: open it as text, such as with "w"'
            ) from error
        # a value with a line end is quoted only if that is part of the writer's own
        lines: Any = SimpleNamespace(write=lambda line: put(line.removesuffix("\r\n") + "\n"))
        writer = csv.writer(lines, delimiter=delimiter or ",", lineterminator="\r\n")
        if header:
            writer.writerow(self.columns)
        for row in self.rows():
            writer.writerow(map(_format_cell, row.values()))

    def to_pandas(self) -> Any:
        """Return the table as a ``pandas.DataFrame``; missing numbers are NaN, missing truth values NA.

        Raises ConfigurationError if pandas is not installed.
        """
        with importing("to_pandas needs pandas", "pandas", ", or use rows() or write()"):
            pandas = import_module("pandas")
        columns: dict[str, Any] = {}
        for name, column in self._columns.items():
            if isinstance(column, list):
                columns[name] = column
            elif column.dtype == bool:
                columns[name] = pandas.array(_to_list(column), dtype="boolean")
            elif np.ma.is_masked(column):
                columns[name] = _ma.filled(column.astype(np.float64), np.nan)
            else:
                columns[name] = column.data
        return pandas.DataFrame(columns)


def _to_list(column: Column) -> list[Any]:
    """Return the values of a column as Python objects, None for a missing one."""
    return column if isinstance(column, list) else column.tolist()


def _format_cell(value: object) -> object:
    """Return a value as the table is written."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    return f"{value:.10g}" if isinstance(value, float) else value


def check_previous(previous: int) -> None:
    """Raise ConfigurationError unless a row can have the values of this number of previous words."""
    is_whole = isinstance(previous, Integral) and not isinstance(previous, bool)
    if not is_whole or not 0 <= previous <= _MAX_PREVIOUS:
        raise ConfigurationError(
            f"previous must be a whole number from 0 to {_MAX_PREVIOUS:,}, not {previous!r}"
        )


def check_ending(file: Path) -> None:
    """Raise ConfigurationError for a file with the name of a compressed file or a spreadsheet."""
    if file.suffix.lower() in _BINARY:
        raise ConfigurationError(
            f"{file} is named like a {file.suffix} file, but tables are written as plain text: choose a name that ends "
            "in .csv or .tsv"
        )


def tabulate(
    texts: Sequence[ScoredText], previous: int, notes: Sequence[str] = ()
) -> SurprisalTable:
    """Return the rows of scored texts, each with the measures of ``previous`` words before it in its text.

    A column of an item file with the name of a column of the table gets the prefix ``file_``, and a note says so. Every
    note is also a warning.

    Raises ConfigurationError if ``previous`` is out of range, and DataError without texts, or for texts of item files
    with different columns.
    """
    check_previous(previous)
    if not texts:
        raise DataError("there is no text: give at least one")
    if any(text.others.keys() != texts[0].others.keys() for text in texts):
        raise DataError("the item files have different columns: give their texts one by one")
    parts = [_build_columns(text, previous) for text in texts]
    columns: dict[str, Column] = {}
    renamed: dict[str, str] = {}
    for name in texts[0].others:
        new = name
        while new in parts[0] or (new != name and new in texts[0].others):
            new = f"file_{new}"
        columns[new] = list(chain.from_iterable(text.others[name] for text in texts))
        if new != name:
            renamed[name] = new
    for name in parts[0]:
        of_texts = [part[name] for part in parts]
        if isinstance(of_texts[0], list):
            columns[name] = list(chain.from_iterable(of_texts))
        else:
            columns[name] = _ma.concatenate(of_texts)
    if renamed:
        listed = " and ".join(f"{name!r} of the file {new!r}" for name, new in renamed.items())
        notes = [*notes, f"the table has columns with the same names, so it calls {listed}"]
    for note in notes:
        warn(note)
    return SurprisalTable(columns, notes)


def _build_columns(text: ScoredText, previous: int) -> dict[str, Column]:
    """Return the columns of one text; the measures of words are sums over their tokens."""
    words = text.words

    def make_integers(values: Iterable[int]) -> Numbers:
        return np.ma.array(np.fromiter(values, np.int64))

    columns: dict[str, Column] = {
        "text": [text.name] * len(words),
        "sentence": make_integers(word.sentence for word in words),
        "word_index": make_integers(range(1, len(words) + 1)),
        "start": make_integers(word.start for word in words),
        "end": make_integers(word.end for word in words),
        "word": [word.text for word in words],
    }
    cuts = text.cuts()
    first = cuts[:-1]
    bare = np.array([word.bare.indices(len(word.tokens))[:2] for word in words], np.int64)
    begins, ends = (bare.reshape(-1, 2) + first[:, None]).T
    stops = np.cumsum([0, *(len(word.parts) for word in words)], dtype=np.int64)
    frequency = sums_of_pieces(text.log_frequency, stops[:-1], stops[1:])
    measures: dict[str, Numbers] = {
        "surprisal": np.ma.array(sums_of_pieces(text.bits, begins, ends)),
        "surprisal_with_punctuation": np.ma.array(sums_of_pieces(text.bits, first, cuts[1:])),
        "known": np.ma.array(text.known_words()),
        "log_frequency": np.ma.array(frequency, mask=np.isnan(frequency)),
        "length": make_integers(bare_length(word.text) for word in words),
    }
    columns |= measures
    for lag in range(1, previous + 1):
        for name, column in measures.items():
            missing = _ma.masked_all(min(lag, len(words)), column.dtype)
            rest = column[: max(len(words) - lag, 0)]
            columns[f"{name}_prev{lag}"] = _ma.concatenate([missing, rest])
    return columns
