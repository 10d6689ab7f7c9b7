"""The fits behind `RBMModel`: with or without a part held out, from the start or from a fitted machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from tacenda.fitting import Callback, History
from tacenda.ratings import Ratings, split
from tacenda_surprise.models.base import Numbers
from tacenda_surprise.models.boltzmann.cases import Cases, Scale
from tacenda_surprise.models.boltzmann.config import BoltzmannConfig
from tacenda_surprise.models.boltzmann.machine import Machine
from tacenda_surprise.models.boltzmann.training import train
from tacenda_surprise.models.identities import Identities


class How(NamedTuple):
    """What a fit is told beside its ratings.

    Attributes
    ----------
    config
        Settings.
    scale
        Of the ratings.
    conditional
        Whether the machine conditions on identities.
    identities
        Items known to be rated, beside those of the ratings.
    callbacks
        For the loop.
    checkpoints
        Folder; None: none.
    description
        What the bar says.
    """

    config: BoltzmannConfig
    scale: Scale
    conditional: bool
    identities: Identities | None
    callbacks: Sequence[Callback]
    checkpoints: str | os.PathLike[str] | None
    description: str

    def cases(self, ratings: Ratings) -> Cases:
        """The training data by case."""
        config = self.config
        by_case = ratings.by_item if config.items_are_cases else ratings
        known = self._known(ratings)
        return Cases.of(by_case, self.scale, config.damping, offset=config.offset, identities=known)

    def _known(self, ratings: Ratings) -> Identities | None:
        if not self.conditional:
            return None
        known = Identities.of(ratings, self.identities)
        if not self.config.items_are_cases:
            return known
        users = known.user_ids
        return Identities.from_pairs(known.item_ids, users, ratings.n_items, ratings.n_users)

    def criterion(self, held_out: Ratings) -> Callable[[Machine], float]:
        """The RMSE of ratings held out."""
        pairs = sides(self.config, held_out.user_ids, held_out.item_ids)
        return lambda machine: machine.rmse(*pairs, self.scale, held_out.values)


def sides(config: BoltzmannConfig, users: Numbers, items: Numbers) -> tuple[Numbers, Numbers]:
    """(visible units, cases)."""
    return (users, items) if config.items_are_cases else (items, users)


def fit_machine(how: How, ratings: Ratings) -> tuple[Machine, History]:
    """From the start, as ``how.config`` says."""
    config, n_epochs = how.config, how.config.n_epochs
    if config.validation and len(ratings) > 1:
        folder = None if how.checkpoints is None else Path(how.checkpoints)
        first = how._replace(checkpoints=folder and folder / "first")
        part, held_out = split(ratings, config.validation, seed=config.seed)
        machine, history = train_on(first, part, n_epochs, held_out=held_out)
        if not config.refit:
            return machine, history
        n_epochs = history.best.epoch if history.best else n_epochs
    return train_on(how, ratings, n_epochs)


def train_on(
    how: How,
    ratings: Ratings,
    n_epochs: int,
    *,
    held_out: Ratings | None = None,
    start: Machine | None = None,
    passed: int = 0,
) -> tuple[Machine, History]:
    """One fit; ``start`` and ``passed`` as in `train`."""
    return train(
        how.config,
        how.cases(ratings),
        how.scale,
        conditional=how.conditional,
        criterion=None if held_out is None else how.criterion(held_out),
        held_out="" if held_out is None else held_out.fingerprint,
        epochs=n_epochs,
        passed=passed,
        start=start,
        callbacks=how.callbacks,
        checkpoints=how.checkpoints,
        description=how.description,
    )
