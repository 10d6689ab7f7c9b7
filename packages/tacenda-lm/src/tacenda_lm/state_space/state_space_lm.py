"""`StateSpaceLM`: a softmax over the next token from a linear state (Siivola and Honkela 2003)."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from tacenda.artifact import require
from tacenda.corpus import Corpus
from tacenda.errors import ArtifactError, ConfigurationError
from tacenda.fitting import FitRun
from tacenda.settings import configured_by
from tacenda.vocabulary import Vocabulary
from tacenda_lm.state_space.joint_tokens import JointTokens
from tacenda_lm.state_space.parameters import Parameters, initial_parameters
from tacenda_lm.state_space.predictor import StateSpacePredictor
from tacenda_lm.state_space.settings import StateSpaceLMSettings
from tacenda_lm.state_space.texts import Pieces, side_by_side, windows_of
from tacenda_lm.state_space.trainers import GradientTrainer, RulesTrainer
from tacenda_lm.states import State
from tacenda_lm.stream_model import StreamModel
from tacenda_lm.streams import Stream, streams_of
from tacenda_lm.training import falling_rate, train

__all__ = ["StateSpaceLM"]

_WARM = 50  # steps at most before the learning rate is what it says, and half an epoch
_SHORT = 16  # tokens at least of each of the places that are read side by side
_LARGEST = 1e4  # of the numbers of an artefact; what training makes stays far below


class StateSpaceLM(StreamModel):
    """A state-space language model.

        s^(t) = [A s(t-1); C x(t-1); ...; C x(t-n)],    P(y(t) | s^(t)) = softmax(B s^(t) + b)

    (Siivola and Honkela 2003, eqs 3 to 5, and a bias.) The state holds an internal part, which the last state gives,
    and feature vectors of the last n = order - 1 tokens. A token that was read corrects the state that was predicted.
    An unknown token is a zero vector and corrects nothing (section 2.5). The models of the paper have
    ``training="rules"``, ``inference="map"`` and, in ``advanced``, ``biases=False`` and ``norm_limit=10``.
    """

    name: ClassVar[str] = "state_space"
    settings_class = StateSpaceLMSettings
    settings: StateSpaceLMSettings
    _predictor: StateSpacePredictor | None = None

    @configured_by(StateSpaceLMSettings)
    def __init__(self, settings: StateSpaceLMSettings) -> None:
        super().__init__(settings)
        if settings.training == "rules" and settings.advanced.joint_order > 1:
            raise ConfigurationError(
                "StateSpaceLM: the rules of the paper learn no vectors of runs: give advanced.joint_order=1 or "
                'training="gradient"'
            )
        if not settings.internal + settings.inputs:
            raise ConfigurationError(
                "StateSpaceLM: with order=1 and internal=0 the state is empty: give one of them more"
            )

    @property
    def parameters(self) -> Parameters:
        """What was learned. Raises NotFittedError."""
        return self._learned(self._predictor).parameters

    def _fit(self, corpus: Corpus, valid: Corpus | None, fitting: FitRun) -> None:
        settings, advanced = self.settings, self.settings.advanced
        vocabulary = corpus.vocabulary
        text, held_out = streams_of(corpus, valid, across=settings.across_sentences)
        joint = self._runs(text, vocabulary)
        parameters = initial_parameters(
            settings, corpus.type_counts, vocabulary.unknown_id, len(joint)
        )
        texts = max(1, min(advanced.streams, len(text.ids) // _SHORT))
        positions = side_by_side(text, texts)
        rules = settings.training == "rules"
        last = advanced.last_piece if rules else advanced.piece
        source = Pieces(positions, text.ids, advanced.piece, last, settings.epochs)
        kind = RulesTrainer if rules else GradientTrainer
        trainer = kind(settings, parameters, joint, text, positions, held_out)
        rate = falling_rate(settings.learning_rate, settings.epochs, source, warm=_WARM)
        history = train(trainer, source, settings, text, held_out, fitting, rate)
        self._vocabulary, self._predictor = vocabulary, trainer.predictor()
        self.fitted_on = {"training": history.as_dict()}

    def _runs(self, text: Stream, vocabulary: Vocabulary) -> JointTokens:
        """Return the runs of tokens that have vectors of their own."""
        types, unknown = len(vocabulary), vocabulary.unknown_id
        advanced = self.settings.advanced
        if advanced.joint_order == 1:
            return JointTokens([], types, unknown)
        places = np.flatnonzero(~text.firsts)
        windows = windows_of(text, places, advanced.joint_order, unknown)
        return JointTokens.of(windows, types, unknown, advanced.joint_min_count)

    def predicted_state(self, state: State) -> npt.NDArray[np.float32]:
        """Return the vector s^ that the next token is predicted from, float32 (internal + inputs,)."""
        return np.asarray(self._learned(self._predictor).predicted(state), np.float32)

    @classmethod
    def from_arrays(cls, config: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Self:
        """Return the model of an artefact, every array checked. Raises ArtifactError."""
        model = cls.from_settings(config["settings"])
        settings, advanced = model.settings, model.settings.advanced
        vocabulary = Vocabulary.from_arrays(config["vocabulary"], arrays)
        types, unknown = len(vocabulary), vocabulary.unknown_id
        keys = require(arrays, "runs", dtype=np.int64, shape=("runs",))
        sizes = require(arrays, "run_sizes", dtype=np.int64, shape=(advanced.joint_order - 1,))
        joint = JointTokens.from_arrays(keys, sizes, types, unknown)
        state = settings.internal + settings.inputs
        shapes = {
            "transition": (settings.internal, state),
            "outputs": (types, state),
            "features": (types, settings.features),
            "biases": (types, 1),
            "joint": (len(joint), advanced.joint_width),
        }
        found = {
            name: require(arrays, name, dtype=np.float32, shape=shape, finite=True)
            for name, shape in shapes.items()
        }
        for name, array in found.items():
            if np.abs(array).max(initial=0) > _LARGEST:
                raise ArtifactError(
                    f"{name} holds numbers beyond {_LARGEST:g}; the artefact is damaged"
                )
        if found["features"][unknown].any():
            raise ArtifactError("the feature vector of <unk> is not zero; the artefact is damaged")
        model._vocabulary = vocabulary
        model._predictor = StateSpacePredictor(
            Parameters(**found), joint, settings, vocabulary.boundary_id
        )
        return model
