"""Fitting: subspace identification, then EM in a fixed subspace, then EM over the whole vocabulary.

All three use lagged second moments of the text only (`tacenda_embeddings.lds.moments`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tacenda import devices, tall
from tacenda.array_ops import copy, to_device, to_numpy, zeros
from tacenda.arrays import Array
from tacenda.errors import CorpusError
from tacenda_embeddings.lds import (
    HANKEL_BLOCKS,
    HORIZON,
    N_LAGS,
    DiagonalNoise,
    FullNoise,
    Matrix,
    Parameters,
    Vector,
    solve_stationary_covariance,
    spectral_radius,
    symmetric_power,
    symmetrize,
)
from tacenda_embeddings.lds.em import MEMORY_ADVICE, Fit, start_em
from tacenda_embeddings.lds.lagged_counts import LaggedCounts
from tacenda_embeddings.lds.moments import SparseMoments, project
from tacenda_embeddings.settings import LDSSettings

Notify = Callable[[str], object]  # called with the name of each step

SUBSPACE_FACTOR = 2  # EM first runs in a subspace of this many times n_states dimensions
MAXIMUM_RADIUS = 0.995  # limit on the spectral radius of the initial A

_SVD_STEPS = 3  # of the progress bar, before the first EM iteration; compressing is one more
_OVERSAMPLING = 20  # columns of the randomized SVD on top of n_states
_EXPLAINED_AT_START = 0.97  # largest share of a variance that the states of a start may explain
_MAX_EXPLAINED = 0.999  # the same for a model that EM has fitted
_ROUNDING = 1e-6  # of a product summed in float32, relative to its largest eigenvalue
_START_NOISE = 0.9  # initial variance of a diagonal noise; the whitened words have about 1
_KAPPA_PER_TOKEN = 0.3  # pseudo-counts per type, relative to its average count; tuned on text


def fit(settings: LDSSettings, counts: LaggedCounts) -> Fit:
    """Fit an LDS to lagged counts; `LDS.fit` lists the errors."""
    noise, iterations = settings.advanced.noise, settings.full_iterations
    compresses = noise == "full" and settings.subspace_iterations > 0
    n_steps = _SVD_STEPS + compresses + settings.subspace_iterations + iterations + 1
    with start_em(settings, n_steps, "fitting the LDS") as em:
        moments = _whiten_moments(settings, counts)
        rng = np.random.default_rng(settings.seed)
        factors = _compute_hankel_factors(settings, counts, moments, rng, em.notify)
        parameters = identify(factors, moments)
        if settings.advanced.start == "random":
            parameters = draw_parameters(moments, settings.n_states, parameters, rng)
        if noise != "full":
            d = np.full(len(moments.mean), _START_NOISE)
            parameters = parameters._replace(
                noise=DiagonalNoise(d, moments.mean, noise == "spherical")
            )
            iterations += settings.subspace_iterations
        elif compresses:
            # EM with C restricted to the directions that the Hankel factors see
            em.notify("compressing")
            B = find_basis(factors, moments.mean, SUBSPACE_FACTOR * settings.n_states)
            compressed = project(moments, B, HORIZON)
            inside = parameters._replace(C=to_device(tall.gram(B, parameters.C), moments.device))
            inside = em.iterate(inside, compressed, settings.subspace_iterations, "subspace")
            parameters = inside._replace(C=tall.product(B, to_numpy(inside.C)))
        return em.finish(parameters, moments, iterations)


def partial_fit(
    settings: LDSSettings, counts: LaggedCounts, earlier: Parameters, scale: Vector, iterations: int
) -> Fit:
    """Run EM over the whole vocabulary from an earlier model, after counts of new text were added.

    ``scale`` (vocabulary,) is the diagonal of W of the earlier model.
    """
    with start_em(settings, iterations + 1, "fitting the LDS to more text") as em:
        moments = _whiten_moments(settings, counts)
        # Keep each word's relative rate P(w | x) / P(w), which is proportional to C times the whitening scale:
        # multiply C by old scale / new scale.
        ratio = (scale / moments.scale)[:, None].astype(np.float32)
        C = to_device(earlier.C * ratio, moments.device)
        C = tall.update(C, moments.mean, C)
        return em.finish(make_admissible(earlier._replace(C=C), moments.mean), moments, iterations)


def _whiten_moments(settings: LDSSettings, counts: LaggedCounts) -> SparseMoments:
    """Return the whitened moments. Raises CorpusError for counts from which no such model can be fitted."""
    if counts.n_lags < N_LAGS:
        raise CorpusError(
            f"the counts hold {counts.n_lags} lags and an LDS needs {N_LAGS}: count again with n_lags={N_LAGS}"
        )
    n_types = int(np.count_nonzero(counts.unigram))
    if n_types <= settings.n_states + 1:
        raise CorpusError(
            f"an LDS of {settings.n_states} states needs more than {settings.n_states + 1} word types and "
            f"the text has {n_types}: give more text, or set n_states lower"
        )
    kappa = settings.kappa
    if kappa is None:
        kappa = _KAPPA_PER_TOKEN * counts.n_tokens / len(counts.unigram)
    device = "cpu"
    if settings.advanced.noise == "full":
        device = devices.resolve(settings, ("sparse_product",))
        needed = _estimate_bytes(settings, counts)
        devices.check_memory(needed, device, settings, MEMORY_ADVICE)
    return SparseMoments(counts, kappa, threads=settings.n_threads, device=device)


def _estimate_bytes(settings: LDSSettings, counts: LaggedCounts) -> int:
    """Estimate the bytes of the counts, by rows and by columns, and of the largest step of the fit.

    That step is a product with the Hankel matrix: X, Y, the stacked columns of X and their product.
    """
    nonzeros = sum(len(lag.indices) for lag in counts.lags)
    types = len(counts.unigram)
    width = max(HANKEL_BLOCKS, SUBSPACE_FACTOR) * settings.n_states
    table = 4 * types * (width + _OVERSAMPLING * HANKEL_BLOCKS)
    return 2 * (8 * nonzeros + 8 * types * len(counts.lags)) + 4 * table


# -- subspace identification (LDS paper sections 3.4, 4.1 and appendix A.1) ----------------------------


class HankelFactors(NamedTuple):
    """The rank-h factors of the block Hankel matrix, Gamma and Delta on the device of the moments.

    Its blocks are H_{ij} = Psi_{r+i-j} = C A^{r+i-j-1} Gs, i, j = 0 .. r-1, with Gs = E[x_{t+1} w_t^T]; it needs
    lags 1 .. 2r-1 (the paper's Algorithm 1, "k < r", is too few). From its rank-h SVD H = U S V^T:

        Gamma = U S^{1/2} = [C; C A; ..; C A^{r-1}],   Delta = S^{1/2} V^T = [A^{r-1} Gs .. A Gs  Gs]
        A = Delta^{1:r-1} (Delta^{2:r})^+,   C = block 0 of Gamma,   Gs = last block of Delta
    """

    Gamma: Array  # (r, vocabulary, states), block i estimates C A^i
    Delta: Array  # (r, vocabulary, states), block j estimates (A^{r-1-j} Gs)^T


def _compute_hankel_factors(
    settings: LDSSettings,
    counts: LaggedCounts,
    moments: SparseMoments,
    rng: np.random.Generator,
    notify: Notify,
) -> HankelFactors:
    """Return the SVD of the whitened moments or, for the ablation, of the plain moments, whitened afterwards."""
    h, device = settings.n_states, moments.device
    if settings.advanced.whiten:
        return hankel_svd(moments, h, HANKEL_BLOCKS, rng, notify)
    plain = SparseMoments(
        counts, moments.kappa, threads=settings.n_threads, whiten=False, device=device
    )
    factors = hankel_svd(plain, h, HANKEL_BLOCKS, rng, notify)
    scale = to_device(moments.scale[:, None].astype(np.float32), device)
    return HankelFactors(factors.Gamma * scale, factors.Delta * scale)


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


def _orthonormalize(X: Array, passes: int = 2) -> Array:
    """Return an orthonormal basis of the columns of X (r, vocabulary, width), from eigenvectors of X^T X.

    Householder QR of so tall a matrix is several times slower. In float32 one pass leaves the columns
    orthogonal to a part in some thousands, which is enough for a matrix that will be multiplied further;
    the second pass restores the rest.
    """
    flat = X.reshape(-1, X.shape[-1])
    for _ in range(passes):
        values, vectors = np.linalg.eigh(tall.gram(flat, flat))
        keep = values > max(values[-1], 1e-300) * 1e-12
        scale = np.where(keep, 1.0 / np.sqrt(np.where(keep, values, 1.0)), 0.0)
        flat = tall.product(flat, vectors * scale)
    return flat.reshape(X.shape)


def hankel_svd(
    moments: SparseMoments,
    n_states: int,
    r: int,
    rng: np.random.Generator,
    notify: Notify = lambda step: None,
) -> HankelFactors:
    """Find the rank-``n_states`` SVD of the block Hankel matrix of ``r`` blocks a side, which is never formed.

    It is randomized (Halko et al. 2011): ``rng`` draws the Gaussian test matrix. The moments need at least 2r-1 lags.
    A power iteration sharpens the spectrum; one is enough for text.
    """
    V = len(moments.scale)
    width = min(n_states + _OVERSAMPLING, r * V)
    X = to_device(rng.standard_normal((r, V, width), dtype=np.float32), moments.device)
    notify("range of the Hankel matrix")
    Y = _orthonormalize(hankel_product(moments, X), passes=1)
    notify("power iteration")
    X = _orthonormalize(hankel_product(moments, Y, transpose=True), passes=1)
    Y = _orthonormalize(hankel_product(moments, X))
    notify("singular vectors")
    B = hankel_product(moments, Y, transpose=True).reshape(r * V, width)  # (Y^T H)^T
    Y = Y.reshape(r * V, width)
    # H ~ Y (Y^T H), whose singular vectors and squared values are those of the small B^T B
    values, vectors = np.linalg.eigh(tall.gram(B, B))
    order = np.argsort(values)[::-1][:n_states]
    S = np.sqrt(np.maximum(values[order], 0.0))
    S_floor = np.maximum(S, 1e-12 * max(S[0], 1e-300))
    left = vectors[:, order]
    # rounding must not choose which way a singular vector points
    probe = to_device(np.cos(np.arange(len(Y), dtype=np.float32))[:, None], moments.device)
    left *= np.where((tall.gram(probe, Y) @ left)[0] < 0, -1.0, 1.0)
    Gamma = tall.product(Y, left * np.sqrt(S))
    Delta = tall.product(B, left / np.sqrt(S_floor))
    return HankelFactors(Gamma.reshape(r, V, -1), Delta.reshape(r, V, -1))


def identify(
    factors: HankelFactors, moments: SparseMoments, *, maximum_radius: float = MAXIMUM_RADIUS
) -> Parameters:
    """Estimate LDS parameters from the Hankel factors, with a moment-matched state covariance.

    The paper sets Q = I and shrinks it, so that its model starts below one without dynamics. Here
    P = A^{-1} Gs C (C^T C)^{-1} is symmetrized and clipped so that D stays positive semi-definite
    (lambda_max(C P C^T) < 1; appendix A.1), and Q = P - A P A^T. ``moments`` are the whitened ones, even if the
    factors are of other moments (the whitening ablation); the spectral radius of A is at most ``maximum_radius``.
    """
    Gamma, Delta = factors
    r = len(Gamma)
    # A = Delta^{1:r-1} (Delta^{2:r})^+ through its normal equations
    earlier = np.sum([tall.gram(Delta[j], Delta[j + 1]) for j in range(r - 1)], axis=0)
    later = np.sum([tall.gram(Delta[j + 1], Delta[j + 1]) for j in range(r - 1)], axis=0)
    A = np.linalg.lstsq(later.T, earlier.T, rcond=1e-10)[0].T
    A = limit_spectral_radius(A, maximum_radius)
    C = tall.update(copy(Gamma[0]), moments.mean, Gamma[0])
    R = tall.gram(C, C)
    Gs_C = tall.gram(Delta[-1], C)
    P = np.linalg.lstsq(A, Gs_C, rcond=1e-8)[0] @ np.linalg.pinv(R)
    # C P C^T has the eigenvalues of R^{1/2} P R^{1/2}, which is small, and symmetric where P is
    R_half, R_half_inverse = symmetric_power(R, 0.5), symmetric_power(R, -0.5)
    P = R_half_inverse @ clip_eigenvalues(R_half @ P @ R_half, 1e-4, 0.95) @ R_half_inverse
    Q = symmetrize(P - A @ P @ A.T)
    floor = 1e-4 * float(np.trace(P)) / len(P)
    Q = clip_eigenvalues(Q, floor, np.inf)
    return _limit_explained(A, C, Q, solve_stationary_covariance(A, Q))


def _limit_explained(
    A: Matrix, C: Array, Q: Matrix, P: Matrix, limit: float = _EXPLAINED_AT_START
) -> Parameters:
    """Return a system whose states, of covariance P, explain at most ``limit`` of any variance; Q shrinks with P.

    Then the covariance D = I - m m^T - C P C^T of the noise is positive semi-definite, with a margin.
    """
    R_half = symmetric_power(tall.gram(C, C), 0.5)
    # the largest eigenvalue of C P C^T, which is that of a small matrix
    explained = float(np.linalg.eigvalsh(symmetrize(R_half @ P @ R_half))[-1])
    shrink = _EXPLAINED_AT_START / explained if explained > limit else 1.0
    return Parameters(A, C, Q * shrink, FullNoise(P * shrink))


def make_admissible(parameters: Parameters, mean: Vector) -> Parameters:
    """Return parameters for which the covariance of the noise is positive, in coordinates with this mean m.

    C is already in these coordinates.
    """
    A, C, Q, noise = parameters
    if isinstance(noise, DiagonalNoise):
        return parameters._replace(noise=noise._replace(mean=mean))
    return _limit_explained(A, C, Q, noise.N, _MAX_EXPLAINED)


def draw_parameters(
    moments: SparseMoments, n_states: int, like: Parameters, rng: np.random.Generator
) -> Parameters:
    """Draw random parameters on the scale of another model (the paper's Figure 2)."""
    A = rng.standard_normal((n_states, n_states))
    A *= spectral_radius(like.A) / spectral_radius(A)
    C = to_device(rng.standard_normal(tuple(like.C.shape)).astype(np.float32), moments.device)
    C = tall.update(C, moments.mean, C)
    C *= float(np.sqrt(np.trace(tall.gram(like.C, like.C)) / np.trace(tall.gram(C, C))))
    return _limit_explained(A, C, like.Q, solve_stationary_covariance(A, like.Q))


def find_basis(factors: HankelFactors, mean: Vector, width: int) -> Array:
    """Return the ``width`` principal directions of the Hankel factors, orthonormal columns (vocabulary, width).

    The cost of EM restricted to C = B c does not depend on the vocabulary. The blocks of Gamma and Delta have the
    leading left and right directions of every lag. The columns are orthogonal to the ``mean``. There are fewer of them
    if the factors span fewer: in float32 the others are rounding, and not orthogonal to the mean.
    """
    Gamma, Delta = (copy(X.swapaxes(0, 1).reshape(len(mean), -1)) for X in factors)
    for X in (Gamma, Delta):
        tall.update(X, mean, X)
    # from the small Gram matrix of [Gamma Delta]
    mixed = tall.gram(Gamma, Delta)
    values, vectors = np.linalg.eigh(
        np.block([[tall.gram(Gamma, Gamma), mixed], [mixed.T, tall.gram(Delta, Delta)]])
    )
    order = np.argsort(values)[::-1][:width]
    order = order[values[order] > _ROUNDING * values[order[0]]]
    chosen = vectors[:, order] / np.sqrt(values[order])
    B = tall.product(Gamma, chosen[: Gamma.shape[1]])
    B += tall.product(Delta, chosen[Gamma.shape[1] :])
    return _orthonormalize(tall.update(B, mean, B)[None], passes=1)[0]


def limit_spectral_radius(A: Matrix, limit: float) -> Matrix:
    """Return ``A`` with every eigenvalue clipped to the absolute value ``limit`` and its modes kept.

    If the eigenvectors are too ill-conditioned to be kept, the whole matrix is scaled instead.
    """
    values, vectors = np.linalg.eig(A)
    size = np.abs(values)
    if size.max(initial=0.0) <= limit:
        return A
    if np.linalg.cond(vectors) > 1e10:
        return np.asarray(A * (limit / size.max()), dtype=np.float64)
    clipped = values * np.minimum(1.0, limit / np.maximum(size, 1e-300))
    return np.ascontiguousarray((vectors * clipped @ np.linalg.inv(vectors)).real, np.float64)


def clip_eigenvalues(X: Matrix, low: float, high: float) -> Matrix:
    """Return symmetric ``X`` with its eigenvalues clipped to ``[low, high]``."""
    values, vectors = np.linalg.eigh(symmetrize(X))
    return symmetrize(np.asarray((vectors * np.clip(values, low, high)) @ vectors.T))
