"""Run by test_triton.py in a process of its own: the interpreter is chosen when triton is imported."""

import numpy as np
import pytest
import torch

from tacenda.kernels import UnsupportedShape
from tacenda.kernels.boltzmann import boltzmann_divergence, boltzmann_expectations
from tacenda.kernels.boltzmann import triton as of_machines
from tacenda.kernels.machinery.xorshift import generate_uniforms
from tacenda.kernels.ratings import (
    Others,
    Side,
    Visits,
    rating_scores,
    rating_visits,
)
from tacenda.kernels.shared import adam
from tacenda.testing.kernels import SAMPLES


def cases(operation):
    return pytest.mark.parametrize("case", list(SAMPLES[operation]()), ids=lambda case: case[0])


@cases("rating_visits")
def test_visits_on_awkward_shapes(device, case):
    device.check(rating_visits, *case[1], changed=(1,))


@pytest.mark.parametrize("rates", [(0.0, 0.0), (0.3, 0.5), (0.02, 0.0)])
def test_visits_at_any_rate(device, rates):
    """Also at one at which every step undoes much of the steps before it."""
    arguments = list(
        dict(SAMPLES["rating_visits"]())["3 rows of at most 17 ratings, 16 wide, prior=True"]
    )
    arguments[4] = rates
    arguments[2] = arguments[2]._replace(factors=arguments[2].factors * np.float32(0.5))
    device.check(rating_visits, *arguments, changed=(1,))


def test_factors_that_no_program_holds_are_declined(device):
    wide, one = torch.zeros((1, 600), device=device.name), torch.zeros(1, device=device.name)
    with pytest.raises(UnsupportedShape, match="width 600"):
        rating_visits(
            Visits([0, 1], np.zeros(1, np.int32), one, [0]),
            Side(wide, one, one, one, one),
            Others(wide, one, one),
            0,
            (0, 0),
            0,
        )


@cases("rating_scores")
def test_scores_on_awkward_shapes(device, case):
    device.check(rating_scores, *case[1])


def test_scores_of_factors_wider_than_a_tile(device):
    rng = np.random.default_rng(0)
    tables = [rng.standard_normal((rows, 300), np.float32) for rows in (4, 6)]
    biases = [rng.standard_normal(rows, np.float32) for rows in (4, 6)]
    pairs = rng.integers(-1, 4, 40), rng.integers(-1, 6, 40)
    device.check(rating_scores, *pairs, *tables, *biases, 3.5)


@cases("boltzmann_expectations")
def test_expectations_on_awkward_shapes(device, case):
    device.check(boltzmann_expectations, *case[1])


def divergence(*arguments):
    found = boltzmann_divergence(*arguments)
    return found._replace(error=np.float64(found.error))


@cases("boltzmann_divergence")
def test_divergence_on_awkward_shapes(device, case):
    device.check(divergence, *case[1])


@pytest.mark.parametrize("seed", [0, 5, (1 << 64) - 1])
def test_random_numbers_are_those_of_the_cpu(device, seed):
    sizes, cases, hidden = [3, 0, 7], [4, 0, 2], 5
    borders = torch.tensor([0, *np.cumsum(sizes)], device=device.name)
    own = torch.tensor(cases, device=device.name)
    of_hidden, of_visible = of_machines.draw_numbers(own, borders, seed, sum(sizes), hidden)
    for k, (case, n) in enumerate(zip(cases, sizes, strict=True)):
        random = generate_uniforms(seed, case)
        expected = [next(random) for _ in range(hidden + n)]
        np.testing.assert_array_equal(of_hidden[k].cpu(), np.float32(expected[:hidden]))
        mine = of_visible[borders[k] : borders[k + 1]].cpu()
        np.testing.assert_array_equal(mine, np.float32(expected[hidden:]))


@cases("adam")
def test_steps_of_adam(device, case):
    device.check(adam, *case[1], changed=(0, 1, 2))
