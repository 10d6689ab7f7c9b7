"""The one fitting loop, for every model trained by steps, whatever it computes with.

After every step a checkpoint is saved if one is due. After every epoch, in this order: an evaluation is
made if one is due, callbacks are called, and a checkpoint is saved if nothing has ended the fit. The last
checkpoint is saved when the fit ends other than by an error, with the reason why it ended.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from numbers import Real
from types import FrameType
from typing import Any

import numpy as np

from tacenda.errors import (
    ConfigurationError,
    FittingError,
    check_whole,
    describe,
    is_of_compiler,
    warn,
)
from tacenda.fitting.batches import BatchSource
from tacenda.fitting.checkpoint import CheckpointFolder, Resume
from tacenda.fitting.history import DivergenceError, Evaluation, History, read_count
from tacenda.fitting.settings import FitSettings, Position
from tacenda.fitting.trainer import State, StepResult, Trainer, is_plausible, pack
from tacenda.progress import track
from tacenda.reading import path_of

_FINAL_REASONS = {"patience", "callback"}  # a resumed fit with more epochs stops again
_MAY_CHANGE_ON_RESUME = {"epochs", "check_losses_every", "on_divergence"}


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
        How often a checkpoint is saved, besides the end of every epoch; None: not by steps, or not by time.

    Raises
    ------
    ConfigurationError
        ``resume`` has another value, or is True without ``checkpoints``; a callback lacks a hook of `Callback`;
        ``every_steps`` is not a whole number above zero, or ``every_seconds`` is negative or not a number.
    """

    checkpoints: str | os.PathLike[str] | None = None
    resume: Resume = "auto"
    callbacks: Sequence[Callback] = ()
    description: str = "fitting"
    every_steps: int | None = None
    every_seconds: float | None = 300.0

    def __post_init__(self) -> None:
        steps, seconds, given = self.every_steps, self.every_seconds, self.callbacks
        callbacks = tuple(given) if isinstance(given, Iterable) else (None,)
        hooks = [name for name in vars(Callback) if name.startswith("on_")]
        if any(isinstance(o, type) or not all(hasattr(o, h) for h in hooks) for o in callbacks):
            raise ConfigurationError(
                f"callbacks is {given!r:.80}; give a list of objects of classes derived from tacenda.fitting.Callback"
            )
        object.__setattr__(self, "callbacks", callbacks)
        if not isinstance(self.resume, bool) and self.resume != "auto":
            raise ConfigurationError(
                f'resume is "auto", True or False, not {self.resume!r:.80}; give one of them'
            )
        if self.resume is True and self.checkpoints is None:
            raise ConfigurationError(
                "resume=True needs checkpoints=...; give the folder they are in"
            )
        if steps is not None:
            check_whole("every_steps", steps)
        if seconds is not None and not (isinstance(seconds, Real) and seconds >= 0):
            raise ConfigurationError(
                f"every_seconds is {seconds!r}; give a number, at least 0, or None"
            )

    def stage(self, name: str = "", *, first: bool = True) -> FitRun:
        """Return the run of one of several stages; a ``name`` is its folder of checkpoints, and in the progress bar.

        An interrupted fit need not have reached a stage that is not the ``first``, so that none is required there.
        """
        folder, label = self.checkpoints, self.description
        if folder is not None and name:
            folder = path_of(folder, FittingError) / name
        label = f"{label} ({name})" if name else label
        resume: Resume = self.resume if first or not self.resume else "auto"
        return replace(self, checkpoints=folder, description=label, resume=resume)


