"""Training in epochs, the same for every model: the learning rate, early stopping, what identifies a fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy.typing as npt

from tacenda.fitting import (
    BatchSource,
    Callback,
    Cosine,
    FitSettings,
    History,
    Schedule,
    Trainable,
    WarmUp,
    fingerprint_arrays,
    fit,
)
from tacenda.fitting.checkpoint import Resume
from tacenda.fitting.trainable import State

__all__ = ["FitContext", "TrainedSettings", "falling_rate", "put", "train"]

_ELSEWHERE = "threads", "device"  # options that may differ where a fit is continued

Text = tuple[npt.NDArray[Any], ...]  # ids, and offsets where sequences are apart


class TrainedSettings(Protocol):
    """What the settings of every model have that is trained in epochs."""

    @property
    def epochs(self) -> int:
        """How many at most."""
        ...

    @property
    def patience(self) -> int | None:
        """How many evaluations without a better one are waited for; None where something else ends training."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Return all options as JSON values."""
        ...


class FitContext(NamedTuple):
    """Where a fit saves its progress (nowhere if None), and whether it continues from what is there."""

    checkpoints: Path | None = None
    resume: Resume = "auto"

    def stage(self, name: str) -> FitContext:
        """Return the context of one of several stages, which is saved in a folder of its own."""
        return self._replace(checkpoints=self.checkpoints and self.checkpoints / name)

    def after_first(self) -> FitContext:
        """Return the context of the stages after the first, which a killed fit need not have reached."""
        return self._replace(resume="auto") if self.resume is True else self


def falling_rate(
    rate: float, epochs: int, source: BatchSource, *, least: float, warm: int
) -> WarmUp:
    """Return a rate that rises for up to ``warm`` steps or half an epoch, and falls to the share ``least``."""
    falling = Cosine(rate, epochs=max(epochs, 1), floor=least * rate)
    return WarmUp(falling, max(1, min(warm, (source.n_batches(0) or 0) // 2)))


def train(
    trainer: Trainable,
    source: BatchSource,
    settings: TrainedSettings,
    text: Text,
    valid: Text | None,
    fitting: FitContext,
    rate: Schedule | float,
    *,
    evaluate_every: int = 1,
    identity: Mapping[str, Any] | None = None,
    elsewhere: Sequence[str] = _ELSEWHERE,
    callbacks: Sequence[Callback] = (),
    description: str = "fitting",
) -> History:
    """Train in place; a divergence after the first epoch leaves the best model seen.

    ``identity`` (JSON values) tells this fit from others, beside the texts and all settings but those named in
    ``elsewhere``; ``callbacks`` may end it; ``description`` stands before the progress bar.
    """
    loop = FitSettings(
        epochs=settings.epochs,
        learning_rate=rate,
        evaluate_every=evaluate_every,
        patience=None if valid is None else settings.patience,
        on_divergence="return",
    )
    return fit(
        trainer,
        source,
        loop,
        configuration={
            "settings": {k: v for k, v in settings.to_dict().items() if k not in elsewhere},
            "text": fingerprint_arrays(text),
            "valid": None if valid is None else fingerprint_arrays(valid),
            **(identity or {}),
        },
        callbacks=callbacks,
        checkpoints=fitting.checkpoints,
        resume=fitting.resume,
        description=description,
    )


def put(own: State, given: State) -> None:
    """Copy arrays into those of the same names. Raises ValueError where names, shapes or dtypes differ."""
    if set(own) != set(given):
        raise ValueError(f"names differ: {', '.join(sorted(set(own) ^ set(given))[:5])}")
    for name, array in own.items():
        if array.shape != given[name].shape or array.dtype != given[name].dtype:
            raise ValueError(
                f"{name} is {array.dtype} {array.shape}, not {given[name].dtype} {given[name].shape}"
            )
        array[...] = given[name]
