"""What a state-space model has learned, and the state that it predicts from the last tokens.

    s^(t) = [q(t); l(t-1); ...; l(t-n); j(t)],    q(t) = A s(t-1),    l(t-i) = C x(t-i)       (eqs 4 and 5)
    P(y(t) = w | s) = exp(B s + b)_w / sum_v exp(B s + b)_v                                   (eq 3, with a bias)

x(t) is the indicator vector of a token, and zero for an unknown one and where there is none. j(t) is the sum of the
vectors of the runs of tokens that end at t - 1 (not in the paper; see `JointTokens`). The matrix A takes the whole
state, as eq 10 and the discussion of the paper have it; its eq 5 prints N_q columns.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda_lm.state_space.joint_tokens import JointTokens
from tacenda_lm.state_space.settings import StateSpaceLMSettings

__all__ = ["Floats", "Inputs", "Ints", "Parameters", "initial_parameters"]

Floats = npt.NDArray[np.floating[Any]]
Ints = npt.NDArray[np.integer[Any]]

_SPREAD = 0.1  # of the elements to begin with
_LARGER = 5  # times as large, feature vectors
_REACH = 1.0  # of a token's e on its own score through the internal state, to begin with
_MEMORY = 0.8  # share of an element of the internal state that is left after a token, to begin with
_FEW = 0.1  # occurrences more of every token, so that none is impossible


class Parameters(NamedTuple):
    """The matrices, of one dtype; a state is (internal + inputs,) long."""

    transition: Floats  # A (internal, state)
    outputs: Floats  # B (types, state)
    features: Floats  # C, transposed: (types, features); the row of <unk> is zero
    biases: Floats  # b (types, 1)
    joint: Floats  # (runs, joint_width), the vectors of runs of tokens

    @property
    def internal(self) -> int:
        """Elements of the internal state, N_q."""
        return len(self.transition)

    def astype(self, dtype: npt.DTypeLike) -> Parameters:
        """Return the same numbers in another dtype."""
        return Parameters(*(np.asarray(each, dtype) for each in self))


class Inputs(NamedTuple):
    """The tokens before some places of a text, which give all of the predicted state but the internal one."""

    words: Ints  # (..., order - 1), the last token first, <unk> where there is none
    runs: Ints  # (..., joint_order - 1), rows of the vectors of runs, -1 where there is none

    @classmethod
    def of(cls, windows: Ints, n: int, joint: JointTokens) -> Inputs:
        """Return those of windows (..., window) of the last tokens, the last first."""
        return cls(windows[..., :n], joint.rows(windows))

    def vectors(self, p: Parameters) -> Floats:
        """Return [l(t-1); ...; l(t-n); j(t)], (..., inputs)."""
        *shape, n = self.words.shape
        parts = [p.features[self.words].reshape(*shape, n * p.features.shape[1])]
        if self.runs.shape[-1]:
            table = np.vstack([p.joint, np.zeros_like(p.joint, shape=(1, p.joint.shape[1]))])
            parts.append(table[self.runs].sum(axis=-2))  # -1 is the row of zeros
        return np.concatenate(parts, axis=-1)


def initial_parameters(
    settings: StateSpaceLMSettings, counts: npt.NDArray[np.integer[Any]], unknown: int, runs: int
) -> Parameters:
    """Draw small numbers; the internal state begins as sums that fade, and biases as those of a unigram model.

    The vectors of runs begin as zeros.
    """
    rng, advanced = np.random.default_rng([settings.seed, 1]), settings.advanced
    types, q, state = len(counts), settings.internal, settings.internal + settings.inputs

    def normal(*shape: int) -> npt.NDArray[np.float32]:
        return rng.standard_normal(shape, np.float32) * np.float32(_SPREAD)

    transition = normal(q, state)
    if settings.training == "gradient":
        transition[:, :q] /= np.float32(
            np.sqrt(max(q, 1))
        )  # so that the sum of both fades, however wide it is
        transition[:, :q] += np.float32(_MEMORY) * np.eye(q, dtype=np.float32)
    outputs, features = normal(types, state), normal(types, settings.features)
    if settings.training == "gradient":
        # what was read passes through B twice on its way to a prediction: where B is small it is slow to be learnt, and
        # where G = variance B B' is large a step of ascent from the predicted state overshoots
        outputs[:, :q] *= np.float32(np.sqrt(_REACH / (advanced.variance * max(q, 1))) / _SPREAD)
        features *= np.float32(_LARGER)
    features[unknown] = 0
    some = counts + _FEW
    biases = np.log(some / some.sum()) if advanced.biases else np.zeros(types)
    joint = np.zeros((runs, advanced.joint_width), np.float32)
    return Parameters(transition, outputs, features, biases[:, None].astype(np.float32), joint)
