"""Lagged second moments of the text, which are all that a fit knows of it: whole, or in a subspace.

With w~_t the indicator of word t, mu its mean, W = diag(mu~^{-1/2}) and w_t = W (w~_t - mu) (LDS paper section 4 and
appendix A),

    Psi_k  = E[w_{t+k} w_t^T] = a (W E_k W - u u^T),   Psi_{-k} = Psi_k^T       (eqs 3, 14, 17)
    Psi_0  = I - m m^T                                                          (eq 13, whitened)

where E_k has the frequency of "word i, k positions after word j", u = W mu and m = mu~^{1/2}. The paper's
eqs 14 and 16 print the transpose. Pseudo-counts kappa are white noise added to every word type:
T~ = T + kappa V, mu~ = (count + kappa) / T~, a = T / T~. The lag terms use the unsmoothed mu, so that
Psi_k m = 0 holds exactly and the sequence stays a covariance sequence.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tacenda import tall
from tacenda.array_ops import in_c_order, to_device
from tacenda.arrays import Array
from tacenda.kernels.counts import Counts
from tacenda.kernels.shared import sparse_product
from tacenda_embeddings.lds import Loading, Matrix, Vector
from tacenda_embeddings.lds.lagged_counts import LaggedCounts


class SparseMoments:
    """Lag covariances from counts, as a sparse matrix minus one of rank one, on the device of the fit.

    Attributes
    ----------
    kappa
        Pseudo-counts added to every word type.
    scale, mean
        The diagonal of W = diag(mu~^{-1/2}) and m = W mu~ = mu~^{1/2}, both (vocabulary,) on the host. Without
        ``whiten``, for the ablation of the paper's section 4.3, W is the identity, and so m is mu~.
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

    def apply(self, k: int, X: Array) -> Array:
        """Return ``Psi_k X`` for X (vocabulary, width), float32; k < 0 gives the transpose, k = 0 is refused."""
        _check_lag(k, self.n_lags)
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


def _check_lag(k: int, n_lags: int) -> None:
    if k == 0 or abs(k) > n_lags:
        raise ValueError(f"lag {k} was not counted; lags 1 to {n_lags} and their negatives were")


def _move(counts: Counts, device: str) -> Counts:
    """Return counts on a device."""
    return Counts(*(to_device(array, device) for array in counts))


class ProjectedMoments:
    """Lag covariances P_k = B^T Psi_k B, k = 1 .. r, in an orthonormal basis B: exact for every C = B c."""

    def __init__(self, lags: Sequence[Matrix], device: str = "cpu") -> None:
        self.mean = np.zeros(len(lags[0]))  # B is orthogonal to m
        self._lags = [to_device(lag, device) for lag in lags]

    def multiply_left(self, C: Loading, k: int) -> Array:
        """Return ``c^T P_k`` (states, subspace); k = 0 is refused."""
        _check_lag(k, len(self._lags))
        return C.T @ self._lags[k - 1] if k > 0 else C.T @ self._lags[-k - 1].T


Moments = SparseMoments | ProjectedMoments


def project(moments: SparseMoments, B: Array, n_lags: int) -> ProjectedMoments:
    """Compress the moments to the columns of ``B`` (vocabulary, subspace), orthonormal."""
    lags = [tall.gram(B, moments.apply(k, B)) for k in range(1, n_lags + 1)]
    return ProjectedMoments(lags, moments.device)
