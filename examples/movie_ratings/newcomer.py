"""Recommendations for a new user, who has rated a few items after the model was fitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from ratings_file import Material

from tacenda.errors import DataError
from tacenda_surprise import ConditionalBayesianPMF

NAME = "somebody new"
TASTE = {
    "Star Wars (1977)": 1.0,
    "Star Wars: Episode IV - A New Hope (1977)": 1.0,  # as MovieLens-1M has it
    "Blade Runner (1982)": 1.0,
    "Alien (1979)": 1.0,
    "Monty Python and the Holy Grail (1974)": 0.75,
    "Sleepless in Seattle (1993)": 0.25,
    "Pretty Woman (1990)": 0.0,
}
"""What the newcomer thinks, from worst (0) to best (1), unless --rate says otherwise."""


class Recommendation(NamedTuple):
    """An item, its expected rating and standard deviation, and (levels,) the probability of each rating."""

    item: str
    expected: float
    deviation: float
    chances: npt.NDArray[np.float64]


def parsed(rates: Sequence[str], material: Material) -> dict[str, float]:
    """Read item -> rating from MOVIE=RATING, or take a taste of our own.

    Raises DataError for a movie that is not there or not the only one, or a rating off the scale.
    """
    if not rates:
        return _taste(material)
    found = {}
    for text in rates:
        movie, _, rating = text.rpartition("=")
        low, high = material.ratings.scale
        try:
            value = float(rating)
        except ValueError:
            value = np.nan
        if not movie or not low <= value <= high:
            raise DataError(f"--rate takes MOVIE=RATING with {low:g} to {high:g}, not {text!r}")
        found[_item(movie, material)] = value
    return found


def _taste(material: Material) -> dict[str, float]:
    """`TASTE` where the titles are known, or else of the six items that most have rated."""
    low, high = material.ratings.scale
    known = {title: item for item, title in material.titles.items()}
    rated = {known[title]: liking for title, liking in TASTE.items() if title in known}
    if not rated:
        counts = np.diff(material.ratings.by_item.user_offsets)
        most = material.ratings.items.raw[np.argsort(-counts, kind="stable")[:6]].tolist()
        rated = {item: float(k % 2 == 0) for k, item in enumerate(most)}
    return {item: low + liking * (high - low) for item, liking in rated.items()}


def _item(movie: str, material: Material) -> str:
    """The id of the item that ``movie`` is the id, the title or a part of the title of."""
    if movie in material.ratings.items:
        return movie
    titles: Mapping[str, str] = material.titles
    exact = [item for item, title in titles.items() if title.lower() == movie.lower()]
    found = exact or [item for item, title in titles.items() if movie.lower() in title.lower()]
    found = [item for item in found if item in material.ratings.items]
    if not found:
        raise DataError(f"no movie that anybody has rated is called {movie!r}")
    if len(found) > 1:
        several = "; ".join(titles[item] for item in found[:5])
        raise DataError(f"{movie!r} may be any of {len(found)} movies: {several}")
    return found[0]


def recommend(
    algo: ConditionalBayesianPMF, given: dict[str, float], n: int
) -> list[Recommendation]:
    """Return the best items for the new user, without refitting."""
    algo.fold_in(given, uid=NAME)
    best = algo.top_n(n, uids=[NAME])[NAME]
    items, users = [item for item, _ in best], [NAME] * len(best)
    deviations, chances = algo.predict_std(users, items), algo.predict_proba(users, items)
    return [
        Recommendation(item, expected, float(deviations[k]), chances[k])
        for k, (item, expected) in enumerate(best)
    ]


def print_list(given: dict[str, float], found: list[Recommendation], material: Material) -> None:
    print("\n  ratings of the new user")
    for item, rating in given.items():
        print(f"    {rating:<12g}{material.title(item)}")
    print("  recommendations")
    for one in found:
        print(f"    {one.expected:.2f} ± {one.deviation:.2f} {material.title(one.item)}")
