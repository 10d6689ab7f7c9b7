"""When a fit is saved, and under which identity."""

import os
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tacenda.errors import FittingError
from tacenda.fitting.checkpoint import Checkpoint, CheckpointFolder, check_identity
from tacenda.fitting.trainable import Trainable

Resume = bool | Literal["auto"]


@dataclass(frozen=True)
class Checkpoints:
    """Where and how often a fit is saved; at the end of every epoch in any case."""

    folder: str | os.PathLike[str]
    every_steps: int | None = None
    every_seconds: float | None = 300.0


class Recorder:
    """Saves and finds the checkpoint of one fit."""

    def __init__(self, checkpoints: Checkpoints, identity: dict[str, Any]) -> None:
        self.folder = CheckpointFolder(checkpoints.folder)
        self._checkpoints, self._identity = checkpoints, identity
        self._saved_at = time.monotonic()
        self._saved_once = False

    def due(self, step: int) -> bool:
        """True if a checkpoint is due after ``step`` steps."""
        steps, seconds = self._checkpoints.every_steps, self._checkpoints.every_seconds
        if steps and step % steps == 0:
            return True
        return seconds is not None and time.monotonic() - self._saved_at >= seconds

    def save(
        self,
        progress: dict[str, Any],
        model: Trainable,
        best: Mapping[str, Any] | None,
        best_version: int,
    ) -> None:
        """Writes a checkpoint. The first that cannot be written ends the fit, a later one warns."""
        try:
            moment = Checkpoint(self._identity, progress, model.state(), best)
            self.folder.write(moment, best_version)
        except FittingError as error:
            if not self._saved_once:
                raise
            warnings.warn(f"{error}; the fit goes on", RuntimeWarning, stacklevel=2)
        self._saved_once = True
        self._saved_at = time.monotonic()

    def find(self, resume: Resume) -> Checkpoint | None:
        """The checkpoint to go on from; None to start from the beginning."""
        if resume is False:
            self.folder.clear()
        if not self.folder.exists():
            if resume is True:
                raise FittingError(
                    f"there is no checkpoint in {self.folder.folder} to resume from; "
                    "start with resume='auto'"
                )
            return None
        saved = self.folder.read()
        check_identity(saved.identity, self._identity, self.folder.folder)
        return saved
