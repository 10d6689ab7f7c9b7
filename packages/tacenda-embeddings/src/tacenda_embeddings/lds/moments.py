"""Second moments of the whitened one-hot stream, as products (LDS paper section 4 and appendix A).

With w~_t the indicator of word t, mu its mean, W = diag(mu~^{-1/2}) and w_t = W (w~_t - mu),

    Psi_k  = E[w_{t+k} w_t^T] = a (W E_k W - u u^T),   Psi_{-k} = Psi_k^T       (eqs 3, 14, 17)
    Psi_0  = I - m m^T                                                          (eq 13, whitened)

where E_k holds the frequency of "word i, k positions after word j", u = W mu and m = mu~^{1/2}. The paper's
eqs 14 and 16 print the transpose. Pseudo-counts kappa enter as white noise added to every word type:
T~ = T + kappa V, mu~ = (count + kappa) / T~, a = T / T~. The lag terms keep the unsmoothed mu, so that
Psi_k m = 0 holds exactly and the sequence stays a covariance sequence.

Everything the recursions ask of the data is ``C^T Psi_k`` for k = -r+1 .. r. ``SparseMoments`` answers from
the counts; ``ProjectedMoments`` from their compression to a subspace. Both lie on the device of the fit, and so does C.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse

from tacenda.arrays import Array, to_device
from tacenda.kernels.machinery.arrays import in_c_order
from tacenda.kernels.shared import sparse_product, tall_matrices
from tacenda_embeddings.lds.lagged_counts import LaggedCounts
from tacenda_embeddings.lds.steady_state import Loading, Matrix

FloatArray = npt.NDArray[np.floating]


class Moments(Protocol):
    """What the E-step asks of the data."""

    n_lags: int  # the largest lag k known
    mean: npt.NDArray[
        np.float64
    ]  # m (observations,) on the host; zero in a subspace orthogonal to it

    def left(self, C: Loading, k: int) -> FloatArray:
        """Return ``C^T Psi_k`` (states, observations) for -n_lags <= k <= n_lags, k != 0."""
        ...


class CSR(NamedTuple):
    """A compressed sparse row matrix: indptr (rows + 1,), indices and data (nonzeros,)."""

    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[np.int32]
    data: npt.NDArray[np.generic]


def _transposed(matrix: CSR) -> CSR:
    """Return a square matrix by columns: this costs memory, but a gather is twice as fast as a scatter."""
    V = len(matrix.indptr) - 1
    view = scipy.sparse.csr_array((matrix.data, matrix.indices, matrix.indptr), shape=(V, V))
    turned = view.T.tocsr()
    return CSR(turned.indptr.astype(np.int64), turned.indices.astype(np.int32), turned.data)


def whitening(
    counts: LaggedCounts, kappa: float
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the diagonal of W = diag(mu~^{-1/2}) and m = mu~^{1/2}, both (vocabulary,).

    Where kappa is 0, a type that never occurs gets the scale of one that occurs once: what it scales is 0.
    """
    V = len(counts.unigram)
    total = counts.n_tokens + kappa * V
    mean = np.sqrt((counts.unigram + kappa) / total)
    return 1.0 / np.where(mean > 0, mean, np.sqrt(1.0 / total)), mean


class SparseMoments:
    """Lag covariances from counts: sparse minus rank one, never V x V dense.

    ``kappa`` pseudo-counts are added to every word type; ``scale`` and ``mean`` are the diagonal of W and m, both
    (vocabulary,). Without ``whiten`` the coordinates stay as they are (W = I), for the ablation of the paper's
    section 4.3.
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
        self.device = device
        T, V = float(counts.n_tokens), len(counts.unigram)
        self.n_lags = counts.n_lags
        self.kappa = kappa
        self.scale, self.mean = whitening(counts, kappa)
        if not whiten:
            self.scale, self.mean = np.ones(V), self.mean**2
        self._a = T / (T + kappa * V)
        self._u = self._put((self.scale * (counts.unigram / T)).astype(np.float32))
        self._row_scale = self._put(self.scale.astype(np.float32))
        self._column_scale = self._put((self._a * self.scale / T).astype(np.float32))
        self._threads = threads
        lags = [CSR(*counts.lags[k]) for k in range(counts.n_lags)]
        self._lags, self._transposed = (
            [CSR(*map(self._put, matrix)) for matrix in matrices]
            for matrices in (lags, map(_transposed, lags))
        )

    def _put(self, array: Any) -> Array:
        return to_device(array, self.device)

    def apply(self, k: int, X: FloatArray) -> Array:
        """Return ``Psi_k X`` for X (vocabulary, width), float32; k < 0 gives the transpose, k = 0 is refused."""
        if k == 0 or abs(k) > self.n_lags:
            raise ValueError(
                f"lag {k} was not counted; lags 1 to {self.n_lags} and their negatives were"
            )
        matrix = self._lags[k - 1] if k > 0 else self._transposed[-k - 1]
        X = in_c_order(X, self._u.dtype)
        Y = sparse_product.multiply(
            matrix.indptr,
            matrix.indices,
            matrix.data,
            X,
            row_scale=self._row_scale,
            column_scale=self._column_scale,
            threads=self._threads,
        )
        return tall_matrices.subtract_along(Y, self._u, X, self._a)

    def left(self, C: Loading, k: int) -> Array:
        """Return ``C^T Psi_k`` (states, vocabulary) = (Psi_{-k} C)^T."""
        return self.apply(-k, C).T


class ProjectedMoments:
    """Lag covariances P_k = B^T Psi_k B, k = 1 .. r, in an orthonormal basis B: exact for every C = B c."""

    def __init__(self, lags: Sequence[Matrix], device: str = "cpu") -> None:
        self.n_lags = len(lags)
        self.mean = np.zeros(len(lags[0]))
        self._lags = [to_device(lag, device) for lag in lags]

    def left(self, C: Loading, k: int) -> Array:
        """Return ``c^T P_k`` (states, subspace)."""
        return C.T @ self._lags[k - 1] if k > 0 else C.T @ self._lags[-k - 1].T


def project(moments: SparseMoments, B: npt.NDArray[np.float32], n_lags: int) -> ProjectedMoments:
    """Compress the moments to the columns of ``B`` (vocabulary, subspace), orthonormal."""
    lags = [tall_matrices.gram(B, moments.apply(k, B)) for k in range(1, n_lags + 1)]
    return ProjectedMoments(lags, moments.device)
