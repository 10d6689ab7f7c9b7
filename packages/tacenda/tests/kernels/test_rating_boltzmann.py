"""Contrastive divergence against brute force over all states of tiny machines."""

from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

from tacenda import kernels
from tacenda.errors import KernelError
from tacenda.kernels import boltzmann
from tacenda.kernels.boltzmann import Descent, boltzmann_expectations
from tacenda.kernels.machinery.xorshift import generate_uniforms
from tacenda.testing.kernels.samples import run_specification


def boltzmann_divergence(
    offsets, ids, levels, cases, weights, visible_biases, hidden_biases, side_weights, scores, slopes, seed,
    side_offsets=None, side_ids=None, descent=None,
):  # fmt: skip
    """Find the divergence or, with ``descent``, the error and the tables after a descent."""
    machine = boltzmann.Machine(weights, visible_biases, hidden_biases, side_weights, scores)
    own = boltzmann.Cases(offsets, ids, levels, slopes, side_offsets, side_ids)
    if descent is None:
        return boltzmann.boltzmann_divergence(own, cases, machine, seed)
    error = boltzmann.boltzmann_descent(own, cases, machine, seed, descent)
    return error, machine[:4]


boltzmann_descent = boltzmann_divergence


BACKENDS = ("reference", "cpu")
K, VISIBLE, HIDDEN = 3, 2, 2


def machine(tied, seed=0, n_cases=1, levels=((0, 2),)):
    rng = np.random.default_rng(seed)
    shape = (VISIBLE, HIDDEN) if tied else (VISIBLE, K, HIDDEN)
    return {
        "offsets": np.arange(n_cases + 1) * VISIBLE,
        "ids": np.tile(np.arange(VISIBLE), n_cases),
        "levels": np.array(levels * (n_cases // len(levels))).ravel(),
        "cases": np.arange(n_cases),
        "weights": rng.normal(0, 0.7, shape).astype(np.float32),
        "visible_biases": rng.normal(0, 0.5, (VISIBLE, K)).astype(np.float32),
        "hidden_biases": rng.normal(0, 0.5, HIDDEN).astype(np.float32),
        "side_weights": np.zeros((0, HIDDEN), np.float32),
        "scores": np.array([-1, 0, 1], np.float32),
        "slopes": np.full(n_cases, 0.3, np.float32),
        "seed": 5,
    }


def joint(given):
    """P(r, h) of a machine of two visible and two hidden units, by enumeration: {(r, h): chance}."""
    s, W = given["scores"].astype(float), given["weights"].astype(float)
    if W.ndim == 2:
        W = W[:, None, :] * s[None, :, None]
    found = {}
    for r in product(range(K), repeat=VISIBLE):
        for h in product((0, 1), repeat=HIDDEN):
            e = given["hidden_biases"] @ np.array(h)
            for m, k in enumerate(r):
                e += given["visible_biases"][m, k] + s[k] * given["slopes"][0] + W[m, k] @ h
            found[r, h] = np.exp(e)
    total = sum(found.values())
    return {state: chance / total for state, chance in found.items()}


def of_ratings(given):
    """P(r), the sum over all hidden states."""
    found = Counter()
    for (r, _), chance in joint(given).items():
        found[r] += chance
    return found


def test_one_step_leaves_the_model_distribution_as_it_is():
    """Data drawn from the machine itself: the expected gradient is zero."""
    chances, n = of_ratings(machine(tied=False)), 60_000
    states = np.array(list(chances))
    drawn = states[np.random.default_rng(0).choice(len(states), n, p=list(chances.values()))]
    given = {**machine(tied=False, n_cases=n), "levels": drawn.ravel()}
    found = boltzmann_divergence(**given)
    for name in ("weights", "visible_biases", "hidden_biases"):
        assert np.abs(getattr(found, name)).max() / n < 0.012


@pytest.mark.parametrize("backend", BACKENDS)
def test_tied_weights_are_untied_ones_in_proportion_to_the_scores(backend):
    tied = machine(tied=True, n_cases=6, levels=((0, 2), (1, 1)))
    s = tied["scores"]
    untied = {**tied, "weights": tied["weights"][:, None, :] * s[None, :, None]}
    with kernels.use(backend):
        one, other = boltzmann_divergence(**tied), boltzmann_divergence(**untied)
    np.testing.assert_allclose(one.error, other.error, rtol=1e-5)
    expected = np.einsum("mkh,k->mh", other.weights, s)
    np.testing.assert_allclose(one.weights, expected, atol=1e-5)
    np.testing.assert_array_equal(one.visible_biases, other.visible_biases)


def test_identities_move_the_hidden_biases():
    given = machine(tied=True)
    U = np.array([[0.5, -1.0], [2.0, 0.3]], np.float32)
    side = {"side_offsets": np.array([0, 1]), "side_ids": np.array([1])}
    found = boltzmann_divergence(**{**given, "side_weights": U}, **side)
    moved = {**given, "hidden_biases": given["hidden_biases"] + U[1]}
    expected = boltzmann_divergence(**moved)
    np.testing.assert_allclose(found.weights, expected.weights, atol=1e-6)
    np.testing.assert_allclose(found.side_weights[1], expected.hidden_biases, atol=1e-6)
    np.testing.assert_array_equal(found.side_weights[0], 0)


def test_a_case_does_not_depend_on_its_company():
    given = machine(tied=True, n_cases=6, levels=((0, 2), (1, 1)))
    together = boltzmann_divergence(**given)
    alone = [boltzmann_divergence(**{**given, "cases": np.array([c])}) for c in range(6)]
    np.testing.assert_allclose(together.weights, sum(a.weights for a in alone), atol=1e-5)
    assert together.error == pytest.approx(sum(a.error for a in alone), rel=1e-6)


def test_random_numbers_are_uniform():
    numbers = [
        n
        for case in range(200)
        for n, _ in zip(generate_uniforms(1, case), range(50), strict=False)
    ]
    counts = np.histogram(numbers, 20, (0, 1))[0]
    assert ((counts - 500) ** 2 / 500).sum() < 45  # chi-square, 19 degrees: 0.999 quantile 43.8


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"levels": np.array([0, 3])}, "levels run from 0 to 3, and there are 3"),
        ({"levels": np.array([0])}, "levels must be"),
        ({"ids": np.array([0, 2])}, "ids run from 0 to 2"),
        ({"weights": np.zeros((2, 4))}, "weights must be"),
        ({"slopes": np.zeros(2)}, "offsets must ascend"),
        ({"cases": np.array([1])}, "chosen run from 1"),
    ],
)
def test_what_does_not_fit_is_refused(backend, change, message):
    with kernels.use(backend), pytest.raises(KernelError, match=message):
        boltzmann_divergence(**{**machine(tied=True), **change})


