"""`surprisal_table`: a language model applied to texts or to the items of an experiment, one row for each word.

A word w of the tokens t_1 ... t_m, in the context h of all tokens before it, has

    surprisal(w | h) = -log2 p(w | h) = sum_i -log2 p(t_i | h, t_1 ... t_{i-1}),

the chain rule: tokens are summed and never averaged. ``surprisal_with_punctuation`` sums all tokens of the word, and
``surprisal`` those that are not punctuation at its ends, each given all tokens before it. ``log_frequency`` is the
same sum for a model without context.

minicons (Misra, 2022, ``word_score_tokenized`` with ``surprisal=True, base_two=True, bos_token=True``) and
`SurprisalTable` agree in what a word of a model with subwords has: the sum over the tokens of what stands between
whitespace, in bits, the first word given the beginning of the text. That is ``surprisal_with_punctuation`` here.
"""

from __future__ import annotations

import csv
import math
import os
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import chain, groupby
from numbers import Integral
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, TextIO, TypeAlias, cast, get_args

import numpy as np
import numpy.typing as npt

from tacenda.corpus.lines import lines_without_marks, sentence_without_marks, text_blocks
from tacenda.errors import ConfigurationError, CorpusError, DataError
from tacenda.store import path_of, replacing
from tacenda.tokenizers import Tokenizer, get_tokenizer
from tacenda.vocabulary import UNKNOWN, Vocabulary
from tacenda_lm.language_model import LanguageModel, fitted_tokenizer, fitted_tokenizers
from tacenda_lm.sequences import Float64, Integers, sums_of_pieces, with_ends
from tacenda_lm.surprisal.items import Item
from tacenda_lm.surprisal.words import (
    Split,
    Word,
    bare_length,
    check_split,
    region_words,
    sentence_starts,
    text_words,
)
from tacenda_lm.unknown_words import Unknown, UnknownWords

_ROWS = 1 << 14  # written at a time
_LN2 = math.log(2)
#: endings of files that are not plain text
_NO_TEXT = (".gz", ".bz2", ".xz", ".zst", ".zip", ".xls", ".xlsx", ".xlsm", ".ods", ".parquet")

#: Numbers with a mask over what is missing.
Numbers: TypeAlias = np.ma.MaskedArray[Any, Any]
Column: TypeAlias = list[str] | Numbers
_ma: Any = np.ma  # whose functions have no types yet
_MANY = 0.1  # of the items, from which on they are not read as they are meant
_ATTACHED = ".,;:!?…\"'“”‘’()[]"


#: A text is a string or, as a path, a file.
_OneText: TypeAlias = str | os.PathLike[str]
#: One text, several, texts by their names, or the items of an experiment.
Texts: TypeAlias = _OneText | Iterable[_OneText] | Mapping[str, _OneText] | Sequence[Item]
#: Whether a word is scored given all that stands before it in its text, or in its sentence.
Reach: TypeAlias = Literal["text", "sentence"]


class ScoredText(NamedTuple):
    """The words of one text with what a model said of their tokens."""

    name: str
    words: Sequence[Word]
    bits: Float64  # (tokens,): of each token of each word
    known: npt.NDArray[np.bool_]  # (tokens,)
    log_frequency: Float64  # (tokens,), base 2; NaN where there are no counts
    others: Mapping[str, list[str]] = {}  # further columns, a value for each word

    @classmethod
    def of(
        cls,
        vocabulary: Vocabulary,
        name: str,
        words: Sequence[Word],
        ids: Integers,
        log_probs: Float64,
        log_shares: Float64,
        others: Mapping[str, list[str]] = {},
    ) -> Self:
        """Make one of ids (tokens,), their log-probabilities, and their `UnknownWords.log_shares`, both natural.

        The relative frequency of a token in the training text is n(w) / n, of an unknown word n(c) q(w | c) / n with
        the counts of its class; ``</s>`` is left out of n. A type with a count of 0 counts once.
        """
        counts = vocabulary.counts.astype(np.float64)
        total = counts.sum() - counts[vocabulary.boundary_id]
        frequency = np.full(len(ids), np.nan)  # as for the vocabulary of an ARPA file
        if total > 0:
            frequency = (np.log(np.maximum(counts[ids], 1) / total) + log_shares) / _LN2
        known = ~np.isin(ids, vocabulary.oov_ids)
        return cls(name, words, -(log_probs + log_shares) / _LN2, known, frequency, others)


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
            parts = [_to_list(column[start : start + _ROWS]) for column in self._columns.values()]
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
        if not hasattr(target, "write"):
            file = path_of(target, DataError)
            check_ending(file)
            delimiter = delimiter or ("\t" if file.suffix.lower() in (".tsv", ".tab") else ",")
            try:
                with replacing(file) as new, new.open("w", encoding="utf-8", newline="") as stream:
                    self.write(stream, delimiter=delimiter, header=header)
            except OSError as error:
                raise DataError(f"{file} cannot be written: {error.strerror}") from error
            return
        try:
            writer = csv.writer(
                cast("TextIO", target), delimiter=delimiter or ",", lineterminator="\n"
            )
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
                found[name] = pandas.array(_to_list(column), dtype="boolean")
            elif np.ma.is_masked(column):
                found[name] = _ma.filled(column.astype(np.float64), np.nan)
            else:
                found[name] = column.data
        return pandas.DataFrame(found)


