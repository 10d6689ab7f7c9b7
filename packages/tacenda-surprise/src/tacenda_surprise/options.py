"""Options that rating algorithms share, and algorithms by name and options."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from surprise import AlgoBase

from tacenda import devices, plugins
from tacenda.settings import Option, Settings, option
from tacenda_surprise.frames import SideInfo


@dataclass(frozen=True, kw_only=True)
class RatingSettings(Settings):
    """Options of every algorithm."""

    verbose: bool = option(False, "print a line for every epoch", last=True)


@dataclass(frozen=True, kw_only=True)
class SeededSettings(RatingSettings):
    """Options of algorithms whose fits draw random numbers."""

    random_state: int | np.random.RandomState | None = option(
        None, "seed or NumPy `RandomState`; None: NumPy's global state", at_least=0, last=True
    )


@dataclass(frozen=True, kw_only=True)
class RatedSettings(Settings):
    """Options of algorithms that condition on the identities of rated items."""

    rated: SideInfo | Iterable[Iterable[Any]] | None = option(
        None,
        """items known to be rated in addition to the trainset, as `SideInfo` or (user, item) pairs""",
        last=True,
    )

    def __post_init__(self) -> None:
        """Read the pairs once, as an iterator would be empty at the second fit."""
        if isinstance(self.rated, Iterable) and not isinstance(self.rated, SideInfo):
            object.__setattr__(self, "rated", SideInfo(self.rated))
        super().__post_init__()


@dataclass(frozen=True, kw_only=True)
class DeviceSettings(Settings):
    """Options of algorithms that can train on a GPU."""

    device: str = devices.option(default="cpu", last=True)


@dataclass(frozen=True, kw_only=True)
class StoppedSettings(DeviceSettings):
    """Options of algorithms that can stop early, by ratings held out."""

    validation: float = option(
        0.0, "share of ratings held out to stop early; 0: none", at_least=0, below=1, last=True
    )
    refit: bool = option(
        True,
        """after early stopping, fit again to all ratings for the best number of epochs (a factorization: for all
        epochs, if that differs by less than half a percent); the thesis does not""",
        last=True,
    )


class ReadOption:
    """An option as an attribute of an algorithm, ``algo.n_factors``, as in Surprise; read from its settings alone."""

    def __init__(self, one: Option) -> None:
        self.name, self.__doc__ = one.name, f"{one.doc}; given to the constructor."

    def __get__(self, algo: Any, owner: type | None = None) -> Any:
        return self if algo is None else getattr(algo.settings, self.name)

    def __set__(self, algo: Any, value: Any) -> None:
        made = type(algo).__name__
        raise AttributeError(
            f"{self.name} cannot be set on an existing {made}: make another, {made}({self.name}={value!r})"
        )


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
) -> AlgoBase:
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
    return plugins.make("recommenders", name, given, distribution=distribution)