def fit(
    trainer: Trainer,
    source: BatchSource,
    settings: FitSettings,
    run: FitRun | None = None,
    identity: Mapping[str, Any] | Callable[[], Mapping[str, Any]] | None = None,
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
        JSON values that identify what the model was made from, held-out data included, or a function that returns them,
        called where there are checkpoints. A checkpoint of another identity, other data or other settings is refused.

    Returns
    -------
    History
        Losses, evaluations and rates, and why the fit ended.

    Raises
    ------
    DivergenceError
        A loss or an evaluation is not finite. With ``FitSettings.restore_best``, the model then holds the best
        parameters seen; see ``FitSettings.on_divergence``.
    FittingError
        A checkpoint cannot be used or saved.
    ConfigurationError
        Patience without held-out data.
    KeyboardInterrupt
        After Ctrl-C, once the step or the evaluation is done, a checkpoint saved and the best parameters
        restored, also if that step was the last; a second Ctrl-C raises it at once.
    """
    loop = FitLoop(trainer, source, settings, run or FitRun())
    try:
        return loop.run(identity)
    finally:
        if loop.recorder is not None:
            loop.recorder.release()


@dataclass
class EpochSums:
    """Sums over the steps of an epoch so far, in float64 and in the order of the steps."""

    rate: float | None = None  # of the last step
    loss: float = 0.0
    count: float = 0.0
    norm: float = 0.0  # of finite gradient norms
    norms: int = 0


@dataclass(eq=False, repr=False)
class FitLoop:
    """A running fit, as callbacks see it."""

    model: Trainer
    source: BatchSource
    settings: FitSettings
    _run: FitRun
    history: History = field(default_factory=History)
    learning_rate: float = math.nan
    last: StepResult | None = None
    recorder: CheckpointFolder | None = None
    _interrupted: threading.Event = field(default_factory=threading.Event)
    _batch: int = 0  # batches done in the current epoch
    # losses are kept as the model gave them and converted together: a model on a GPU need not wait at every step
    _pending: list[tuple[int, float, StepResult]] = field(default_factory=list)
    _sums: EpochSums = field(default_factory=EpochSums)
    _best: State | None = None  # a copy of the parameters with the lowest evaluation
    _version: int = 0  # changes whenever the copy does
    _waited: int = 0  # evaluations since the best one
    # when the fit began, or would have if the runs that this one resumes had come just before it
    _began: float = field(default_factory=time.monotonic)

    @property
    def step(self) -> int:
        """Number of steps done."""
        return self.history.steps

    @property
    def epoch(self) -> int:
        """Number of epochs done."""
        return self.history.epochs

    def run(self, identity: Mapping[str, Any] | Callable[[], Mapping[str, Any]] | None) -> History:
        """Train to the end, from the start or from a checkpoint; arguments and errors as of `fit`."""
        if self._run.checkpoints is not None:
            self.model.state()  # refuses what a checkpoint could not put back, before any work
            self._resume(
                self._run.checkpoints, identity() if callable(identity) else identity or {}
            )
        history = self.history
        try:
            with _defer_interrupt(self._interrupted):
                if not self._version and not history.steps:
                    self._keep()  # so that a fit that diverges in its first epoch leaves what it began with
                reason = history.stopped
                while not reason:
                    if self._interrupted.is_set():
                        reason = "interrupted"
                    else:
                        more = history.epochs < self.settings.epochs
                        reason = self._run_epoch() if more else "epochs"
                self._flush()
                stale = not history.evaluations or history.evaluations[-1].step != history.steps
                if stale and history.steps and reason != "interrupted":
                    self._evaluate()
                history.stopped = reason
                if self.recorder is not None:
                    self._save(self.recorder)
        except BaseException as error:
            self._restore()
            history.seconds = time.monotonic() - self._began
            if not isinstance(error, DivergenceError):
                raise
            history.stopped, error.history = "diverged", history
            # the first version is a copy of what the fit began with
            is_learned = self._version > 1
            if history.best is None and history.epochs + (self._batch > 0) <= 1:
                error.outcome = ", in the first epoch, so there is no model to keep"
                is_learned = False
            elif is_learned:
                error.outcome = "; the best parameters before it are kept"
            elif self.settings.restore_best:
                error.outcome = (
                    ", and no epoch left usable parameters, so there is no model to keep"
                )
            else:
                error.outcome = "; the parameters before it were not kept"
            if not is_learned or self.settings.on_divergence == "raise":
                raise
            kept = f"training was stopped, and the best model so far is kept: {error}"
            warn(kept, RuntimeWarning)
        else:
            history.seconds = time.monotonic() - self._began
            if history.best is not None and history.best.step != history.steps:
                self._restore()
        if self._interrupted.is_set():
            where = f"; see {self._run.checkpoints}" if self.recorder is not None else ""
            raise KeyboardInterrupt(f"the fit was interrupted after step {self.step}{where}")
        return history

    def _run_epoch(self) -> str:
        """Make the remaining steps of an epoch, evaluate if due, save; return what ends the fit, or an empty string."""
        history, total = self.history, self.source.n_batches(self.history.epochs)
        schedule: Any = self.settings.learning_rate
        batches = self.source.batches(history.epochs, skip=self._batch)
        left = None if total is None else total - self._batch
        label = f"{self._run.description}: epoch {history.epochs + 1} of {self.settings.epochs}"
        for batch in track(batches, label, total=left, unit="step"):
            fraction = self._batch / total if total else 0.0
            rate = float(schedule.at(Position(history.steps, history.epochs, fraction)))
            self.learning_rate = self._sums.rate = rate
            self.last = StepResult(*self.model.step(batch, rate))
            history.steps += 1
            self._batch += 1
            self._pending.append((history.steps, rate, self.last))
            if len(self._pending) >= self.settings.check_losses_every:
                self._flush()
            reason = self._call("on_step") if self._run.callbacks else ""
            if not reason and self._interrupted.is_set():
                reason = "interrupted"
            if reason:
                return reason
            if self.recorder is not None and self.recorder.due(history.steps):
                self._save(self.recorder)
        if self._batch == 0:
            raise FittingError(
                f"epoch {history.epochs + 1} has no batches; there is nothing to fit on"
            )
        self._flush()
        sums, self._sums = self._sums, EpochSums(self._sums.rate)
        history.epoch_losses.append(sums.loss / sums.count if sums.count else 0.0)
        history.gradient_norms.append(sums.norm / sums.norms if sums.norms else None)
        history.learning_rates.append(math.nan if sums.rate is None else sums.rate)
        history.epochs += 1
        self._batch = 0
        every = self.settings.evaluate_every
        reason = self._evaluate() if every and history.epochs % every == 0 else ""
        if history.best is None:
            self._keep()  # what is left after a divergence
        reason = (self._call("on_epoch_end") if self._run.callbacks else "") or reason
        if not reason and not self._interrupted.is_set() and self.recorder is not None:
            self._save(self.recorder)
        return reason

    def _flush(self) -> None:
        """Convert and add the pending losses. Raises DivergenceError for one that is not finite."""
        pending, self._pending = self._pending, []
        for step, rate, result in pending:
            loss = float(result.loss)
            if not math.isfinite(loss):
                raise DivergenceError("training loss", loss, step, rate)
            self._sums.loss += loss
            self._sums.count += float(result.units)
            norm = math.nan if result.gradient_norm is None else float(result.gradient_norm)
            if math.isfinite(norm):
                self._sums.norm += norm
                self._sums.norms += 1

    def _evaluate(self) -> str:
        """Evaluate the model as it is; return what ends the fit, or an empty string."""
        found, history, patience = self.model.evaluate(), self.history, self.settings.patience
        if found is None:
            if patience is not None:
                raise ConfigurationError(
                    "patience needs evaluations, and this model has nothing to evaluate on; "
                    "give it held-out data, or patience=None"
                )
            return ""
        value = float(found)
        if not math.isfinite(value):
            raise DivergenceError("evaluation", value, history.steps, self.learning_rate)
        evaluation = Evaluation(history.steps, history.epochs + (self._batch > 0), value)
        history.evaluations.append(evaluation)
        if history.best is None or value < history.best.value:
            history.best, self._waited = evaluation, 0
            self._keep()
        else:
            self._waited += 1
        reason = "patience" if patience is not None and self._waited >= patience else ""
        return (self._call("on_evaluation", evaluation) if self._run.callbacks else "") or reason

    def _call(self, hook: str, *arguments: Any) -> str:
        """Call a hook of every callback; return "callback" if one wants to end the fit."""
        wishes = [getattr(callback, hook)(self, *arguments) for callback in self._run.callbacks]
        return "callback" if any(isinstance(w, bool | np.bool_) and w for w in wishes) else ""

    def _keep(self) -> None:
        """Copy the parameters, unless none are to be restored, or these are beyond use already."""
        if not self.settings.restore_best:
            return
        found = pack(self.model.learned)
        if is_plausible(found, self.model.unit):
            self._best = {name: np.array(array, order="C") for name, array in found.items()}
            self._version += 1

    def _restore(self) -> None:
        """Put the copied parameters back."""
        if self._best is not None:
            self.model.load_parameters(self._best)

    def _save(self, recorder: CheckpointFolder) -> None:
        self.history.seconds = time.monotonic() - self._began
        self._flush()
        progress = {
            "batch": self._batch,
            "best": {"waited": self._waited, "version": self._version},
            "meter": asdict(self._sums),
            "history": self.history.as_dict(),
        }
        recorder.record(progress, self.model.state(), self._best, self._version)

    def _resume(self, folder: str | os.PathLike[str], identity: Mapping[str, Any]) -> None:
        """Continue from the checkpoint of this fit, if there is one and it is wanted."""
        run = self._run
        settings = {one.name: getattr(self.settings, one.name) for one in fields(FitSettings)}
        settings["learning_rate"] = settings["learning_rate"].config()
        known = {
            "model": type(self.model).__qualname__,
            "configuration": dict(identity),
            "data": self.source.fingerprint(),
            "settings": {k: v for k, v in settings.items() if k not in _MAY_CHANGE_ON_RESUME},
        }
        self.recorder = CheckpointFolder(folder, known, run.every_steps, run.every_seconds)
        saved = self.recorder.find(run.resume)
        if saved is None:
            return
        progress = saved.progress
        try:
            self.history = History.from_dict(progress["history"])
            sums, best = progress["meter"], progress["best"]
            rate = None if sums["rate"] is None else float(sums["rate"])
            loss, count, norm = (float(sums[name]) for name in ("loss", "count", "norm"))
            self._sums = EpochSums(rate, loss, count, norm, read_count(sums["norms"]))
            self._waited, self._version = read_count(best["waited"]), read_count(best["version"])
            self._batch = read_count(progress["batch"])
            if not all(
                is_plausible(one, self.model.unit) for one in (saved.state, saved.best or {})
            ):
                raise ValueError("it holds NaN, infinite or implausibly large numbers")
            if saved.best is not None:
                self.model.load_parameters(saved.best)  # raises where they do not fit
                self._best = saved.best
            self.model.load_state(saved.state)
        except Exception as error:  # whatever a damaged checkpoint provokes in a model's own code
            if is_of_compiler(error):
                raise
            raise FittingError(
                f"the checkpoint does not fit this model ({describe(error)}); remove its folder, or start "
                "over with resume=False"
            ) from error
        self._began -= self.history.seconds
        self.learning_rate = math.nan if rate is None else rate
        if self.history.stopped not in _FINAL_REASONS:
            self.history.stopped = ""


@contextmanager
def _defer_interrupt(requested: threading.Event) -> Iterator[None]:
    """Let the first Ctrl-C only set ``requested``, and the second raise at once.

    Outside the main thread, where Python does not allow it, and where somebody else handles the
    signal, everything stays as it is.
    """

    def handle(number: int, frame: FrameType | None) -> None:
        if requested.is_set():
            raise KeyboardInterrupt
        requested.set()
        # standard error may be closed or full, or was just being written to
        with suppress(OSError, RuntimeError, ValueError):
            print("\nstopping after this step (Ctrl-C again: at once)", file=sys.stderr)

    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
