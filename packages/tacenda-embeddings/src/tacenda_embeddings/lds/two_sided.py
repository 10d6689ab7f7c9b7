"""The smoother as two independent recursions, with exact ends.

With T = J T F + G (a Stein equation), K' = T K and F' = T F T^{-1}, the smoothed mean splits exactly:

    a_t = F' a_{t-1} + K' w_t,     b_t = J b_{t+1} + K' w_t
    xs_t = own + past + future,    own = K' w_t,  past = F' a_{t-1},  future = J b_{t+1}

so that smoothing costs two products with (states, states) matrices per token, and neither pass waits for the
other. A finite sequence 1..n is exact once the messages that come in at its ends are: what is outside is
unobserved, hence replaced by its expectation (E[w_{n+j}] = C A^j xs_n, and backwards in time
E[w_{1-j}] = C A_b^j xs_1 with A_b = P A^T P^{-1}), which gives

    future_n = M_f xs_n,  M_f = sum_{j>=1} J^j K' C A^j       =>  future_n = (I - M_f)^{-1} M_f a_n
    past_1   = M_p xs_1,  M_p = sum_{j>=1} F'^j K' C A_b^j    =>  past_1   = (I - M_p)^{-1} M_p b_1

Starting from zero instead, as the plain steady-state filter does, treats what is outside as an average word
that was observed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda_embeddings.lds.linear_algebra import Matrix, SteinSolver, symmetric_power
from tacenda_embeddings.lds.steady_state import Parameters, stationary_covariance, steady_state


class TwoSided(NamedTuple):
    """Matrices of the two-sided smoother, float64 (the table may be float32), in output coordinates."""

    table: npt.NDArray[np.floating]  # (vocabulary, states), row i is K' w of word i
    forward: Matrix  # F' (states, states)
    backward: Matrix  # J (states, states)
    left_end: Matrix  # (states, states), maps b_1 to the past message at the first token
    right_end: Matrix  # (states, states), maps a_n to the future message at the last token
    filter: Matrix  # T^{-1} (states, states), maps a_t to the filtered mean xf_t


def two_sided(
    parameters: Parameters,
    scale: npt.NDArray[np.float64],
    mean: npt.NDArray[np.float64],
    second_moment: Matrix | None = None,
) -> TwoSided:
    """Return the inference matrices of a fitted model.

    ``scale`` (vocabulary,) is the diagonal of W and ``mean`` (vocabulary,) is m. With the ``second_moment``
    M = E[xs xs^T] (states, states), states are returned as M^{-1/2} x (paper section 5), otherwise as they are.
    """
    A = parameters.A
    state = steady_state(parameters)
    F, J, gain = state.F, state.J, state.gain
    T = SteinSolver(J, F).solve(state.G)
    T_inv: Matrix = np.asarray(np.linalg.inv(T), dtype=np.float64)
    TK = T @ gain.K_c
    forward, K_C = T @ F @ T_inv, TK @ gain.cross

    P = stationary_covariance(A, parameters.Q)
    A_b = np.asarray(np.linalg.solve(P, A @ P).T, dtype=np.float64)
    M_f = SteinSolver(J, A).solve(J @ K_C @ A)
    M_p = SteinSolver(forward, A_b).solve(forward @ K_C @ A_b)
    I = np.eye(len(A))  # noqa: E741 - the identity
    right_end: Matrix = np.asarray(np.linalg.solve(I - M_f, M_f), dtype=np.float64)
    left_end: Matrix = np.asarray(np.linalg.solve(I - M_p, M_p), dtype=np.float64)

    if second_moment is not None:
        L, L_inv = symmetric_power(second_moment, -0.5), symmetric_power(second_moment, 0.5)
        forward, J = L @ forward @ L_inv, L @ J @ L_inv
        left_end, right_end, T_inv = L @ left_end @ L_inv, L @ right_end @ L_inv, L @ T_inv @ L_inv
        TK = L @ TK
    C_hat = np.asarray(gain.C_hat, dtype=np.float64)
    table = (C_hat * scale[:, None] - mean @ C_hat) @ TK.T
    return TwoSided(table, forward, J, left_end, right_end, T_inv)
