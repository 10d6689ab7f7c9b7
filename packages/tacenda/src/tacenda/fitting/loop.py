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
from dataclasses import MISSING, dataclass, fields, replace
from types import FrameType
from typing import Any, Literal

import numpy as np

from tacenda.errors import ConfigurationError, FittingError, describe
from tacenda.fitting.checkpoint import Recorder, Resume
from tacenda.fitting.history import DivergenceError, Evaluation, History, read_count
from tacenda.fitting.schedules import Position, Schedule, as_schedule
from tacenda.fitting.trainer import BatchSource, State, StepResult, Trainer, is_plausible
from tacenda.progress import track
from tacenda.settings import Settings, option
from tacenda.store import path_of

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


@dataclass(frozen=True)
class FitRun:
    """Where one fit saves its progress, whether it resumes, who watches it, and what its progress bar says.

    Attributes
    ----------
    checkpoints
        A folder, made if it is missing, in which the fit is saved every few minutes and after every epoch.
    resume
        ``"auto"`` continues from a checkpoint if there is one, True requires one, False removes what is
        there and starts from the beginning.
    callbacks
        Hooks that see every step, evaluation and epoch.
    description
        The text before the progress bar.
    every_steps, every_seconds
        How often a checkpoint is saved, besides the end of every epoch.
    """

    checkpoints: str | os.PathLike[str] | None = None
    resume: Resume = "auto"
    callbacks: Sequence[Callback] = ()
    description: str = "fitting"
    every_steps: int | None = None
    every_seconds: float | None = 300.0

    def stage(self, name: str) -> FitRun:
        """Return the run of one of several stages, whose checkpoints have a folder of their own."""
        if self.checkpoints is None:
            return self
        return replace(self, checkpoints=path_of(self.checkpoints, FittingError) / name)

    def after_first(self) -> FitRun:
        """Return the run of a stage after the first, which an interrupted fit need not have reached."""
        return replace(self, resume="auto") if self.resume is True else self


