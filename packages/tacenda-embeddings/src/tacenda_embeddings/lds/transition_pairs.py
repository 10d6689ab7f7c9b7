"""What the transition operator does to words (LDS paper section 7.1, Table 1)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda_embeddings.lds.steady_state import Parameters, stationary_covariance, symmetric_power


class TransitionPair(NamedTuple):
    """Words of a singular-vector pair of A: A takes the state of ``before`` to that of ``after``."""

    before: list[str]  # most likely at the right singular vector, most likely first
    after: list[str]  # most likely at the left singular vector, one position later
    singular_value: float  # how much of the state survives the step, at most about 1


def transition_pairs(
    parameters: Parameters,
    words: tuple[str, ...],
    eligible: npt.NDArray[np.bool_],
    n_pairs: int,
    n_words: int,
) -> list[TransitionPair]:
    """Return singular-vector pairs of the transition operator, both signs of each, largest first.

    States are measured in units of their prior spread (P^{-1/2} A P^{1/2}), so that the pairs do not depend
    on the arbitrary coordinates of the latent space; words are ranked by their whitened expectation C x. ``words``
    are the types (vocabulary,), of which ``eligible`` (vocabulary,) may be shown.
    """
    P = stationary_covariance(parameters.A, parameters.Q)
    root, inverse_root = symmetric_power(P, 0.5), symmetric_power(P, -0.5)
    U, S, Vt = np.linalg.svd(inverse_root @ parameters.A @ root)
    rows = np.flatnonzero(eligible)
    C = parameters.C[rows] @ root

    def top(direction: npt.NDArray[np.float64]) -> list[str]:
        score = C @ direction
        n = min(n_words, len(score))
        best = np.argpartition(-score, n - 1)[:n] if n else np.empty(0, np.int64)
        return [words[rows[i]] for i in best[np.argsort(-score[best], kind="stable")]]

    pairs = []
    for i in range(min((n_pairs + 1) // 2, len(S))):
        for sign in (1.0, -1.0):
            pairs.append(TransitionPair(top(sign * Vt[i]), top(sign * U[:, i]), float(S[i])))
    return pairs[:n_pairs]
