"""What a fitted LDS consists of: its parameters, the matrices of its smoother, and their form as arrays.

The smoother is two independent recursions, with exact ends. With T = J T F + G (a Stein equation), K' = T K and
F' = T F T^{-1}, the smoothed mean splits exactly:

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

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from tacenda.artifact import require
from tacenda.errors import ArtifactError
from tacenda.vocabulary import Vocabulary
from tacenda_embeddings.lds.settings import LDSSettings
from tacenda_embeddings.lds.steady_state import (
    DiagonalNoise,
    FullNoise,
    Matrix,
    Noise,
    Parameters,
    SteinSolver,
    spectral_radius,
    stationary_covariance,
    steady_state,
    symmetric_power,
)

__all__ = ["FittedLDS", "TwoSided", "two_sided"]

Float64 = npt.NDArray[np.float64]

_MATRICES = ("forward", "backward", "left_end", "right_end", "filter")


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


@dataclass(frozen=True, eq=False)
class FittedLDS:
    """Vocabulary, parameters and inference matrices of a fitted model."""

    vocabulary: Vocabulary
    parameters: Parameters  # in whitened coordinates, C float32 as it will be saved
    Xi: Matrix  # (states, states), second moment of the smoothed means
    scale: Float64  # (vocabulary,), the diagonal of the whitening W
    mean: Float64  # (vocabulary,), m = mu^{1/2}

    @cached_property
    def inference(self) -> TwoSided:
        """The matrices of the two-sided smoother in whitened output coordinates; the table is float32."""
        found = two_sided(self.parameters, self.scale, self.mean, self.Xi)
        return found._replace(table=np.ascontiguousarray(found.table, np.float32))

    @cached_property
    def reading(self) -> Matrix:
        """The matrix (states, states) that makes the table of inputs from D^{-1} C, of which it is linear."""
        X = _inputs(self.parameters, self.scale, self.mean)
        return np.asarray(np.linalg.solve(X.T @ X, X.T @ self.inference.table).T)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return all of it as arrays, by name."""
        A, C, Q, noise = self.parameters
        arrays: dict[str, npt.NDArray[Any]] = {"A": A, "C": C, "Q": Q, "Xi": self.Xi}
        arrays |= {"scale": self.scale, "mean": self.mean, "table": self.inference.table}
        arrays |= {name: getattr(self.inference, name) for name in _MATRICES}
        if isinstance(noise, DiagonalNoise):
            arrays["noise.d"] = noise.d
        elif isinstance(noise, FullNoise):
            arrays["noise.N"] = noise.N
        arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        return arrays | self.vocabulary.arrays()

    def compact_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return what `from_arrays` can find the rest from: `reading` for the table, and mostly scale = 1 / m."""
        arrays = self.arrays() | {"reading": np.ascontiguousarray(self.reading)}
        del arrays["table"]
        if np.allclose(self.scale * self.mean, 1.0):
            del arrays["scale"]
        return arrays

    @classmethod
    def from_arrays(
        cls,
        settings: LDSSettings,
        vocabulary: Vocabulary,
        arrays: Mapping[str, npt.NDArray[Any]],
    ) -> Self:
        """Return the state that an artefact holds, every array checked and its recursions stable, or ArtifactError."""
        dims = {"states": settings.n_states, "vocabulary": len(vocabulary)}

        def array(name: str, *shape: str, dtype: npt.DTypeLike = np.float64) -> npt.NDArray[Any]:
            return require(arrays, name, shape=shape, dtype=dtype, finite=True, dims=dims)

        def square(name: str) -> Float64:
            return array(name, "states", "states")

        def table(name: str) -> npt.NDArray[np.float32]:
            return array(name, "vocabulary", "states", dtype=np.float32)

        mean = array("mean", "vocabulary")
        noise: Noise
        if settings.advanced.noise == "full":
            noise = FullNoise(square("noise.N"))
        else:
            spherical = settings.advanced.noise == "spherical"
            noise = DiagonalNoise(array("noise.d", "vocabulary"), mean, spherical)
        parameters = Parameters(square("A"), table("C"), square("Q"), noise)
        matrices = {name: square(name) for name in _MATRICES}
        recursions = {"A": parameters.A} | {name: matrices[name] for name in _MATRICES[:2]}
        for name, matrix in recursions.items():
            if spectral_radius(matrix) >= 1.0:
                raise ArtifactError(
                    f"the recursion {name!r} is not stable (an eigenvalue of 1 or more): the file is damaged"
                )
        compact = "reading" in arrays
        if compact and "scale" not in arrays:
            if not (mean > 0).all():
                raise ArtifactError("the array 'mean' is not positive: the file is damaged")
            scale = 1 / mean
        else:
            scale = array("scale", "vocabulary")
        if not (scale > 0).all():
            raise ArtifactError("the array 'scale' is not positive: the file is damaged")
        fitted = cls(vocabulary, parameters, square("Xi"), scale, mean)
        if compact:
            fitted.__dict__["reading"] = reading = square("reading")
            rows = (_inputs(parameters, scale, mean) @ reading.T).astype(np.float32)
            inputs = require({"table": rows}, "table", finite=True)
        else:
            inputs = table("table")
        # take the place of what the cached property would compute
        fitted.__dict__["inference"] = TwoSided(table=inputs, **matrices)
        return fitted


def _inputs(parameters: Parameters, scale: Float64, mean: Float64) -> Float64:
    """Return (vocabulary, states) D^{-1} C of the centred indicator of every word, or C where the noise is full."""
    C = parameters.C.astype(np.float64)
    if isinstance(parameters.noise, DiagonalNoise):
        C /= parameters.noise.d[:, None]
    return C * scale[:, None] - mean @ C
