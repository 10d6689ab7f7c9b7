"""Block solves: where the objective has no slope, and draws from the exact posterior."""

import numpy as np
import pytest

from tacenda import kernels
from tacenda.errors import KernelError
from tacenda.kernels import ratings


def rating_solves(offsets, ids, targets, *others, **more):
    return ratings.rating_solves(ratings.Targets(offsets, ids, targets), *others, **more).draws


BACKENDS = ("reference", "cpu")


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    offsets, ids = np.array([0, 3, 3, 8]), np.array([0, 2, 5, 1, 2, 3, 4, 5])
    root = rng.standard_normal((3, 3))
    return {
        "offsets": offsets,
        "ids": ids,
        "targets": rng.standard_normal(8).astype(np.float32),
        "table": rng.standard_normal((6, 3)).astype(np.float32),
        "means": rng.standard_normal((3, 3)).astype(np.float32),
        "precision": root @ root.T + np.eye(3),
    }


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_penalized_error_has_no_slope_at_the_solution(problem, backend, scaled):
    weights = np.array([2.0, 1.0, 0.5])
    with kernels.use(backend):
        x = rating_solves(**problem, weight=weights, scaled=scaled).astype(np.float64)
    for u in range(3):
        span = slice(problem["offsets"][u], problem["offsets"][u + 1])
        z = problem["table"][problem["ids"][span]].astype(np.float64)
        s = len(z) if scaled else 1
        slope = s * problem["precision"] @ (x[u] - problem["means"][u])
        slope -= weights[u] * z.T @ (problem["targets"][span] - z @ x[u])
        np.testing.assert_allclose(slope, 0, atol=1e-4)


def test_a_row_without_targets_is_its_mean(problem):
    for scaled in (False, True):
        found = rating_solves(**problem, scaled=scaled)[1]
        np.testing.assert_allclose(found, problem["means"][1], atol=1e-6)


def test_draws_have_the_moments_of_the_posterior(problem):
    rng = np.random.default_rng(1)
    n, alpha = 20_000, 1.7
    z = problem["table"][problem["ids"][:3]].astype(np.float64)
    A = problem["precision"] + alpha * z.T @ z
    mean = np.linalg.solve(
        A, problem["precision"] @ problem["means"][0] + alpha * z.T @ problem["targets"][:3]
    )
    offsets = np.arange(n + 1) * 3
    targets = np.tile(problem["targets"][:3], n)
    solved = ratings.rating_solves(
        ratings.Targets(offsets, np.tile(problem["ids"][:3], n), targets), problem["table"],
        problem["means"][0], problem["precision"], alpha, rng.standard_normal((n, 3)).astype(np.float32),
    )  # fmt: skip
    draws = solved.draws.astype(np.float64)
    np.testing.assert_allclose(solved.means, np.tile(mean, (n, 1)), atol=1e-5)
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=0.03)
    np.testing.assert_allclose(np.cov(draws.T), np.linalg.inv(A), atol=0.03)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ids": np.full(8, 6)}, "ids run from 6"),
        ({"targets": np.zeros(7)}, "ids must be"),
        ({"precision": np.eye(2)}, "precision must be"),
        ({"precision": None}, "precision must be an array of numbers, not None"),
        ({"means": None}, "means must be an array of numbers, not None"),
        ({"weight": None}, "weight must be an array of numbers, not None"),
        ({"noise": np.zeros((2, 3))}, "offsets must ascend"),
        ({"precision": -9 * np.eye(3)}, "system of row 0 is not positive definite"),
        ({"precision": np.nan * np.eye(3)}, "system of row 0 is not positive definite"),
    ],
)
def test_what_cannot_be_solved_is_refused(problem, backend, change, message):
    with kernels.use(backend), pytest.raises(KernelError, match=message):
        rating_solves(**{**problem, **change})


@pytest.mark.parametrize("reported", [True, False])
def test_torch_refuses_nan_also_where_its_factorization_does_not_report_it(
    problem, reported, monkeypatch
):
    """As on CUDA: https://github.com/pytorch/pytorch/issues/64818."""
    torch = pytest.importorskip("torch")
    solve = kernels.backends.CUDA_BACKENDS["torch"].rating_solves
    factorize = torch.linalg.cholesky_ex

    def factorize_silently(A):
        L, info = factorize(A)
        return L, info if reported else torch.zeros_like(info)

    monkeypatch.setattr(torch.linalg, "cholesky_ex", factorize_silently)
    table, means, values = (torch.tensor(problem[k]) for k in ("table", "means", "targets"))
    targets = ratings.Targets(problem["offsets"], problem["ids"], values)
    given = table, means, torch.tensor(problem["precision"])
    assert solve(targets, *given, torch.ones(3), None, False).means.isfinite().all()
    values[-1], table[2, 0] = torch.nan, torch.nan  # of rows 2, and 0 and 2
    with pytest.raises(KernelError, match="system of row 0 is not positive definite"):
        solve(targets, *given, torch.ones(3), None, False)


@pytest.fixture
def choices(problem):
    table = problem["table"]
    precision = (table.T @ table + 2 * np.eye(3, dtype=np.float32)).astype(np.float32)
    start = problem["means"] * np.float32(0.1)
    return problem["offsets"], problem["ids"], table, start, precision, 1.5


@pytest.mark.parametrize("backend", BACKENDS)
def test_as_many_steps_as_columns_solve_for_choices(choices, backend):
    offsets, ids, table, start, precision, confidence = choices
    targets = np.full(len(ids), (1 + confidence) / confidence, np.float32)
    given = offsets, ids, targets, table, np.zeros_like(start), precision.astype(float)
    expected = rating_solves(*given, weight=confidence)
    with kernels.use(backend):
        found = ratings.choice_steps(*choices, 3)
        np.testing.assert_array_equal(ratings.choice_steps(*choices, 0), start)
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_fraction_of_a_step_is_refused(choices, backend):
    with kernels.use(backend), pytest.raises(KernelError, match=r"steps must be a whole number"):
        ratings.choice_steps(*choices, 2.0)


def test_an_unknown_item_is_refused(choices):
    offsets, ids, *others = choices
    with pytest.raises(KernelError, match="ids"):
        ratings.choice_steps(offsets, ids + 5, *others, 1)
