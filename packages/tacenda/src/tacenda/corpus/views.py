"""Ways through a corpus that hold only a part of it in memory."""

from bisect import bisect_left
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tacenda.corpus.storage import GrowingArray, Place

Ids = NDArray[np.int32]
Offsets = NDArray[np.int64]


def blocks(ids: Ids, offsets: Offsets, n_tokens: int) -> Iterator[tuple[Ids, Offsets]]:
    """Whole sentences, at most n_tokens tokens at a time or one longer one; see Corpus.blocks."""
    n_sentences = len(offsets) - 1
    first = 0
    while first < n_sentences:
        limit = int(offsets[first]) + n_tokens
        # the first offset beyond the limit; the one before it ends the block
        beyond = bisect_left(offsets, limit + 1, first + 1, n_sentences + 1)
        last = max(beyond - 1, first + 1)
        bounds = np.asarray(offsets[first : last + 1])
        yield np.asarray(ids[bounds[0] : bounds[-1]]), bounds - bounds[0]
        first = last


def stream(ids: Ids, offsets: Offsets, boundary: int, n_tokens: int) -> Iterator[Ids]:
    """The text with a boundary before every sentence, n_tokens ids at a time; see Corpus.stream."""
    n_sentences = len(offsets) - 1
    total = len(ids) + n_sentences

    def boundaries_before(position: int) -> int:
        # sentence i has i boundaries before its own, which stands at offsets[i] + i of the stream
        return bisect_left(range(n_sentences), position, key=lambda i: int(offsets[i]) + i)

    i = 0
    for begin in range(0, total, n_tokens):
        end = min(begin + n_tokens, total)
        j = boundaries_before(end)
        piece = np.empty(end - begin, dtype=np.int32)
        is_token = np.ones(end - begin, dtype=bool)
        is_token[offsets[i:j] + np.arange(i, j) - begin] = False
        piece[~is_token] = boundary
        piece[is_token] = ids[begin - i : end - j]
        yield piece
        i = j


def subset(ids: Ids, offsets: Offsets, keep: NDArray[np.bool_]) -> tuple[Ids, Offsets, Place]:
    """The sentences where keep (sentences,) is true, in order, copied to a place of their own."""
    place = Place()
    kept_ids = GrowingArray("ids", np.int32, place)
    kept_offsets = GrowingArray("offsets", np.int64, place)
    try:
        kept_offsets.append(np.zeros(1, dtype=np.int64))
        first = 0
        for block, bounds in blocks(ids, offsets, 1 << 20):
            wanted = keep[first : first + len(bounds) - 1]
            lengths = np.diff(bounds)
            kept_offsets.append(len(kept_ids) + np.cumsum(lengths[wanted]))
            kept_ids.append(block[np.repeat(wanted, lengths)])
            first += len(lengths)
        return kept_ids.finish(), kept_offsets.finish(), place
    finally:
        kept_ids.close()
        kept_offsets.close()
