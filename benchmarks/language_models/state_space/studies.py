"""The tables of the paper (Siivola and Honkela, Tables 1 to 3), from what the plans' models say of the excerpts.

The paper prints perplexities on excerpts of a book it does not name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from statistics import fmean
from typing import NamedTuple

from benchmarks.language_models.state_space import fits
from benchmarks.reporting import Row, spread


class Published(NamedTuple):
    """The best state-space model of an order, its dimensions, and the n-gram of that order (Good-Turing)."""

    internal: int
    features: int | None
    state_space: float
    ngram: float


#: Tables 1 and 2, by training text and order.
DEVELOPMENT = {
    "sparse": {
        1: Published(5, None, 22.9, 17.3),
        2: Published(10, 15, 12.5, 13.7),
        3: Published(20, 15, 12.5, 13.4),
        5: Published(10, 15, 14.4, 12.7),
    },
    "dense": {
        2: Published(3, 15, 11.1, 10.8),
        3: Published(5, 25, 10.0, 8.0),
        5: Published(0, 15, 9.7, 5.7),
    },
}
#: Table 3, by training text: the state-space model and the n-gram that were best on the development text.
TEST = {"sparse": (12.3, 11.8), "dense": (9.5, 5.7)}


SEEDS = (0, 1, 2)  # of the models of an ensemble


class Measured:
    """Plans on all excerpts; what is not known yet is fitted, one after the other."""

    def __init__(self, offsets: Sequence[int]) -> None:
        self.offsets = offsets

    def all(self, plan: fits.Plan) -> list[fits.Found]:
        """What a plan's model says of every excerpt."""
        results = []
        for offset in self.offsets:
            results.append(fits.found(plan, offset))
            settings = {**plan.settings}
            print(plan.size, plan.name, settings, offset, results[-1].perplexities, flush=True)
        return results

    def best(self, plans: Iterable[fits.Plan]) -> tuple[fits.Plan, list[fits.Found]]:
        """The plan of the lowest mean perplexity of the development texts."""
        tried = [(plan, self.all(plan)) for plan in plans]
        return min(tried, key=lambda each: fmean(values(each[1], "development")))


def values(results: Iterable[fits.Found], text: str) -> list[float]:
    return [each.perplexities[text] for each in results]


def development(size: str, measured: Measured) -> Iterator[Row]:
    """Table 1 or 2: the best dimensions of every order, beside the best n-gram of that order."""
    every = fits.ngrams(size)
    for order in fits.ORDERS:
        known = DEVELOPMENT[size].get(order)
        if known is None:
            continue
        row: Row = {"part": f"development, {size}", "order": order}
        if order > 1:
            for name in ("Good-Turing", "Kneser-Ney"):
                same = [plan for plan in every if plan.order == order and plan.name == name]
                row[name] = spread(values(measured.best(same)[1], "development"))
        plan, results = measured.best(_by_gradients(size, order))
        row["gradients"] = spread(values(results, "development"))
        row["size"] = _pair(plan.dimensions)
        row |= {
            "paper": known.state_space,
            "paper's size": _pair((known.internal, known.features)),
            "paper's n-gram": known.ngram,
        }
        yield row


def _by_gradients(size: str, order: int) -> list[fits.Plan]:
    return [fits.gradient(size, order, pair) for pair in fits.dimensions(size, order)]


def by_rules(size: str, measured: Measured) -> Iterator[Row]:
    """The paper's own training, with the dimensions that were best in the paper, order by order."""
    _, theirs = measured.best(fits.ngrams(size))
    for limit, (order, known) in product(fits.LIMITS, DEVELOPMENT[size].items()):
        plan = fits.rules(size, order, (known.internal, known.features or 1), limit)
        name = f"{fits.BY_RULES}, order {order}, limit {limit:g}"
        row = _row(size, name, order, measured.all(plan), theirs)
        yield {
            **row,
            "part": f"rules, {size}",
            "limit": limit,
            "paper": known.state_space,
            "size": _pair(plan.dimensions),
        }


def test(size: str, measured: Measured) -> Iterator[Row]:
    """Table 3: what was best on the development texts, on the test texts, and beyond the paper."""
    best, theirs = measured.best(fits.ngrams(size))
    yield _row(size, f"n-gram: {best.name}", best.order, theirs, theirs)
    turing = [plan for plan in fits.ngrams(size) if plan.name == "Good-Turing"]
    plan, results = measured.best(turing)
    yield _row(size, "n-gram: Good-Turing", plan.order, results, theirs, TEST[size][1])
    orders = [order for order in fits.ORDERS if order in DEVELOPMENT[size]]
    plan, results = measured.best(plan for order in orders for plan in _by_gradients(size, order))
    theirs_in_paper = TEST[size][0]
    yield _row(size, fits.BY_GRADIENTS, plan.order, results, theirs, theirs_in_paper)
    own = fits.runs(size)
    yield _row(size, fits.RUNS, own.order, measured.all(own), theirs)
    several = [measured.all(fits.runs(size, seed)) for seed in SEEDS]
    ensemble = _mixed(several)
    yield _row(size, f"{fits.RUNS}, {len(SEEDS)} seeds", own.order, ensemble, theirs)
    with_ngrams = _mixed([*several, theirs])
    yield _row(size, f"{fits.RUNS}, {len(SEEDS)} seeds + n-gram", own.order, with_ngrams, theirs)
    several = [
        measured.all(fits.Plan(plan.family, size, {**plan.settings, "seed": seed}, plan.name))
        for seed in SEEDS
    ]
    yield _row(
        size, f"{fits.BY_GRADIENTS}, {len(SEEDS)} seeds", plan.order, _mixed(several), theirs
    )


def _mixed(several: Sequence[Sequence[fits.Found]]) -> list[fits.Found]:
    """A mixture for every excerpt."""
    return [fits.mixed(each)[0] for each in zip(*several, strict=True)]


def _row(
    size: str,
    name: str,
    order: int,
    results: Sequence[fits.Found],
    theirs: Sequence[fits.Found],
    paper: float | None = None,
) -> Row:
    """A row of Table 3; ratios are to the best n-gram, excerpt by excerpt."""
    tests = values(results, "test")
    pairs = zip(tests, values(theirs, "test"), strict=True)
    trained = [each.train for each in results if each.train == each.train]
    known = TEST[size]
    return {
        "part": f"test, {size}",
        "model": name,
        "order": order,
        "training": fmean(trained) if trained else None,
        "development": spread(values(results, "development")),
        "test": spread(tests),
        "ratio": spread([own / best for own, best in pairs]),
        "paper": paper,
        "paper's ratio": paper / known[1] if paper else None,
        "CPU s": fmean(each.seconds for each in results),
    }


def _pair(dimensions: tuple[int | None, int | None]) -> str:
    return ", ".join("-" if each is None else str(each) for each in dimensions)


STUDIES = {
    "test-sparse": lambda measured: test("sparse", measured),
    "sparse": lambda measured: development("sparse", measured),
    "test-dense": lambda measured: test("dense", measured),
    "dense": lambda measured: development("dense", measured),
    "rules-sparse": lambda measured: by_rules("sparse", measured),
    "rules-dense": lambda measured: by_rules("dense", measured),
}
