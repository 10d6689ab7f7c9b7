"""Products of tall matrices on a GPU: cuBLAS, which reads each matrix once.

float32 is multiplied as float32 unless torch is told that TF32 will do (`torch.set_float32_matmul_precision`).
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tacenda.kernels.machinery.tensors import to_device
from tacenda.kernels.shared.tall_matrices import TINY


def gram(X: torch.Tensor, Y: torch.Tensor) -> NDArray[np.float64]:
    """See `tacenda.kernels.shared.tall_matrices.gram`."""
    dtype = torch.promote_types(X.dtype, Y.dtype)
    found: NDArray[np.float64] = (X.T.to(dtype) @ Y.to(dtype)).double().cpu().numpy()
    return found


def multiply(X: torch.Tensor, M: Any) -> torch.Tensor:
    """See `tacenda.kernels.shared.tall_matrices.multiply`."""
    (small,) = to_device((M,), X.device)
    return X @ small.to(X.dtype)


def multiply_columns(X: torch.Tensor, Y: torch.Tensor) -> NDArray[Any]:
    """See `tacenda.kernels.shared.tall_matrices.multiply_columns`."""
    found: NDArray[Any] = (X * Y).sum(0).cpu().numpy()
    return found


def moments(X: torch.Tensor, centred: bool) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """See `tacenda.kernels.shared.tall_matrices.moments`."""
    if centred or not len(X):
        return np.zeros(X.shape[1]), gram(X, X)
    mean = X.mean(0)
    return mean.double().cpu().numpy(), gram(X - mean, X - mean)


def subtract_along(Y: torch.Tensor, u: torch.Tensor, X: torch.Tensor, a: float) -> torch.Tensor:
    """See `tacenda.kernels.shared.tall_matrices.subtract_along`."""
    (along,) = to_device((u,), Y.device)
    along = along.to(Y.dtype)
    return Y.addr_(along, along @ X, alpha=-a)


def normalize(X: torch.Tensor) -> torch.Tensor:
    """See `tacenda.kernels.shared.tall_matrices.normalize`."""
    lengths = torch.linalg.vector_norm(X, dim=1, keepdim=True)
    return X.div_(lengths.clamp_(min=TINY**0.5))
