"""Texts as streams: one long row of ids with ``</s>`` before and after every sentence.

Across sentences, the context of a word is everything before it, and one ``</s>`` stands between two sentences.
Otherwise every sentence begins anew, after a ``</s>`` of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.corpus import Corpus
from tacenda.corpus.storage import forget_pages
from tacenda_lm.sequences import Ids, Integers, Offsets, laid_end_to_end, with_ends

_Bools = npt.NDArray[np.bool_]
_Ints = npt.NDArray[np.integer[Any]]


class Windows(NamedTuple):
    """Pieces of a stream, one after another, as `tacenda.kernels.trees.context_sum` takes them."""

    ids: Ids  # (tokens,), each piece with what comes before it
    offsets: Offsets  # (sequences + 1,); no context reaches over these
    starts: npt.NDArray[np.int64]  # (pieces,), where the positions to predict begin in ids
    ends: npt.NDArray[np.int64]  # (pieces,), where they end
    targets: Ids  # (rows,), the words at these positions
    counted: _Bools  # (rows,), False at the first id of a sequence


class Stream(NamedTuple):
    """Ids with boundaries, cut into sequences whose first id is context only."""

    ids: Ids  # (tokens,)
    offsets: Offsets  # (sequences + 1,)

    @classmethod
    def of(
        cls,
        ids: Integers,
        offsets: Integers,
        boundary: int,
        across: bool,
    ) -> Stream:
        """Put a ``</s>`` before every sequence; unless ``across``, a ``</s>`` within one ends it and begins another."""
        words = np.asarray(ids, np.int32)
        cuts = np.unique(np.asarray(offsets, np.int64)[:-1])
        if not across:
            cuts = np.union1d(cuts, np.flatnonzero(words[:-1] == boundary) + 1)
        cuts = cuts[cuts < len(words)]
        stream = np.insert(words, cuts, boundary)
        begins = cuts + np.arange(len(cuts))
        return cls(stream, np.append(begins, len(stream)).astype(np.int64))

    @classmethod
    def following(cls, ids: Ids) -> Stream:
        """Return one sequence of ids, whose first is no context but follows a state."""
        return cls(ids, np.array([0, len(ids)]))

    @classmethod
    def of_corpus(cls, corpus: Corpus, across: bool) -> Stream:
        """Return a corpus as one sequence, or as one for every sentence; mapped from a file where the corpus is."""
        boundary = corpus.vocabulary.boundary_id
        if isinstance(corpus.ids, np.memmap):
            ids, offsets = laid_end_to_end(_blocks(corpus, boundary, across))
            return cls(ids, np.array([0, len(ids)]) if across else offsets)
        ids, offsets = with_ends(corpus.ids, corpus.offsets, boundary)
        if across:
            offsets = np.array([0, len(ids)])
        return cls.of(ids, offsets, boundary, across)

    @property
    def firsts(self) -> _Bools:
        """Which ids are context only, bool (tokens,): the first of every sequence."""
        found = np.zeros(len(self.ids), bool)
        found[self.offsets[:-1]] = True
        return found

    def firsts_within(self, start: int, end: int) -> _Bools:
        """Return `firsts` for the ids from ``start`` to ``end``, bool (end - start,)."""
        begins = self.offsets[:-1]
        found = np.zeros(end - start, bool)
        found[begins[slice(*np.searchsorted(begins, (start, end)))] - start] = True
        return found

    def before(self, positions: Integers, n: int) -> tuple[npt.NDArray[np.int64], _Bools]:
        """Return the n ids before each position, the last first, and which of them its sequence has.

        Both are (..., n) for positions of any shape (...,). A position may be the one behind the last id, and -1 for
        no position at all, before which there is nothing.
        """
        places = np.asarray(positions)[..., None] - np.arange(1, n + 1)
        if not len(self.ids):
            return np.zeros(places.shape, np.int64), np.zeros(places.shape, bool)
        begins = self.offsets[:-1]
        begin = begins[np.searchsorted(begins, positions, side="right") - 1]
        ids = self.ids[np.clip(places, 0, len(self.ids) - 1)].astype(np.int64)
        return ids, places >= begin[..., None]

    def windows(
        self, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64], reach: int
    ) -> Windows:
        """Return the pieces between ``starts`` and ``ends``, each with up to ``reach`` ids before it."""
        begins = self.offsets[:-1]
        of_starts = begins[np.searchsorted(begins, starts, side="right") - 1]
        lows = np.maximum(of_starts, starts - reach)
        lengths = ends - lows
        firsts = np.concatenate([[0], np.cumsum(lengths)])
        at = np.repeat(lows - firsts[:-1], lengths) + np.arange(firsts[-1])
        inner = [
            begins[slice(*np.searchsorted(begins, (low + 1, end)))] - low + first
            for low, end, first in zip(lows, ends, firsts[:-1], strict=True)
        ]
        offsets = np.sort(np.concatenate([firsts, *inner])).astype(np.int64)
        rows = np.repeat(starts, ends - starts) + _within(ends - starts)
        places = begins[np.searchsorted(begins, rows, side="right") - 1]
        words, targets = np.asarray(self.ids[at]), np.asarray(self.ids[rows])
        forget_pages(self.ids)
        return Windows(
            words, offsets, firsts[:-1] + starts - lows, firsts[1:], targets, rows > places
        )


class Contexts(NamedTuple):
    """Windows of words, and the word that follows each."""

    words: _Ints  # (tokens, n), the last word first
    present: _Bools  # (tokens, n), False before the beginning of a sequence
    targets: _Ints  # (tokens,)

    @classmethod
    def at(cls, stream: Stream, positions: npt.NDArray[np.int64], n: int) -> Contexts:
        """Return the n words before each position, within its sequence, and the word there."""
        return cls(*stream.before(positions, n), stream.ids[positions].astype(np.int64))


def streams_of(
    corpus: Corpus, valid: Corpus | None, *, across: bool
) -> tuple[Stream, Stream | None]:
    """Return a training text and a held-out text as streams."""
    held_out = None if valid is None else Stream.of_corpus(valid, across)
    return Stream.of_corpus(corpus, across), held_out


def _blocks(corpus: Corpus, boundary: int, across: bool) -> Iterator[tuple[Ids, Offsets]]:
    """The stream of a corpus, block by block: a sentence depends on no other but for one ``</s>`` before them all."""
    if across:
        yield np.array([boundary], np.int32), np.array([0, 1])
    for ids, offsets in corpus.blocks():
        block = with_ends(ids, offsets, boundary)
        yield block if across else Stream.of(*block, boundary, across)


def _within(lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return 0, 1, 2 ... for each length, one after another."""
    ends = np.cumsum(lengths)
    return np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - lengths, lengths)
