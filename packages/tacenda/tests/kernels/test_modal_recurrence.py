import numpy as np
import pytest

from tacenda import kernels
from tacenda.errors import KernelError
from tacenda.kernels.dynamics.modal_recurrence import backward, decompose, forward, scan
from tacenda.kernels.dynamics.modal_recurrence.naive import block_diagonal

LENGTHS = {
    "no sequences": [],
    "only an empty one": [0],
    "awkward": [5, 0, 1, 63, 1, 0],
    "one": [7],
}
SPECTRA = {"one state": (1, 0), "three": (1, 1), "only pairs": (0, 2), "many": (5, 30)}


def problem(lengths, spectrum, dtype=np.float64, seed=0):
    n_real, n_pairs = spectrum
    rng = np.random.default_rng(seed)
    offsets = np.r_[0, np.cumsum(lengths)].astype(np.int64)
    states = n_real + 2 * n_pairs
    return {
        "real": rng.uniform(-0.9, 0.9, n_real).astype(dtype),
        "complex": rng.uniform(-0.6, 0.6, (n_pairs, 2)).astype(dtype),
        "u": rng.standard_normal((offsets[-1], states)).astype(dtype),
        "offsets": offsets,
        "initial": rng.standard_normal((len(lengths), states)).astype(dtype),
    }


def reference(function, *args, **kwargs):
    with kernels.use("reference"):
        return function(*args, **kwargs)


def tolerance(dtype):
    return {"rtol": 1e-10, "atol": 1e-12} if dtype == np.float64 else {"rtol": 1e-4, "atol": 1e-4}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("given", [False, True], ids=["from zero", "initial given"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("spectrum", SPECTRA.values(), ids=SPECTRA)
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_agrees_with_the_plain_loop_with_all_gradients(lengths, spectrum, dtype, given, reverse):
    args = problem(lengths, spectrum, dtype)
    if not given:
        del args["initial"]
    m = forward(**args, reverse=reverse)
    expected = reference(forward, **args, reverse=reverse)
    assert m.dtype == dtype
    np.testing.assert_allclose(m, expected, **tolerance(dtype))
    del args["u"]
    grad = np.random.default_rng(1).standard_normal(m.shape).astype(dtype)
    args |= {"m": m, "grad": grad, "reverse": reverse}
    for fast, slow in zip(backward(**args), reference(backward, **args), strict=True):
        assert fast.dtype == dtype
        np.testing.assert_allclose(fast, slow, **tolerance(dtype))


def test_the_plain_loop_is_the_equation():
    args = problem([4], (1, 1))
    m = reference(forward, **args)
    (decay,), ((re, im),) = args["real"], args["complex"]
    before = args["initial"][0]
    for t in range(4):
        r, x, y = before
        assert m[t] == pytest.approx(
            [decay * r, re * x + im * y, re * y - im * x] + args["u"][t], rel=1e-12
        )
        before = m[t]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", ["real", "complex", "u", "initial"])
@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_gradients_are_finite_differences(backend, name, reverse):
    args = problem([3, 0, 5], (1, 1))
    weights = np.random.default_rng(2).standard_normal(args["u"].shape)
    # A quadratic loss: central differences of it are exact but for rounding of higher orders in t.
    with kernels.use(backend):
        m = forward(**args, reverse=reverse)
        others = {key: value for key, value in args.items() if key != "u"}
        gradients = backward(**others, m=m, grad=weights * m, reverse=reverse)

        def loss():
            return 0.5 * np.sum(weights * forward(**args, reverse=reverse) ** 2)

        numeric = np.zeros(args[name].shape)
        for index in np.ndindex(args[name].shape):
            kept = args[name][index]
            values = []
            for step in (1e-6, -1e-6):
                args[name][index] = kept + step
                values.append(loss())
            args[name][index] = kept
            numeric[index] = (values[0] - values[1]) / 2e-6
    np.testing.assert_allclose(getattr(gradients, name), numeric, rtol=1e-6, atol=1e-7)


def test_works_in_place_and_into_an_array_of_the_callers():
    args = problem([20, 30], (3, 10), np.float32)
    expected = forward(**args)
    out = np.empty_like(expected)
    assert forward(**args, out=out) is out
    np.testing.assert_array_equal(out, expected)
    assert forward(**args, out=args["u"]) is args["u"]
    np.testing.assert_array_equal(args["u"], expected)


def test_reads_any_memory_layout():
    args = problem([20, 30], (3, 10))
    expected = forward(**args)
    args["u"] = np.asfortranarray(args["u"])
    args["complex"] = np.asfortranarray(args["complex"])
    args["initial"] = np.repeat(args["initial"], 2, axis=0)[::2]
    np.testing.assert_array_equal(forward(**args), expected)


def test_the_result_does_not_depend_on_the_number_of_threads():
    args = problem(np.random.default_rng(3).integers(0, 20, 200), (3, 10), np.float32)
    m = forward(**args)
    others = {key: value for key, value in args.items() if key != "u"}
    gradients = backward(**others, m=m, grad=m)
    for threads in (2, 5, 300):
        np.testing.assert_array_equal(m, forward(**args, threads=threads))
        for one, many in zip(
            gradients, backward(**others, m=m, grad=m, threads=threads), strict=True
        ):
            np.testing.assert_array_equal(one, many)


def test_nan_stays_in_its_sequence_and_state():
    args = problem([3, 3], (2, 0))
    args["u"][1, 0] = np.nan
    expected = np.zeros((6, 2), bool)
    expected[1:3, 0] = True
    np.testing.assert_array_equal(np.isnan(forward(**args)), expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"u": np.ones((3, 4))}, "1 real eigenvalues and 1 pairs make 3 states"),
        ({"u": np.ones((3, 3), np.float16)}, "float32 or float64"),
        ({"u": np.ones(3)}, "tokens, states"),
        ({"offsets": np.array([0, 2])}, "ascend from 0 to the 3 tokens"),
        ({"offsets": np.array([0, 4, 3])}, "ascend"),
        ({"offsets": np.array([], int)}, "sequences \\+ 1"),
        ({"complex": np.ones((1, 3))}, "n_pairs, 2"),
        ({"initial": np.ones((2, 3))}, "initial must be"),
        ({"out": np.ones((3, 3), np.float32)}, "out must be"),
        ({"threads": 0}, "threads must be"),
    ],
)
def test_shapes_that_disagree_are_named(change, message):
    args = problem([3], (1, 1))
    with pytest.raises(KernelError, match=message):
        forward(**(args | change))


