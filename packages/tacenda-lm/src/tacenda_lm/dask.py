"""N-gram counts on a Dask cluster, equal to the counts of one machine (extra ``dask``).

A worker counts the n-grams of the sentences of a part: sorted rows, which it cuts at the same keys as all others. The
pieces between two keys are summed over all parts, each sum by itself, and come to the client in the order of the keys:
the sorted rows of the whole text, from which `KneserNey` goes on as if it had counted them itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt
from dask.delayed import delayed

from tacenda.corpus import Corpus, Text, as_corpus
from tacenda.corpus.lines import START, Marks, check_marks, refusal
from tacenda.dask import ClusterCorpus, Part
from tacenda.errors import ConfigurationError, DataError
from tacenda.vocabulary import Vocabulary
from tacenda_lm.ngram.counting import count_sorted_rows
from tacenda_lm.ngram.kneser_ney import KneserNey
from tacenda_lm.ngram.rows import Packing, Rows, add_up, sort_rows
from tacenda_lm.ngram.spooling import Scratch

_TASK_BYTES: Final = 1 << 30  # that counting one part may take, beside its rows
_PIECE_BYTES: Final = 256 << 20  # of the rows that are summed in one task, at most about
_SAMPLED_PARTS, _SAMPLED_TOKENS = 16, 1 << 16  # by which the keys are chosen where rows are cut
_MOST: Final = 2**32  # counts are kept in 32 bits

Keys = npt.NDArray[np.uint64]


def fit(
    model: KneserNey, corpus: ClusterCorpus, valid: Text | None = None, *, marks: Marks = "refuse"
) -> KneserNey:
    """Fit an n-gram model to a text on the cluster that holds it.

    The n-grams are counted there; the model is estimated from them on the client, within the ``memory_gb`` of its
    settings and on its disk. Its table is that of ``model.fit`` with the same files, bit for bit.

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
        word and ``</s>`` as the end of a sentence; ``"skip"`` is an option of `ClusterCorpus.from_text`.

    Raises
    ------
    ConfigurationError
        It is another model.
    CorpusError
        There is a mark that is refused.
    DataError
        A word occurs 2^32 times or more, or the client's disk is full.
    FittingError
        The cluster gave up.
    """
    check_model(model)
    vocabulary = corpus.vocabulary
    if check_marks(marks) == "refuse":
        counts, boundary = corpus.type_counts, vocabulary.boundary_id
        if counts[boundary] > corpus.n_sentences:
            raise refusal(vocabulary.words[boundary], "the text on the cluster")
        if START in vocabulary and counts[vocabulary.id_of(START)]:
            raise refusal(START, "the text on the cluster")
    if corpus.type_counts.max() >= _MOST:
        often = vocabulary.words[int(corpus.type_counts.argmax())]
        raise DataError(
            f"{often!r} occurs 2^32 times or more, which cannot be counted: take a part of the text"
        )
    if isinstance(valid, Iterator):  # read twice: to check it, and to measure it
        valid = cast("Text", list(valid))
    if valid is not None:
        # so that what is wrong with it is said before the work
        as_corpus(valid, vocabulary, marks=marks)
    return model.fit_counted(corpus, _rows_of(corpus, model.settings.order), valid, marks=marks)


def check_model(model: object) -> None:
    """Raise ConfigurationError for a model that cannot be fitted to counts of a cluster."""
    if not isinstance(model, KneserNey):
        raise ConfigurationError(
            f"a cluster can count for kneser_ney, not for {getattr(model, 'name', model)!r}, which is trained in "
            "steps: fit it to a Corpus on one machine"
        )


def _rows_of(corpus: ClusterCorpus, order: int) -> Iterator[Rows]:
    """Count, and return the `count_sorted_rows` of the whole text, range by range."""
    width = Packing.of(len(corpus.vocabulary)).columns(order) + 1
    n_pieces = 1 + (corpus.n_tokens + corpus.n_sentences) * 8 * width // _PIECE_BYTES
    cuts = _choose_cuts(corpus, order, n_pieces)
    count = partial(_count, order=order, cuts=cuts)
    return corpus.sum_pieces(count, len(cuts) + 1, _merge, "counting n-grams")


def _choose_cuts(corpus: ClusterCorpus, order: int, n_pieces: int) -> Keys:
    """The keys at which rows are cut: quantiles of the first columns of some; the result does not depend on them."""
    if n_pieces == 1:
        return np.empty(0, np.uint64)
    chosen = [part for part, n in zip(corpus.parts, corpus.part_tokens, strict=True) if n]
    chosen = chosen[:: -(-len(chosen) // _SAMPLED_PARTS)]
    sample = delayed(_sample)
    found = corpus.client.compute(
        [sample(part, corpus.placed_vocabulary, order) for part in chosen]
    )
    keys = np.sort(np.concatenate(corpus.client.gather(found)))
    return np.unique(keys[len(keys) * np.arange(1, n_pieces) // n_pieces])


# -- tasks -------------------------------------------------------------------------------------------


def _count(part: Part, vocabulary: Vocabulary, order: int, cuts: Keys) -> list[Rows]:
    """The sorted rows of a part, cut in pieces: the first has the rows whose first column is below ``cuts[0]``."""
    pieces: list[list[Rows]] = [[] for _ in range(len(cuts) + 1)]
    n_columns = Packing.of(len(vocabulary)).columns(order) + 1
    for rows in _rows_of_text(Corpus(part.ids, part.offsets, vocabulary), order):
        at = [0, *np.searchsorted(rows[:, 0], cuts).tolist(), len(rows)]
        for piece, begin, end in zip(pieces, at, at[1:], strict=False):
            piece.append(rows[begin:end])
    nothing = np.empty((0, n_columns), np.uint64)
    return [np.concatenate([nothing, *piece]) for piece in pieces]


def _sample(part: Part, vocabulary: Vocabulary, order: int) -> Keys:
    """The first columns of the rows of the beginning of a part."""
    n_sentences = max(1, int(np.searchsorted(part.offsets, _SAMPLED_TOKENS)))
    corpus = Corpus(part.ids, part.offsets, vocabulary).head(n_sentences)
    return np.concatenate([rows[:, 0] for rows in _rows_of_text(corpus, order)])


def _rows_of_text(corpus: Corpus, order: int) -> Iterator[Rows]:
    return count_sorted_rows(corpus, order, Scratch(_TASK_BYTES))


def _merge(pieces: list[Any]) -> Rows:
    """Sort the rows of pieces together, and add up those that are equal."""
    rows: Rows = np.concatenate(pieces)
    n_keys = rows.shape[1] - 1
    sort_rows(rows, n_keys)
    return rows[: add_up(rows, n_keys)].copy()
