"""`SurprisalTable`: one row for each word of running text, and how the figures of a model's tokens become a word's.

A word w of the tokens t_1 ... t_m, in the context h of all tokens before it, has

    surprisal(w | h) = -log2 p(w | h) = sum_i -log2 p(t_i | h, t_1 ... t_{i-1}),

the chain rule: tokens are summed and never averaged. ``surprisal_with_punctuation`` sums all tokens of the word, and
``surprisal`` those that are not punctuation at its ends, each given all tokens before it. `log_frequencies` is the
same sum for a model without context.

minicons (Misra, 2022, ``word_score_tokenized`` with ``surprisal=True, base_two=True, bos_token=True``) and
`SurprisalTable` agree in what a word of a model with subwords has: the sum over the tokens of what stands between
whitespace, in bits, the first word given the beginning of the text. That is ``surprisal_with_punctuation`` here.
"""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import chain
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple, TextIO, TypeAlias

import numpy as np
import numpy.typing as npt

from tacenda.errors import ConfigurationError, DataError
from tacenda.store import path_of, replacing
from tacenda.vocabulary import Vocabulary
from tacenda_lm.sequences import Float64, Integers, sums_of_pieces
from tacenda_lm.surprisal.words import Word, bare_length

__all__ = ["MEASURES", "ScoredText", "SurprisalTable", "log_frequencies", "tabulated"]

#: The columns that are repeated for the words before.
MEASURES = ("surprisal", "surprisal_with_punctuation", "known", "log_frequency", "length")
_ROWS = 1 << 14  # written at a time
#: endings of files that are not plain text
_NO_TEXT = (".gz", ".bz2", ".xz", ".zst", ".zip", ".xls", ".xlsx", ".xlsm", ".ods", ".parquet")

#: Numbers with a mask over what is missing.
Numbers: TypeAlias = np.ma.MaskedArray[Any, Any]
Column: TypeAlias = list[str] | Numbers
_ma: Any = np.ma  # whose functions have no types yet


class ScoredText(NamedTuple):
    """The words of one text with what a model said of their tokens."""

    name: str
    words: Sequence[Word]
    bits: Float64  # (tokens,): of each token of each word
    known: npt.NDArray[np.bool_]  # (tokens,)
    log_frequency: Float64  # (tokens,), base 2; NaN where there are no counts
    others: Mapping[str, list[str]] = {}  # further columns, a value for each word


class SurprisalTable:
    """One row for each word, in the order of the texts.

    ``table["surprisal"]`` is a column: a list of strings, or a masked NumPy array whose mask says what is missing.

    * ``text``: the name of the text
    * ``sentence``, ``word_index``: numbers of the sentence and of the word in the text, from 1
    * ``start``, ``end``: characters of the text, from 0, the second behind the word
    * ``word``: as written, with the punctuation that is attached to it
    * ``surprisal``: bits, without that punctuation
    * ``surprisal_with_punctuation``: bits, with it
    * ``known``: whether all of the word, punctuation apart, is in the vocabulary
    * ``log_frequency``: base-2 logarithm of the relative frequency in the training text; missing without counts
    * ``length``: characters, without that punctuation
    * ``surprisal_prev1``, ``known_prev2`` ...: the same of the words before; missing where a text begins

    Attributes
    ----------
    columns
        Their names, in order. Columns of an item file come first.
    notes
        What can be misread in these figures, in sentences.
    """

    def __init__(self, columns: dict[str, Column], notes: Sequence[str] = ()) -> None:
        self._columns = columns
        self.columns = tuple(columns)
        self.notes = tuple(notes)

    def __getitem__(self, name: str) -> Column:
        """A column. Raises KeyError if there is none of that name."""
        return self._columns[name]

    def __len__(self) -> int:
        return len(self._columns["word"])

    def __repr__(self) -> str:
        return f"<SurprisalTable of {len(self):,} words: {', '.join(self.columns)}>"

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the rows as dictionaries of Python values; what is missing is None."""
        for start in range(0, len(self), _ROWS):
            parts = [_listed(column[start : start + _ROWS]) for column in self._columns.values()]
            for values in zip(*parts, strict=True):
                yield dict(zip(self.columns, values, strict=True))

    def write(
        self,
        target: str | os.PathLike[str] | TextIO,
        *,
        delimiter: str | None = None,
        header: bool = True,
    ) -> None:
        """Write the table as columns of text, which R and pandas read without being told anything.

        Values that hold the delimiter, a quote or a line end are quoted; what is missing is empty, ``known`` is TRUE or
        FALSE, numbers have ten digits.

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
            The delimiter is not one character, or the name of the file is that of a compressed file or a spreadsheet.
        """
        if hasattr(target, "write"):
            self._write(target, delimiter or ",", header)
            return
        file = path_of(target, DataError)
        check_ending(file)
        delimiter = delimiter or ("\t" if file.suffix.lower() in (".tsv", ".tab") else ",")
        try:
            with replacing(file) as new, new.open("w", encoding="utf-8", newline="") as stream:
                self._write(stream, delimiter, header)
        except OSError as error:
            raise DataError(f"{file} cannot be written: {error.strerror}") from error

    def _write(self, stream: Any, delimiter: str, header: bool) -> None:
        try:
            writer = csv.writer(stream, delimiter=delimiter, lineterminator="\n")
        except (TypeError, ValueError) as error:
            raise ConfigurationError(
                f"delimiter must be one character, not {delimiter!r}"
            ) from error
        if header:
            writer.writerow(self.columns)
        for row in self.rows():
            writer.writerow(map(_cell, row.values()))

    def to_pandas(self) -> Any:
        """Return the table as a ``pandas.DataFrame``; missing numbers are NaN, missing truth values NA.

        Raises ConfigurationError where pandas is not installed.
        """
        try:
            pandas = import_module("pandas")
        except ImportError as error:
            raise ConfigurationError(
                "pandas is not installed: install it (pip install pandas), or use rows() or write()"
            ) from error
        found: dict[str, Any] = {}
        for name, column in self._columns.items():
            if isinstance(column, list):
                found[name] = column
            elif column.dtype == bool:
                found[name] = pandas.array(_listed(column), dtype="boolean")
            elif np.ma.is_masked(column):
                found[name] = _ma.filled(column.astype(np.float64), np.nan)
            else:
                found[name] = column.data
        return pandas.DataFrame(found)


def _listed(column: Column) -> list[Any]:
    """The values of a column as Python has them; None where one is missing."""
    return column if isinstance(column, list) else column.tolist()


def _cell(value: object) -> object:
    """A value as it is written."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    return f"{value:.10g}" if isinstance(value, float) else value


