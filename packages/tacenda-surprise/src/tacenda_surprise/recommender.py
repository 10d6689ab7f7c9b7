"""Rating algorithms by the names that they are registered under."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from tacenda import plugins
from tacenda_surprise.algorithm import RatingAlgorithm


def option_names(name: str, distribution: str | None = None) -> set[str]:
    """Return the names of the options of a registered algorithm. Raises PluginError as `Recommender` does."""
    algorithm = plugins.get("recommenders", name, distribution=distribution)
    return set(inspect.signature(algorithm).parameters)


def Recommender(  # noqa: N802 - the algorithm that it makes is named by its first argument
    name: str = "conditional_pmf",
    *,
    distribution: str | None = None,
    settings: Mapping[str, Any] | None = None,
    **options: Any,
) -> RatingAlgorithm:
    """Make the algorithm that is registered under a name; ``tacenda plugins recommenders`` lists them.

    ``settings`` and further arguments are options of the algorithm. ``random_state`` and ``verbose`` are ignored by
    algorithms that do not have these options. Raises PluginError for an algorithm that does not exist or cannot be
    loaded.

    Examples
    --------
    >>> cross_validate(Recommender(name="pmf", n_factors=20), data)
    >>> GridSearchCV(Recommender, {"name": ["pmf", "rbm"], "random_state": [0]})
    """
    given = {**options, **(settings or {})}
    for ignored in {"random_state", "verbose"} - option_names(name, distribution):
        given.pop(ignored, None)
    made: RatingAlgorithm = plugins.make("recommenders", name, given, distribution=distribution)
    return made
