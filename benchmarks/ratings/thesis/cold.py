"""Figure 5.5: users of whom no rating is known, only what they have rated.

A fifth of the users at a time loses all its training ratings, but not the knowledge of what was rated; their test
ratings are predicted. The identities of test ratings are never told.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import reporting
from benchmarks.ratings.thesis import fits, pictures, published
from benchmarks.ratings.thesis.fits import Bench, Figures, pooled
from benchmarks.ratings.thesis.pictures import Curve, Panel
from tacenda_surprise import RatingAlgorithm

NAME = "ratings-thesis-cold"
GROUPS = 5
WIDTH, HIDDEN = 100, 25
MODELS: dict[str, Callable[[], RatingAlgorithm]] = {
    "movie biases": lambda: fits.bias("items"),
    "CPMF": lambda: fits.conditional_pmf(WIDTH),
    "CPMF ours": lambda: fits.conditional_pmf(WIDTH, ours=True),
    "CRBM": lambda: fits.conditional_rbm(HIDDEN),
}
ALL = "all"


def fitted(bench: Bench, make: Callable[[], RatingAlgorithm]) -> Figures:
    """One model, every user tested once."""
    train, test = bench.parts
    groups = fits.user_groups(train.n_users, GROUPS)
    cells = []
    for group in range(GROUPS):
        chosen = groups == group
        rest, asked = fits.without(train, chosen), fits.only(test, chosen)
        told = f"told of group {group}"
        cells.append(bench.fit(make(), told, rest, bench.known, asked))
    return pooled(cells)


def main(bench: Bench, save: bool) -> None:
    found = {name: fitted(bench, make) for name, make in MODELS.items()}
    counts = np.diff(bench.parts.train.user_offsets)
    labels = fits.ranges(counts, bench.bins)
    tested = found["CPMF"].tested
    rows: list[dict[str, Any]] = [
        {
            "items told": label,
            "test ratings": tested[number],
            **{name: figures.of_bins[number] for name, figures in found.items()},
        }
        for number, label in enumerate(labels)
    ]
    netflix = {f"{name} published": value for name, value in published.COLD.items()}
    whole = {name: figures.rmse for name, figures in found.items()}
    rows.append({"items told": ALL, "test ratings": sum(tested), **whole, **netflix})
    protocol = {
        "measure": "RMSE of the test ratings of users without training ratings, by the number of items they are "
        "known to have rated; squared errors of five groups of users together",
        "data": fits.SPLIT,
        "CPMF": f"{WIDTH} factors; {fits.THESIS}",
        "CRBM": f"{HIDDEN} hidden units, users are cases; as above",
        "CPMF ours": f"default settings, {WIDTH} factors, all ratings of the other users",
        "movie biases": "BiasOnly, defaults",
        "published": published.SOURCE,
    }
    if not save:
        reporting.print_table(rows)
        return
    reporting.save(NAME, protocol, rows, seeds=[fits.SEED])
    curves = [
        Curve(name, figures.of_bins, color=f"C{number}")
        for number, (name, figures) in enumerate(found.items())
    ]
    title = "users without ratings"
    pictures.draw(NAME, [Panel(title, "items known to be rated by the user", curves, labels)])