@pytest.mark.parametrize("backend", BACKENDS)
def test_recalled_ratings_are_drawn_from_the_conditionals(backend):
    """P(r'_m = k | r) = sum_h P(h | r) P(r_m = k | h), both conditionals from the enumerated joint."""
    n = 3_000 if backend == "reference" else 60_000
    given, p = machine(tied=False, n_cases=n), joint(machine(tied=False))
    start = (0, 2)
    of_start = {h: chance for (r, h), chance in p.items() if r == start}
    expected = np.zeros((VISIBLE, K))
    for h, chance in of_start.items():
        given_h = {r: c for (r, other), c in p.items() if other == h}
        for r, c in given_h.items():
            share = chance / sum(of_start.values()) * c / sum(given_h.values())
            expected[[0, 1], r] += share
    with kernels.use(backend):
        moved = boltzmann_divergence(**given).visible_biases
    drawn_counts = -moved
    drawn_counts[[0, 1], start] += n
    for m in range(VISIBLE):
        chi_square = ((drawn_counts[m] - n * expected[m]) ** 2 / (n * expected[m])).sum()
        assert chi_square < 13.8  # 2 degrees of freedom: 0.999 quantile


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("identities", [False, True])
def test_gradients_have_the_moments_of_one_step_of_the_enumerated_machine(
    backend, tied, identities
):
    """They are E[r_m = k], E[h_j] and E[h_j, r_m = k] of what is recalled; with identities, given these.

    The bounds are six standard errors of a mean of numbers in [0, 1] (three times as much for scores), so a right
    sampler is outside one of the 26 for fewer than one of a million seeds.
    """
    n = 3_000 if backend == "reference" else 60_000
    given = machine(tied, n_cases=n)
    enumerated, side = machine(tied), {}
    if identities:
        U = np.array([[0.5, -1.0], [2.0, 0.3]], np.float32)
        given["side_weights"] = U
        side = {"side_offsets": np.arange(n + 1), "side_ids": np.ones(n, np.int32)}
        enumerated["hidden_biases"] = enumerated["hidden_biases"] + U[1]
    with kernels.use(backend):
        found = boltzmann_divergence(**given, **side)
    p, start = joint(enumerated), (0, 2)
    levels, hidden, both = np.zeros((VISIBLE, K)), np.zeros(HIDDEN), np.zeros((VISIBLE, K, HIDDEN))
    for h in product((0, 1), repeat=HIDDEN):
        of_h = p[start, h] / sum(c for (r, _), c in p.items() if r == start)
        recalled = {r: c for (r, other), c in p.items() if other == h}
        for r, c in recalled.items():
            chance = of_h * c / sum(recalled.values())
            again = {other: c for (same, other), c in p.items() if same == r}
            units = sum(c * np.array(h) for h, c in again.items()) / sum(again.values())
            levels[[0, 1], r] += chance
            hidden += chance * units
            both[[0, 1], r] += chance * units
    bound = 3 / np.sqrt(n)
    # The gradients are what the data say, every case being (0, 2), less what is recalled.
    of_data = 1 / (1 + np.exp(-_inputs(enumerated)))
    counts = -found.visible_biases / n
    counts[[0, 1], start] += 1
    np.testing.assert_allclose(counts, levels, atol=bound)
    np.testing.assert_allclose(of_data - found.hidden_biases / n, hidden, atol=bound)
    expected = -both
    expected[[0, 1], start] += of_data
    if tied:
        expected = np.einsum("mkh,k->mh", expected, given["scores"])
    np.testing.assert_allclose(found.weights / n, expected, atol=3 * bound if tied else bound)
    if identities:
        np.testing.assert_allclose(found.side_weights[1], found.hidden_biases, rtol=1e-3)


