"""`Stream`: running text, and the windows, contexts and pieces of it that models are trained on.

A stream is one long row of ids with ``</s>`` before and after every sentence. If contexts reach across sentences, the
context of a word is everything before it, and one ``</s>`` separates two sentences. Otherwise every sentence begins
without context, after a ``</s>`` of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.corpus import Corpus
from tacenda.corpus.storage import forget_pages
from tacenda.fitting import fingerprint_arrays
from tacenda_lm.sequences import Ids, Integers, Offsets, join_texts, with_ends

_Bools = npt.NDArray[np.bool_]


class Windows(NamedTuple):
    """Pieces of a stream, concatenated, as `tacenda.kernels.contexts.context_sum` takes them."""

    ids: Ids  # (tokens,), each piece after the ids of its context
    offsets: Offsets  # (sequences + 1,), which no context crosses
    starts: npt.NDArray[np.int64]  # (pieces,), where the positions to predict begin in ids
    ends: npt.NDArray[np.int64]  # (pieces,), where they end
    targets: Ids  # (rows,), the words at these positions
    counted: _Bools  # (rows,), False at the first id of a sequence


class Stream(NamedTuple):
    """Ids with boundaries, cut into sequences whose first id is context only."""

    ids: Ids  # (tokens,)
    offsets: Offsets  # (sequences + 1,)

    @classmethod
    def of(cls, ids: Integers, offsets: Integers, boundary: int, across: bool) -> Stream:
        """Put a ``</s>`` before every sequence; unless ``across``, a ``</s>`` within a sequence begins another one."""
        words = np.asarray(ids, np.int32)
        cuts = np.unique(np.asarray(offsets, np.int64)[:-1])
        if not across:
            cuts = np.union1d(cuts, np.flatnonzero(words[:-1] == boundary) + 1)
        cuts = cuts[cuts < len(words)]
        # every cut moves by the number of boundaries inserted before it
        stream = np.insert(words, cuts, boundary)
        begins = cuts + np.arange(len(cuts))
        return cls(stream, np.append(begins, len(stream)).astype(np.int64))

    @classmethod
    def following(cls, ids: Ids, window: Sequence[int] = ()) -> Stream:
        """Return one sequence: the words of a context, such as those of a state, followed by ids."""
        joined = np.concatenate([np.array(window, np.int32), ids]) if len(window) else ids
        return cls(joined, np.array([0, len(joined)]))

    @classmethod
    def of_corpus(cls, corpus: Corpus, across: bool) -> Stream:
        """Return a corpus as one sequence, or as one for every sentence; mapped from a file if the corpus is."""
        boundary = corpus.vocabulary.boundary_id
        if isinstance(corpus.ids, np.memmap):
            ids, offsets = join_texts(_convert_blocks(corpus, boundary, across))
            return cls(ids, np.array([0, len(ids)]) if across else offsets)
        if across:
            ids = np.insert(corpus.ids, corpus.offsets, boundary)
            return cls(ids, np.array([0, len(ids)]))
        return cls.of(*with_ends(corpus.ids, corpus.offsets, boundary), boundary, across)

    @property
    def firsts(self) -> _Bools:
        """Whether each id is context only, bool (tokens,): the first of every sequence."""
        return self.firsts_within(0, len(self.ids))

    def firsts_within(self, start: int, end: int) -> _Bools:
        """Return `firsts` for the ids from ``start`` to ``end``, bool (end - start,)."""
        begins = self.offsets[:-1]
        firsts = np.zeros(end - start, bool)
        firsts[begins[slice(*np.searchsorted(begins, (start, end)))] - start] = True
        return firsts

    def _find_begins(self, positions: Integers) -> npt.NDArray[np.int64]:
        """Return where the sequence of each position begins; a position before the first id has the last sequence."""
        begins = self.offsets[:-1]
        return begins[np.searchsorted(begins, positions, side="right") - 1]

    def before(self, positions: Integers, n: int) -> tuple[npt.NDArray[np.int64], _Bools]:
        """Return the n ids before each position, the last first, and whether each belongs to the same sequence.

        Both are (..., n) for positions of any shape (...,). A position may be one after the last id; for -1, no id
        belongs to the same sequence.
        """
        places = np.asarray(positions)[..., None] - np.arange(1, n + 1)
        if not len(self.ids):
            return np.zeros(places.shape, np.int64), np.zeros(places.shape, bool)
        # ids before the sequence are not present, whatever is read there
        ids = self.ids[np.clip(places, 0, len(self.ids) - 1)].astype(np.int64)
        return ids, places >= self._find_begins(positions)[..., None]

    def windows(
        self, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64], reach: int
    ) -> Windows:
        """Return the pieces between ``starts`` and ``ends``, each with up to ``reach`` ids before it."""
        lows = np.maximum(self._find_begins(starts), starts - reach)
        lengths, n_rows = ends - lows, ends - starts
        firsts = np.concatenate([[0], np.cumsum(lengths)])
        # the places of the ids of all pieces, one piece after another
        at = np.repeat(lows - firsts[:-1], lengths) + np.arange(firsts[-1])
        begins = self.offsets[:-1]
        inner = [
            begins[slice(*np.searchsorted(begins, (low + 1, end)))] - low + first
            for low, end, first in zip(lows, ends, firsts[:-1], strict=True)
        ]
        offsets = np.sort(np.concatenate([firsts, *inner])).astype(np.int64)
        # the positions of each piece, one piece after another: start, start + 1 ... end - 1
        rows = np.repeat(ends - np.cumsum(n_rows), n_rows) + np.arange(n_rows.sum())
        words, targets = np.asarray(self.ids[at]), np.asarray(self.ids[rows])
        forget_pages(self.ids)
        counted = rows > self._find_begins(rows)
        return Windows(words, offsets, firsts[:-1] + starts - lows, firsts[1:], targets, counted)


class Contexts(NamedTuple):
    """Windows of words, and the word that follows each."""

    words: Integers  # (tokens, n), the last word first
    present: _Bools  # (tokens, n), False before the beginning of a sequence
    targets: Integers  # (tokens,)

    @classmethod
    def at(cls, stream: Stream, positions: npt.NDArray[np.int64], n: int) -> Contexts:
        """Return the n words before each position, within its sequence, and the word there."""
        return cls(*stream.before(positions, n), stream.ids[positions].astype(np.int64))

    @classmethod
    def of_windows(cls, windows: Sequence[tuple[int, ...]], n: int) -> Contexts:
        """Return windows of up to n words, oldest first, as contexts with targets of 0."""
        words = np.zeros((len(windows), n), np.int64)
        present = np.zeros(words.shape, bool)
        for i, window in enumerate(windows):
            words[i, : len(window)], present[i, : len(window)] = window[::-1], True
        return cls(words, present, np.zeros(len(windows), np.int64))


class Pieces:
    """A text in ``parts`` equal parts that are read in parallel and in order: a batch has a piece of each.

    A batch is a pair, its first step and its end, where step i reads the i-th token of every part. Its number of steps
    grows geometrically from ``first`` in the first of ``epochs`` epochs to ``last`` in the last.
    """

    def __init__(self, text: Stream, parts: int, first: int, last: int, epochs: int = 1) -> None:
        self.text, self.parts, self.steps = text, parts, -(-len(text.ids) // parts)
        self.first, self.last, self.epochs = first, last, epochs

    def positions(self, batch: tuple[int, int]) -> npt.NDArray[np.int64]:
        """Return the positions of a batch in the text, (steps, parts); -1 after the end of the text."""
        positions = np.arange(*batch)[:, None] + self.steps * np.arange(self.parts)
        return np.where(positions < len(self.text.ids), positions, -1)

    def length(self, epoch: int) -> int:
        """Return how many steps a batch of an epoch has."""
        share = epoch / max(self.epochs - 1, 1)
        steps: float = self.first * (self.last / self.first) ** share
        return max(1, round(steps))

    def n_batches(self, epoch: int) -> int:
        """Return how many batches an epoch has."""
        return -(-self.steps // self.length(epoch))

    def batches(self, epoch: int, skip: int = 0) -> Iterator[tuple[int, int]]:
        """Yield the batches of an epoch without the first ``skip``."""
        length = self.length(epoch)
        for begin in range(skip * length, self.steps, length):
            yield begin, min(begin + length, self.steps)

    def fingerprint(self) -> str:
        """Return a hash of the text and of how it is cut."""
        return fingerprint_arrays(
            tuple(self.text), "pieces", self.parts, self.first, self.last, self.epochs
        )


class RingWindows:
    """The windows of a text, which is a ring: after its last word comes its first.

    Each epoch cuts the ring at another place into streams of equal length. A step reads a window of every stream, and
    the states at its end begin the next window. An epoch reads every word, and less than one word a stream again.
    """

    def __init__(self, text: Ids, streams: int, window: int, seed: int) -> None:
        self.text, self.streams, self.window, self.seed = text, streams, window, seed
        self._stream_length = -(-len(text) // streams)

    def n_batches(self, epoch: int) -> int:
        return -(-self._stream_length // self.window)

    def batches(self, epoch: int, skip: int = 0) -> Iterator[tuple[npt.NDArray[np.int64], bool]]:
        """Yield the places (steps, streams) that each step reads, and whether it is the first of the epoch."""
        rng = np.random.default_rng([self.seed, epoch])
        cut = int(rng.integers(len(self.text)))
        starts = cut + self._stream_length * np.arange(self.streams)
        for batch in range(skip, self.n_batches(epoch)):
            begin = batch * self.window
            steps = np.arange(begin, min(begin + self.window, self._stream_length))
            yield (steps[:, None] + starts) % len(self.text), batch == 0

    def fingerprint(self) -> str:
        return fingerprint_arrays((self.text,), "windows", self.streams, self.window, self.seed)


def streams_of(
    corpus: Corpus, valid: Corpus | None, *, across: bool
) -> tuple[Stream, Stream | None]:
    """Return a training text and a held-out text as streams."""
    held_out = None if valid is None else Stream.of_corpus(valid, across)
    return Stream.of_corpus(corpus, across), held_out


def _convert_blocks(corpus: Corpus, boundary: int, across: bool) -> Iterator[tuple[Ids, Offsets]]:
    """Yield the stream of a corpus in blocks of ids and offsets, ``across`` sentences after a first ``</s>``."""
    if across:
        yield np.array([boundary], np.int32), np.array([0, 1])
    for ids, offsets in corpus.blocks():
        block = with_ends(ids, offsets, boundary)
        yield block if across else Stream.of(*block, boundary, across)
