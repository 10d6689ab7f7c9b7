"""The best parameters seen, and how long ago that was: early stopping."""

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from tacenda.fitting.history import Evaluation
from tacenda.fitting.trainable import HasParameters, Trainable, copy_state


class BestSeen:
    """Keeps a copy of the parameters with the lowest evaluation; counts evaluations in vain.

    The best is strictly the lowest value; progress, for ``patience``, is a value lower by more than
    ``min_delta`` than at the last progress.
    """

    def __init__(self, model: Trainable, *, keep: bool, min_delta: float) -> None:
        self.parameters: Mapping[str, NDArray[Any]] | None = None
        self.version = 0
        """Changes whenever the parameters kept do."""
        self.waited = 0
        """Evaluations since the last progress."""
        self._model, self._keep, self._min_delta = model, keep, min_delta
        self._reference: float | None = None

    def observe(self, evaluation: Evaluation, best: Evaluation | None) -> Evaluation:
        """Takes an evaluation of the model as it is; returns the best so far."""
        value = evaluation.value
        if self._reference is None or value < self._reference - self._min_delta:
            self._reference, self.waited = value, 0
        else:
            self.waited += 1
        if best is not None and value >= best.value:
            return best
        self.keep()
        return evaluation

    def keep(self) -> None:
        """Copies the model's parameters, unless nothing is to be restored."""
        if not self._keep:
            return
        model = self._model
        state = model.parameters() if isinstance(model, HasParameters) else model.state()
        self.parameters = copy_state(state)
        self.version += 1

    def restore(self) -> None:
        """Puts the parameters kept back into the model."""
        if self.parameters is None:
            return
        if isinstance(self._model, HasParameters):
            self._model.load_parameters(self.parameters)
        else:
            self._model.load_state(self.parameters)

    def state(self) -> dict[str, Any]:
        """JSON; the parameters are saved as arrays, apart from this."""
        return {"reference": self._reference, "waited": self.waited, "version": self.version}

    def load_state(
        self, state: dict[str, Any], parameters: Mapping[str, NDArray[Any]] | None
    ) -> None:
        """Puts back what ``state()`` and ``parameters`` were."""
        self._reference, self.waited = state["reference"], int(state["waited"])
        self.version, self.parameters = int(state["version"]), parameters
