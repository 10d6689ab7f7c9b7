"""Hooks into a fit."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tacenda.fitting.history import Evaluation
    from tacenda.fitting.loop import FitLoop


class Callback:
    """Base class with hooks that do nothing; a hook that returns True ends the fit.

    ``run`` offers ``model``, ``settings``, ``history``, ``step`` (steps done), ``epoch`` (epochs
    done), ``learning_rate`` and ``last`` (the latest StepResult). Callbacks are not part of a
    checkpoint: one that ends a fit should decide from ``run`` alone, so that a resumed run agrees.
    """

    def on_step(self, run: "FitLoop") -> bool | None:
        """After every step."""

    def on_evaluation(self, run: "FitLoop", evaluation: "Evaluation") -> bool | None:
        """After every evaluation."""

    def on_epoch_end(self, run: "FitLoop") -> bool | None:
        """After every epoch, its evaluation included."""
