"""Observation noise D of the LDS, in whitened coordinates, and the Kalman gain that it implies.

With S = C Sigma_1 C^T + D (LDS paper eq 7) the steady-state gain is K = Sigma_1 C^T S^+ (eq 6). Every kind of
noise writes it as

    K = K_c C_hat^T        K_c (states, states), C_hat (observations, states)

so that nothing of size V x V appears. ``FullNoise`` is the paper's full-rank D = Psi_0 - C N C^T
(section 4.2; appendix A.2 with its eq 32 in the non-inverting form); ``SphericalNoise`` and ``DiagonalNoise``
are the approximations the paper compares it with.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from tacenda_embeddings.lds.linear_algebra import Matrix

Loading = npt.NDArray[np.floating]  # C: (observations, states), float32 or float64


class Gain(NamedTuple):
    """A factored Kalman gain ``K = K_c C_hat^T`` and what the recursions need of it."""

    K_c: Matrix  # (states, states)
    C_hat: Loading  # (observations, states)
    cross: Matrix  # C_hat^T C (states, states), so that K C = K_c cross
    square: Matrix  # C_hat^T Psi_0 C_hat (states, states), so that K Psi_0 K^T = K_c square K_c^T
    # log det S minus the same of the model without dynamics, in nats, both over the dimensions in
    # which the data vary: not along m
    log_det: float
    # Y (states, states) in S^+ = base - C_hat Y C_hat^T, where base is the inverse of the noise (of
    # Psi_0 for the full noise)
    inner: Matrix
    base_trace: float  # trace(base Psi_0) minus the number of observed dimensions


class Noise(Protocol):
    """What a kind of noise offers to the recursions."""

    def precision(self, C: Loading) -> Matrix:
        """Return ``C^T D^+ C`` (states, states)."""
        ...

    def gain(self, C: Loading, Sigma_1: Matrix) -> Gain:
        """Return the factored steady-state Kalman gain for predictive covariance ``Sigma_1``."""
        ...

    def refit(self, C: Loading, S_xx: Matrix, mean: npt.NDArray[np.float64]) -> Noise:
        """Run the M-step (LDS paper eq 9) for the same kind of noise."""
        ...


def gram(X: Loading, Y: Loading) -> Matrix:
    """Return ``X^T Y`` (states, states), summed in the precision of the inputs, returned in float64."""
    return np.asarray(X.T @ Y, dtype=np.float64)


class FullNoise(NamedTuple):
    """D = Psi_0 - C N C^T: as large as the data say in every direction (LDS paper section 4.2)."""

    N: Matrix  # (states, states), the second moment of the states: C N C^T is what they explain

    def precision(self, C: Loading) -> Matrix:
        """Return ``R (I - N R)^{-1}`` with R = C^T C."""
        R = gram(C, C)
        return R @ np.linalg.inv(np.eye(len(R)) - self.N @ R)

    def gain(self, C: Loading, Sigma_1: Matrix) -> Gain:
        """Use S = Psi_0 + C Z C^T with Z = Sigma_1 - N, in the form that does not invert the indefinite Z."""
        R = gram(C, C)
        Z = Sigma_1 - self.N
        I_RZ = np.eye(len(R)) + R @ Z
        inverse = np.linalg.inv(I_RZ)
        log_det = float(np.linalg.slogdet(I_RZ)[1])
        return Gain(Sigma_1 @ inverse, C, R, R, log_det, Z @ inverse, 0.0)

    def refit(self, C: Loading, S_xx: Matrix, mean: npt.NDArray[np.float64]) -> FullNoise:
        """Return the noise D = Psi_0 - C S_xx C^T: N becomes S_xx."""
        return FullNoise(S_xx)


class DiagonalNoise(NamedTuple):
    """D = diag(d): the approximation that ignores the anticorrelation of the words.

    It has noise along m too, where the data have none. The filter conditions on w_t^T m = 0 as on
    everything else, so the likelihood is that of the other dimensions given this one, and can be compared
    with that of the full noise. EM climbs the joint density, in which the dimension along m is one in as
    many as there are words.
    """

    d: npt.NDArray[np.float64]  # (observations,), positive; one number repeated for a spherical D
    mean: npt.NDArray[
        np.float64
    ]  # m (observations,), along which Psi_0 = I - m m^T has no variance
    spherical: bool = False  # whether the M-step averages d over the observations

    def _scaled(self, C: Loading) -> Loading:
        return np.asarray(C / self.d[:, None], dtype=C.dtype)

    def precision(self, C: Loading) -> Matrix:
        """Return ``C^T D^{-1} C``."""
        return gram(C, self._scaled(C))

    def gain(self, C: Loading, Sigma_1: Matrix) -> Gain:
        """Use K = Sigma_1 (I + R_D Sigma_1)^{-1} C^T D^{-1}, the matrix inversion lemma (eq 53)."""
        C_hat = self._scaled(C)
        R_D = gram(C, C_hat)
        I_RS = np.eye(len(R_D)) + R_D @ Sigma_1
        inverse = np.linalg.inv(I_RS)
        projected = np.asarray(C_hat.T @ self.mean, dtype=np.float64)
        square = gram(C_hat, C_hat) - np.outer(projected, projected)
        variance = 1.0 - self.mean**2
        # C^T m = 0, so m^T S m = m^T D m, and det S over it is that of S given w^T m = 0
        along_mean = float(self.mean**2 @ self.d) if self.mean.any() else 1.0
        log_det = float(np.linalg.slogdet(I_RS)[1] + np.log(self.d).sum() - np.log(along_mean))
        base_trace = float((variance / self.d).sum() - variance.sum())
        return Gain(Sigma_1 @ inverse, C_hat, R_D, square, log_det, Sigma_1 @ inverse, base_trace)

    def refit(self, C: Loading, S_xx: Matrix, mean: npt.NDArray[np.float64]) -> DiagonalNoise:
        """Return the variances d = diag(Psi_0 - C S_xx C^T), averaged for a spherical D."""
        explained = np.einsum("ij,ij->i", C @ S_xx, C, dtype=np.float64)
        d = np.maximum(1.0 - mean**2 - explained, 1e-3)
        if self.spherical:
            d = np.full_like(d, d.mean())
        return DiagonalNoise(d, mean, self.spherical)
