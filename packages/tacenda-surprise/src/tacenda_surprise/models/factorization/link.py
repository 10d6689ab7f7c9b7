"""What the identities of rated items say about a user, as a linear link with a prior: Bayesian eq 5.22.

    x_u ~ N(mu + s_u, Lambda^{-1}),   s_u = sum_{j in N(u)} w_j / |N(u)|^{1/2},   w_j ~ N(0, (tau Lambda)^{-1})

The thesis divides by |N(u)|; with its square root (as SVD++ has it) what is known of a user grows with the
number of items, and predictions are better. Given all x the rows of W follow

    (F^T F + tau I) W = F^T (X - mu + E_1) + tau^{1/2} E_2,    rows of E_1, E_2 ~ N(0, Lambda^{-1}),

F being the sparse matrix of the s_u, which is solved by conjugate gradients (Simm et al. 2017, Macau, eq 8).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from tacenda.kernels.shared import sparse_product
from tacenda_surprise.models.factorization.hyperpriors import Hyper, Matrix
from tacenda_surprise.models.identities import Identities

_ITERATIONS = 15  # beyond that the error is far below the noise of the draw
_TOLERANCE = 1e-4


class Link:
    """The map from identities to expected factors.

    Parameters
    ----------
    identities
        N(u) of all users.
    n_items
        Columns of F.
    """

    def __init__(self, identities: Identities, n_items: int) -> None:
        sizes = identities.sizes
        values = np.repeat(1.0 / np.sqrt(np.maximum(sizes, 1)), sizes).astype(np.float32)
        shape = (identities.n_users, n_items)
        F = csr_array((values, identities.item_ids, identities.offsets), shape=shape)
        F_T = F.T.tocsr()
        F_T.sort_indices()
        self._F = (F.indptr, F.indices, F.data)
        self._F_T = (F_T.indptr, F_T.indices, F_T.data)

    def expected(self, W: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """S (users, width) for W (items, width)."""
        return sparse_product.multiply(*self._F, W)

    def draw(
        self,
        rng: np.random.Generator,
        X: npt.NDArray[np.float32],
        hyper: Hyper,
        tau: float,
        W: npt.NDArray[np.float32],
    ) -> npt.NDArray[np.float32]:
        """A draw of W (items, width) given the factors X (users, width), beginning from the last one."""
        root = np.asarray(np.linalg.cholesky(hyper.precision), np.float64)
        first: Matrix = X.astype(np.float64) - hyper.mean + _noise(rng, root, len(X))
        right = sparse_product.multiply(*self._F_T, first.astype(np.float32))
        right += np.sqrt(tau) * _noise(rng, root, len(W))
        return self._solve(np.float32(tau), right.astype(np.float32), W)

    def _solve(
        self, tau: np.float32, B: npt.NDArray[np.float32], X: npt.NDArray[np.float32]
    ) -> npt.NDArray[np.float32]:
        """(F^T F + tau I)^{-1} B by conjugate gradients, all columns at once."""

        def product(Y: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
            found = sparse_product.multiply(*self._F_T, sparse_product.multiply(*self._F, Y))
            found += tau * Y
            return found

        R = B - product(X)
        P, size = R.copy(), np.einsum("ij,ij->j", R, R)
        enough = _TOLERANCE**2 * np.einsum("ij,ij->j", B, B)
        for _ in range(_ITERATIONS):
            if (size <= enough).all():
                break
            AP = product(P)
            step = size / np.maximum(np.einsum("ij,ij->j", P, AP), 1e-30)
            X = X + step * P
            R -= step * AP
            before, size = size, np.einsum("ij,ij->j", R, R)
            P = R + size / np.maximum(before, 1e-30) * P
        return X


def draw_tau(rng: np.random.Generator, W: npt.NDArray[np.float32], hyper: Hyper) -> float:
    """Tau given W, its prior being Gamma(1, 1)."""
    spread = float(np.einsum("jk,kl,jl->", W, hyper.precision, W))
    return float(rng.gamma(1.0 + 0.5 * W.size) / (1.0 + 0.5 * spread))


def _noise(rng: np.random.Generator, root: Matrix, n: int) -> Matrix:
    """N draws from N(0, Lambda^{-1}), Lambda = root root^T."""
    return np.asarray(np.linalg.solve(root.T, rng.standard_normal((len(root), n))).T, np.float64)