def _inputs(given):
    """What goes into the hidden units where the ratings are (0, 2)."""
    s, W = given["scores"].astype(float), given["weights"].astype(float)
    rows = [W[m] * s[k] if W.ndim == 2 else W[m, k] for m, k in enumerate((0, 2))]
    return given["hidden_biases"] + sum(rows)


def test_seeds_of_any_size():
    given = machine(tied=True, n_cases=3)
    for seed in (0, 2**63, 2**70 + 1, np.int64(-5)):
        seeded = {**given, "seed": seed}
        expected = run_specification(boltzmann_divergence, **seeded)
        found = boltzmann_divergence(**seeded)
        np.testing.assert_array_equal(found.visible_biases, expected.visible_biases)


def random_machine(n_cases, visible, hidden, n_levels, tied, density, seed, identities=False):
    """Hidden units that are all but certain, so that rounding cannot turn a sample over."""
    rng = np.random.default_rng(seed)
    present = rng.random((n_cases, visible)) < density
    ids = np.nonzero(present)[1]
    offsets = np.concatenate([[0], np.cumsum(present.sum(axis=1))])
    shape = (visible, hidden) if tied else (visible, n_levels, hidden)
    given = {
        "offsets": offsets,
        "ids": ids,
        "levels": rng.integers(0, n_levels, len(ids)),
        "cases": rng.permutation(n_cases),
        "weights": rng.normal(0, 0.05, shape).astype(np.float32),
        "visible_biases": rng.normal(0, 1, (visible, n_levels)).astype(np.float32),
        "hidden_biases": (rng.choice([-40, 40], hidden)).astype(np.float32),
        "side_weights": rng.normal(0, 0.05, (visible if identities else 0, hidden)).astype("f4"),
        "scores": np.linspace(-2, 2, n_levels, dtype=np.float32),
        "slopes": rng.normal(0, 1, n_cases).astype(np.float32),
        "seed": seed,
    }
    return {**given, "side_offsets": offsets, "side_ids": ids} if identities else given


of_any_shape = drawn(
    n_cases=st.integers(1, 5), visible=st.integers(1, 7), hidden=st.sampled_from([0, 1, 2, 8, 63]),
    n_levels=st.integers(2, 10), tied=st.booleans(), density=st.floats(0, 1), seed=st.integers(0, 99),
)  # fmt: skip


