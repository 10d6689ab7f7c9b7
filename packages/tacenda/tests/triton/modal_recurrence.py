"""Run by test_triton.py in a process of its own: the interpreter is chosen when triton is imported."""

import os

import numpy as np
import pytest
import torch

from tacenda import kernels
from tacenda.errors import KernelError
from tacenda.kernels.dynamics import modal_recurrence
from tacenda.kernels.dynamics.modal_recurrence import triton

DEVICE = "cpu" if os.environ.get("TRITON_INTERPRET") == "1" else "cuda"


def problem(lengths, n_real, n_pairs, dtype):
    rng = np.random.default_rng(0)
    offsets = np.r_[0, np.cumsum(lengths)].astype(np.int64)
    states = n_real + 2 * n_pairs
    return {
        "real": rng.uniform(-0.9, 0.9, n_real).astype(dtype),
        "complex": rng.uniform(-0.6, 0.6, (n_pairs, 2)).astype(dtype),
        "u": rng.standard_normal((offsets[-1], states)).astype(dtype),
        "offsets": offsets,
        "initial": rng.standard_normal((len(lengths), states)).astype(dtype),
    }


def on_device(arguments):
    return {
        key: torch.as_tensor(value, device=DEVICE) if isinstance(value, np.ndarray) else value
        for key, value in arguments.items()
    }


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("spectrum", [(1, 0), (0, 2), (5, 30)])
@pytest.mark.parametrize("lengths", [[], [3, 0, 1, 9, 0]])
def test_agrees_with_the_plain_loop_with_all_gradients(lengths, spectrum, dtype, given, reverse):
    args = problem(lengths, *spectrum, dtype) | {"reverse": reverse}
    if not given:
        del args["initial"]
    tolerance = 1e-4 if dtype == np.float32 else 1e-10
    with kernels.use("reference"):
        m = modal_recurrence.forward(**args)
        fast = triton.forward(**on_device(args))
        np.testing.assert_allclose(fast.cpu(), m, rtol=tolerance, atol=tolerance)
        del args["u"]
        grad = np.random.default_rng(1).standard_normal(m.shape).astype(dtype)
        args |= {"m": m, "grad": grad}
        slow = modal_recurrence.backward(**args)
    for ours, expected in zip(triton.backward(**on_device(args)), slow, strict=True):
        assert ours.dtype == getattr(torch, np.dtype(dtype).name)
        np.testing.assert_allclose(ours.cpu(), expected, rtol=tolerance, atol=tolerance)


def test_works_in_place_and_reads_any_layout():
    args = on_device(problem([4, 3], 2, 3, np.float32))
    expected = triton.forward(**args)
    strided = args | {"u": args["u"].T.contiguous().T}
    assert torch.equal(triton.forward(**strided), expected)
    assert triton.forward(**args, out=args["u"]) is args["u"]
    assert torch.equal(args["u"], expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"u": torch.ones(3, 4)}, "make 3 states"),
        ({"u": torch.ones(3, 3, dtype=torch.float16)}, "float32 or float64"),
        ({"offsets": np.array([0, 2])}, "ascend from 0 to the 3 tokens"),
        ({"initial": np.ones((2, 3))}, "initial must be"),
        ({"out": torch.ones(3, 3, dtype=torch.float64)}, "out must be"),
    ],
)
def test_shapes_that_disagree_are_named(change, message):
    with pytest.raises(KernelError, match=message):
        triton.forward(**on_device(problem([3], 1, 1, np.float32) | change))
