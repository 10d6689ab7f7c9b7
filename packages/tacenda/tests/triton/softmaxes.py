"""Run by test_triton.py in a process of its own: the interpreter is chosen when triton is imported."""

import numpy as np
import pytest
import torch

from tacenda.errors import KernelError
from tacenda.kernels.hidden_markov import (
    Vectors,
    block_softmax,
    block_softmax_backward,
    class_softmax,
    class_softmax_backward,
    streaming_logsumexp,
    streaming_logsumexp_backward,
)
from tacenda.testing.kernels import SAMPLES

TOLERANCE = {np.float32: 2e-5, np.float64: 1e-12}


def normal(seed, *shapes, dtype=np.float32):
    rng = np.random.default_rng(seed)
    return tuple(rng.standard_normal(shape).astype(dtype) for shape in shapes)


# -- streaming sums ----------------------------------------------------------------------------------


def assert_sums(device, arguments, tolerance=2e-5):
    _, expected = device.check(streaming_logsumexp, *arguments, tolerance=tolerance)
    (g,) = normal(1, expected.shape, dtype=expected.dtype)
    device.check(streaming_logsumexp_backward, *arguments, expected, g, tolerance=tolerance)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "shape", [(0, 1, 1), (1, 1, 1), (3, 2, 0), (5, 63, 7), (65, 130, 40), (64, 64, 130)], ids=str
)
def test_streaming_sums_agree_with_the_specification(device, shape, dtype):
    """No rows, one column, no width, whole tiles and one more of each side."""
    rows, columns, width = shape
    arguments = normal(0, (rows, width), (columns, width), (columns,), dtype=dtype)
    assert_sums(device, arguments, TOLERANCE[dtype])


def test_columns_that_are_left_out_and_large_scores(device):
    x, y, b = normal(0, (5, 3), (70, 3), (70,))
    assert_sums(device, (x, y, b * np.float32(30)))
    b[:65] = -np.inf  # the whole first tile
    assert_sums(device, (x, y, b))
    b[:] = -np.inf
    given = device.tensors((x, y, b))
    found = streaming_logsumexp(*given)
    assert torch.isneginf(found).all()
    gradients = streaming_logsumexp_backward(*given, found, torch.ones_like(found))
    assert not any(gradient.any() for gradient in gradients)


def test_sums_take_any_layout_and_show_nan(device):
    x, y, b = device.tensors(normal(0, (5, 3), (7, 3), (7,)))
    expected = streaming_logsumexp(x, y, b)
    assert torch.equal(streaming_logsumexp(x.T.contiguous().T, y.T.contiguous().T, b), expected)
    x[2, 1] = torch.nan
    assert torch.isnan(streaming_logsumexp(x, y, b)).tolist() == [False, False, True, False, False]
    with pytest.raises(KernelError, match="columns must be"):
        streaming_logsumexp(x, y[:, :2], b)
    with pytest.raises(KernelError, match="bias is a ndarray"):
        streaming_logsumexp(x, y, b.cpu().numpy())


# -- blocks ------------------------------------------------------------------------------------------


def assert_blocks(device, made_of, pairs, weights, norms, tolerance=2e-5):
    arguments = made_of, *pairs, weights, norms
    _, expected = device.check(block_softmax, *arguments, tolerance=tolerance)
    counts = np.abs(np.cos(expected * 9))
    of = counts.max(initial=1e-3)  # counts less their shares: of one state nothing is left
    given = made_of, *pairs, expected, counts, weights
    device.check(block_softmax_backward, *given, tolerance=tolerance, of=of)


@pytest.mark.parametrize("case", list(SAMPLES["block_softmax"]()), ids=lambda case: case[0])
def test_blocks_agree_with_the_specification_on_awkward_shapes(device, case):
    made_of, sources, targets, weights, norms = case[1]
    assert_blocks(device, made_of, (sources, targets), weights, norms)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("two_levels", [True, False])
def test_blocks_of_several_tiles(device, two_levels, dtype):
    k, width = 131, 70
    *made_of, norms = normal(0, *[(2, k, width)] * 2, (2, k), (2, k), dtype=dtype)
    made_of[0] /= dtype(8)
    weights = np.full((3, k), 0.3, dtype)
    norms = np.abs(norms) + dtype(5)
    given = (weights, None) if two_levels else (None, norms)
    pairs = np.array([0, 1, 1]), np.array([1, 0, 1])
    assert_blocks(device, Vectors(*made_of), pairs, *given, tolerance=TOLERANCE[dtype])