@settings(max_examples=40)
@of_any_shape
def test_compiled_code_does_what_the_specification_says(**shape):
    given = random_machine(**shape)
    expected = run_specification(boltzmann_divergence, **given)
    found = boltzmann_divergence(**given)
    assert found.error == pytest.approx(expected.error, rel=1e-3, abs=1e-5)
    np.testing.assert_allclose(found.weights, expected.weights, atol=1e-3)
    np.testing.assert_array_equal(found.visible_biases, expected.visible_biases)


# -- steps after every case ------------------------------------------------------------------------

TABLES = "weights", "visible_biases", "hidden_biases", "side_weights"
DESCENT = Descent(0.02, 0.01, penalty=0.5, bias_penalty=2.0, side_penalty=1.5)


def copied(given):
    """The same, with tables of its own to write into."""
    return {**given, **{name: given[name].copy() for name in TABLES}}


@settings(max_examples=40)
@of_any_shape
def test_compiled_steps_are_those_of_the_specification(**shape):
    given = random_machine(**shape, identities=shape["seed"] % 2 == 0)
    error, expected = run_specification(boltzmann_descent, **copied(given), descent=DESCENT)
    found_error, found = boltzmann_descent(**copied(given), descent=DESCENT)
    assert found_error == pytest.approx(error, rel=1e-3, abs=1e-5)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("tied", [False, True])
def test_a_step_is_the_gradient_of_a_case_less_the_penalties(backend, tied):
    given = machine(tied)
    given["side_weights"] = np.array([[0.5, -1.0], [2.0, 0.3]], np.float32)
    given |= {"side_offsets": np.array([0, 1]), "side_ids": np.array([1])}
    with kernels.use(backend):
        gradients = boltzmann_divergence(**given)
        error, found = boltzmann_descent(**copied(given), descent=DESCENT)
    assert error == pytest.approx(gradients.error, rel=1e-5)
    rates = DESCENT.rate, DESCENT.bias_rate, DESCENT.bias_rate, DESCENT.rate
    penalties = (DESCENT.penalty, DESCENT.bias_penalty, DESCENT.bias_penalty, DESCENT.side_penalty)
    for name, table, rate, penalty in zip(TABLES, found, rates, penalties, strict=True):
        expected = given[name] + rate * (getattr(gradients, name) - penalty * given[name])
        np.testing.assert_allclose(table, expected, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("tied", [False, True])
def test_penalties_made_up_for_later_are_those_of_every_step(tied):
    """A call for each case leaves every row as its step does; one call for all leaves most rows for later."""
    given = random_machine(30, 25, 8, 5, tied, 0.15, seed=4, identities=True)
    together = copied(given)
    apart = copied(given)
    error, _ = boltzmann_descent(**together, descent=DESCENT)
    one_by_one = [{**apart, "cases": given["cases"][i : i + 1]} for i in range(30)]
    errors = [boltzmann_descent(**each, descent=DESCENT)[0] for each in one_by_one]
    assert error == pytest.approx(sum(errors), rel=1e-5)
    for name in TABLES:
        np.testing.assert_allclose(together[name], apart[name], atol=2e-6, err_msg=name)
        assert np.abs(together[name] - given[name]).max() > 1e-3


def test_cases_without_ratings_make_everything_smaller():
    given = machine(tied=False)
    given |= {"offsets": np.zeros(8, int), "ids": np.empty(0, int), "levels": np.empty(0, int)}
    given |= {"cases": np.arange(7), "slopes": np.zeros(7, np.float32)}
    _, (W, b, d, _) = boltzmann_descent(**copied(given), descent=DESCENT)
    np.testing.assert_allclose(W, given["weights"] * (1 - 0.02 * 0.5) ** 7, rtol=1e-6)
    np.testing.assert_allclose(b, given["visible_biases"] * (1 - 0.01 * 2) ** 7, rtol=1e-6)
    np.testing.assert_allclose(d, given["hidden_biases"] * (1 - 0.01 * 2) ** 7, rtol=1e-6)


def test_a_penalty_below_the_rounding_of_the_biases_counts():
    """1 - 1e-8 is 1 in float32."""
    given = machine(tied=True)
    given |= {"offsets": np.zeros(2, int), "ids": np.empty(0, int), "levels": np.empty(0, int)}
    given |= {"cases": np.zeros(100_000, int)}
    _, (_, b, d, _) = boltzmann_descent(
        **copied(given), descent=Descent(0.1, 1e-4, bias_penalty=1e-4)
    )
    for found, name in ((b, "visible_biases"), (d, "hidden_biases")):
        np.testing.assert_allclose(found, given[name] * (1 - 1e-3), rtol=2e-6)


@pytest.mark.parametrize("tied", [False, True])
def test_many_small_steps_make_what_is_observed_probable(tied):
    given = machine(tied, n_cases=1)
    before = of_ratings(given)[0, 2]
    for seed in range(400):
        boltzmann_descent(**{**given, "seed": seed}, descent=Descent(0.05, 0.05))
    assert of_ratings(given)[0, 2] > max(before, 0.8)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weights": np.zeros((2, 2))}, "weights must be float32"),
        ({"visible_biases": np.zeros((2, 6), np.float32)[:, ::2]}, "in C order"),
        (
            {"descent": Descent(0.5, 0.1, penalty=2.0)},
            "times their penalties below 1: .*penalty=2.0",
        ),
        ({"descent": Descent(0.5, -0.1)}, "rates must be at least 0.*bias_rate=-0.1"),
        ({"levels": np.array([0, 3])}, "levels run from 0 to 3, and there are 3"),
    ],
)
def test_steps_that_cannot_be_taken_are_refused(backend, change, message):
    with kernels.use(backend), pytest.raises(KernelError, match=message):
        boltzmann_descent(**{**machine(tied=True), "descent": DESCENT, **change})


