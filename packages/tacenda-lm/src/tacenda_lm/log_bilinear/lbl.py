"""`LBL`: the log-bilinear model: the next word by its vector's likeness to a predicted one (Mnih 2010, section 3.3)."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from tacenda.artifact import require
from tacenda.corpus import Corpus
from tacenda.settings import configured_by
from tacenda.vocabulary import Vocabulary
from tacenda_lm.contract import FitContext
from tacenda_lm.log_bilinear.lbl_objective import LBLParameters
from tacenda_lm.log_bilinear.lbl_predictor import LBLPredictor
from tacenda_lm.log_bilinear.lbl_training import train_lbl
from tacenda_lm.log_bilinear.model import LogBilinear
from tacenda_lm.log_bilinear.settings import LBLSettings

__all__ = ["LBL"]


class LBL(LogBilinear[LBLSettings]):
    """A log-bilinear language model.

        r = sum_i C_i r_{w_i},    P(w | context) = exp(r . q_w + b_w) / sum_j exp(r . q_j + b_j)

    (Mnih 2010, equations 3.16 and 3.17.) The models of the thesis have ``width=100``, full matrices and no dropout.

    Raises
    ------
    ConfigurationError
        An option is unknown or out of range.
    """

    name: ClassVar[str] = "lbl"
    settings_class = LBLSettings
    _predictor: LBLPredictor | None = None

    @configured_by(LBLSettings)
    def __init__(self, settings: LBLSettings) -> None:
        super().__init__(settings)

    @property
    def parameters(self) -> LBLParameters:
        """What was learned. Raises NotFittedError."""
        return self._learned(self._predictor).parameters

    def _fit(self, corpus: Corpus, valid: Corpus | None, context: FitContext) -> None:
        self._predictor, history = train_lbl(self.settings, corpus, valid, context)
        self._vocabulary = corpus.vocabulary
        self.fitted_on = {"training": history.as_dict()}

    @classmethod
    def from_arrays(cls, config: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Self:
        """Return the model of an artefact, every array checked. Raises ArtifactError."""
        model = cls.from_settings(config["settings"])
        settings, vocabulary = model.settings, Vocabulary.from_arrays(config["vocabulary"], arrays)
        types, width, n = len(vocabulary), settings.width, settings.context
        diagonal = settings.advanced.context_matrices == "diagonal"
        shapes: dict[str, tuple[int, ...]] = {
            "words": (types, width),
            "contexts": (n, width) if diagonal else (n, width, width),
            "targets": (0 if settings.advanced.tied else types, width),
            "biases": (types, 1),
        }
        found = {
            name: require(arrays, name, dtype=np.float32, shape=shape, finite=True)
            for name, shape in shapes.items()
        }
        model._vocabulary = vocabulary
        model._predictor = LBLPredictor(LBLParameters(**found), vocabulary.boundary_id)
        return model
