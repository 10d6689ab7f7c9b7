"""F = P Lambda P^-1 with a real block-diagonal Lambda: what makes a dense recurrence modal.

For a conjugate pair of eigenvalues re +- i im (im > 0) with eigenvector v = p + i q,
F [p q] = [p q] [[re, im], [-im, re]]. The columns of P are ordered as the states of
`tacenda.kernels.dynamics.modal_recurrence`: eigenvectors of real eigenvalues, then all p, then all q. With
m_t = P^-1 a_t the recurrence a_t = F a_{t-1} + u_t becomes m_t = Lambda m_{t-1} + P^-1 u_t.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from tacenda.errors import KernelError

_Float = NDArray[np.float64]


class Decomposition(NamedTuple):
    """F = P Lambda P_inv.

    real (n_real,) and complex (n_pairs, 2) hold the eigenvalues, largest modulus first, as
    `tacenda.kernels.dynamics.modal_recurrence.forward` takes them; P and P_inv are (states, states);
    condition = |P| |P_inv| in the 2-norm says how much rounding the change of basis magnifies.
    """

    real: _Float
    complex: _Float
    P: _Float
    P_inv: _Float
    condition: float


def decompose(F: NDArray[Any]) -> Decomposition:
    """The modal form of F (states, states), in float64.

    Eigenvectors of real eigenvalues have norm 1, complex ones norm sqrt(2), so that each pair of
    columns has norm 1 on average; the largest component of every eigenvector is real and positive.
    Raises `KernelError` where F is not square and finite, or is defective beyond rounding; near
    that, ``condition`` grows without bound, and the dense recurrence is the one to use.
    """
    F = np.asarray(F, np.float64)
    if F.ndim != 2 or F.shape[0] != F.shape[1] or not np.isfinite(F).all():
        raise KernelError(f"F must be a square matrix of finite numbers, not {F.shape}")
    values, vectors = scipy.linalg.eig(F)
    largest = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=0, keepdims=True), axis=0)
    vectors = vectors * (np.abs(largest) / largest)
    order = np.lexsort((values.imag, values.real, -np.abs(values)))
    is_real = order[values[order].imag == 0]
    is_pair = order[values[order].imag > 0]
    pairs = vectors[:, is_pair] * np.sqrt(2.0)
    P = np.concatenate([vectors[:, is_real].real, pairs.real, pairs.imag], axis=1)
    try:
        P_inv = np.linalg.inv(P)
    except np.linalg.LinAlgError as error:
        raise KernelError(
            "F is defective, it has no basis of eigenvectors: use the dense recurrence"
        ) from error
    condition = float(np.linalg.norm(P, 2) * np.linalg.norm(P_inv, 2)) if F.size else 1.0
    complex = np.stack([values[is_pair].real, values[is_pair].imag], axis=-1)
    return Decomposition(values[is_real].real, complex, P, P_inv, condition)
