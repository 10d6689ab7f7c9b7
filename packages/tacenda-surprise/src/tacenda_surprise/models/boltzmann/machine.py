"""The parameters of a fitted machine and the distributions they give.

Rows beyond the last stand for what is unknown: a visible unit of average biases and no weights, a case
without ratings. Number -1 finds them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.artifact import require
from tacenda.kernels.ratings import boltzmann as rating_boltzmann
from tacenda.kernels.shared import sparse_product
from tacenda.ratings import Ratings
from tacenda_surprise.models.base import Floats, Numbers
from tacenda_surprise.models.boltzmann.cases import Scale
from tacenda_surprise.models.identities import Identities

_BLOCK = (
    1 << 22
)  # numbers at a time, where the exact prediction needs one for every pair, level and unit


class Machine(NamedTuple):
    """Parameters, float32 (notation of ``tacenda.kernels.ratings.boltzmann``).

    Attributes
    ----------
    weights
        a (visible, hidden) or W (visible, levels, hidden).
    visible_biases
        b (visible, levels).
    hidden_biases
        d (hidden,).
    side_weights
        U (visible, hidden), or no rows.
    slopes
        o (cases,).
    base
        (levels,), biases of an unknown visible unit.
    inputs
        (cases, hidden), what goes into the hidden units of every case.
    """

    weights: Floats
    visible_biases: Floats
    hidden_biases: Floats
    side_weights: Floats
    slopes: Floats
    base: Floats
    inputs: Floats

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, npt.NDArray[Any]], *, tied: bool, dims: Mapping[str, int]
    ) -> Machine:
        """The machine of an artefact; ``dims`` are sizes by name. Raises ArtifactError."""
        shapes: dict[str, tuple[str, ...]] = {
            "weights": ("visible", "hidden") if tied else ("visible", "levels", "hidden"),
            "visible_biases": ("visible", "levels"),
            "hidden_biases": ("hidden",),
            "side_weights": ("sides", "hidden"),
            "slopes": ("cases",),
            "base": ("levels",),
            "inputs": ("cases", "hidden"),
        }
        sizes = dict(dims)
        found = {
            name: require(arrays, name, shape=shape, dtype=np.float32, finite=True, dims=sizes)
            for name, shape in shapes.items()
        }
        return cls(**found)

    def hidden_inputs(
        self,
        ratings: Ratings,
        levels: npt.NDArray[np.int32],
        scale: Scale,
        identities: Identities | None,
    ) -> Floats:
        """D + U f + W r of every case (cases, hidden), eq 5.14 before the squashing."""
        offsets, ids = ratings.user_offsets, ratings.item_ids
        if self.weights.ndim == 2:
            table, data = self.weights, scale.scores[levels]
        else:
            n_levels = self.weights.shape[1]
            table = self.weights.reshape(-1, self.weights.shape[2])
            # within a case the numbers still ascend, as those of the visible units do
            ids = ids * np.int32(n_levels) + levels
            data = np.ones(len(ids), np.float32)
        found = sparse_product.multiply(offsets, ids, data, table)
        if identities is not None and len(self.side_weights):
            ones = np.ones(len(identities.item_ids), np.float32)
            found += sparse_product.multiply(
                identities.offsets, identities.item_ids, ones, self.side_weights
            )
        return np.asarray(found + self.hidden_biases)

    def with_unknown(self) -> Machine:
        """With the rows for what is unknown."""
        nothing = np.zeros((1, *self.weights.shape[1:]), np.float32)
        return self._replace(
            weights=np.concatenate([self.weights, nothing]),
            visible_biases=np.concatenate([self.visible_biases, self.base[None]]),
            slopes=np.append(self.slopes, np.float32(0)),
            inputs=np.concatenate([self.inputs, self.hidden_biases[None]]),
        )

    def activations(self) -> Floats:
        """P(h = 1 | r, f) of every case (cases, hidden), eq 5.14."""
        return squash(self.inputs)

    def exact(self, visible: Numbers, cases: Numbers, scores: Floats) -> Floats:
        """Probabilities of the levels of each pair (pairs, levels), eq 5.9."""
        found = np.empty((len(visible), len(scores)), np.float32)
        block = max(_BLOCK // (len(scores) * max(self.inputs.shape[1], 1)), 1)
        for start in range(0, len(visible), block):
            part = slice(start, start + block)
            m, c = visible[part], cases[part]
            W = self.weights[m]
            if W.ndim == 2:
                W = W[:, None, :] * scores[None, :, None]
            logits = self.visible_biases[m] + scores * self.slopes[c][:, None]
            logits += np.logaddexp(0, self.inputs[c][:, None, :] + W).sum(axis=-1)
            found[part] = softmax(logits)
        return found

    def expect(
        self, visible: Numbers, cases: Numbers, scores: Floats, activations: Floats
    ) -> rating_boltzmann.Expected:
        """Probabilities and mean scores of each pair by mean field, eq 5.11."""
        return rating_boltzmann.expect(
            visible, cases, self.weights, self.visible_biases, activations, scores, self.slopes
        )

    def rmse(self, visible: Numbers, cases: Numbers, scale: Scale, values: Floats) -> float:
        """Error of the predictions of pairs by mean field; ``values`` (pairs,) are ratings."""
        found = self.expect(visible, cases, scale.scores, self.activations())
        errors = scale.ratings(found.means) - values
        return float(np.sqrt(np.mean(errors**2, dtype=np.float64)))

    def mean_scores(
        self,
        visible: slice | Numbers,
        cases: slice | Numbers,
        scores: Floats,
        activations: Floats,
    ) -> Floats:
        """Expected scores of every one of ``visible`` for every one of ``cases``, by mean field."""
        p, W = activations[cases], self.weights[visible]
        b, o = self.visible_biases[visible], self.slopes[cases]
        total = np.zeros((len(W), len(p)), np.float32)
        mean = np.zeros_like(total)
        along = W @ p.T + o if W.ndim == 2 else None
        logits = []
        for k, s in enumerate(scores):
            rest = s * along if along is not None else W[:, k] @ p.T + s * o
            logits.append(b[:, k, None] + rest)
        highest = np.maximum.reduce(logits)
        for s, logit in zip(scores, logits, strict=True):
            chance = np.exp(logit - highest)
            total += chance
            mean += s * chance
        return np.asarray(mean / total)


def squash(x: Floats) -> Floats:
    """The logistic function."""
    with np.errstate(over="ignore"):  # far below zero it is 0, by way of an infinity
        return np.asarray(1.0 / (1.0 + np.exp(-x)), np.float32)


def softmax(logits: npt.NDArray[np.floating]) -> Floats:
    """Along the last axis."""
    chances = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(chances / chances.sum(axis=-1, keepdims=True), np.float32)
