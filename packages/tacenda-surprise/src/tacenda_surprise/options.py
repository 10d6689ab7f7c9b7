"""Options that rating algorithms share, and what ``random_state`` and ``verbose`` stand for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from surprise.utils import get_rng

from tacenda import devices
from tacenda.fitting import Callback, FitLoop
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


def make_rng(seed: int | list[int] | np.random.RandomState | None) -> np.random.RandomState:
    """Return the state of NumPy that Surprise makes of a ``random_state``; seeds may be of any size here."""
    if seed is None or isinstance(seed, np.random.RandomState):
        return get_rng(seed)  # type: ignore[no-any-return]
    try:
        return np.random.RandomState(seed)
    except ValueError:  # more than 32 bits
        return np.random.RandomState(np.random.MT19937(np.random.SeedSequence(seed)))


class EpochPrinter(Callback):
    """Prints a line for every epoch, with ``verbose=True``."""

    def on_epoch_end(self, run: FitLoop) -> None:
        epoch, loss = run.history.epochs - 1, run.history.epoch_losses[-1]
        held_out = [f", held out {one.value:.4f}" for one in run.history.evaluations[-1:]]
        print(f"Processing epoch {epoch}: training loss {loss:.4f}", *held_out, sep="")
