"""Small dense helpers of the LDS recursions: everything here is (states, states), float64.

Fixed points of the form ``X = L X R + W`` (Stein equations; Lyapunov's when ``R = L^T``) are solved by
doubling: after n steps the partial sum holds 2^n terms of ``sum_j L^j W R^j``.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float64]

_MAXIMUM_DOUBLINGS = 60
_DIVERGED = 1e100


def symmetrized(X: Matrix) -> Matrix:
    """Return the symmetric part of ``X``: rounding must not accumulate in covariances."""
    return np.asarray(0.5 * (X + X.T), dtype=np.float64)


class SteinSolver:
    """Solves ``X = L X R + W`` for many ``W`` with the same ``L``, ``R``.

    Parameters
    ----------
    L
        (states, states), spectral radius at most 1.
    R
        (states, states); the product of both radii must be below 1.
    tolerance
        Relative size of the powers at which doubling stops.

    Raises
    ------
    numpy.linalg.LinAlgError
        The powers do not vanish.
    """

    def __init__(self, L: Matrix, R: Matrix, tolerance: float = 1e-17) -> None:
        self._powers: list[tuple[Matrix, Matrix]] = []
        for _ in range(_MAXIMUM_DOUBLINGS):
            self._powers.append((L, R))
            with np.errstate(over="ignore", invalid="ignore"):
                L, R = L @ L, R @ R
                remaining = np.linalg.norm(L) * np.linalg.norm(R)
            if remaining < tolerance:
                return
            if not remaining < _DIVERGED:
                break
        raise np.linalg.LinAlgError("the recursion is not stable")

    def solve(self, W: Matrix) -> Matrix:
        """Return the fixed point ``sum_j L^j W R^j`` (states, states)."""
        X = W
        for L, R in self._powers:
            X = X + L @ X @ R
        return X


def spectral_radius(X: Matrix) -> float:
    """Return the largest absolute eigenvalue of ``X`` (states, states)."""
    return float(np.abs(np.linalg.eigvals(X)).max()) if len(X) else 0.0


def with_spectral_radius_at_most(A: Matrix, limit: float) -> Matrix:
    """Return ``A`` with every eigenvalue clipped to the absolute value ``limit`` and its modes kept.

    Falls back to scaling the whole matrix where the eigenvectors are too ill-conditioned to be kept.
    """
    values, vectors = np.linalg.eig(A)
    size = np.abs(values)
    if size.max(initial=0.0) <= limit:
        return A
    if np.linalg.cond(vectors) > 1e10:
        return np.asarray(A * (limit / size.max()), dtype=np.float64)
    clipped = values * np.minimum(1.0, limit / np.maximum(size, 1e-300))
    return np.ascontiguousarray((vectors * clipped @ np.linalg.inv(vectors)).real, np.float64)


def symmetric_power(X: Matrix, exponent: float, floor: float = 1e-12) -> Matrix:
    """Return ``X**exponent`` of a symmetric positive matrix, eigenvalues floored relative to the largest."""
    values, vectors = np.linalg.eigh(symmetrized(X))
    values = np.maximum(values, floor * max(values.max(initial=0.0), 1e-300))
    return np.asarray((vectors * values**exponent) @ vectors.T, dtype=np.float64)


def clipped_eigenvalues(X: Matrix, low: float, high: float) -> Matrix:
    """Return symmetric ``X`` with its eigenvalues clipped to ``[low, high]``."""
    values, vectors = np.linalg.eigh(symmetrized(X))
    return symmetrized(np.asarray((vectors * np.clip(values, low, high)) @ vectors.T))
