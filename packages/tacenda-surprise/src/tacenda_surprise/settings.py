"""Surprise's words for the options of an algorithm, and the options of its model that they stand for.

An algorithm declares its arguments as a `Settings` dataclass. A field made by `argument` takes default, meaning
and bounds from the option of the model it stands for, so that each is written down once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from tacenda.errors import ConfigurationError
from tacenda.settings import Option, Settings, option
from tacenda_surprise.side_info import SideInfo

_OF_THE_OPTION: Any = object()


def argument(
    model: type[Settings], *paths: str, default: Any = _OF_THE_OPTION, doc: str = ""
) -> Any:
    """Declare an argument that stands for the options ``paths`` of a model's settings.

    An option of a group is named as ``advanced.init_std``. Default and meaning are those of the first option
    if none are given; where the value is None, the options stay what they are.
    """
    one = _option_at(model, paths[0])
    bounds = {name: getattr(one, name) for name in ("at_least", "at_most", "above", "below")}
    chosen = one.default if default is _OF_THE_OPTION else default
    text = " ".join((doc or one.doc).split())
    return field(default=chosen, metadata={"doc": text, **bounds, "paths": paths})


def _option_at(model: type[Settings], path: str) -> Option:
    *groups, name = path.split(".")
    for group in groups:
        model = _option_at(model, group).kind
    return next(one for one in model.options() if one.name == name)


@dataclass(frozen=True, kw_only=True)
class AlgorithmSettings(Settings):
    """Base of the arguments of algorithms."""

    #: Settings of the model; None where the model is not known yet.
    model_settings: ClassVar[type[Settings] | None] = None

    verbose: bool = option(False, "print a line for every epoch", last=True)

    def check(self) -> None:
        """Refuse an argument that others leave nothing to say, and what the model's settings refuse."""
        for one in self.options():
            if len(one.paths) > 1 and getattr(self, one.name) is not None:
                self._refuse_covered(one)
        if self.model_settings is not None:
            self.model_settings.from_dict(self.for_model())

    def _refuse_covered(self, one: Option) -> None:
        """Refuse ``lr_all`` where other arguments say all that it could."""
        others = [other for other in self.options() if other.name != one.name]
        given = [other for other in others if getattr(self, other.name) is not None]
        shared = {path for other in others for path in other.paths} & set(one.paths)
        said = {path for other in given for path in other.paths}
        if shared and said >= shared:
            names = [other.name for other in given if set(other.paths) & shared]
            listed = f"{', '.join(names[:-1])} and {names[-1]}"
            raise ConfigurationError(
                f"{self.model()}: {one.name} has no effect beside {listed}; leave it out"
            )

    def for_model(self, only: Iterable[str] | None = None) -> dict[str, Any]:
        """The options of the model, by name; later arguments overrule earlier ones.

        ``only`` are the arguments that count; None: all.
        """
        values: dict[str, Any] = {}
        idle = self.idle()
        for one in self.options():
            if only is not None and one.name not in only:
                continue
            value = getattr(self, one.name)
            for path in one.paths:
                if value is None or path in idle:
                    continue
                *groups, name = path.split(".")
                place = values
                for group in groups:
                    place = place.setdefault(group, {})
                place[name] = value
        return values

    @classmethod
    def arguments_for(cls, settings: Settings, given: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments that make a model have ``settings``, but for what ``given`` arguments say."""
        cls.require_known(given)
        said = {path for one in cls.options() if one.name in given for path in one.paths}
        found: dict[str, Any] = {}
        for one in cls.options():
            if len(one.paths) == 1 and one.paths[0] not in said:
                value: Any = settings
                for name in one.paths[0].split("."):
                    value = getattr(value, name)
                if value != _option_at(type(settings), one.paths[0]).default:
                    found[one.name] = value
        return {**found, **given}


class ReadArgument:
    """An argument as an attribute of an algorithm, ``algo.n_factors``, read from its settings and from there alone."""

    def __init__(self, one: Option) -> None:
        self.name, self.__doc__ = one.name, f"{one.doc}; given to the constructor."

    def __get__(self, algo: Any, owner: type | None = None) -> Any:
        return self if algo is None else getattr(algo.settings, self.name)

    def __set__(self, algo: Any, value: Any) -> None:
        made = type(algo).__name__
        raise AttributeError(
            f"{self.name} cannot be set on a {made} that is there: make another, {made}({self.name}={value!r})"
        )


def merged_options(first: Mapping[str, Any], then: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a model, groups joined; those that come ``then`` overrule."""
    found = dict(first)
    for name, value in then.items():
        both = isinstance(value, Mapping) and isinstance(found.get(name), Mapping)
        found[name] = merged_options(found[name], value) if both else value
    return found


@dataclass(frozen=True, kw_only=True)
class RandomSettings(AlgorithmSettings):
    """Arguments of algorithms whose fits draw random numbers."""

    random_state: int | np.random.RandomState | None = option(
        None,
        "seed, or a state of numpy's random numbers; None: numpy's global state",
        at_least=0,
        last=True,
    )


@dataclass(frozen=True, kw_only=True)
class RatedSettings(Settings):
    """Arguments of algorithms that condition on the identities of rated items."""

    rated: SideInfo | Iterable[Iterable[Any]] | None = option(
        None,
        """items known to be rated beside those of the trainset, as `SideInfo` or (user, item) pairs""",
        last=True,
    )

    def __post_init__(self) -> None:
        """Read the pairs once, as an iterator would be empty at the second fit."""
        if isinstance(self.rated, Iterable) and not isinstance(self.rated, SideInfo):
            object.__setattr__(self, "rated", SideInfo(self.rated))
        super().__post_init__()
