import numpy as np
import pytest

from tacenda import kernels
from tacenda.errors import KernelError
from tacenda.kernels import sequences
from tacenda.kernels.sequences import Modes, block_diagonal, decompose, linear_recurrence
from tacenda.testing.kernels.samples import run_specification

LENGTHS = {"no sequences": [], "only an empty one": [0], "awkward": [5, 0, 1, 63, 1, 0], "one": [7]}
SPECTRA = {"one state": (1, 0), "three": (1, 1), "only pairs": (0, 2), "many": (5, 30)}


def problem(lengths, spectrum, dtype=np.float64, seed=0):
    n_real, n_pairs = spectrum
    rng = np.random.default_rng(seed)
    offsets = np.r_[0, np.cumsum(lengths)].astype(np.int64)
    states = n_real + 2 * n_pairs
    return {
        "real": rng.uniform(-0.9, 0.9, n_real).astype(dtype),
        "pairs": rng.uniform(-0.6, 0.6, (n_pairs, 2)).astype(dtype),
        "table": rng.standard_normal((9, states)).astype(dtype),
        "ids": rng.integers(0, 9, offsets[-1]),
        "offsets": offsets,
        "initial": rng.standard_normal((len(lengths), states)).astype(dtype),
    }


def modal_scan(*, real, pairs, **args):
    return sequences.modal_scan(Modes(real, pairs), **args)


