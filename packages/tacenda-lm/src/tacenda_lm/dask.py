"""N-gram counts on a Dask cluster, equal to the counts of one machine (extra ``dask``).

A worker counts the n-grams of the sentences of a part, in sorted rows, and cuts the rows at the same keys as all other
workers. The pieces between two keys are summed over all parts, and come to the client in the order of the keys: as the
sorted rows of the whole text, which `KneserNey` uses like its own counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt
from dask.delayed import delayed

from tacenda.corpus import Corpus, Text, as_corpus
from tacenda.corpus.marks import START, Marks, check_marks, refusal
from tacenda.dask import ClusterCorpus, Part
from tacenda.dask.corpus import check_corpus, check_model, compute
from tacenda.errors import DataError
from tacenda.vocabulary import Vocabulary
from tacenda_lm.ngram.counting import count_sorted_rows
from tacenda_lm.ngram.kneser_ney import KneserNey
from tacenda_lm.ngram.rows import Packing, Rows, add_up, sort_rows
from tacenda_lm.ngram.spooling import Scratch

_TASK_BYTES: Final = 1 << 30  # memory for counting one part, in addition to its rows
_PIECE_BYTES: Final = 256 << 20  # of the rows that are summed in one task, approximately
_SAMPLED_PARTS, _SAMPLED_TOKENS = 16, 1 << 16  # the text by which the keys of the cuts are chosen
_MAX_COUNT: Final = 2**32  # counts have 32 bits

Keys = npt.NDArray[np.uint64]


def fit(
    model: KneserNey, corpus: ClusterCorpus, valid: Text | None = None, *, marks: Marks = "refuse"
) -> KneserNey:
    """Fit an n-gram model to a text on the cluster that holds it.

    The workers count the n-grams; the client estimates the model from them, on its disk and within the ``memory_gb`` of
    the settings. The table is bit for bit that of ``model.fit`` with the same files.

    Parameters
    ----------
    model
        A `KneserNey`, which is returned.
    corpus
        The text; its client is used.
    valid
        Held-out text, as of `LanguageModel.fit`.
    marks
        ``"refuse"`` raises an error where ``<s>`` or ``</s>`` is a token of the text; ``"keep"`` takes ``<s>`` as a
        word and ``</s>`` as the end of a sentence; ``"skip"`` skips marks in ``valid`` and refuses them in the text,
        because they can only be skipped by `ClusterCorpus.from_text`.

    Raises
    ------
    ConfigurationError
        The model is not a `KneserNey`.
    CorpusError
        The text is not a `ClusterCorpus`, or has a mark that is refused.
    DataError
        A word occurs 2^32 times or more, or the client's disk is full.
    FittingError
        The cluster failed.
    """
    check_model(model, KneserNey)
    check_corpus(corpus)
    vocabulary = corpus.vocabulary
    if check_marks(marks) != "keep":
        counts, boundary = corpus.type_counts, vocabulary.boundary_id
        place, skip = "the text on the cluster", 'pass marks="skip" to ClusterCorpus.from_text'
        if counts[boundary] > corpus.n_sentences:
            raise refusal(vocabulary.words[boundary], place, skip)
        if START in vocabulary and counts[vocabulary.id_of(START)]:
            raise refusal(START, place, skip)
    if corpus.type_counts.max() >= _MAX_COUNT:
        word = vocabulary.words[int(corpus.type_counts.argmax())]
        raise DataError(
            f"{word!r} occurs 2^32 times or more, which cannot be counted: take a part of the text"
        )
    if isinstance(valid, Iterator):  # read twice: to check it, and to measure it
        valid = cast("Text", list(valid))
    if valid is not None:
        # before the work, so that errors in it are reported early
        as_corpus(valid, vocabulary, marks=marks)
    return model.fit_counted(corpus, _count_rows(corpus, model.settings.order), valid, marks=marks)


def _count_rows(corpus: ClusterCorpus, order: int) -> Iterator[Rows]:
    """Count the n-grams, and return the `count_sorted_rows` of the whole text, range by range."""
    width = Packing.of(len(corpus.vocabulary)).columns(order) + 1
    n_pieces = 1 + (corpus.n_tokens + corpus.n_sentences) * 8 * width // _PIECE_BYTES
    cuts = _choose_cuts(corpus, order, n_pieces)
    count = partial(_count, order=order, cuts=cuts)
    return corpus.sum_pieces(count, len(cuts) + 1, _merge, "counting n-grams")


def _choose_cuts(corpus: ClusterCorpus, order: int, n_pieces: int) -> Keys:
    """Return keys at which to cut rows: quantiles of the first columns of a sample. Results do not depend on them."""
    chosen = [part for part, n in zip(corpus.parts, corpus.part_tokens, strict=True) if n]
    if n_pieces == 1 or not chosen:
        return np.empty(0, np.uint64)
    chosen = chosen[:: -(-len(chosen) // _SAMPLED_PARTS)]
    samples = [delayed(_sample)(part, corpus.placed_vocabulary, order) for part in chosen]
    keys = np.sort(compute(corpus.client, delayed(np.concatenate)(samples)))
    return np.unique(keys[len(keys) * np.arange(1, n_pieces) // n_pieces])


# -- tasks -------------------------------------------------------------------------------------------


def _count(part: Part, vocabulary: Vocabulary, order: int, cuts: Keys) -> list[Rows]:
    """Return the sorted rows of a part in pieces; the first has the rows whose first column is below ``cuts[0]``."""
    pieces: list[list[Rows]] = [[] for _ in range(len(cuts) + 1)]
    n_columns = Packing.of(len(vocabulary)).columns(order) + 1
    for rows in _count_rows_of(Corpus(part.ids, part.offsets, vocabulary), order):
        at = [0, *np.searchsorted(rows[:, 0], cuts).tolist(), len(rows)]
        for piece, begin, end in zip(pieces, at, at[1:], strict=False):
            piece.append(rows[begin:end])
    nothing = np.empty((0, n_columns), np.uint64)
    return [np.concatenate([nothing, *piece]) for piece in pieces]


def _sample(part: Part, vocabulary: Vocabulary, order: int) -> Keys:
    """Return the first columns of the rows of the beginning of a part."""
    n_sentences = max(1, int(np.searchsorted(part.offsets, _SAMPLED_TOKENS)))
    corpus = Corpus(part.ids, part.offsets, vocabulary).head(n_sentences)
    return np.concatenate([rows[:, 0] for rows in _count_rows_of(corpus, order)])


def _count_rows_of(corpus: Corpus, order: int) -> Iterator[Rows]:
    return count_sorted_rows(corpus, order, Scratch(_TASK_BYTES))


def _merge(pieces: list[Any]) -> Rows:
    """Sort the rows of pieces together, and add up those that are equal."""
    rows: Rows = np.concatenate(pieces)
    n_keys = rows.shape[1] - 1
    sort_rows(rows, n_keys)
    return rows[: add_up(rows, n_keys)].copy()
