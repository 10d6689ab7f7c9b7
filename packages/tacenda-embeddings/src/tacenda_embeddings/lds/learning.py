"""Fitting: subspace identification, then EM in a fixed subspace, then EM over the whole vocabulary.

All three use lagged second moments of the text only. With w~_t the indicator of word t, mu its mean,
W = diag(mu~^{-1/2}) and w_t = W (w~_t - mu) (LDS paper section 4 and appendix A),

    Psi_k  = E[w_{t+k} w_t^T] = a (W E_k W - u u^T),   Psi_{-k} = Psi_k^T       (eqs 3, 14, 17)
    Psi_0  = I - m m^T                                                          (eq 13, whitened)

where E_k has the frequency of "word i, k positions after word j", u = W mu and m = mu~^{1/2}. The paper's
eqs 14 and 16 print the transpose. Pseudo-counts kappa are white noise added to every word type:
T~ = T + kappa V, mu~ = (count + kappa) / T~, a = T / T~. The lag terms use the unsmoothed mu, so that
Psi_k m = 0 holds exactly and the sequence stays a covariance sequence.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda import devices, tall
from tacenda.array_ops import in_c_order, to_device, to_numpy, zeros
from tacenda.arrays import Array
from tacenda.errors import CorpusError
from tacenda.kernels.sequences import Counts
from tacenda.kernels.shared import sparse_product
from tacenda.progress import Progress, track
from tacenda_embeddings.lds.lagged_counts import LaggedCounts
from tacenda_embeddings.lds.settings import (
    HANKEL_BLOCKS,
    HORIZON,
    MAXIMUM_RADIUS,
    N_LAGS,
    SUBSPACE_FACTOR,
    LDSSettings,
)
from tacenda_embeddings.lds.smoother import (
    DiagonalNoise,
    FullNoise,
    Gain,
    Loading,
    Matrix,
    Parameters,
    SteadyState,
    SteinSolver,
    Vector,
    solve_stationary_covariance,
    solve_steady_state,
    spectral_radius,
    symmetric_power,
    symmetrize,
)

Float32 = npt.NDArray[np.float32]
FloatArray = npt.NDArray[np.floating]

_MEMORY_ADVICE = "a smaller vocabulary, or fewer n_states"
_STAGES = 6  # steps of the progress bar before the first EM iteration
_MAX_MOMENT_ITERATIONS = 400
_OVERSAMPLING = 20  # columns of the randomized SVD on top of n_states
_EXPLAINED_AT_START = 0.97  # largest share of a variance that the states of a start may explain
_MAX_EXPLAINED = 0.999  # the same for a model that EM has fitted
_ROUNDING = 1e-6  # of a product summed in float32, relative to its largest eigenvalue
_START_NOISE = 0.9  # initial variance of a diagonal noise; the whitened words have about 1
_KAPPA_PER_TOKEN = 0.3  # pseudo-counts per type, relative to its average count; tuned on text


class Step(NamedTuple):
    """One EM iteration."""

    stage: str
    likelihood_gain: float  # of the parameters it began with, nats per token over no dynamics
    seconds: float  # since the fit began


class Fit(NamedTuple):
    """The result of a fit, in whitened coordinates."""

    parameters: Parameters
    Xi: Matrix  # (states, states), second moment of the smoothed means
    scale: Vector  # (vocabulary,), the diagonal of W
    mean: Vector  # (vocabulary,), m
    history: list[Step]


def fit(settings: LDSSettings, counts: LaggedCounts) -> Fit:
    """Fit an LDS to lagged counts; `LDS.fit` lists the errors."""
    noise, iterations = settings.advanced.noise, settings.full_iterations
    n_steps = _STAGES + settings.subspace_iterations + iterations + 1
    with _start_em(settings, n_steps, "fitting the LDS") as em:
        moments = _whiten_moments(settings, counts)
        rng = np.random.default_rng(settings.seed)
        factors = _compute_hankel_factors(settings, counts, moments, rng, em)
        parameters = identify(factors, moments)
        if settings.advanced.start == "random":
            parameters = draw_parameters(moments, settings.n_states, parameters, rng)
        if noise != "full":
            d = np.full(len(moments.mean), _START_NOISE)
            parameters = parameters._replace(
                noise=DiagonalNoise(d, moments.mean, noise == "spherical")
            )
            iterations += settings.subspace_iterations
        elif settings.subspace_iterations:
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
    with _start_em(settings, iterations + 1, "fitting the LDS to more text") as em:
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
        needed = bytes_needed(settings, counts)
        devices.check_memory(needed, device, settings, _MEMORY_ADVICE)
    return SparseMoments(counts, kappa, threads=settings.n_threads, device=device)


def bytes_needed(settings: LDSSettings, counts: LaggedCounts) -> int:
    """Estimate the bytes of the counts, by rows and by columns, and of the largest step of the fit.

    That step is a product with the Hankel matrix: X, Y, the stacked columns of X and their product.
    """
    nonzeros = sum(len(lag.indices) for lag in counts.lags)
    types = len(counts.unigram)
    width = max(HANKEL_BLOCKS, SUBSPACE_FACTOR) * settings.n_states
    table = 4 * types * (width + _OVERSAMPLING * HANKEL_BLOCKS)
    return 2 * (8 * nonzeros + 8 * types * len(counts.lags)) + 4 * table


# -- the data --------------------------------------------------------------------------------------------


class SparseMoments:
    """Lag covariances from counts, as a sparse matrix minus one of rank one, on the device of the fit.

    Attributes
    ----------
    kappa
        Pseudo-counts added to every word type.
    scale, mean
        The diagonal of W = diag(mu~^{-1/2}) and m = mu~^{1/2}, both (vocabulary,) on the host. Without ``whiten`` W is
        the identity, for the ablation of the paper's section 4.3.
    """

    def __init__(
        self,
        counts: LaggedCounts,
        kappa: float,
        *,
        threads: int = 1,
        whiten: bool = True,
        device: str = "cpu",
    ) -> None:
        T, V = float(counts.n_tokens), len(counts.unigram)
        total = T + kappa * V
        self.n_lags, self.kappa, self.device = counts.n_lags, kappa, device
        self.mean = np.sqrt((counts.unigram + kappa) / total)
        # mu~ is 0 if kappa is 0 and a type never occurs: it gets the scale of one that occurs once
        self.scale = 1.0 / np.where(self.mean > 0, self.mean, np.sqrt(1.0 / total))
        if not whiten:
            self.scale, self.mean = np.ones(V), self.mean**2
        self._threads, self._a = threads, T / total

        def vector(values: Vector) -> Array:
            return to_device(values.astype(np.float32), device)

        self._u = vector(self.scale * (counts.unigram / T))
        self._row_scale = vector(self.scale)
        self._column_scale = vector(self._a * self.scale / T)
        self._lags: list[Counts] = []
        # they cost memory, but a gather is twice as fast as a scatter
        self._transposes: list[Counts] = []
        for k, lag in enumerate(counts.lags, start=1):
            transpose = counts.matrix(k).T.tocsr()
            indptr, indices = transpose.indptr.astype(np.int64), transpose.indices.astype(np.int32)
            self._lags.append(_move(lag, device))
            self._transposes.append(_move(Counts(indptr, indices, transpose.data), device))

    def apply(self, k: int, X: FloatArray) -> Array:
        """Return ``Psi_k X`` for X (vocabulary, width), float32; k < 0 gives the transpose, k = 0 is refused."""
        if k == 0 or abs(k) > self.n_lags:
            raise ValueError(
                f"lag {k} was not counted; lags 1 to {self.n_lags} and their negatives were"
            )
        X = in_c_order(X, self._u.dtype)
        Y = sparse_product(
            *(self._lags[k - 1] if k > 0 else self._transposes[-k - 1]),
            X,
            row_scale=self._row_scale,
            column_scale=self._column_scale,
            threads=self._threads,
        )
        return tall.update(Y, self._u, X, self._a)

    def multiply_left(self, C: Loading, k: int) -> Array:
        """Return ``C^T Psi_k`` (states, vocabulary) = (Psi_{-k} C)^T."""
        return self.apply(-k, C).T


def _move(counts: Counts, device: str) -> Counts:
    """Return counts on a device."""
    return Counts(*(to_device(array, device) for array in counts))


class ProjectedMoments:
    """Lag covariances P_k = B^T Psi_k B, k = 1 .. r, in an orthonormal basis B: exact for every C = B c."""

    def __init__(self, lags: Sequence[Matrix], device: str = "cpu") -> None:
        self.mean = np.zeros(len(lags[0]))  # B is orthogonal to m
        self._lags = [to_device(lag, device) for lag in lags]

    def multiply_left(self, C: Loading, k: int) -> Array:
        """Return ``c^T P_k`` (states, subspace)."""
        return C.T @ self._lags[k - 1] if k > 0 else C.T @ self._lags[-k - 1].T


Moments = SparseMoments | ProjectedMoments


def project(moments: SparseMoments, B: Float32, n_lags: int) -> ProjectedMoments:
    """Compress the moments to the columns of ``B`` (vocabulary, subspace), orthonormal."""
    lags = [tall.gram(B, moments.apply(k, B)) for k in range(1, n_lags + 1)]
    return ProjectedMoments(lags, moments.device)


# -- subspace identification (LDS paper sections 3.4, 4.1 and appendix A.1) ----------------------------


class HankelFactors(NamedTuple):
    """The rank-h factors of the block Hankel matrix, Gamma and Delta on the device of the moments.

    Its blocks are H_{ij} = Psi_{r+i-j} = C A^{r+i-j-1} Gs, i, j = 0 .. r-1, with Gs = E[x_{t+1} w_t^T]; it needs
    lags 1 .. 2r-1 (the paper's Algorithm 1, "k < r", is too few). From its rank-h SVD H = U S V^T:

        Gamma = U S^{1/2} = [C; C A; ..; C A^{r-1}],   Delta = S^{1/2} V^T = [A^{r-1} Gs .. A Gs  Gs]
        A = Delta^{1:r-1} (Delta^{2:r})^+,   C = block 0 of Gamma,   Gs = last block of Delta
    """

    Gamma: Float32  # (r, vocabulary, states), block i estimates C A^i
    Delta: Float32  # (r, vocabulary, states), block j estimates (A^{r-1-j} Gs)^T


def _compute_hankel_factors(
    settings: LDSSettings,
    counts: LaggedCounts,
    moments: SparseMoments,
    rng: np.random.Generator,
    em: _EM,
) -> HankelFactors:
    """Return the SVD of the whitened moments or, for the ablation, of the plain moments, whitened afterwards."""
    h, device = settings.n_states, moments.device
    if settings.advanced.whiten:
        return hankel_svd(moments, h, HANKEL_BLOCKS, rng, em)
    plain = SparseMoments(
        counts, moments.kappa, threads=settings.n_threads, whiten=False, device=device
    )
    factors = hankel_svd(plain, h, HANKEL_BLOCKS, rng, em)
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
    moments: SparseMoments, n_states: int, r: int, rng: np.random.Generator, em: _EM | None = None
) -> HankelFactors:
    """Find the rank-``n_states`` SVD of the block Hankel matrix of ``r`` blocks a side, which is never formed.

    It is randomized (Halko et al. 2011): ``rng`` draws the Gaussian test matrix. The moments need at least 2r-1 lags.
    A power iteration sharpens the spectrum; one is enough for text.
    """
    notify = (lambda _: None) if em is None else em.notify
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
    C = tall.update(Gamma[0] * 1, moments.mean, Gamma[0])
    R = tall.gram(C, C)
    Gs_C = tall.gram(Delta[-1], C)
    P = np.linalg.lstsq(A, Gs_C, rcond=1e-8)[0] @ np.linalg.pinv(R)
    # C P C^T has the eigenvalues of R^{1/2} P R^{1/2}, which is small, and symmetric where P is
    R_half, R_half_inverse = symmetric_power(R, 0.5), symmetric_power(R, -0.5)
    P = R_half_inverse @ clip_eigenvalues(R_half @ P @ R_half, 1e-4, 0.95) @ R_half_inverse
    Q = symmetrize(P - A @ P @ A.T)
    floor = 1e-4 * float(np.trace(P)) / len(P)
    return _add_full_noise(A, C, clip_eigenvalues(Q, floor, np.inf))


def _add_full_noise(A: Matrix, C: Float32, Q: Matrix) -> Parameters:
    """Rescale Q so that D = I - m m^T - C P C^T is positive semi-definite with a margin."""
    P = solve_stationary_covariance(A, Q)
    shrink = min(1.0, _EXPLAINED_AT_START / max(_compute_explained_share(C, P), 1e-300))
    return Parameters(A, C, Q * shrink, FullNoise(P * shrink))


def _compute_explained_share(C: Float32, P: Matrix) -> float:
    """Return the largest eigenvalue of C P C^T, the largest share of a variance that the states explain."""
    R_half = symmetric_power(tall.gram(C, C), 0.5)
    return float(np.linalg.eigvalsh(symmetrize(R_half @ P @ R_half))[-1])


def make_admissible(parameters: Parameters, mean: Vector) -> Parameters:
    """Return parameters for which the covariance of the noise is positive, in coordinates with this mean m.

    C is already in these coordinates.
    """
    A, C, Q, noise = parameters
    if isinstance(noise, DiagonalNoise):
        return parameters._replace(noise=noise._replace(mean=mean))
    explained = _compute_explained_share(np.asarray(C, np.float32), noise.N)
    if explained <= _MAX_EXPLAINED:
        return parameters
    shrink = _EXPLAINED_AT_START / explained
    return Parameters(A, C, Q * shrink, FullNoise(noise.N * shrink))


def draw_parameters(
    moments: SparseMoments, n_states: int, like: Parameters, rng: np.random.Generator
) -> Parameters:
    """Draw random parameters on the scale of those of another model (the paper's Figure 2)."""
    A = rng.standard_normal((n_states, n_states))
    A *= spectral_radius(like.A) / spectral_radius(A)
    C = to_device(rng.standard_normal(tuple(like.C.shape)).astype(np.float32), moments.device)
    C = tall.update(C, moments.mean, C)
    C *= float(np.sqrt(np.trace(tall.gram(like.C, like.C)) / np.trace(tall.gram(C, C))))
    return _add_full_noise(A, C, like.Q)


def find_basis(factors: HankelFactors, mean: Vector, width: int) -> Array:
    """Return the ``width`` principal directions of the Hankel factors, orthonormal columns (vocabulary, width).

    The cost of EM restricted to C = B c does not depend on the vocabulary. The blocks of Gamma and Delta have the
    leading left and right directions of every lag. The columns are orthogonal to the ``mean``. There are fewer of them
    if the factors span fewer: in float32 the others are rounding, and not orthogonal to the mean.
    """
    Gamma, Delta = (X.swapaxes(0, 1).reshape(len(mean), -1) * 1 for X in factors)
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


# -- EM ------------------------------------------------------------------------------------------------


@contextmanager
def _start_em(settings: LDSSettings, n_steps: int, description: str) -> Iterator[_EM]:
    """Yield EM iterations under a progress bar; an unstable system becomes a CorpusError."""
    bar: Progress[None] = track(None, description, total=n_steps, unit="step")
    try:
        with devices.out_of_memory(settings, _MEMORY_ADVICE):
            yield _EM(bar)
    except np.linalg.LinAlgError as error:
        raise CorpusError(
            f"no stable LDS of {settings.n_states} states fits these counts ({error}): give more text, or set "
            "n_states lower or kappa higher"
        ) from error
    finally:
        bar.close()


class _EM:
    """The EM iterations of one fit, with their history, progress bar, and warm start of the statistics."""

    def __init__(self, bar: Progress[None]) -> None:
        self.history: list[Step] = []
        self._bar = bar
        self._Pi: Matrix | None = None
        self._begin = time.perf_counter()

    def notify(self, stage: str) -> None:
        """Advance the progress bar."""
        self._bar.set_postfix_str(stage)
        self._bar.update()

    def iterate(
        self, parameters: Parameters, moments: Moments, iterations: int, stage: str
    ) -> Parameters:
        """Run iterations of EM, and return the new parameters."""
        for _ in range(iterations):
            statistics = self._expect(parameters, moments, stage, with_observation=True)
            parameters = run_m_step(statistics, parameters, moments.mean)
        return parameters

    def finish(self, parameters: Parameters, moments: SparseMoments, iterations: int) -> Fit:
        """Iterate over the whole vocabulary, and compute the second moment of the smoothed means.

        Raises LinAlgError if the system is not stable.
        """
        parameters = self.iterate(parameters, moments, iterations, "full")
        statistics = self._expect(parameters, moments, "final", with_observation=False)
        if spectral_radius(parameters.A) >= 1.0:
            raise np.linalg.LinAlgError("the state grows without bound")
        C = np.ascontiguousarray(to_numpy(parameters.C), np.float32)  # the saved dtype
        parameters = parameters._replace(C=C)
        return Fit(parameters, statistics.Xi, moments.scale, moments.mean, self.history)

    def _expect(
        self, parameters: Parameters, moments: Moments, stage: str, *, with_observation: bool
    ) -> Statistics:
        """Run the E-step, and record its likelihood gain."""
        statistics = run_e_step(
            parameters, moments, HORIZON, self._Pi, with_observation=with_observation
        )
        self._Pi = statistics.Pi
        gain, seconds = statistics.likelihood_gain, time.perf_counter() - self._begin
        self.history.append(Step(stage, gain, seconds))
        self.notify(f"gain {gain:.3f} nats/token")
        return statistics


class Statistics(NamedTuple):
    """Expected second moments of the smoothed states, (states, states)."""

    S_xx: Matrix  # E[x_t x_t^T | all]
    S_10: Matrix  # E[x_{t+1} x_t^T | all]
    S_xw: FloatArray | None  # E[x_t w_t^T | all] (states, observations); None if not asked for
    Xi: Matrix  # E[xs xs^T], the second moment of the posterior means
    Pi: Matrix  # E[xf xf^T]
    likelihood_gain: float  # log-likelihood in nats per token, less that of no dynamics


def _compute_powers(X: Matrix, n: int) -> list[Matrix]:
    """Return X^0 to X^n."""
    powers = [np.eye(len(X))]
    for _ in range(n):
        powers.append(X @ powers[-1])
    return powers


def _solve_filtered_moment(
    state: SteadyState, A_r: Matrix, lagged: dict[int, Matrix], r: int, start: Matrix | None
) -> tuple[Matrix, Matrix]:
    """Return Pi and m_{-1} = M_{-1} C_hat, from a linear equation that is solved by iterating Lyapunov's.

    ``lagged`` has C_hat^T Psi_k C_hat for k = -r+1 .. r; ``start`` is a start for Pi.
    """
    F, gain = state.F, state.gain
    # eq 10 from the horizon on: m_{-1} = sum_j F^j K_c lagged_{-1-j} + F^{r-1} Pi (A^T)^r C^T C_hat
    solver = SteinSolver(F, F.T)
    F_powers = _compute_powers(F, r)
    known = np.zeros_like(F)
    for j in range(r - 1):
        known += F_powers[j] @ gain.K_c @ lagged[-1 - j]
    innovation = gain.K_c @ gain.square @ gain.K_c.T
    horizon = A_r.T @ gain.cross.T  # (A^T)^r C^T C_hat
    Pi = innovation if start is None else start
    for _ in range(_MAX_MOMENT_ITERATIONS):
        # Pi is on the right-hand side too, but only in the term of the horizon, which is small: it converges quickly
        m_1 = known + F_powers[r - 1] @ Pi @ horizon
        half = F @ m_1 @ gain.K_c.T
        previous, Pi = Pi, symmetrize(solver.solve(half + half.T + innovation))
        if np.linalg.norm(Pi - previous) <= 1e-13 * np.linalg.norm(Pi):
            break
    return Pi, m_1


def _compute_likelihood_gain(A: Matrix, gain: Gain, Pi: Matrix, m_1: Matrix) -> float:
    """Return the likelihood gain over the model without dynamics, in nats per token (paper eqs 39-44, corrected)."""
    # the innovation e_t = w_t - C A xf_{t-1}, seen through C_hat: E[C_hat^T e e^T C_hat]
    predicted = A @ Pi @ A.T
    half = gain.cross @ A @ m_1
    projected_error = gain.square - half - half.T + gain.cross @ predicted @ gain.cross.T
    trace = (
        gain.base_trace
        - 2.0 * np.trace(A @ m_1)
        + np.trace(predicted @ gain.cross)
        - np.trace(gain.inner @ projected_error)
    )
    return float(-0.5 * (gain.log_det + trace))


def _compute_observation_moment(
    moments: Moments,
    state: SteadyState,
    A_r: Matrix,
    C: Loading,
    Pi: Matrix,
    products: dict[int, FloatArray],
) -> FloatArray:
    """Return B_0 (states, observations) = sum_k T_k K_c (C_hat^T Psi_k) + T_{-r} Pi (A^T)^r C^T.

    T_r = J^r, T_k = T_{k+1} F + J^k G down to 0, and T_k = T_{k+1} F below. ``products`` holds
    C_hat^T Psi_k for k = 1 .. r and is emptied.
    """
    F, J, G, gain = state.F, state.J, state.G, state.gain
    r = len(products)
    J_powers = _compute_powers(J, r)
    T = J_powers[r]

    def term(product: FloatArray) -> FloatArray:
        return tall.product(product.T, (T @ gain.K_c).T)

    total = term(products.pop(r))  # B_0^T
    for k in range(r - 1, -r, -1):
        T = T @ F
        if k >= 0:
            T += J_powers[k] @ G
        if k == 0:
            total += term(tall.update(gain.C_hat * 1, moments.mean, gain.C_hat).T)
        else:
            total += term(products.pop(k) if k > 0 else moments.multiply_left(gain.C_hat, k))
    total += tall.product(C, (T @ F @ Pi @ A_r.T).T)
    return total.T


def run_e_step(
    parameters: Parameters,
    moments: Moments,
    r: int,
    Pi: Matrix | None = None,
    *,
    with_observation: bool = True,
) -> Statistics:
    """Run the E-step of ASOS at horizon ``r`` (LDS paper section 3.3, after Martens 2010).

    Instead of smoothing the data, the recursions of filter and smoother are applied to time-averaged second
    moments. With xf the filtered and xs the smoothed state,

        M_k = E[xf_{t+k} w_t^T],  Pi = E[xf xf^T],  B_k = E[xs_{t+k} w_t^T],  L_k = E[xs_{t+k} xf_t^T]

        M_k = F M_{k-1} + K Psi_k                        k = -r+1 .. r            (eq 10)
        M_{-r} = Pi (A^T)^r C^T                          horizon: E[w_{t+r} | past] = C A^r xf_t
        Pi = F Pi F^T + F M_{-1} K^T + K M_{-1}^T F^T + K Psi_0 K^T
        B_r = M_r                                        horizon
        B_k = J B_{k+1} + G M_k                          k = r-1 .. 0
        L_r = A L_r F^T + B_r K^T,   L_k = L_{k+1} F^T + B_k K^T
        Xi = E[xs xs^T] = J Xi J^T + J L_1 G^T + G L_1^T J^T + G Pi G^T

    and the M-step needs S_xx = Xi + Sigma_s, S_10 = Xi J^T + L_1 G^T + Sigma_s J^T and S_xw = B_0. Since
    K = K_c C_hat^T, everything is computed from (states, states) matrices except B_0, one sum of sparse products.

    The error of the approximation falls geometrically with r; the moments need at least r lags. ``Pi`` (states,
    states) is a start for E[xf xf^T], from the previous iteration. S_xw is most of the work and only an M-step needs
    it, so it is left out unless ``with_observation``. Raises LinAlgError if the system is not stable.
    """
    A, C = parameters.A, parameters.C
    state = solve_steady_state(parameters)
    F, J, G, gain = state.F, state.J, state.G, state.gain
    A_r = np.linalg.matrix_power(A, r)
    products: dict[int, FloatArray] = {}
    lagged: dict[int, Matrix] = {}  # C_hat^T Psi_k C_hat
    for k in range(1, r + 1):
        product = moments.multiply_left(gain.C_hat, k)
        lagged[k] = tall.gram(product.T, gain.C_hat)
        if with_observation:
            products[k] = product
    lagged |= {-k: lagged[k].T for k in range(1, r)}
    lagged[0] = gain.square
    Pi, m_1 = _solve_filtered_moment(state, A_r, lagged, r, Pi)

    # m_k = M_k C_hat, b_k = B_k C_hat and L_k
    m = {-r: Pi @ A_r.T @ gain.cross.T}
    for k in range(-r + 1, r + 1):
        m[k] = F @ m[k - 1] + gain.K_c @ lagged[k]
    b = {r: m[r]}
    for k in range(r - 1, 0, -1):
        b[k] = J @ b[k + 1] + G @ m[k]
    # at the horizon L_r = A L_r F^T + B_r K^T, a Stein equation; below it every L_k follows
    L = SteinSolver(A, F.T).solve(b[r] @ gain.K_c.T)
    for k in range(r - 1, 0, -1):
        L = L @ F.T + b[k] @ gain.K_c.T
    half = J @ L @ G.T
    Xi = symmetrize(SteinSolver(J, J.T).solve(half + half.T + G @ Pi @ G.T))
    S_xw = None
    if with_observation:
        S_xw = _compute_observation_moment(moments, state, A_r, C, Pi, products)
    S_10 = Xi @ J.T + L @ G.T + state.Sigma_s @ J.T
    likelihood_gain = _compute_likelihood_gain(A, gain, Pi, m_1)
    return Statistics(Xi + state.Sigma_s, S_10, S_xw, Xi, Pi, likelihood_gain)


def run_m_step(statistics: Statistics, parameters: Parameters, mean: Vector) -> Parameters:
    """Run the M-step: regressions of x_{t+1} and w_t on x_t (LDS paper section 3.2, eq 9)."""
    S_xx, S_10, S_xw = statistics.S_xx, statistics.S_10, statistics.S_xw
    if S_xw is None:
        raise ValueError("the M-step needs S_xw: call run_e_step with with_observation=True")
    inverse: Matrix = np.asarray(np.linalg.inv(S_xx), np.float64)
    A = S_10 @ inverse  # eq 9
    C = tall.product(S_xw.T, inverse)
    Q = symmetrize(S_xx - A @ S_10.T)
    return Parameters(A, C, Q, parameters.noise.refit(C, S_xx, mean))
