"""Small ratings, and the factorizations by gradient descent that are fitted to them."""

import pytest

from support.recommenders import SMALL
from tacenda.datasets import synthetic_ratings
from tacenda_surprise import PMF, ConditionalPMF

MAKERS = {
    "pmf": lambda: PMF(**SMALL),
    "conditional_pmf": lambda: ConditionalPMF(**SMALL),
    "unbiased": lambda: PMF(biased=False, **SMALL),
}


@pytest.fixture(scope="module")
def ratings():
    return synthetic_ratings.generate(80, 60, 1500, rank=2, noise=0.4, seed=1).ratings


@pytest.fixture(params=MAKERS.values(), ids=MAKERS)
def make(request):
    return request.param
