"""What Surprise hands out: a Prediction for every pair, and with ``verbose=True`` a line for every epoch."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import repeat
from typing import Any

import numpy as np
import numpy.typing as npt
from surprise import Prediction

from tacenda.fitting import Callback, FitLoop


def prediction_objects(
    uids: Sequence[Any],
    iids: Sequence[Any],
    truths: Sequence[float | None],
    estimates: Sequence[float],
    impossible: Mapping[int, str],
) -> list[Prediction]:
    """Make a Prediction for every pair of raw ids; ``impossible`` says which rows have none, and why."""
    # Many small objects, which map makes faster than a loop does.
    possible: dict[str, Any] = {"was_impossible": False}
    details = list(map(dict.copy, repeat(possible, len(uids))))
    for row, reason in impossible.items():
        details[row] = {"was_impossible": True, "reason": reason}
    fields = zip(uids, iids, truths, estimates, details, strict=True)
    return list(map(tuple.__new__, repeat(Prediction), fields))


def named(
    items: npt.NDArray[np.int64],
    scores: npt.NDArray[np.floating[Any]],
    raw: Sequence[Any],
    scale: tuple[float, float],
) -> list[tuple[Any, float]]:
    """List items (n,) by their ``raw`` ids, each with its expected rating (n,), clipped to the scale."""
    estimates = np.clip(scores, *scale).tolist()
    return [(raw[item], score) for item, score in zip(items, estimates, strict=True)]


def why_impossible(user: int, item: int) -> str:
    """Why a pair cannot be predicted whose user, item or both are -1."""
    if user < 0 and item < 0:
        return "User and item are unknown."
    return "User is unknown." if user < 0 else "Item is unknown."


@contextmanager
def no_collection() -> Iterator[None]:
    """Hold back the cyclic garbage collector while many objects are made that all stay.

    It would walk through all of Surprise's tuples again and again while a list of predictions grows: three
    quarters of the time of ``test``. What is there at the end counts as old, for the same reason: freezing and
    unfreezing moves it there without a look at it.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            if gc.get_freeze_count() == 0:  # else somebody wants objects to stay frozen
                gc.freeze()
                gc.unfreeze()
            gc.enable()


class EpochPrinter(Callback):
    """What ``verbose=True`` prints: a line for every epoch."""

    def on_epoch_end(self, run: FitLoop) -> bool | None:
        """Print the epoch's number and training error."""
        history = run.history
        line = (
            f"Processing epoch {history.epochs - 1}: training loss {history.epoch_losses[-1]:.4f}"
        )
        if history.evaluations:
            line += f", held out {history.evaluations[-1].value:.4f}"
        print(line)
        return None
