import importlib

import numpy as np
import pytest

from tacenda.errors import KernelError
from tacenda.kernels.sequences import cpu, linear_recurrence
from tacenda.testing.kernels.samples import run_specification

LENGTHS = {
    "no sequences": [],
    "only empty ones": [0, 0],
    "awkward": [5, 0, 1, 63, 1, 0],
    "one": [7],
    "one long": [200],
    "long ones among short": [3, 150, 0, 4, 5, 161, 3, 2, 1, 9, 9, 9],
}


@pytest.fixture(autouse=True)
def _long_means_a_hundred(monkeypatch):
    # The chunked form for long sequences is reached with short, quick ones.
    monkeypatch.setattr(cpu, "LONG", 100)


def problem(lengths, states, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    offsets = np.r_[0, np.cumsum(lengths)].astype(np.int64)
    F = rng.standard_normal((states, states))
    return {
        "F": (0.95 * F / np.abs(np.linalg.eigvals(F)).max()).astype(dtype),
        "u": rng.standard_normal((offsets[-1], states)).astype(dtype),
        "offsets": offsets,
    }


def assert_close(fast, slow):
    assert fast.dtype == slow.dtype
    scale = np.abs(slow).max(initial=1.0)
    tolerance = 1e-11 if slow.dtype == np.float64 else 1e-5
    np.testing.assert_allclose(fast, slow, rtol=0, atol=tolerance * scale)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("states", [1, 3, 40])
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_agrees_with_the_plain_loop(lengths, states, dtype, reverse):
    args = problem(lengths, states, dtype)
    a = linear_recurrence(**args, reverse=reverse)
    assert_close(a, run_specification(linear_recurrence, **args, reverse=reverse))


def test_the_plain_loop_is_the_equation():
    args = problem([3], 2)
    a = run_specification(linear_recurrence, **args)
    F, u = args["F"], args["u"]
    expected = [u[0]]
    for t in (1, 2):
        expected.append(F @ expected[-1] + u[t])
    np.testing.assert_allclose(a, expected, rtol=1e-12)


def test_many_sequences_take_several_batches():
    lengths = np.random.default_rng(4).integers(0, 12, 700)
    args = problem(lengths, 5)
    assert_close(linear_recurrence(**args), run_specification(linear_recurrence, **args))


@pytest.mark.parametrize("name", LENGTHS)
def test_reads_any_memory_layout(name):
    args = problem(LENGTHS[name], 6, np.float32)
    strided = args | {"F": np.asfortranarray(args["F"]), "u": np.asfortranarray(args["u"])}
    np.testing.assert_array_equal(linear_recurrence(**strided), linear_recurrence(**args))


def test_nan_stays_in_its_sequence():
    args = problem([150, 3, 3], 2)
    args["u"][151, 0] = np.nan
    expected = np.zeros((156, 2), bool)
    expected[151, 0] = True
    expected[152] = True
    np.testing.assert_array_equal(np.isnan(linear_recurrence(**args)), expected)


@pytest.mark.parametrize("backend", ["cpu", "torch"])
@pytest.mark.parametrize("growth", [5, 50, 1e6, 1e30])
def test_a_silent_long_sequence_under_an_explosive_matrix_stays_silent(backend, growth):
    run = importlib.import_module(f"tacenda.kernels.sequences.{backend}").linear_recurrence
    F, u = np.eye(2, dtype=np.float32) * np.float32(growth), np.zeros((5000, 2), np.float32)
    u[:, 1] = F[1, 1] = 0.5
    if backend == "torch":
        F, u = map(pytest.importorskip("torch").from_numpy, (F, u))
    out = np.asarray(run(F, u, np.array([0, 2, 5000]), False))
    np.testing.assert_array_equal(out[:, 0], 0.0)
    np.testing.assert_allclose(out[[1, 99, 4999], 1], [0.75, 1, 1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"F": np.ones((3, 2))}, "F must be"),
        ({"u": np.ones((3, 2), np.int32)}, "float32 or float64"),
        ({"offsets": np.array([0, 2])}, "ascend from 0 to 3"),
        ({"offsets": np.array([0.0, 3.0])}, "integers"),
    ],
)
def test_shapes_that_disagree_are_named(change, message):
    with pytest.raises(KernelError, match=message):
        linear_recurrence(**(problem([3], 2) | change))
