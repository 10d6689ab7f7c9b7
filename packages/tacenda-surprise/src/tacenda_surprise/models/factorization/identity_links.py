"""The link from the identities of rated items to a user, drawn from its posterior.

What the identities of rated items say about a user is a linear link with a prior, a Bayesian form of Mnih 2010,
eq 5.22:

    x_u ~ N(mu + s_u, Lambda^{-1}),   s_u = sum_{j in N(u)} w_j / |N(u)|^{1/2},
    w_j ~ N(0, (tau Lambda)^{-1}),    tau ~ Gamma(1, 1/10)

The thesis divides by |N(u)|. With its square root (as SVD++ has it) what is known of a user grows with the number
of items, and predictions are better.

Lambda is the precision of the m rows of W too, up to the factor tau, so it is drawn given both tables. The factors
that contain it are

    W(Lambda | I, nu_0) |Lambda|^{n/2} exp(-1/2 sum_u (x_u - mu - s_u)^T Lambda (x_u - mu - s_u))
                        |Lambda|^{m/2} exp(-1/2 sum_j tau w_j^T Lambda w_j)

and therefore, with z_u = x_u - s_u and z their mean, mu integrated out,

    Lambda ~ W((I + sum_u (z_u - z)(z_u - z)^T + beta_0 n / (beta_0 + n) z z^T + tau W^T W)^{-1}, nu_0 + n + m).

Given all x and Lambda the rows of W follow

    (F^T F + tau I) W = F^T (X - mu + E_1) + tau^{1/2} E_2,    rows of E_1, E_2 ~ N(0, Lambda^{-1}),

F being the sparse matrix of the s_u; this is solved by conjugate gradients (Simm et al. 2017, Macau, eq 8).
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from tacenda.arrays import Array, copy, to_device, to_numpy
from tacenda.kernels.shared import sparse_product, tall_matrices
from tacenda_surprise.models.base import Floats
from tacenda_surprise.models.factorization.row_priors import Hyper, Matrix
from tacenda_surprise.models.identities import Identities

_ITERATIONS = 15  # of conjugate gradients: beyond that the error is far below the noise of the draw
_TOLERANCE = 1e-4
_TAU_RATE = 0.1  # of the prior of tau: links are expected to say less than ratings do


class Link:
    """The map from the identities N(u) of all users to their expected factors."""

    def __init__(self, identities: Identities, n_items: int, device: str = "cpu") -> None:
        sizes = identities.sizes
        values = np.repeat(1.0 / np.sqrt(np.maximum(sizes, 1)), sizes).astype(np.float32)
        shape = (identities.n_users, n_items)
        F = csr_array((values, identities.item_ids, identities.offsets), shape=shape)
        F_T = F.T.tocsr()
        F_T.sort_indices()
        self._device = device
        self._F = (
            to_device(F.indptr, device),
            to_device(F.indices, device),
            to_device(F.data, device),
        )
        self._F_T = (
            to_device(F_T.indptr, device),
            to_device(F_T.indices, device),
            to_device(F_T.data, device),
        )

    def expected(self, W: Array) -> Array:
        """S (users, width) for W (items, width)."""
        return sparse_product.multiply(*self._F, W)

    def draw(self, rng: np.random.Generator, X: Array, hyper: Hyper, tau: float, W: Array) -> Array:
        """Draw W (items, width) given the factors X (users, width), beginning from the last draw."""
        root = np.asarray(np.linalg.cholesky(hyper.precision), np.float64)
        first: Matrix = to_numpy(X).astype(np.float64) - hyper.mean + _noise(rng, root, len(X))
        right = sparse_product.multiply(
            *self._F_T, to_device(first.astype(np.float32), self._device)
        )
        found = to_numpy(right)
        found += np.sqrt(tau) * _noise(rng, root, len(W))
        return self._solve(float(np.float32(tau)), to_device(found, self._device), W)

    def _solve(self, tau: float, B: Array, X: Array) -> Array:
        """Solve (F^T F + tau I) X = B by conjugate gradients from X, all columns at once."""

        def product(Y: Array) -> Array:
            found = sparse_product.multiply(*self._F_T, sparse_product.multiply(*self._F, Y))
            found += tau * Y
            return found

        # R is the residual, P the direction of the search; each column has a step of its own.
        inner = tall_matrices.multiply_columns
        R = B - product(X)
        P, size = copy(R), inner(R, R)
        enough = _TOLERANCE**2 * inner(B, B)
        for _ in range(_ITERATIONS):
            if (size <= enough).all():
                break
            AP = product(P)
            step = to_device(size / np.maximum(inner(P, AP), 1e-30), self._device)
            X = X + step * P
            R -= step * AP
            before, size = size, inner(R, R)
            P = R + to_device(size / np.maximum(before, 1e-30), self._device) * P
        return X


def draw_tau(rng: np.random.Generator, W: Floats, hyper: Hyper) -> float:
    """Draw tau given W."""
    spread = float(np.einsum("jk,kl,jl->", W, hyper.precision, W))
    return float(rng.gamma(1.0 + 0.5 * W.size) / (_TAU_RATE + 0.5 * spread))


def draw_scale(rng: np.random.Generator, X: Floats, S: Floats, hyper: Hyper, tau: float) -> float:
    """Draw a factor f on W, given V = tau^{1/2} W and everything but tau, which becomes tau / f^2.

    ``X`` (users, width) are the factors less mu, and ``S`` what comes from identities. Given W alone tau hardly
    moves; given V it is free (Yu and Meng 2011, on interweaving). The likelihood is normal in f, from which a
    proposal is drawn that is accepted by the prior of tau in terms of f, f^{-3} exp(-rate tau / f^2).
    """
    weighted = S.astype(np.float64) @ hyper.precision
    square, product = (float(np.einsum("uk,uk->", weighted, other)) for other in (S, X))
    proposed = product / max(square, 1e-30) + rng.standard_normal() / max(square, 1e-30) ** 0.5
    chance = rng.random()
    if not proposed > 0:
        return 1.0
    rate = _TAU_RATE * tau
    ratio = -3 * np.log(proposed) - rate / proposed**2 + rate
    return float(proposed) if np.log(chance) < ratio else 1.0


def _noise(rng: np.random.Generator, root: Matrix, n: int) -> Matrix:
    """Draw n rows from N(0, Lambda^{-1}), where Lambda = root root^T."""
    return np.asarray(np.linalg.solve(root.T, rng.standard_normal((len(root), n))).T, np.float64)
