"""The fits behind `PMFModel`: with or without a part held out, from the start or from fitted tables."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from tacenda.fitting import (
    BatchSource,
    BlockBatches,
    Callback,
    FitSettings,
    History,
    StepDecay,
    Sweeps,
)
from tacenda.fitting import fit as run
from tacenda.fitting.batches import fingerprint_arrays
from tacenda.kernels.ratings.sgd import Tables
from tacenda.ratings import Ratings, split
from tacenda_surprise.models.factorization.als import ALS
from tacenda_surprise.models.factorization.config import FactorizationConfig
from tacenda_surprise.models.factorization.training import SGD, Tabled, initial_tables
from tacenda_surprise.models.identities import Identities

_BATCH_RATINGS = 4_000_000  # a few tenths of a second: how often the bar moves and Ctrl-C is heard


class How(NamedTuple):
    """What a fit is told beside its data.

    Attributes
    ----------
    config
        Settings, all of them numbers.
    name
        Of the model.
    conditional
        Whether it conditions on identities.
    callbacks
        For the loop.
    checkpoints
        Folder; None: none.
    description
        What the bar says.
    """

    config: FactorizationConfig
    name: str
    conditional: bool
    callbacks: Sequence[Callback]
    checkpoints: str | os.PathLike[str] | None
    description: str

    def known(self, ratings: Ratings, more: Identities | None) -> Identities | None:
        """N(u): the pairs of ``ratings`` and ``more``; None without conditioning."""
        return Identities.of(ratings, more) if self.conditional else None


class MAPFit(NamedTuple):
    """Tables (their ``user_factors`` p = x - s), N(u), the course of the fit and that of the one stopped early."""

    tables: Tables
    known: Identities | None
    history: History
    stopped: History | None = None


def fit_map(how: How, ratings: Ratings, mean: float, identities: Identities | None) -> MAPFit:
    """From random tables, as ``how.config`` says."""
    config = how.config
    folder = None if how.checkpoints is None else Path(how.checkpoints)
    stopped = None
    if config.validation and len(ratings) > 1:
        part, held_out = split(ratings, config.validation, seed=config.seed)
        first = how._replace(checkpoints=None if folder is None else folder / "validation")
        found = _from_start(first, part, mean, identities, held_out)
        if not config.refit:
            return found
        stopped = found.history
        epochs = stopped.best.epoch if stopped.best else config.n_epochs
        how = how._replace(config=replace(config, n_epochs=epochs))
    found = _from_start(how, ratings, mean, identities, None)
    return found._replace(stopped=stopped)


def _from_start(
    how: How, ratings: Ratings, mean: float, identities: Identities | None, held_out: Ratings | None
) -> MAPFit:
    known = how.known(ratings, identities)
    tables = initial_tables(
        how.config, ratings.n_users, ratings.n_items, conditional=how.conditional
    )
    history = train(how, ratings, tables, mean, known, held_out)
    return MAPFit(tables, known, history)


def train(
    how: How,
    ratings: Ratings,
    tables: Tables,
    mean: float,
    known: Identities | None,
    held_out: Ratings | None = None,
    first_epoch: int = 0,
) -> History:
    """Trains ``tables`` in place; rates begin as low as they are in ``first_epoch``."""
    config = how.config
    assert config.lr_factors is not None
    assert config.n_epochs is not None
    trained: Tabled
    source: BatchSource
    data = ""
    if how.checkpoints is not None:
        arrays = (known.offsets, known.item_ids) if known is not None else ()
        others = "" if held_out is None else held_out.fingerprint
        data = fingerprint_arrays(arrays, ratings.fingerprint, others)
    if config.solver == "als":
        trained, source = ALS(config, ratings, tables, mean, held_out), Sweeps()
    else:
        trained = SGD(config, ratings, tables, mean, known, held_out)
        source = BlockBatches(
            ratings.user_offsets, batch_size=_BATCH_RATINGS, seed=config.seed + first_epoch
        )
    identifying = {n: v for n, v in config.to_dict().items() if n != "n_epochs"}
    return run(
        trained,
        source,
        FitSettings(
            epochs=config.n_epochs,
            learning_rate=StepDecay(
                config.lr_factors * config.lr_decay**first_epoch, config.lr_decay, 1
            ),
            evaluate_every=1 if held_out else 0,
            patience=config.patience if held_out else None,
            restore_best=held_out is not None,
        ),
        configuration={"model": how.name, "data": data, **identifying},
        callbacks=how.callbacks,
        checkpoints=how.checkpoints,
        description=how.description or how.name,
    )
