"""`Checkpointed`: a model whose fit can be killed and gone on with."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Self

from tacenda.fitting.checkpoint import Resume

__all__ = ["Checkpointed"]


class Checkpointed:
    """A mixin for models whose ``fit`` passes ``_checkpoints`` and ``_resume`` on to `tacenda.fitting.fit`."""

    _checkpoints: Path | None = None
    _resume: Resume = "auto"

    def checkpointed(self, folder: str | os.PathLike[str], resume: Resume = "auto") -> Self:
        """Makes `fit` save its way into ``folder`` and go on from what is there.

        Parameters
        ----------
        folder
            One for each fit, made if it is not there; a fit killed and started again ends in the same model.
        resume
            ``"auto"`` goes on if there is something, True requires it, False starts afresh.
        """
        self._checkpoints, self._resume = Path(folder), resume
        return self