def fit(
    trainer: Trainer,
    source: BatchSource,
    settings: FitSettings,
    run: FitRun | None = None,
    identity: Mapping[str, Any] | None = None,
) -> History:
    """Train in place on the batches of ``source``.

    Parameters
    ----------
    trainer, source
        What to train, and on what.
    settings
        How long, at what rate, when to stop.
    run
        Checkpoints, callbacks and the progress bar of this run; by default none are saved or called.
    identity
        JSON values that identify what the model was made from, held-out data included. A checkpoint of another
        identity, other data or other settings is refused.

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
    run = run or FitRun()
    recorder = None
    if run.checkpoints is not None:
        known = {
            "model": type(trainer).__qualname__,
            "configuration": dict(identity or {}),
            "data": source.fingerprint(),
            "settings": settings.fingerprint(),
        }
        recorder = Recorder(run.checkpoints, known, run.every_steps, run.every_seconds)
    elif run.resume is True:
        raise ConfigurationError("resume=True needs checkpoints=...; give the folder they are in")
    loop = FitLoop(trainer, source, settings, run, recorder)
    try:
        return loop.run(run.resume)
    except DivergenceError as error:
        if error.first or loop.has_no_model:
            raise error.in_first_epoch() from None
        if settings.on_divergence == "raise":
            raise
        kept = f"training was stopped, and the best model so far is kept: {error}"
        warnings.warn(kept, RuntimeWarning, stacklevel=2)
        return loop.history


class FitLoop:
    """A running fit, as callbacks see it."""

    def __init__(
        self,
        model: Trainer,
        source: BatchSource,
        settings: FitSettings,
        run: FitRun,
        recorder: Recorder | None,
    ) -> None:
        self.model, self.source, self.settings = model, source, settings
        self.history = History()
        self.learning_rate = math.nan
        self.last: StepResult | None = None
        self._callbacks, self._recorder = tuple(run.callbacks), recorder
        self._description = run.description
        self._schedule = as_schedule(settings.learning_rate)
        self._meter = LossMeter(settings.check_losses_every)
        self._best = BestParameters(model, keep=settings.restore_best)
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
        """Save a checkpoint, if they are wanted."""
        if self._recorder is None:
            return
        self._clock()
        self._meter.flush()
        progress = {
            "batch": self._batch,
            "best": {"waited": self._best.waited, "version": self._best.version},
            "meter": self._meter.state(),
            "history": self.history.as_dict(),
        }
        self._recorder.save(progress, self.model.state(), self._best.parameters, self._best.version)

    def _resume(self, resume: Resume) -> bool:
        """Continue from a checkpoint; False where there is none to continue from."""
        saved = None if self._recorder is None else self._recorder.find(resume)
        if saved is None:
            return False
        progress = saved.progress
        try:
            self.history = History.from_dict(progress["history"])
            self._meter.load_state(progress["meter"])
            self._best.waited = read_count(progress["best"]["waited"])
            self._best.version = read_count(progress["best"]["version"])
            self._batch = read_count(progress["batch"])
            if not is_plausible(saved.state) or not is_plausible(saved.best or {}):
                raise ValueError("it holds NaN, infinite or implausibly large (above 1e15) numbers")
            if saved.best is not None:
                self.model.load_parameters(saved.best)  # raises where they do not fit
                self._best.parameters = saved.best
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


class LossMeter:
    """Adds up what the steps of an epoch report.

    Losses are kept as the model gave them and converted together, so that a model on a GPU need not
    wait for its device at every step. The sums, float64 in the order of the steps, do not depend on
    when that happens.
    """

    def __init__(self, check_every: int) -> None:
        self.check_every = check_every
        self.rate = math.nan
        self._pending: list[tuple[int, float, StepResult]] = []
        self._clear()

    def _clear(self) -> None:
        """Start the sums of an epoch."""
        self._loss = self._count = self._norm = 0.0
        self._norms = 0

    def add(self, step: int, rate: float, result: StepResult) -> None:
        """Take the result of a step; raise DivergenceError if a loss converted now is not finite."""
        self.rate = rate
        self._pending.append((step, rate, result))
        if len(self._pending) >= self.check_every:
            self.flush()

    def flush(self) -> None:
        """Convert and check the pending losses."""
        pending, self._pending = self._pending, []
        for step, rate, result in pending:
            loss = float(result.loss)
            if not math.isfinite(loss):
                raise DivergenceError("training loss", loss, step, rate)
            self._loss += loss
            self._count += float(result.units)
            norm = math.nan if result.gradient_norm is None else float(result.gradient_norm)
            if math.isfinite(norm):
                self._norm += norm
                self._norms += 1

    def close_epoch(self) -> tuple[float, float | None]:
        """Return the epoch's mean loss per unit and mean gradient norm (None if none was reported)."""
        self.flush()
        loss = self._loss / self._count if self._count else 0.0
        norm = self._norm / self._norms if self._norms else None
        self._clear()
        return loss, norm

    def state(self) -> dict[str, Any]:
        """Return the sums as JSON; call `flush` first."""
        return {
            "rate": None if math.isnan(self.rate) else self.rate,
            "loss": self._loss,
            "count": self._count,
            "norm": self._norm,
            "norms": self._norms,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Put back what `state` returned."""
        self.rate = math.nan if state["rate"] is None else float(state["rate"])
        self._loss, self._count = float(state["loss"]), float(state["count"])
        self._norm, self._norms = float(state["norm"]), read_count(state["norms"])


class BestParameters:
    """Keeps a copy of the parameters with the lowest evaluation, and counts evaluations since then."""

    def __init__(self, trainer: Trainer, *, keep: bool) -> None:
        self.parameters: State | None = None
        self.version = 0  # changes whenever `parameters` does
        self.waited = 0  # evaluations since the best one
        self._trainer, self._keep = trainer, keep

    def observe(self, evaluation: Evaluation, best: Evaluation | None) -> Evaluation:
        """Take an evaluation of the model as it is, and return the best so far."""
        if best is not None and evaluation.value >= best.value:
            self.waited += 1
            return best
        self.waited = 0
        self.keep()
        return evaluation

    def keep(self) -> None:
        """Copy the parameters, unless none are to be restored, or these are beyond use already."""
        if not self._keep:
            return
        found = self._trainer.parameters()
        if is_plausible(found):
            self.parameters = {
                name: np.array(array, order="C", copy=True) for name, array in found.items()
            }
            self.version += 1

    @property
    def holds_only_the_start(self) -> bool:
        """Whether the copied parameters are those that the fit began with."""
        return self.parameters is not None and self.version == 1

    def restore(self) -> None:
        """Put the copied parameters back."""
        if self.parameters is not None:
            self._trainer.load_parameters(self.parameters)


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
