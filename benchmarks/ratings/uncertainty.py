"""Whether deviations and probabilities are what they say: on ratings held out, of all sets.

    python -m benchmarks.ratings.uncertainty [--sets ml-100k tiny ...] [--only NAME ...]

The first fold of MovieLens-100K, and a fifth of each generated set (`benchmarks.ratings.generated`). The ratings held
out are parted in three by the number of training ratings of their user, and again by that of their item, as equally as
ties allow. Of every part a table has how many errors of the clipped predictions lie within one and two deviations:
68.3% and 95.4% of a normal distribution. Levels are no normal distribution, least of all where most ratings are the
highest: what a model's own probabilities of levels have within its deviations stands beside the shares.
Log-likelihoods are per rating, in nats: of the probabilities of levels or, on a continuous scale, of normal densities;
beside them those of `BiasOnly` and of the histogram of all training ratings (of 20 equal bins on a continuous scale),
in which each level or bin has one rating more than it has. Every cell that is finished is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from benchmarks import kept
from benchmarks.pictures import Curve, Panel, draw
from benchmarks.ratings import data
from benchmarks.ratings.generated import SHAPES, generate
from benchmarks.reporting import Row, Table, main
from tacenda.ratings import Ratings, split
from tacenda_surprise import PMF, RBM, BayesianPMF, BiasOnly, ConditionalPMF, RatingAlgorithm

Doubles = NDArray[np.float64]
MOVIELENS, SEED, HELD_OUT = "ml-100k", 0, 0.2
MODELS = (BiasOnly, PMF, ConditionalPMF, BayesianPMF, RBM)
LEAST = 1e-6  # no rating that occurs counts as less probable
BINS = 20
NORMAL = {"one": 0.6827, "two": 0.9545}
THIRDS = ("few", "some", "many")


def parted(name: str) -> tuple[Ratings, Ratings]:
    """Training part and ratings held out, with the same numbers of users and items."""
    if name != MOVIELENS:
        return split(generate(name, SEED), HELD_OUT, seed=SEED)
    fold = data.folds(name, 1)[0]
    whole = Ratings.from_triples([*data.triples(fold.trainset), *fold.testset])
    known = {(user, item) for user, item, _ in fold.testset}
    users, items = whole.users.raw[whole.user_ids], whole.items.raw[whole.item_ids]
    held_out = np.array([pair in known for pair in zip(users, items, strict=True)])
    return whole.select(~held_out), whole.select(held_out)


def likelihoods(model: RatingAlgorithm, test: Ratings, deviations: Doubles) -> Doubles:
    """Log-likelihood (ratings,) of the ratings held out."""
    pairs, levels = (test.user_ids, test.item_ids), model.catalogue.levels
    if not len(levels):
        found = norm.pdf(test.values, model.score_pairs(*pairs), deviations)
    else:
        at = np.abs(levels[None] - test.values[:, None]).argmin(axis=1)
        found = model.probabilities(*pairs)[np.arange(len(at)), at]
    return np.asarray(np.log(np.maximum(found, LEAST)), np.float64)


def histogram(train: Ratings, test: Ratings, levels: NDArray[np.float32]) -> float:
    """Mean log-likelihood of the ratings held out by how often ratings are what they are, whatever user and item."""
    if len(levels):
        edges = np.concatenate([[-np.inf], (levels[1:] + levels[:-1]) / 2, [np.inf]])
        widths = np.ones(len(levels))
    else:
        edges = np.linspace(*train.scale, BINS + 1)
        widths = np.diff(edges)
    counts, at = (np.digitize(part.values, edges[1:-1]) for part in (train, test))
    chances = (np.bincount(counts, minlength=len(widths)) + 1.0) / (len(train) + len(widths))
    return float(np.log(chances[at] / widths[at]).mean())


def expected(
    model: RatingAlgorithm, test: Ratings, predictions: Doubles, deviations: Doubles
) -> dict[str, float]:
    """The shares of errors within one and two deviations by the model's own distributions of the ratings held out."""
    levels = model.catalogue.levels
    if not len(levels):
        return NORMAL
    chances = model.probabilities(test.user_ids, test.item_ids)
    away = np.abs(levels[None] - predictions[:, None]) / deviations[:, None]
    return {
        name: float((chances * (away < n)).sum(axis=1).mean())
        for n, name in enumerate(NORMAL, start=1)
    }


