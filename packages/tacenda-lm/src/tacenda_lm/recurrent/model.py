"""`RecurrentLM`: a simple recurrent network, started at random or from an LDS (Belanger and Kakade 2015, section 6)."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from tacenda.artifact import require
from tacenda.corpus import Corpus
from tacenda.errors import ConfigurationError
from tacenda.fitting import FitRun, Schedule
from tacenda.settings import configured_by
from tacenda.vocabulary import Vocabulary
from tacenda_lm.recurrent.lds_start import LinearSystem, started_from
from tacenda_lm.recurrent.network import Network
from tacenda_lm.recurrent.predictor import RecurrentPredictor
from tacenda_lm.recurrent.settings import RecurrentLMSettings
from tacenda_lm.recurrent.training import (
    FallingAfter,
    FallingWhereHeldOutSays,
    RecurrentTrainer,
    WhenSettled,
    Windows,
)
from tacenda_lm.sequences import (
    Ids,
)
from tacenda_lm.stream_model import StreamModel
from tacenda_lm.streams import Stream
from tacenda_lm.training import train

__all__ = ["RecurrentLM"]

_UNSEEN = 0.1  # counted with every word, so that none has a frequency of zero
_CONSTANT = 0.6  # of the epochs of a fit without held-out text, before the rate falls
_LEAST_RATE = 0.01  # share of the rate that is left at the end of such a fit, or more: with less nothing is learned


class RecurrentLM(StreamModel):
    """A recurrent neural network language model.

        h_t = sigma(A h_{t-1} + B w_{t-1} + a) - 1/2,    p(w_t) = SoftMax(C h_t + b)

    (Belanger and Kakade 2015, equations 18 and 19, after Mikolov 2012; they have neither a and b nor the 1/2.)
    Training is gradient descent with back-propagation through the windows of parallel streams. It starts from small
    random numbers, or from the tensors A - K C A, K and C of an `LDS` that was fitted to the same text (section
    7.4); b starts at the logarithms of the words' frequencies either way.

    Examples
    --------
    >>> lm = RecurrentLM(lds="my-lds", width=200).fit(Path("train.txt"), valid=Path("valid.txt"))
    >>> lm.perplexity(Path("test.txt"), context="stream")
    """

    name: ClassVar[str] = "recurrent"
    settings_class = RecurrentLMSettings
    settings: RecurrentLMSettings
    _predictor: RecurrentPredictor | None = None
    roundable: ClassVar[tuple[str, ...]] = ("inputs", "outputs")

    @configured_by(RecurrentLMSettings)
    def __init__(self, settings: RecurrentLMSettings) -> None:
        super().__init__(settings)

    @property
    def network(self) -> Network:
        """What was learned. Raises NotFittedError."""
        return self._learned(self._predictor).network

    # -- fitting -----------------------------------------------------------------------------------

    def _fit(self, corpus: Corpus, valid: Corpus | None, fitting: FitRun) -> None:
        settings, advanced = self.settings, self.settings.advanced
        text = Stream.of_corpus(corpus, across=True)
        held_out = None if valid is None else Stream.of_corpus(valid, settings.across_sentences)
        network, lds = self._started(corpus, text.ids[1:])
        rate = FallingWhereHeldOutSays(
            settings.learning_rate, advanced.rate_decay, advanced.least_gain
        )
        schedule: Schedule = rate
        if valid is None:
            constant = max(1, round(_CONSTANT * settings.epochs))
            slowest = _LEAST_RATE ** (1 / max(1, settings.epochs - constant))
            decay = max(advanced.rate_decay, slowest)
            schedule = FallingAfter(settings.learning_rate, decay, constant)
        trainer = RecurrentTrainer(settings, network, text, held_out, rate)
        source = Windows(trainer.ring, settings.streams, settings.window_words, settings.seed)
        history = train(
            trainer,
            source,
            settings,
            text,
            held_out,
            fitting,
            schedule,
            identity={"start": lds},
            elsewhere=(
                "lds",
                "epochs",
            ),  # the start is in the identity; with held-out text more epochs may follow
            callbacks=(WhenSettled(),),
        )
        self._vocabulary, self._predictor = corpus.vocabulary, trainer.predictor()
        self.fitted_on = {"training": history.as_dict()}

    def _started(self, corpus: Corpus, text: Ids) -> tuple[Network, str | None]:
        """Return the network that training starts from, and the digest of the LDS that it was made from.

        Raises ConfigurationError, ArtifactError.
        """
        settings, width = self.settings, self.settings.width
        counts = corpus.type_counts + _UNSEEN
        frequencies = counts / counts.sum()
        if settings.lds is None:
            rng = np.random.default_rng([settings.seed, 1])
            types, scale = len(counts), np.float32(settings.advanced.initial_scale)
            A, B, C = (
                rng.standard_normal((rows, width), np.float32) * scale
                for rows in (width, types, types)
            )
            outputs = np.column_stack([C, np.log(frequencies).astype(np.float32)])
            return Network(A, B, np.zeros((1, width), np.float32), outputs), None
        system = LinearSystem.load(settings.lds, corpus.vocabulary)
        states = len(system.transitions)
        if states != width:
            raise ConfigurationError(
                f"RecurrentLM: width is {width}, and the LDS in {settings.lds} has {states} states: give "
                f"width={states}, or fit an LDS with n_states={width}"
            )
        network = started_from(system, text, frequencies, settings.advanced.state_spread)
        return network, system.source

    @classmethod
    def from_arrays(cls, config: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Self:
        """Return the model of an artefact, every array checked. Raises ArtifactError."""
        model = cls.from_settings(config["settings"])
        vocabulary = Vocabulary.from_arrays(config["vocabulary"], arrays)
        types, width = len(vocabulary), model.settings.width
        shapes = {
            "transitions": (width, width),
            "inputs": (types, width),
            "offsets": (1, width),
            "outputs": (types, width),
            "biases": (types, 1),
        }
        found = {
            name: require(arrays, name, dtype=np.float32, shape=shape, finite=True)
            for name, shape in shapes.items()
        }
        model._vocabulary = vocabulary
        outputs = np.hstack([found.pop("outputs"), found.pop("biases")])
        model._predictor = RecurrentPredictor(
            Network(**found, outputs=outputs), vocabulary.boundary_id
        )
        return model
