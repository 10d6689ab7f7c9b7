"""Operations of several models on a GPU, in plain torch."""

import numpy as np
import torch
from numpy.typing import NDArray

from tacenda.arrays import to_tensors
from tacenda.kernels.shared import TINY

# -- tall matrices ----------------------------------------------------------------------------------
#
# Products of tall matrices on a GPU: cuBLAS, which reads each matrix once.
#
# float32 is multiplied as float32 unless torch is told that TF32 will do (`torch.set_float32_matmul_precision`).


def tall_gram(X, Y):
    dtype = torch.promote_types(X.dtype, Y.dtype)
    found: NDArray[np.float64] = (X.T.to(dtype) @ Y.to(dtype)).double().cpu().numpy()
    return found


def tall_product(X, M):
    (small,) = to_tensors((M,), X.device)
    return X @ small.to(X.dtype)


def tall_moments(X, centred):
    if centred or not len(X):
        return np.zeros(X.shape[1]), tall_gram(X, X)
    mean = X.mean(0)
    return mean.double().cpu().numpy(), tall_gram(X - mean, X - mean)


def tall_update(Y, u, X, a):
    (along,) = to_tensors((u,), Y.device)
    along = along.to(Y.dtype)
    return Y.addr_(along, along @ X, alpha=-a)


def unit_rows(X):
    lengths = torch.linalg.vector_norm(X, dim=1, keepdim=True)
    return X.div_(lengths.clamp_(min=TINY**0.5))