def _to_list(column: Column) -> list[Any]:
    """Return the values of a column as Python has them; None where one is missing."""
    return column if isinstance(column, list) else column.tolist()


def _cell(value: object) -> object:
    """A value as it is written."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    return f"{value:.10g}" if isinstance(value, float) else value


def surprisal_table(
    model: LanguageModel,
    texts: Texts,
    *,
    previous: int = 1,
    unknown: Unknown = "spelling",
    unseen_types: int | None = None,
    split: Split = "lines",
    context: Reach = "text",
    tokenizer: str | Tokenizer | None = None,
    encoding: str = "utf-8",
    errors: str = "strict",
) -> SurprisalTable:
    """Return the surprisal of every word of running text, and what a regression on reading times needs besides.

    Parameters
    ----------
    model
        Any fitted language model.
    texts
        A string is a text and a ``Path`` is the file of one; several in a list, or in a dictionary with their names; or
        what `tacenda_lm.read_items` returns, whose regions are then the words. Texts without a name are numbered from
        1, and files have their own, with their folders where several files have one name.
    previous
        How many words before a word have their figures in its row (spill-over).
    unknown
        What a word outside the vocabulary has of the probability that the model gives to all such words together, as
        `tacenda_lm.unknown_words` explains: ``"spelling"`` (a letter model), ``"even"`` (an even share among
        ``unseen_types``), or ``"class"`` (all of it, as other packages do, which makes unknown words look easy).
    unseen_types
        For ``"even"``: how many words are thought to be outside the vocabulary.
    split
        ``"lines"``: a line is a sentence, as in the text a model is usually fitted to; ``"sentences"``: a line is split
        at . ! ? and … too. The model sees ``</s>`` behind each sentence.
    context
        ``"text"``: a word is scored given all words before it in its text; ``"sentence"``: given those in its sentence.
        Only models that look beyond ``</s>`` differ.
    tokenizer
        Cuts words into the model's tokens, each word by itself; see ``tacenda.tokenizers``. By default that of the
        text the model was fitted to.
    encoding, errors
        Of files, as in ``open``.

    Returns
    -------
    A table whose ``notes`` say what can be misread in it; each is a warning too.

    Raises
    ------
    CorpusError
        A text cannot be read, or ``<s>`` or ``</s>`` is written in it.
    DataError
        There is no text, or the tokenizer makes no token of a word.
    ConfigurationError
        A setting is out of its range, the model is no language model, or its tokenizer was a function of your own and
        has to be given again.
    NotFittedError
        The model is not fitted.
    """
    if not hasattr(model, "score_corpus"):
        raise ConfigurationError(f"a {type(model).__name__} is no language model")
    check_split(split)
    if context not in get_args(Reach):
        raise ConfigurationError(f"context must be 'text' or 'sentence', not {context!r}")
    check_previous(previous)
    fitted = fitted_tokenizers(model)
    tokenize = get_tokenizer(fitted_tokenizer(model) if tokenizer is None else tokenizer)
    shares = UnknownWords(model.vocabulary, unknown, unseen_types)
    read = list(_read(texts, tokenize, split, encoding, errors))
    found = [_score(model, shares, context, each) for each in read]
    # what splits at spaces only says nothing of how the text was tokenized before
    as_fitted = tokenizer is None or {"callable" if callable(tokenizer) else tokenizer} == fitted
    as_fitted = as_fitted and not any("whitespace" in name for name in fitted)
    notes = list(caveats(model.vocabulary, shares.way, found, as_fitted=as_fitted))
    if split == "lines":
        notes += caveats_of_items(
            [[word.text for word in each.words] for each in read if each.unsplit]
        )
    for note in notes:
        warnings.warn(note, stacklevel=2)
    return tabulate(found, previous, notes)


class _Text(NamedTuple):
    """A text before it is scored."""

    name: str
    words: list[Word]
    others: Mapping[str, list[str]]
    unsplit: bool = False  # whether this is an item whose file does not say where sentences begin


def _read(
    texts: Texts, tokenize: Tokenizer, split: Split, encoding: str, errors: str
) -> Iterator[_Text]:
    """The words of each text."""
    if isinstance(texts, str | os.PathLike):
        texts = [texts]
    named: list[tuple[str | None, Any]] = list(
        texts.items() if isinstance(texts, Mapping) else ((None, each) for each in texts)
    )
    names = _distinct([_names(number, *each) for number, each in enumerate(named, start=1)])
    for number, (name, (_, text)) in enumerate(zip(names, named, strict=True), start=1):
        if isinstance(text, Item):
            for region in text.regions:
                sentence_without_marks(region.split(), "refuse", number, skippable=False)
            if text.starts is not None and split == "sentences":
                raise ConfigurationError(
                    "a column of the items says where sentences begin (sentence): leave out split='sentences'"
                )
            words = list(region_words(text.regions, tokenize, split, text.starts))
            yield _Text(name, words, text.others, unsplit=text.starts is None)
            continue
        blocks = text_blocks(text, encoding, errors)
        blocks = lines_without_marks(blocks, "refuse", name, skippable=False)
        whole = "\n".join(chain.from_iterable(blocks))
        if isinstance(text, str):  # spans are places in the string as it was given
            whole = f" {text[1:]}" if text.startswith("\ufeff") else text
        yield _Text(name, list(text_words(whole, tokenize, split)), {})


def _names(number: int, name: str | None, text: object) -> tuple[str, ...]:
    """What a text may be called, the shortest first. Raises CorpusError for what is no text."""
    if isinstance(text, Item):
        return (text.name, *text.longer_names)
    if not isinstance(text, str | os.PathLike):
        raise CorpusError(
            f"a text is a string, a Path or an item, not {text!r:.40}, a {type(text).__name__}"
        )
    if name:
        return (name,)
    return (str(number),) if isinstance(text, str) else (Path(text).name, str(Path(text)))


def _distinct(choices: Sequence[Sequence[str]]) -> list[str]:
    """A name for each text that no other has: the shortest that will do, or its longest with a number behind it."""
    names = [each[0] for each in choices]
    for longer in (1, 2):
        times = Counter(names)
        names = [
            each[min(longer, len(each) - 1)] if times[name] > 1 else name
            for name, each in zip(names, choices, strict=True)
        ]
    seen: Counter[str] = Counter()
    for i, name in enumerate(names):
        seen[name] += 1
        if seen[name] > 1:
            names[i] = f"{name} ({seen[name]})"
    return names


def _score(model: LanguageModel, shares: UnknownWords, context: Reach, text: _Text) -> ScoredText:
    """A text with the figures of its tokens."""
    vocabulary = model.vocabulary
    tokens = [token for word in text.words for token in word.tokens]
    sentences = groupby(text.words, key=lambda word: word.sentence)
    lengths = [sum(len(word.tokens) for word in words) for _, words in sentences]
    ids = vocabulary.encode(tokens)
    longer, ends = with_ends(ids, np.cumsum([0, *lengths]), vocabulary.boundary_id)
    log_probs = model.score_corpus(longer, ends if context == "sentence" else ends[[0, -1]])
    words = np.ones(len(longer), bool)  # but the </s> behind each sentence, which no row is about
    words[ends[1:] - 1] = False
    own = shares.log_shares(tokens)
    return ScoredText.of(vocabulary, text.name, text.words, ids, log_probs[words], own, text.others)


def check_previous(previous: int) -> None:
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


def tabulate(
    texts: Sequence[ScoredText], previous: int, notes: Sequence[str] = ()
) -> SurprisalTable:
    """Return the rows of scored texts, each with the measures of ``previous`` words before it in its text.

    Raises ConfigurationError where ``previous`` is no number of words, and DataError where a further column has the
    name of one of ours.
    """
    check_previous(previous)
    if not texts:
        raise DataError("there is no text: give at least one")
    if any(text.others.keys() != texts[0].others.keys() for text in texts):
        raise DataError("the item files have different columns: give their texts one by one")
    parts = [_columns(text, previous) for text in texts]
    columns: dict[str, Column] = {}
    for name in parts[0]:
        pieces = [part[name] for part in parts]
        if isinstance(pieces[0], list):
            columns[name] = list(chain.from_iterable(pieces))
        else:
            columns[name] = _ma.concatenate(pieces)
    return SurprisalTable(columns, notes)


def _columns(text: ScoredText, previous: int) -> dict[str, Column]:
    """The columns of one text, the figures of its words from those of their tokens."""
    words = text.words

    def whole(values: Iterable[int]) -> Numbers:
        return np.ma.array(np.fromiter(values, np.int64))

    own: dict[str, Column] = {
        "text": [text.name] * len(words),
        "sentence": whole(word.sentence for word in words),
        "word_index": whole(range(1, len(words) + 1)),
        "start": whole(word.start for word in words),
        "end": whole(word.end for word in words),
        "word": [word.text for word in words],
    }
    n_tokens = np.array([len(word.tokens) for word in words], np.int64)
    first = np.cumsum(n_tokens) - n_tokens
    bare = np.array([word.bare.indices(len(word.tokens))[:2] for word in words], np.int64)
    begins, ends = (bare.reshape(-1, 2) + first[:, None]).T
    frequency = sums_of_pieces(text.log_frequency, begins, ends)
    measures: dict[str, Numbers] = {
        "surprisal": np.ma.array(sums_of_pieces(text.bits, begins, ends)),
        "surprisal_with_punctuation": np.ma.array(
            sums_of_pieces(text.bits, first, first + n_tokens)
        ),
        "known": np.ma.array(sums_of_pieces(~text.known, begins, ends) == 0),
        "log_frequency": np.ma.array(frequency, mask=np.isnan(frequency)),
        "length": whole(bare_length(word.text) for word in words),
    }
    own |= measures
    for lag in range(1, previous + 1):
        for name, column in measures.items():
            missing = _ma.masked_all(min(lag, len(words)), column.dtype)
            rest = column[: max(len(words) - lag, 0)]
            own[f"{name}_prev{lag}"] = _ma.concatenate([missing, rest])
    taken = own.keys() & text.others.keys()
    if taken:
        raise DataError(
            f"the item file has a column {min(taken)!r}, which is the name of a column of the table: rename it"
        )
    return {**text.others, **own}


def caveats(
    vocabulary: Vocabulary, way: Unknown, texts: Sequence[ScoredText], *, as_fitted: bool = False
) -> Iterator[str]:
    """Yield one sentence for each thing that can be misread in the figures of scored texts.

    Parameters
    ----------
    vocabulary
        The model's.
    way
        How unknown words were scored.
    texts
        What was found.
    as_fitted
        Whether the tokens are known to be cut as those of the text that the model was fitted to.
    """
    known = np.concatenate([text.known for text in texts]) if texts else np.ones(0, bool)
    tokens = [token for text in texts for word in text.words for token in word.tokens]
    unknown = [tokens[i] for i in np.flatnonzero(~known).tolist()]
    written = sum(token in vocabulary for token in unknown)
    n = len(unknown) - written
    share = f"{n:,} of {len(tokens):,} tokens are unknown"
    counts = vocabulary.counts
    if written:
        yield (
            f"{_tokens(written)} written {UNKNOWN} in the text: nothing tells which words are meant, so the surprisal "
            "is that of all unknown words together"
        )
    if n and way == "class":
        yield (
            f"{share} and have the probability of all unknown words together: their surprisal is too low to be "
            "compared with that of known words; leave these words out, or use unknown='spelling'"
        )
    if n and counts.any() and not counts[vocabulary.oov_ids].any():
        yield (
            f"{share}, and the text the model was fitted to had no unknown words: how likely one is was not learnt, "
            "and their surprisal is a matter of smoothing; leave these words out, or fit the model with min_count=2"
        )
    attached = sum(
        token.strip(_ATTACHED) != token and token.strip(_ATTACHED) in vocabulary
        for token in unknown
    )
    if attached and not as_fitted:
        yield (
            f"{_tokens(attached)} unknown only because punctuation is attached: give the tokenizer of the text the "
            "model was fitted to, such as 'words'"
        )
    if not counts.any():
        yield "the model has no counts of its training text, so log_frequency is empty"


def caveats_of_items(items: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield a sentence if many items, given by their regions, seem to hold several sentences, and are read as one."""
    several = 0
    for regions in items:
        inner = zip(regions[1:], sentence_starts(regions, "sentences")[1:], strict=True)
        # a capital letter, behind the end of another sentence
        several += any(begins and next(filter(str.isalnum, r), "").isupper() for r, begins in inner)
    if several and several >= _MANY * len(items):
        yield (
            f"{several:,} of {len(items):,} items seem to hold several sentences, and each item is read as one, with "
            "nothing between a full stop and the word behind it: use split='sentences', or name the column that "
            "tells sentences apart (sentence), unless the text the model was fitted to has several sentences in a line"
        )


def _tokens(n: int) -> str:
    return "1 token is" if n == 1 else f"{n:,} tokens are"