@pytest.mark.parametrize("lowest", [-1000.0, -np.inf])
def test_states_that_are_all_but_impossible(device, lowest):
    """A first tile of them, and then a tile of others."""
    k = 140
    x, y, b = normal(0, (1, k, 3), (1, k, 3), (1, k))
    b[:, :130] = lowest
    b[:, 130:] -= 1000 if np.isinf(lowest) else 0
    weights = np.ones((1, k), np.float32)
    given = Vectors(x, y, b), [0], [0], weights
    found, _ = device.check(block_softmax, *given, tolerance=1e-4)  # scores of 1000: fewer digits
    np.testing.assert_allclose(found.sum(1).cpu(), 1, rtol=1e-5)


@pytest.mark.parametrize("name", ["left", "reached", "bias"])
def test_nan_in_a_vector_is_seen_in_its_blocks(device, name):
    made_of = Vectors(*normal(0, (2, 5, 3), (2, 5, 3), (2, 5)))
    getattr(made_of, name)[1] = np.nan
    norms = np.ones((2, 5), np.float32)
    for how in ((norms[:1], None), (None, norms)):
        assert torch.isnan(block_softmax(*device.tensors((made_of, [1], [1], *how)))).all()


def test_vectors_and_pairs_that_do_not_fit_are_refused(device):
    made_of = Vectors(*device.tensors(normal(0, (2, 4, 3), (2, 4, 3), (2, 4))))
    weights = torch.ones(2, 4, device=device.name)
    for change, pairs, message in (
        ({}, ([1, 0], [0, 0]), "sorted"),
        ({}, ([0, 2], [0, 0]), "sources run from 0 to 2"),
        ({"reached": made_of.reached.transpose(0, 1)}, ([0, 1], [0, 0]), "reached must be"),
        ({"bias": made_of.bias.cpu().numpy()}, ([0, 1], [0, 0]), "bias is a ndarray"),
    ):
        with pytest.raises(KernelError, match=message):
            block_softmax(made_of._replace(**change), *pairs, weights)
    with pytest.raises(KernelError, match="either weights or norms"):
        block_softmax(made_of, [0], [0])


# -- words of classes --------------------------------------------------------------------------------


def assert_words(device, arguments, tolerance=2e-5):
    _, expected = device.check(class_softmax, *arguments, tolerance=tolerance)
    counts = np.abs(np.cos(expected * 9))
    device.check(class_softmax_backward, *arguments, expected, counts, tolerance=tolerance)


@pytest.mark.parametrize("case", list(SAMPLES["class_softmax"]()), ids=lambda case: case[0])
def test_words_agree_with_the_specification_on_awkward_shapes(device, case):
    assert_words(device, case[1])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_classes_of_several_tiles_beside_empty_ones(device, dtype):
    cuts = np.array([0, 0, 290, 290, 291, 300, 300])
    words, bias, states = normal(0, (300, 40), (300,), (6, 70, 40), dtype=dtype)
    assert_words(device, (words, bias, states / dtype(4), cuts), TOLERANCE[dtype])


def test_words_that_do_not_fit_are_refused(device):
    words, bias, states = device.tensors(normal(0, (5, 3), (5,), (2, 4, 3)))
    for arguments, message in (
        ((words, bias, states, [0, 5]), "offsets must ascend from 0 to 5 in 2 steps"),
        ((words, bias, states, [0, 2, 4]), "offsets must ascend from 0 to 5"),
        ((words, bias[:4], states, [0, 2, 5]), r"bias must be float32 \(words=5\)"),
    ):
        with pytest.raises(KernelError, match=message):
            class_softmax(*arguments)


def test_words_in_another_layout_are_copied(device):
    words, bias, states = device.tensors(normal(0, (5, 3), (5,), (2, 4, 3)))
    found = class_softmax(words.T.contiguous().T, bias, states, [0, 2, 5])
    assert torch.equal(found, class_softmax(words, bias, states, [0, 2, 5]))