def run(args, **more):
    """What comes into every token, and the last states."""
    out = np.empty((len(args["ids"]), args["table"].shape[1]), args["table"].dtype)
    return modal_scan(**args, **more, out=out)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("given", [False, True], ids=["from zero", "initial given"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("spectrum", SPECTRA.values(), ids=SPECTRA)
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_agrees_with_the_plain_loop(lengths, spectrum, dtype, given, reverse):
    args = problem(lengths, spectrum, dtype) | {"reverse": reverse}
    if not given:
        del args["initial"]
    found, expected = run(args), run_specification(run, args)
    tolerance = 1e-10 if dtype == np.float64 else 1e-4
    for fast, slow in zip(found, expected, strict=True):
        assert fast.dtype == dtype
        np.testing.assert_allclose(fast, slow, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_both_are_the_equation(backend):
    args = problem([4], (1, 1))
    with kernels.use(backend):
        found = run(args)
    (decay,), ((re, im),) = args["real"], args["pairs"]
    before = args["initial"][0]
    for t in range(4):
        np.testing.assert_allclose(found.before[t], before, rtol=1e-12)
        r, x, y = before + args["table"][args["ids"][t]]
        before = np.array([decay * r, re * x + im * y, re * y - im * x])
    np.testing.assert_allclose(found.last[0], (r, x, y), rtol=1e-12)


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_is_the_dense_recurrence_less_the_tokens_own_inputs(backend, reverse):
    args = problem([5, 0, 1, 40], (3, 10))
    u, offsets, entering = args["table"][args["ids"]], args["offsets"], args.pop("initial")
    filled = [0, 2, 3]
    first = (offsets[1:] - 1 if reverse else offsets[:-1])[filled]
    last = (offsets[:-1] if reverse else offsets[1:] - 1)[filled]
    with_entering = u.copy()
    with_entering[first] += entering[filled]
    Lambda = block_diagonal(args["real"], args["pairs"])
    args |= {"initial": entering, "reverse": reverse}
    with kernels.use(backend):
        m = linear_recurrence(Lambda, with_entering, offsets, reverse=reverse)
        out = np.full((len(u), 30), 7.0)
        found, ends = modal_scan(**args, out=out, column=4), modal_scan(**args)
    assert found.before is out
    assert ends.before is None
    np.testing.assert_allclose(out[:, 4:27], m - u, atol=1e-12)
    assert (out[:, :4] == 7.0).all()
    assert (out[:, 27:] == 7.0).all()
    np.testing.assert_allclose(found.last[filled], m[last], atol=1e-12)
    np.testing.assert_array_equal(found.last[1], entering[1])
    np.testing.assert_array_equal(found.last, ends.last)


def test_reads_any_memory_layout():
    args = problem([20, 30], (3, 10))
    expected = run(args)
    args["table"] = np.asfortranarray(args["table"])
    args["pairs"] = np.asfortranarray(args["pairs"])
    args["initial"] = np.repeat(args["initial"], 2, axis=0)[::2]
    np.testing.assert_array_equal(run(args).before, expected.before)


def test_nan_stays_in_its_sequence_and_state():
    args = problem([3, 3], (2, 0)) | {"ids": np.array([0, 1, 2, 3, 4, 5])}
    args["table"][1, 0] = np.nan
    expected = np.zeros((6, 2), bool)
    expected[2, 0] = True
    found = run(args)
    np.testing.assert_array_equal(np.isnan(found.before), expected)
    np.testing.assert_array_equal(np.isnan(found.last), [[True, False], [False, False]])


@pytest.mark.parametrize("states", [1, 2, 3, 10, 40])
def test_decomposition_restores_the_matrix_and_turns_the_recurrence_modal(states):
    rng = np.random.default_rng(states)
    F = rng.standard_normal((states, states)) / np.sqrt(states)
    found = decompose(F)
    Lambda = block_diagonal(found.real, found.pairs)
    np.testing.assert_allclose(found.P @ Lambda @ found.P_inv, F, atol=1e-10)
    np.testing.assert_allclose(found.P @ found.P_inv, np.eye(states), atol=1e-9)
    assert found.condition == pytest.approx(np.linalg.cond(found.P), rel=1e-6)
    assert np.mean(found.P**2, axis=None) * states == pytest.approx(1.0)
    assert (found.pairs[:, 1] > 0).all()
    u = rng.standard_normal((6, states))
    out = np.empty((6, states))
    modal = (Modes(found.real, found.pairs), u @ found.P_inv.T, np.arange(6), np.array([0, 6]))
    sequences.modal_scan(*modal, out=out)
    m = out + u @ found.P_inv.T
    a = np.zeros(states)
    for t in range(6):
        a = F @ a + u[t]
        np.testing.assert_allclose(m[t] @ found.P.T, a, atol=1e-9)


def test_decomposition_of_a_matrix_without_an_eigenbasis_tells_by_its_condition():
    assert decompose(np.array([[0.5, 1.0], [0.0, 0.5]])).condition > 1e12


def test_decomposition_of_no_states_is_empty():
    found = decompose(np.zeros((0, 0)))
    assert [part.shape for part in found[:4]] == [(0,), (0, 2), (0, 0), (0, 0)]
    assert found.condition == 1.0


@pytest.mark.parametrize(
    "F",
    [np.ones((2, 3)), [[np.inf]], [[np.nan]], None, "x", [[1, 2], [3]], np.eye(2, dtype=complex)],
    ids=str,
)
def test_decomposition_refuses_what_is_no_finite_square_matrix(F):
    with pytest.raises(KernelError, match="square matrix of finite numbers"):
        decompose(F)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ids": np.array([0, 5])}, "ids run from 0 to 5, and there are 5 rows"),
        ({"ids": np.array([-1, 0])}, "ids run from -1"),
        ({"ids": np.array([0.0, 1.0])}, "ids must be"),
        ({"table": np.zeros((5, 3), np.int32)}, "table must be"),
        ({"table": np.zeros((5, 3), np.float16)}, "float32 or float64"),
        ({"table": np.zeros(3)}, "table must be"),
        ({"table": np.zeros((5, 4))}, "1 real eigenvalues and 1 pairs make 3 states"),
        ({"pairs": np.ones((1, 3))}, "n_pairs, 2"),
        ({"offsets": np.array([0, 1])}, "offsets must ascend from 0 to 2"),
        ({"offsets": np.array([0, 3, 2])}, "ascend"),
        ({"offsets": np.array([], int)}, "pieces \\+ 1"),
        ({"initial": np.zeros((2, 3))}, "offsets must ascend"),
        ({"out": np.zeros((1, 3))}, "out must have 2 rows"),
        ({"out": np.zeros((2, 3)), "column": 1}, "out must have 2 rows"),
        ({"out": np.zeros((2, 6))[:, ::2]}, "out must be"),
    ],
)
def test_a_scan_refuses_what_does_not_fit(change, message):
    args = {
        "real": np.array([0.5]),
        "pairs": np.array([[0.1, 0.2]]),
        "table": np.zeros((5, 3)),
        "ids": np.array([0, 4]),
        "offsets": np.array([0, 2]),
        **change,
    }
    with pytest.raises(KernelError, match=message):
        modal_scan(**args)