def test_half_overlapping_output_is_refused():
    args = problem([3], (1, 0))
    memory = np.zeros((4, 1))
    args["u"] = memory[:3]
    with pytest.raises(KernelError, match="overlaps"):
        forward(**args, out=memory[1:])


@pytest.mark.parametrize("states", [1, 2, 3, 10, 40])
def test_decomposition_restores_the_matrix_and_turns_the_recurrence_modal(states):
    rng = np.random.default_rng(states)
    F = rng.standard_normal((states, states)) / np.sqrt(states)
    found = decompose(F)
    Lambda = block_diagonal(found.real, found.complex)
    np.testing.assert_allclose(found.P @ Lambda @ found.P_inv, F, atol=1e-10)
    np.testing.assert_allclose(found.P @ found.P_inv, np.eye(states), atol=1e-9)
    assert found.condition == pytest.approx(np.linalg.cond(found.P), rel=1e-6)
    assert np.mean(found.P**2, axis=None) * states == pytest.approx(1.0)
    assert (found.complex[:, 1] > 0).all()
    u = rng.standard_normal((6, states))
    m = forward(found.real, found.complex, u @ found.P_inv.T, np.array([0, 6]))
    a = np.zeros(states)
    for t in range(6):
        a = F @ a + u[t]
        np.testing.assert_allclose(m[t] @ found.P.T, a, atol=1e-9)


def test_decomposition_of_a_matrix_without_an_eigenbasis_tells_by_its_condition():
    assert decompose(np.array([[0.5, 1.0], [0.0, 0.5]])).condition > 1e12


@pytest.mark.parametrize("F", [np.ones((2, 3)), np.array([[np.nan]])], ids=["oblong", "nan"])
def test_decomposition_refuses_what_is_no_finite_square_matrix(F):
    with pytest.raises(KernelError, match="square matrix of finite numbers"):
        decompose(F)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_a_scan_is_the_recurrence_less_the_tokens_own_inputs(backend, reverse):
    args = problem([5, 0, 1, 40], (3, 10))
    u, offsets, entering = args.pop("u"), args["offsets"], args.pop("initial")
    first = (offsets[1:] - 1 if reverse else offsets[:-1])[[0, 2, 3]]
    last = (offsets[:-1] if reverse else offsets[1:] - 1)[[0, 2, 3]]
    with_entering = u.copy()
    with_entering[first] += entering[[0, 2, 3]]
    order = np.random.default_rng(3).permutation(len(u))
    with kernels.use(backend):
        m = forward(**args, u=with_entering, reverse=reverse)
        out = np.full((len(u), 30), 7.0)
        found = scan(
            args["real"], args["complex"], u[order], np.argsort(order), offsets, entering,
            reverse, out, 4,
        )  # fmt: skip
        ends = scan(
            args["real"], args["complex"], u[order], np.argsort(order), offsets, entering, reverse
        )
    assert found.before is out
    assert ends.before is None
    np.testing.assert_allclose(out[:, 4:27], m - u, atol=1e-12)
    assert (out[:, :4] == 7.0).all()
    assert (out[:, 27:] == 7.0).all()
    np.testing.assert_allclose(found.last[[0, 2, 3]], m[last], atol=1e-12)
    np.testing.assert_array_equal(found.last[1], entering[1])
    np.testing.assert_array_equal(found.last, ends.last)


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ids": np.array([0, 5])}, "ids run from 0 to 5, and the table has 5 rows"),
        ({"ids": np.array([-1, 0])}, "ids run from -1"),
        ({"ids": np.array([0.0, 1.0])}, "ids must be"),
        ({"table": np.zeros((5, 3), np.int32)}, "table must be"),
        ({"table": np.zeros((5, 4))}, "states"),
        ({"offsets": np.array([0, 1])}, "offsets must ascend from 0 to the 2 tokens of ids"),
        ({"initial": np.zeros((2, 3))}, "initial must be"),
        ({"out": np.zeros((1, 3))}, "out must be"),
        ({"out": np.zeros((2, 3)), "column": 1}, "out must be"),
        ({"out": np.zeros((2, 6))[:, ::2]}, "out must be"),
    ],
)
def test_a_scan_refuses_what_does_not_fit(backend, change, message):
    args = {
        "real": np.array([0.5]),
        "complex": np.array([[0.1, 0.2]]),
        "table": np.zeros((5, 3)),
        "ids": np.array([0, 4]),
        "offsets": np.array([0, 2]),
        **change,
    }
    with kernels.use(backend), pytest.raises(KernelError, match=message):
        scan(**args)
