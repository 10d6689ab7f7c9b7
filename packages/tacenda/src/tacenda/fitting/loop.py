"""The one fitting loop, for every model trained by steps, whatever it computes with.

After every step a checkpoint is saved if one is due. After every epoch, in this order: an evaluation is
made if one is due, callbacks are called, and a checkpoint is saved if nothing has ended the fit. A
checkpoint therefore never records a moment at which an uninterrupted run would have stopped.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from types import FrameType
from typing import Any, Literal

from tacenda.errors import ConfigurationError, FittingError, describe
from tacenda.fitting.checkpoint import Checkpoints, Recorder, Resume
from tacenda.fitting.history import (
    BestSeen,
    DivergenceError,
    Evaluation,
    History,
    LossMeter,
    saved_count,
)
from tacenda.fitting.processes import processes, wait
from tacenda.fitting.schedules import Position, Schedule, as_schedule
from tacenda.fitting.trainable import BatchSource, StepResult, Trainable, check_state
from tacenda.progress import track
from tacenda.settings import Settings, option

__all__ = ["Callback", "FitLoop", "FitSettings", "fit"]

_FINAL = {"patience", "callback"}  # reasons to stop that more epochs do not undo
_MAY_DIFFER = {"epochs", "check_losses_every", "on_divergence"}  # between a run and one resumed


@dataclass(frozen=True, kw_only=True)
class FitSettings(Settings):
    """How long to train, at what rate, when to evaluate and when to stop."""

    epochs: int = option(MISSING, "passes over the batch source at most", at_least=0)
    learning_rate: float | Schedule = option(
        MISSING, "the rate of every step; a number is a constant rate", at_least=0
    )
    evaluate_every: int = option(
        1, "evaluate after every so many epochs; 0: only at the end", at_least=0
    )
    patience: int | None = option(
        None,
        "stop after this many evaluations in a row without a new best; None: never",
        at_least=1,
    )
    restore_best: bool = option(
        True,
        """leave the model with its best parameters, which needs memory for one copy of them. Without
        evaluations these are the last ones; after a divergence, those of the last whole epoch""",
    )
    check_losses_every: int = option(
        1, "convert losses to numbers, and look for NaN, every so many steps", at_least=1
    )
    on_divergence: Literal["raise", "return"] = option(
        "raise",
        """what to do after a loss or an evaluation that is not finite, once the best parameters are
        restored. "return" warns; in the first epoch and its evaluation, which leave nothing to keep, it
        raises too""",
    )

    def fingerprint(self) -> dict[str, Any]:
        """Return as JSON the settings that a resumed run must share with the run it continues."""
        shared = {one.name: getattr(self, one.name) for one in fields(self)}
        shared["learning_rate"] = as_schedule(self.learning_rate).config()
        return {name: value for name, value in shared.items() if name not in _MAY_DIFFER}


class Callback:
    """Base class with hooks that do nothing; a hook that returns True ends the fit.

    ``run`` offers ``model``, ``settings``, ``history``, ``step`` (steps done), ``epoch`` (epochs
    done), ``learning_rate`` and ``last`` (the latest StepResult). Callbacks are not part of a
    checkpoint: one that ends a fit should decide from ``run`` alone, so that a resumed run agrees.
    """

    def on_step(self, run: FitLoop) -> bool | None:
        """Called after every step."""

    def on_evaluation(self, run: FitLoop, evaluation: Evaluation) -> bool | None:
        """Called after every evaluation."""

    def on_epoch_end(self, run: FitLoop) -> bool | None:
        """Called after every epoch and its evaluation."""


def fit(
    model: Trainable,
    source: BatchSource,
    settings: FitSettings,
    *,
    configuration: Mapping[str, Any] | None = None,
    callbacks: Sequence[Callback] = (),
    checkpoints: Checkpoints | str | os.PathLike[str] | None = None,
    resume: Resume = "auto",
    description: str = "fitting",
) -> History:
    """Train ``model`` in place on the batches of ``source``.

    Parameters
    ----------
    model, source
        What to train, and on what.
    settings
        How long, at what rate, when to stop.
    configuration
        Identifies what the model was made from, held-out data included, as JSON values. A checkpoint of
        another configuration, other data or other settings is refused.
    callbacks
        Hooks that see every step, evaluation and epoch.
    checkpoints
        A folder, made if it is missing, in which the fit is saved every few minutes and after every epoch.
    resume
        ``"auto"`` continues from a checkpoint if there is one, True requires one, False removes what is
        there and starts from the beginning.
    description
        What the progress bar says.

    Returns
    -------
    History
        Losses, evaluations and rates, and why the fit ended.

    Raises
    ------
    DivergenceError
        A loss or an evaluation is not finite. The model then holds the best parameters seen; see
        ``FitSettings.on_divergence``.
    FittingError
        A checkpoint cannot be used or saved.
    KeyboardInterrupt
        After Ctrl-C, once the step is done, a checkpoint saved and the best parameters restored; a
        second Ctrl-C raises it at once.
    """
    recorder = None
    if checkpoints is not None:
        where = checkpoints if isinstance(checkpoints, Checkpoints) else Checkpoints(checkpoints)
        identity = {
            "model": type(model).__qualname__,
            "configuration": dict(configuration or {}),
            "data": source.fingerprint(),
            "settings": settings.fingerprint(),
        }
        recorder = Recorder(where, identity)
    elif resume is True:
        raise ConfigurationError("resume=True needs checkpoints=...; give the folder they are in")
    run = FitLoop(model, source, settings, tuple(callbacks), recorder, description)
    try:
        return run.run(resume)
    except DivergenceError as error:
        if error.first or run.has_no_model:
            raise error.in_first_epoch() from None
        if settings.on_divergence == "raise":
            raise
        kept = f"training was stopped, and the best model so far is kept: {error}"
        warnings.warn(kept, RuntimeWarning, stacklevel=2)
        return run.history


class FitLoop:
    """A running fit, as callbacks see it."""

    def __init__(
        self,
        model: Trainable,
        source: BatchSource,
        settings: FitSettings,
        callbacks: tuple[Callback, ...],
        recorder: Recorder | None,
        description: str,
    ) -> None:
        self.model, self.source, self.settings = model, source, settings
        self.history = History()
        self.learning_rate = math.nan
        self.last: StepResult | None = None
        self._callbacks, self._recorder, self._description = callbacks, recorder, description
        self._schedule = as_schedule(settings.learning_rate)
        self._meter = LossMeter(settings.check_losses_every)
        self._best = BestSeen(model, keep=settings.restore_best)
        self._interrupt = _DeferredInterrupt()
        self._batch = 0  # batches done in the current epoch
        self._clocked = time.monotonic()

    @property
    def step(self) -> int:
        """Number of steps done."""
        return self.history.steps

    @property
    def epoch(self) -> int:
        """Number of epochs done."""
        return self.history.epochs

    @property
    def has_no_model(self) -> bool:
        """Whether nothing has been learned that could be kept."""
        return not self.epoch or self._best.holds_only_the_start

    def run(self, resume: Resume = False) -> History:
        """Train to the end, from the start or from a checkpoint."""
        resumed = self._resume(resume)
        wait()  # until all processes have read the checkpoint that the first one will replace
        try:
            with self._interrupt:
                reason = self.history.stopped or self._train(resumed)
                self._finish(reason)
        except BaseException as error:
            if isinstance(error, DivergenceError):
                self.history.stopped = "diverged"
                error.history = self.history
            self._clock()
            self._best.restore()
            raise
        wait()  # until the first process has saved: the next fit of another may read this checkpoint
        best = self.history.best
        if best is not None and best.step != self.step:
            self._best.restore()
        if reason == "interrupted":
            where = f"; see {self._recorder.folder.folder}" if self._recorder is not None else ""
            raise KeyboardInterrupt(f"the fit was interrupted after step {self.step}{where}")
        return self.history

    def _train(self, resumed: bool) -> str:
        """Run epochs until something ends the fit, and return what did."""
        if not resumed:
            self._best.keep()
        reason = "interrupted" if self._interrupt.requested else ""
        while not reason:
            reason = "epochs" if self.epoch >= self.settings.epochs else self._run_epoch()
        return reason

    def _run_epoch(self) -> str:
        """Make the remaining steps of an epoch; return what ends the fit, or an empty string."""
        epoch, total = self.epoch, self.source.n_batches(self.epoch)
        batches = self.source.batches(epoch, skip=self._batch)
        left = None if total is None else total - self._batch
        label = f"{self._description}: epoch {epoch + 1} of {self.settings.epochs}"
        for batch in track(batches, label, total=left, unit="step"):
            fraction = self._batch / total if total else 0.0
            self.learning_rate = self._schedule.at(Position(self.step, epoch, fraction))
            self.last = StepResult(*self.model.step(batch, self.learning_rate))
            self.history.steps += 1
            self._batch += 1
            self._meter.add(self.step, self.learning_rate, self.last)
            reason = self._call("on_step")
            if not reason and self._interrupt.requested:
                reason = "interrupted"
            if reason:
                return reason
            if self._recorder is not None and self._recorder.due(self.step):
                self._save()
        return self._end_epoch()

    def _end_epoch(self) -> str:
        """Record the epoch, evaluate if due, save; return what ends the fit, or an empty string."""
        if self._batch == 0:
            raise FittingError(f"epoch {self.epoch + 1} has no batches; there is nothing to fit on")
        loss, norm = self._meter.close_epoch()
        self.history.epoch_losses.append(loss)
        self.history.gradient_norms.append(norm)
        self.history.learning_rates.append(self._meter.rate)
        self.history.epochs += 1
        self._batch = 0
        every = self.settings.evaluate_every
        reason = self._evaluate() if every and self.epoch % every == 0 else ""
        if self.history.best is None:
            self._best.keep()  # what is left after a divergence
        reason = self._call("on_epoch_end") or reason
        if not reason:
            self._save()
        return reason

    def _evaluate(self) -> str:
        """Evaluate the model as it is; return what ends the fit, or an empty string."""
        self._meter.flush()
        value = self.model.evaluate()
        if value is None:
            if self.settings.patience is not None:
                raise ConfigurationError(
                    "patience needs evaluations, and this model has nothing to evaluate on; "
                    "give it held-out data, or patience=None"
                )
            return ""
        value = float(value)
        epoch = self.epoch + (self._batch > 0)
        if not math.isfinite(value):
            first = self.history.best is None and epoch <= 1  # no epoch before this one was kept
            raise DivergenceError("evaluation", value, self.step, self.learning_rate, first)
        evaluation = Evaluation(self.step, epoch, value)
        self.history.evaluations.append(evaluation)
        self.history.best = self._best.observe(evaluation, self.history.best)
        patience = self.settings.patience
        reason = "patience" if patience is not None and self._best.waited >= patience else ""
        return self._call("on_evaluation", evaluation) or reason

    def _call(self, hook: str, *arguments: Any) -> str:
        """Call a hook of every callback; return "callback" if one wants to end the fit."""
        wishes = [getattr(callback, hook)(self, *arguments) for callback in self._callbacks]
        return "callback" if any(wish is True for wish in wishes) else ""

    def _clock(self) -> None:
        """Add the time since the last call to the history."""
        now = time.monotonic()
        self.history.seconds += now - self._clocked
        self._clocked = now

    def _finish(self, reason: str) -> None:
        """Evaluate once more where training went on since the last evaluation, and save."""
        self._meter.flush()
        evaluations = self.history.evaluations
        stale = not evaluations or evaluations[-1].step != self.step
        if stale and self.step and reason != "interrupted":
            self._evaluate()
        self.history.stopped = reason
        self._clock()
        self._save()

    def _save(self) -> None:
        """Save a checkpoint, if they are wanted; of several processes the first one does."""
        if self._recorder is None or processes().rank:
            return
        self._clock()
        self._meter.flush()
        progress = {
            "batch": self._batch,
            "best": self._best.state(),
            "meter": self._meter.state(),
            "history": self.history.as_dict(),
        }
        self._recorder.save(progress, self.model, self._best.parameters, self._best.version)

    def _resume(self, resume: Resume) -> bool:
        """Continue from a checkpoint; False where there is none to continue from."""
        saved = None if self._recorder is None else self._recorder.find(resume)
        if saved is None:
            return False
        progress = saved.progress
        try:
            self.history = History.from_dict(progress["history"])
            self._meter.load_state(progress["meter"])
            self._best.load_state(progress["best"], saved.best)
            self._batch = saved_count(progress["batch"])
            check_state(saved.state, self.model.state())
            self.model.load_state(saved.state)
        except Exception as error:  # whatever a damaged checkpoint provokes in a model's own code
            raise FittingError(
                f"the checkpoint does not fit this model ({describe(error)}); remove its folder, or start "
                "afresh with resume=False"
            ) from error
        self.learning_rate = self._meter.rate
        if self.history.stopped not in _FINAL:
            self.history.stopped = ""
        return True


class _DeferredInterrupt:
    """Context in which the first Ctrl-C only sets ``requested``, and the second raises at once.

    Outside the main thread, where Python does not allow it, and where somebody else handles the
    signal, everything stays as it is.
    """

    def __init__(self) -> None:
        self.requested = False
        self._installed = False

    def __enter__(self) -> None:
        main = threading.current_thread() is threading.main_thread()
        if main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._handle)
            self._installed = True

    def __exit__(self, *error: object) -> None:
        if self._installed:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self._installed = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
        print("\nstopping after this step (Ctrl-C again: at once)", file=sys.stderr)
