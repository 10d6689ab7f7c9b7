"""Functions of the likelihood that are written for numpy and for torch give the same with both."""

import numpy as np
import pytest
import torch

from tacenda_lm.hidden_markov import likelihood

RNG = np.random.default_rng(0)
TABLE = RNG.standard_normal((4, 3, 5)).astype(np.float32)
ROWS, COLUMNS = np.array([2, 0, 3]), np.array([4, 4, 0])
VALUES = RNG.standard_normal((3, 3)).astype(np.float32)


@pytest.mark.parametrize(
    ("function", "table", "more"),
    [
        (likelihood._exp, TABLE, ()),
        (likelihood._take_at, TABLE, (ROWS, COLUMNS)),
        (likelihood._put_at, TABLE, (ROWS, COLUMNS, VALUES)),
        (likelihood._sum_at, TABLE[:, 0, :3], (np.array([1, 1, 3]), VALUES)),
    ],
)
def test_arrays_and_tensors_give_the_same(function, table, more):
    expected = function(table, *more)
    there = [torch.tensor(part) if part is VALUES else part for part in more]
    found = function(torch.tensor(table), *there)
    assert isinstance(expected, np.ndarray)
    assert found.is_contiguous()
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)


def test_sums_and_places_are_those_asked_for():
    assert likelihood._put_at(TABLE, ROWS, COLUMNS, VALUES)[2, :, 4].tolist() == VALUES[0].tolist()
    summed = likelihood._sum_at(TABLE[:, 0, :3], np.array([1, 1, 3]), VALUES)
    np.testing.assert_array_equal(summed, [[0, 0, 0], VALUES[0] + VALUES[1], [0, 0, 0], VALUES[2]])
