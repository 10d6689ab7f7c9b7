"""A text as parallel streams of tokens, on which a recurrent network is trained."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from tacenda.corpus import Corpus
from tacenda.fitting import fingerprint_arrays

__all__ = ["Ids", "StreamBatches", "joined"]

Ids = npt.NDArray[np.int32]


def joined(corpus: Corpus) -> Ids:
    """Return all sentences in a row, int32, each followed by ``</s>``, with one ``</s>`` before them all."""
    ends = np.asarray(corpus.offsets[1:])
    boundary = corpus.vocabulary.boundary_id
    text = np.insert(np.asarray(corpus.ids), ends, boundary)
    return np.concatenate([[boundary], text]).astype(np.int32)


class StreamBatches:
    """The text cut into streams of equal length, ``length`` tokens of each at a time.

    A batch is (inputs, targets), both int64 (length, streams), the targets one token later. The order is that
    of the text, so that the state of a recurrent network is carried from one batch to the next. A few tokens
    at the end of the text, fewer than there are streams, are left out.
    """

    def __init__(self, ids: Ids, *, streams: int, length: int) -> None:
        self.ids, self.length = ids, length
        self.n_streams = max(1, min(streams, (len(ids) - 1) // 2))
        self.n_steps = (len(ids) - 1) // self.n_streams
        self._fingerprint = fingerprint_arrays((ids,), "streams", streams, length)

    def n_batches(self, epoch: int) -> int:
        return -(-self.n_steps // self.length)

    def batches(
        self, epoch: int, skip: int = 0
    ) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
        used = self.n_streams * self.n_steps
        before = self.ids[:used].reshape(self.n_streams, -1)
        after = self.ids[1 : used + 1].reshape(self.n_streams, -1)
        for index in range(skip, self.n_batches(epoch)):
            span = slice(index * self.length, (index + 1) * self.length)
            yield tuple(  # type: ignore[misc]
                np.ascontiguousarray(side[:, span].T, dtype=np.int64) for side in (before, after)
            )

    def fingerprint(self) -> str:
        return self._fingerprint