def thirds(counts: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """The third (ratings,) that each belongs to by these counts; equal counts are in the same."""
    return np.searchsorted(np.quantile(counts, [1 / 3, 2 / 3]), counts)


def measure(name: str, model_class: type[Any]) -> dict[str, Any]:
    """Shares and log-likelihood of one model on one set."""
    train, test = parted(name)
    seed = {} if model_class is BiasOnly else {"random_state": 0}
    model: RatingAlgorithm = model_class(**seed).fit(train)
    users, items = test.user_ids, test.item_ids
    predictions = np.clip(model.score_pairs(users, items), *model.catalogue.scale)
    deviations = model.deviations(users, items).astype(np.float64)
    z = np.abs(test.values - predictions) / deviations
    groups = {"all": np.ones(len(z), bool)}
    of_users, of_items = np.diff(train.user_offsets)[users], train.item_counts[items]
    for side, counts in (("users", of_users), ("items", of_items)):
        third = thirds(counts)
        groups |= {f"{side}, {label}": third == at for at, label in enumerate(THIRDS)}
    shares = {
        group: {"one": float((z[rows] < 1).mean()), "two": float((z[rows] < 2).mean())}
        for group, rows in groups.items()
        if rows.any()
    }
    return {
        "shares": shares,
        "expected": expected(model, test, predictions, deviations),
        "likelihood": float(likelihoods(model, test, deviations).mean()),
        "histogram": histogram(train, test, model.catalogue.levels),
    }


def row(name: str, model: str, found: dict[str, Any], of_biases: float) -> dict[str, Any]:
    """The row of a table, shares in percent."""
    shares = found["shares"]
    off = max(abs(share[k] - NORMAL[k]) for share in shares.values() for k in NORMAL)
    overall = max(abs(shares["all"][k] - NORMAL[k]) for k in NORMAL)

    def told(k: str, side: str) -> str:
        parts_of = [shares[f"{side}, {each}"][k] for each in THIRDS if f"{side}, {each}" in shares]
        return " / ".join(f"{100 * share:.0f}" for share in parts_of)

    return {
        "row": f"{name}: {model}",
        "set": name,
        "model": model,
        "within 1": round(100 * shares["all"]["one"], 1),
        "within 2": round(100 * shares["all"]["two"], 1),
        "expected 1": round(100 * found["expected"]["one"], 1),
        "expected 2": round(100 * found["expected"]["two"], 1),
        "by user": told("one", "users"),
        "by user, two": told("two", "users"),
        "by item": told("one", "items"),
        "by item, two": told("two", "items"),
        "off": round(100 * overall, 1),
        "most off": round(100 * off, 1),
        "log-likelihood": round(found["likelihood"], 3),
        "of biases": round(of_biases, 3),
        "of histogram": round(found["histogram"], 3),
    }


def rows(options: Any) -> Iterator[Row]:
    cells, models = kept.Cells("ratings-uncertainty"), {model.name: model for model in MODELS}
    for name in options.sets:

        def found(model: str) -> dict[str, Any]:
            key = kept.cell_key(set=name, model=model)  # noqa: B023
            return cells.measure(key, lambda: measure(name, models[model]))  # type: ignore[no-any-return] # noqa: B023

        of_biases = found(BiasOnly.name)["likelihood"]
        for model in options.chosen(models):
            yield row(name, model, found(model), of_biases)


def picture(rows: list[Row]) -> None:
    """Draw the measured shares over those the models expect, a point for each model and set."""
    names = {"bias": "BiasOnly", "pmf": "PMF", "conditional_pmf": "ConditionalPMF"}
    names |= {"bayesian_pmf": "BayesianPMF", "rbm": "RBM"}
    panels = []
    for n, title in ((1, "within one standard deviation"), (2, "within two")):
        expected, within = f"expected {n}", f"within {n}"
        ends = [min(row[expected] for row in rows), max(row[expected] for row in rows)]
        curves = [Curve("perfect", ends, ends, "gray", "--")]
        for color, (name, label) in enumerate(names.items()):
            found = [row for row in rows if row["model"] == name]
            x, y = ([row[key] for row in found] for key in (expected, within))
            curves.append(Curve(label, y, x, f"C{color}", "o"))
        panels.append(Panel(title, "expected by the model, % of ratings", curves))
    draw("ratings-uncertainty", panels, y_label="measured, % of ratings")


PROTOCOL = {
    "data": f"{data.SPLITS[MOVIELENS]}, the first; generated sets, a fraction of {HELD_OUT} held out",
    "within": "percent of the errors within one and two deviations; parts: thirds by the number of training "
    "ratings of user and of item",
    "expected": "the same shares by the model's own probabilities of levels; of a normal distribution on a "
    "continuous scale",
    "off": "percentage points by which the shares of all errors, or of the part furthest away, differ from those "
    "of a normal distribution",
    "log-likelihood": f"nats per rating, of probabilities of at least {LEAST:g}",
}
if __name__ == "__main__":
    table = Table("ratings-uncertainty", PROTOCOL, rows, key="row", after=picture)
    main(__doc__, table, sets=(MOVIELENS, *SHAPES))