# -- pairs -----------------------------------------------------------------------------------------


def pairs(tied):
    rng = np.random.default_rng(1)
    shape = (4, HIDDEN) if tied else (4, K, HIDDEN)
    tables = [rng.normal(0, 1, shape), rng.normal(0, 1, (4, K)), rng.random((3, HIDDEN))]
    tables += [np.array([-1.0, 0.25, 1.5]), rng.normal(0, 1, 3)]
    return [np.array([0, 3, -1]), np.array([2, 0, -1]), *(t.astype(np.float32) for t in tables)]


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
def test_expectations_are_those_of_the_equation(backend, tied):
    visible, cases, W, b, p, s, o = pairs(tied)
    with kernels.use(backend):
        found = boltzmann_expectations(visible, cases, W, b, p, s, o)
    for n, (m, c) in enumerate(zip(visible, cases, strict=True)):
        along = [s[k] * (W[m] @ p[c]) if tied else W[m, k] @ p[c] for k in range(K)]
        chances = np.exp([b[m, k] + s[k] * o[c] + along[k] for k in range(K)])
        chances /= chances.sum()
        np.testing.assert_allclose(found.chances[n], chances, rtol=1e-5)
        assert found.means[n] == pytest.approx(chances @ s, abs=1e-5)


def test_expectations_of_large_weights_do_not_overflow():
    visible, cases, W, b, p, s, o = pairs(tied=True)
    found = boltzmann_expectations(visible, cases, W * 1e6, b, p, s, o)
    np.testing.assert_allclose(found.chances.sum(axis=1), 1, rtol=1e-6)
    assert np.isin(found.means, s).all()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("position", "value", "message"),
    [
        (0, np.array([0, 4, 0]), "visible run from 0 to 4, and there are 4"),
        (1, np.array([0, 0, -2]), "cases run from -2"),
        (1, np.array([0]), "cases must be"),
        (2, np.zeros((4, 5), np.float32), "weights must be"),
        (5, np.zeros(2, np.float32), "scores must be"),
        (6, np.zeros(3), "slopes must be float32"),
    ],
)
def test_pairs_that_do_not_fit_are_refused(backend, position, value, message):
    arguments = pairs(tied=True)
    arguments[position] = value
    with kernels.use(backend), pytest.raises(KernelError, match=message):
        boltzmann_expectations(*arguments)


@pytest.mark.parametrize("backend", BACKENDS)
def test_unknown_units_need_a_last_row(backend):
    _, cases, W, b, *others = pairs(tied=True)
    with kernels.use(backend), pytest.raises(KernelError, match="need a row of the visible units"):
        boltzmann_expectations(np.full(3, -1), cases, W[:0], b[:0], *others)