def checked_previous(previous: int) -> None:
    """Raise ConfigurationError unless this is a number of words."""
    if isinstance(previous, bool) or not isinstance(previous, Integral) or previous < 0:
        raise ConfigurationError(f"previous must be a whole number, 0 or more, not {previous!r}")


def check_ending(file: Path) -> None:
    """Raise ConfigurationError for a file whose name says that it holds something else than text."""
    if file.suffix.lower() in _NO_TEXT:
        raise ConfigurationError(
            f"{file} is named like a {file.suffix} file, and a table is written as plain text: choose a name that ends "
            "in .csv or .tsv"
        )


def tabulated(
    texts: Iterable[ScoredText], previous: int, notes: Sequence[str] = ()
) -> SurprisalTable:
    """Return the rows of scored texts, each with the measures of ``previous`` words before it in its text.

    Raises ConfigurationError where ``previous`` is no number of words, and DataError where a further column has the
    name of one of ours.
    """
    checked_previous(previous)
    given = list(texts)
    if not given:
        raise DataError("there is no text: give at least one")
    if any(text.others.keys() != given[0].others.keys() for text in given):
        raise DataError("the item files have different columns: give their texts one by one")
    parts = [_columns(text, previous) for text in given]
    columns: dict[str, Column] = {}
    for name in parts[0]:
        pieces = [part[name] for part in parts]
        if isinstance(pieces[0], list):
            columns[name] = list(chain.from_iterable(pieces))
        else:
            columns[name] = _ma.concatenate(pieces)
    return SurprisalTable(columns, notes)


def _columns(text: ScoredText, previous: int) -> dict[str, Column]:
    """The columns of one text."""
    words = text.words
    own: dict[str, Column] = {
        "text": [text.name] * len(words),
        "sentence": _whole([word.sentence for word in words]),
        "word_index": _whole(range(1, len(words) + 1)),
        "start": _whole([word.start for word in words]),
        "end": _whole([word.end for word in words]),
        "word": [word.text for word in words],
    }
    measures = _measures(text)
    for lag in range(previous + 1):
        suffix = f"_prev{lag}" if lag else ""
        own |= {name + suffix: _later(column, lag) for name, column in measures.items()}
    taken = own.keys() & text.others.keys()
    if taken:
        raise DataError(
            f"the item file has a column {min(taken)!r}, which is the name of a column of the table: rename it"
        )
    return {**text.others, **own}


def _measures(text: ScoredText) -> dict[str, Numbers]:
    """The figures of each word, from those of its tokens."""
    n_tokens = np.array([len(word.tokens) for word in text.words], np.int64)
    first = np.cumsum(n_tokens) - n_tokens
    bare = np.array([word.bare.indices(len(word.tokens))[:2] for word in text.words], np.int64)
    bare = bare.reshape(-1, 2) + first[:, None]
    begins, ends = bare.T
    frequency = sums_of_pieces(text.log_frequency, begins, ends)
    return {
        "surprisal": np.ma.array(sums_of_pieces(text.bits, begins, ends)),
        "surprisal_with_punctuation": np.ma.array(
            sums_of_pieces(text.bits, first, first + n_tokens)
        ),
        "known": np.ma.array(sums_of_pieces(~text.known, begins, ends) == 0),
        "log_frequency": np.ma.array(frequency, mask=np.isnan(frequency)),
        "length": _whole([bare_length(word.text) for word in text.words]),
    }


def _later(column: Numbers, lag: int) -> Numbers:
    """A column as the word ``lag`` words later has it."""
    if not lag:
        return column
    missing = _ma.masked_all(min(lag, len(column)), column.dtype)
    found: Numbers = _ma.concatenate([missing, column[: max(len(column) - lag, 0)]])
    return found


def _whole(values: Iterable[int]) -> Numbers:
    return np.ma.array(np.fromiter(values, np.int64))


def log_frequencies(vocabulary: Vocabulary, ids: Integers, shares: Float64) -> Float64:
    """Return the base-2 logarithm of the relative frequency of tokens in the training text, float64 (tokens,).

        log2 n(w) / n,   for an unknown word log2 n(c) q(w | c) / n

    A type with a count of 0 counts once. NaN where the vocabulary has no counts, as that of an ARPA file.

    Parameters
    ----------
    vocabulary
        With the counts n(w); those of ``</s>`` are left out of n.
    ids
        (tokens,) of the tokens; those of unknown words are the ids of their classes c.
    shares
        (tokens,) log q(w | c), natural, as `tacenda_lm.unknown_words` gives them.
    """
    counts = vocabulary.counts.astype(np.float64)
    total = counts.sum() - counts[vocabulary.boundary_id]
    if total <= 0:
        return np.full(len(ids), np.nan)
    found: Float64 = (np.log(np.maximum(counts[ids], 1) / total) + shares) / math.log(2)
    return found
