"""Sums over rows in the gradient are the same with numpy and with torch."""

import numpy as np
import torch

from tacenda_lm.hidden_markov.training import _sum_at


def test_arrays_and_tensors_are_summed_by_rows():
    rng = np.random.default_rng(0)
    like, values = np.empty((4, 3), np.float32), rng.standard_normal((3, 3)).astype(np.float32)
    rows = np.array([1, 1, 3])
    expected = [[0, 0, 0], values[0] + values[1], [0, 0, 0], values[2]]
    np.testing.assert_array_equal(_sum_at(like, rows, values), expected)
    found = _sum_at(torch.from_numpy(like), rows, torch.from_numpy(values))
    np.testing.assert_allclose(found, expected, rtol=1e-6)
