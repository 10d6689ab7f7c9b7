"""Operations of several models on a GPU, in plain torch."""

import torch

from tacenda.kernels.shared import LEAST_SQUARED_LENGTH


def unit_rows(X):
    lengths = torch.linalg.vector_norm(X, dim=1, keepdim=True, dtype=torch.float64)
    return X.div_(lengths.clamp_(min=LEAST_SQUARED_LENGTH**0.5))
