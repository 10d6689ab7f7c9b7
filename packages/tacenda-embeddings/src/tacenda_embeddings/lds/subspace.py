"""Subspace identification of an LDS for text (LDS paper sections 3.4, 4.1 and appendix A.1).

The block Hankel matrix has blocks H_{ij} = Psi_{r+i-j} = C A^{r+i-j-1} Gs, i, j = 0 .. r-1, with
Gs = E[x_{t+1} w_t^T]; it needs lags 1 .. 2r-1 (the paper's Algorithm 1, "k < r", is too few). From its rank-h
SVD H = U S V^T:

    Gamma = U S^{1/2} = [C; C A; ..; C A^{r-1}],   Delta = S^{1/2} V^T = [A^{r-1} Gs .. A Gs  Gs]
    A = Delta^{1:r-1} (Delta^{2:r})^+,   C = block 0 of Gamma,   Gs = last block of Delta

The SVD is randomised (Halko et al. 2011) and H is never formed: blocks of equal lag share one sparse product.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.linalg

from tacenda.arrays import Array, to_device
from tacenda.kernels.machinery.arrays import zeros
from tacenda.kernels.shared.tall_matrices import gram, multiply, subtract_along
from tacenda_embeddings.lds.moments import SparseMoments
from tacenda_embeddings.lds.steady_state import (
    DiagonalNoise,
    FullNoise,
    Matrix,
    Parameters,
    spectral_radius,
    symmetric_power,
    symmetrized,
)

Float32 = npt.NDArray[np.float32]
Notify = Callable[[str], None]

_OVERSAMPLING = 20
_EXPLAINED = 0.97  # of any variance by the states of a start
_MOST_EXPLAINED = 0.999  # by those of a model that EM has left
_ROUNDING = 1e-6  # of a product summed in float32, relative to its largest eigenvalue


class HankelFactors(NamedTuple):
    """The rank-h factors of the block Hankel matrix, Gamma and Delta on the device of the moments."""

    Gamma: Float32  # (r, vocabulary, states), block i estimates C A^i
    Delta: Float32  # (r, vocabulary, states), block j estimates (A^{r-1-j} Gs)^T
    singular_values: npt.NDArray[np.float64]  # (states,), descending


def hankel_product(moments: SparseMoments, X: Array, transpose: bool = False) -> Array:
    """Return ``H X`` or ``H^T X`` for X (r, vocabulary, width): one sparse product for each of 2r-1 lags."""
    r, V, width = X.shape
    Y = zeros((r, V, width), X)
    for k in range(1, 2 * r):
        # block (i, j) holds lag k where j = r+i-k: a run of i, and one of j
        rows, columns = slice(max(k - r, 0), min(k, r)), slice(max(r - k, 0), min(2 * r - k, r))
        source, target = (rows, columns) if transpose else (columns, rows)
        stacked = X[source].swapaxes(0, 1).reshape(V, -1)
        product = moments.apply(-k if transpose else k, stacked)
        Y[target] += product.reshape(V, -1, width).swapaxes(0, 1)
    return Y


def _orthonormal(X: Array, passes: int = 2) -> Array:
    """Return an orthonormal basis of the columns of X (r, vocabulary, width), from eigenvectors of X^T X.

    Householder QR of so tall a matrix is several times slower. In float32 one pass leaves the columns
    orthogonal to a part in some thousands, which is enough for a matrix that will be multiplied further;
    the second pass restores the rest.
    """
    flat = X.reshape(-1, X.shape[-1])
    for _ in range(passes):
        values, vectors = np.linalg.eigh(gram(flat, flat))
        keep = values > max(values[-1], 1e-300) * 1e-12
        scale = np.where(keep, 1.0 / np.sqrt(np.where(keep, values, 1.0)), 0.0)
        flat = multiply(flat, vectors * scale)
    return flat.reshape(X.shape)


def hankel_svd(
    moments: SparseMoments,
    n_states: int,
    r: int,
    rng: np.random.Generator,
    *,
    power_iterations: int = 1,
    notify: Notify = lambda _: None,
) -> HankelFactors:
    """Find the randomised rank-``n_states`` SVD of the implicit block Hankel matrix of ``r`` blocks a side.

    The moments need at least 2r-1 lags; ``rng`` draws the Gaussian test matrix. Each power iteration sharpens the
    spectrum, and one is enough for text. ``notify`` is called with the name of each stage.
    """
    V = len(moments.scale)
    width = min(n_states + _OVERSAMPLING, r * V)
    X = to_device(rng.standard_normal((r, V, width), dtype=np.float32), moments.device)
    notify("range of the Hankel matrix")
    Y = _orthonormal(hankel_product(moments, X), passes=1 if power_iterations else 2)
    for remaining in reversed(range(power_iterations)):
        notify("power iteration")
        X = _orthonormal(hankel_product(moments, Y, transpose=True), passes=1)
        Y = _orthonormal(hankel_product(moments, X), passes=1 if remaining else 2)
    notify("singular vectors")
    B = hankel_product(moments, Y, transpose=True).reshape(r * V, width)  # (Y^T H)^T
    values, vectors = np.linalg.eigh(gram(B, B))
    order = np.argsort(values)[::-1][:n_states]
    S = np.sqrt(np.maximum(values[order], 0.0))
    S_floor = np.maximum(S, 1e-12 * max(S[0], 1e-300))
    left = vectors[:, order]
    left *= _signs(Y.reshape(r * V, width), left, moments.device)
    Gamma = multiply(Y.reshape(r * V, width), left * np.sqrt(S))
    Delta = multiply(B, left / np.sqrt(S_floor))
    return HankelFactors(Gamma.reshape(r, V, -1), Delta.reshape(r, V, -1), S)


def _signs(Y: Array, left: Matrix, device: str) -> Matrix:
    """Return 1 or -1 for each column of Y ``left``: rounding must not choose which way a singular vector points."""
    probe = np.cos(np.arange(len(Y), dtype=np.float32))[:, None]
    along = gram(to_device(probe, device), Y) @ left
    return np.where(along[0] < 0, -1.0, 1.0)


def identify(
    factors: HankelFactors, moments: SparseMoments, *, maximum_radius: float = 0.995
) -> Parameters:
    """Estimate LDS parameters from the Hankel factors, with a moment-matched state covariance.

    The paper sets Q = I and shrinks it, so that its model starts below one without dynamics. Here
    P = A^{-1} Gs C (C^T C)^{-1} is symmetrised and clipped so that D stays positive semi-definite
    (lambda_max(C P C^T) < 1; appendix A.1), and Q = P - A P A^T. ``moments`` are the whitened ones, even where the
    factors are those of others (the whitening ablation); the spectral radius of A is at most ``maximum_radius``.
    """
    Gamma, Delta, _ = factors
    r = len(Gamma)
    if r < 2:
        raise ValueError("identifying A needs at least two Hankel blocks: set r to 2 or more")
    # A = Delta^{1:r-1} (Delta^{2:r})^+ through its normal equations
    earlier = np.sum([gram(Delta[j], Delta[j + 1]) for j in range(r - 1)], axis=0)
    later = np.sum([gram(Delta[j + 1], Delta[j + 1]) for j in range(r - 1)], axis=0)
    A = np.linalg.lstsq(later.T, earlier.T, rcond=1e-10)[0].T
    A = with_spectral_radius_at_most(A, maximum_radius)
    C = subtract_along(Gamma[0] * 1, moments.mean, Gamma[0])
    R = gram(C, C)
    P = np.linalg.lstsq(A, gram(Delta[-1], C), rcond=1e-8)[0] @ np.linalg.pinv(
        R
    )  # Gs C = Delta[-1]^T C
    R_half, R_half_inverse = symmetric_power(R, 0.5), symmetric_power(R, -0.5)
    P = R_half_inverse @ clipped_eigenvalues(R_half @ P @ R_half, 1e-4, 0.95) @ R_half_inverse
    Q = symmetrized(P - A @ P @ A.T)
    floor = 1e-4 * float(np.trace(P)) / len(P)
    Q = clipped_eigenvalues(Q, floor, np.inf)
    return _repaired(A, C, Q)


def _repaired(A: Matrix, C: Float32, Q: Matrix) -> Parameters:
    """Rescale Q so that D = I - m m^T - C P C^T is positive semi-definite with a margin."""
    P = symmetrized(scipy.linalg.solve_discrete_lyapunov(A, Q))
    shrink = min(1.0, _EXPLAINED / max(_explained(C, P), 1e-300))
    return Parameters(A, C, Q * shrink, FullNoise(P * shrink))


def _explained(C: Float32, P: Matrix) -> float:
    """Return the largest eigenvalue of C P C^T, the largest share of a variance that states explain."""
    R_half = symmetric_power(gram(C, C), 0.5)
    return float(np.linalg.eigvalsh(symmetrized(R_half @ P @ R_half))[-1])


def admissible(parameters: Parameters, mean: npt.NDArray[np.float64]) -> Parameters:
    """Return parameters, whose C is in new coordinates with mean m, that leave a covariance for the noise there."""
    A, C, Q, noise = parameters
    if isinstance(noise, DiagonalNoise):
        return parameters._replace(noise=noise._replace(mean=mean))
    if not isinstance(noise, FullNoise):
        return parameters
    explained = _explained(np.asarray(C, np.float32), noise.N)
    if explained <= _MOST_EXPLAINED:
        return parameters
    shrink = _EXPLAINED / explained
    return Parameters(A, C, Q * shrink, FullNoise(noise.N * shrink))


def random_parameters(
    moments: SparseMoments, n_states: int, like: Parameters, rng: np.random.Generator
) -> Parameters:
    """Draw random parameters at the length scales of another model (the paper's Figure 2)."""
    A = rng.standard_normal((n_states, n_states))
    A *= spectral_radius(like.A) / spectral_radius(A)
    C = to_device(rng.standard_normal(tuple(like.C.shape)).astype(np.float32), moments.device)
    C = subtract_along(C, moments.mean, C)
    C *= float(np.sqrt(np.trace(gram(like.C, like.C)) / np.trace(gram(C, C))))
    return _repaired(A, C, like.Q)


def basis(factors: HankelFactors, mean: npt.NDArray[np.float64], width: int) -> Array:
    """Return orthonormal columns (vocabulary, width) that span what the Hankel factors see, best first.

    EM restricted to C = B c costs the same whatever the vocabulary; the blocks of Gamma and Delta hold the
    leading left and right directions of every lag. The columns are orthogonal to the ``mean``. There are fewer
    columns where the factors span fewer: what float32 leaves of the others is rounding, and not orthogonal to the mean.
    """
    V = len(mean)
    Gamma, Delta = (X.swapaxes(0, 1).reshape(V, -1) * 1 for X in (factors.Gamma, factors.Delta))
    for X in (Gamma, Delta):
        subtract_along(X, mean, X)
    mixed = gram(Gamma, Delta)
    values, vectors = np.linalg.eigh(
        np.block([[gram(Gamma, Gamma), mixed], [mixed.T, gram(Delta, Delta)]])
    )
    order = np.argsort(values)[::-1][:width]
    order = order[values[order] > _ROUNDING * values[order[0]]]
    chosen = vectors[:, order] / np.sqrt(values[order])
    B = multiply(Gamma, chosen[: Gamma.shape[1]])
    B += multiply(Delta, chosen[Gamma.shape[1] :])
    return _orthonormal(subtract_along(B, mean, B)[None], passes=1)[0]


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


def clipped_eigenvalues(X: Matrix, low: float, high: float) -> Matrix:
    """Return symmetric ``X`` with its eigenvalues clipped to ``[low, high]``."""
    values, vectors = np.linalg.eigh(symmetrized(X))
    return symmetrized(np.asarray((vectors * np.clip(values, low, high)) @ vectors.T))
