"""What ``verbose=True`` prints."""

from __future__ import annotations

from tacenda.fitting import Callback, FitLoop


class EpochPrinter(Callback):
    """One line for every epoch."""

    def on_epoch_end(self, run: FitLoop) -> bool | None:
        """Prints the epoch's number and training error; picklable, keeps nothing."""
        history = run.history
        line = (
            f"Processing epoch {history.epochs - 1}: training loss {history.epoch_losses[-1]:.4f}"
        )
        if history.evaluations:
            line += f", held out {history.evaluations[-1].value:.4f}"
        print(line)
        return None
