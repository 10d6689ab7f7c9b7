"""The one fitting loop: for every model trained by steps, whatever it computes with.

After every step, in this order: losses are converted and checked, an evaluation is made if it is
due, callbacks are called, a checkpoint is saved if one is due and nothing has ended the fit. A
checkpoint therefore never records a moment at which an uninterrupted run would have stopped.
"""

import copy
import math
import os
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from tacenda.errors import ConfigurationError, FittingError
from tacenda.fitting.best import BestSeen
from tacenda.fitting.callbacks import Callback
from tacenda.fitting.history import Evaluation, History
from tacenda.fitting.interrupt import DeferredInterrupt
from tacenda.fitting.meter import DivergenceError, LossMeter
from tacenda.fitting.recorder import Checkpoints, Recorder, Resume, identity
from tacenda.fitting.schedules import Position, as_schedule
from tacenda.fitting.settings import FitSettings
from tacenda.fitting.trainable import BatchSource, StepResult, Trainable
from tacenda.progress import track

_FINAL = {"patience", "rate", "callback"}  # ends that more epochs, steps or time do not undo


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
    """Trains ``model`` in place on the batches of ``source`` and returns the history of the fit.

    ``configuration`` (JSON) identifies what the model was made from, held-out data included; a
    checkpoint of another configuration, other data or other settings is refused. ``resume``:
    "auto" goes on from a checkpoint if there is one, True requires one, False starts afresh and
    removes what is there.

    Raises DivergenceError if a loss or an evaluation is not finite (the model then holds the best
    parameters seen; see ``FitSettings.on_divergence``), FittingError if a checkpoint cannot be used
    or saved, KeyboardInterrupt after Ctrl-C (see ``FitSettings.on_interrupt``).
    """
    recorder = None
    if checkpoints is not None:
        where = checkpoints if isinstance(checkpoints, Checkpoints) else Checkpoints(checkpoints)
        recorder = Recorder(where, identity(model, source, settings, configuration or {}))
    elif resume is True:
        raise ConfigurationError("resume=True needs checkpoints=...; give the folder they are in")
    run = FitLoop(model, source, settings, tuple(callbacks), recorder, description)
    try:
        return run.run(resume)
    except DivergenceError as error:
        if not run.epoch:
            raise error.in_first_epoch() from None
        if settings.on_divergence == "raise":
            raise
        kept = f"training was stopped, and the best model so far is kept: {error}"
        warnings.warn(kept, RuntimeWarning, stacklevel=2)
        return run.history


class FitLoop:
    """One fit under way; what callbacks see."""

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
        self._schedule = copy.deepcopy(as_schedule(settings.learning_rate))
        self._meter = LossMeter(settings.check_losses_every)
        self._best = BestSeen(model, keep=settings.restore_best, min_delta=settings.min_delta)
        self._interrupt = DeferredInterrupt()
        self._batch = 0  # batches done in the present epoch
        self._clocked = time.monotonic()

    @property
    def step(self) -> int:
        """Steps done."""
        return self.history.steps

    @property
    def epoch(self) -> int:
        """Epochs done."""
        return self.history.epochs

    def run(self, resume: Resume = False) -> History:
        """Trains to the end, from the start or from a checkpoint."""
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
        if reason == "interrupted" and self.settings.on_interrupt == "raise":
            where = f"; see {self._recorder.folder.folder}" if self._recorder is not None else ""
            raise KeyboardInterrupt(f"the fit was interrupted after step {self.step}{where}")
        return self.history

    def _train(self, resumed: bool) -> str:
        if not resumed:
            self._best.keep()
            if self.settings.evaluate_first:
                self._evaluate()
        reason = self._limit()
        while not reason:
            reason = "epochs" if self.epoch >= self.settings.epochs else self._run_epoch()
        return reason

    def _run_epoch(self) -> str:
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
            reason = self._after_step()
            if reason:
                return reason
        return self._end_epoch()

    def _after_step(self) -> str:
        every = self.settings.evaluate_every
        due = self.settings.evaluate_unit == "steps" and every and self.step % every == 0
        reason = self._evaluate() if due else ""
        reason = self._call("on_step") or reason or self._limit()
        if not reason and self._recorder is not None and self._recorder.due(self.step):
            self._save()
        return reason

    def _end_epoch(self) -> str:
        if self._batch == 0:
            raise FittingError(f"epoch {self.epoch + 1} has no batches; there is nothing to fit on")
        loss, norm = self._meter.close_epoch()
        self.history.epoch_losses.append(loss)
        self.history.gradient_norms.append(norm)
        self.history.learning_rates.append(self._meter.rate)
        self.history.epochs += 1
        self._batch = 0
        every = self.settings.evaluate_every
        due = self.settings.evaluate_unit == "epochs" and every and self.epoch % every == 0
        reason = self._evaluate() if due else ""
        if self.history.best is None:
            self._best.keep()  # what is left after a divergence
        reason = self._call("on_epoch_end") or reason
        if not reason:
            self._save()
        return reason

    def _evaluate(self) -> str:
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
        if not math.isfinite(value):
            raise DivergenceError("evaluation", value, self.step, self.learning_rate)
        evaluation = Evaluation(self.step, self.epoch + (self._batch > 0), value)
        self.history.evaluations.append(evaluation)
        self.history.best = self._best.observe(evaluation, self.history.best)
        self._schedule.observe(value)
        reason = "rate" if self._schedule.exhausted else ""
        if self.settings.patience is not None and self._best.waited >= self.settings.patience:
            reason = "patience"
        return self._call("on_evaluation", evaluation) or reason

    def _call(self, hook: str, *arguments: Any) -> str:
        wishes = [getattr(callback, hook)(self, *arguments) for callback in self._callbacks]
        return "callback" if any(wish is True for wish in wishes) else ""

    def _limit(self) -> str:
        if self._interrupt.requested:
            return "interrupted"
        if self.settings.max_steps is not None and self.step >= self.settings.max_steps:
            return "steps"
        budget = self.settings.max_seconds
        return "time" if budget is not None and self._clock() >= budget else ""

    def _clock(self) -> float:
        now = time.monotonic()
        self.history.seconds += now - self._clocked
        self._clocked = now
        return self.history.seconds

    def _finish(self, reason: str) -> None:
        self._meter.flush()
        evaluations = self.history.evaluations
        stale = not evaluations or evaluations[-1].step != self.step
        if stale and self.step and reason != "interrupted":
            self._evaluate()
        self.history.stopped = reason
        self._clock()
        self._save()

    def _save(self) -> None:
        if self._recorder is None:
            return
        self._clock()
        self._meter.flush()
        progress = {
            "batch": self._batch,
            "best": self._best.state(),
            "meter": self._meter.state(),
            "schedule": self._schedule.state(),
            "history": self.history.as_dict(),
        }
        self._recorder.save(progress, self.model, self._best.parameters, self._best.version)

    def _resume(self, resume: Resume) -> bool:
        saved = None if self._recorder is None else self._recorder.find(resume)
        if saved is None:
            return False
        progress = saved.progress
        try:
            self.history = History.from_dict(progress["history"])
            self._meter.load_state(progress["meter"])
            self._schedule.load_state(progress["schedule"])
            self._best.load_state(progress["best"], saved.best)
            self._batch = int(progress["batch"])
            self.model.load_state(saved.state)
        except (KeyError, TypeError, ValueError) as error:
            raise FittingError(
                f"the checkpoint does not fit this model: {error!r}; start afresh with resume=False"
            ) from error
        self.learning_rate = self._meter.rate
        if self.history.stopped not in _FINAL:
            self.history.stopped = ""
        return True
