"""`Tree`: a binary tree over the words of a vocabulary, as the codes of its leaves."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.arrays import Array, Arrays, Int8, Int32, Offsets
from tacenda.errors import ArtifactError, DataError, KernelError
from tacenda.kernels.trees import Codes

#: How words are split into a tree; see `tree_building`.
Rule = Literal["random", "balanced", "adaptive", "noisy"]
_SMOOTHING = 0.1  # added to the counts of both sides of a node, so that no turn is impossible


class Statistics(NamedTuple):
    """The columns of Table 4.3 of the thesis; a step is one turn at a node on the way from the root to a leaf."""

    mean_code_length: float  # steps: the mean over a word's codes, averaged over words
    weighted_code_length: float  # steps: the same, with words weighted by their counts
    codes_per_word: float  # codes, averaged over words
    steps_per_token: float  # steps of all codes of a word, with words weighted by their counts
    n_nodes: int  # inner nodes
    depth: int  # steps of the longest code


class _Saved(Arrays):
    """The `Codes` of a tree in a saved model."""

    word_codes: Offsets[Array, "types codes"]
    code_steps: Offsets[Array, "codes steps"]
    nodes: Int32[Array, "steps"]
    signs: Int8[Array, "steps"]


class Tree:
    """A binary tree whose leaves are words; a word may have several leaves.

    ``codes`` are the paths from the root to all leaves; inner nodes are numbered from 0 without gaps. Raises
    KernelError unless the codes are all leaves of one tree. Methods take ``counts`` (words,), how often each word
    occurs, and raise DataError unless there is one of at least 0 for each.
    """

    def __init__(self, codes: Codes) -> None:
        if codes.n_codes > 1 and codes.n_codes != codes.n_nodes + 1:
            raise KernelError(
                f"a binary tree of {codes.n_codes} leaves has {codes.n_codes - 1} nodes, not {codes.n_nodes}"
            )
        _ = codes.children  # raises KernelError unless they are one tree
        self.codes, self.n_words, self.n_nodes = codes, codes.n_words, codes.n_nodes

    def statistics(self, counts: npt.NDArray[Any]) -> Statistics:
        """Return statistics of the tree for words of these counts; if all are 0, words count equally."""
        lengths = np.diff(self.codes.code_steps)
        n_codes = np.diff(self.codes.word_codes)
        steps = np.diff(self.codes.code_steps[self.codes.word_codes])
        weights = self._check_counts(counts)
        if not weights.any():
            weights = np.ones(self.n_words)
        weights = weights / weights.sum()
        return Statistics(
            mean_code_length=float((steps / n_codes).mean()),
            weighted_code_length=float((steps / n_codes) @ weights),
            codes_per_word=float(n_codes.mean()),
            steps_per_token=float(steps @ weights),
            n_nodes=self.n_nodes,
            depth=int(lengths.max(initial=0)),
        )

    def biases(self, counts: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """Return the natural log odds of going left, float32 (nodes,), that alone give the unigram distribution.

        A word's count is divided evenly among its codes.
        """
        codes = self.codes
        n_codes = np.diff(codes.word_codes)
        code_counts = np.repeat(self._check_counts(counts) / n_codes, n_codes)
        step_counts = np.repeat(code_counts, np.diff(codes.code_steps))
        sides = 2 * codes.nodes.astype(np.int64) + (codes.signs < 0)
        turns = np.bincount(sides, step_counts, 2 * self.n_nodes).reshape(-1, 2) + _SMOOTHING
        return np.asarray(np.log(turns[:, 0] / turns[:, 1]), np.float32)

    def _check_counts(self, counts: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        try:
            checked = np.asarray(counts, np.float64)
        except (TypeError, ValueError):
            checked = np.empty((0, 0))  # refused below
        if checked.shape != (self.n_words,) or not (np.isfinite(checked) & (checked >= 0)).all():
            raise DataError(f"give {self.n_words} counts of at least 0, one for each word")
        return checked

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the codes, for a saved model."""
        return _Saved(*self.codes.arrays).to_arrays("tree.")

    @classmethod
    def from_arrays(cls, arrays: dict[str, npt.NDArray[Any]], n_words: int) -> Tree:
        """Return the tree of a saved model over ``n_words`` words. Raises ArtifactError where it is damaged."""
        saved = _Saved.from_arrays(arrays, "tree.", types=n_words)
        try:
            return cls(Codes(**vars(saved)))
        except KernelError as error:
            raise ArtifactError(f"the tree of the model is damaged: {error}") from error
