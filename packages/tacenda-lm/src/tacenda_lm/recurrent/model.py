"""`RecurrentLM`: a simple recurrent network, started at random or from an LDS (Belanger and Kakade 2015, section 6)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from tacenda.corpus import Corpus
from tacenda.errors import ConfigurationError
from tacenda.fitting import FitRun
from tacenda.settings import configured_by
from tacenda_lm.recurrent.lds_start import LinearSystem
from tacenda_lm.recurrent.network import Network, RecurrentPredictor, SavedNetwork
from tacenda_lm.recurrent.training import (
    RecurrentLMSettings,
    RecurrentTrainer,
    WhenSettled,
    Windows,
    choose_schedule,
)
from tacenda_lm.sequences import Ids
from tacenda_lm.stream_model import StreamModel
from tacenda_lm.streams import Stream
from tacenda_lm.training import train

_ADDED_COUNT = 0.1  # added to the count of every word, so that none has a frequency of zero
_INITIAL_SCALE = 0.1  # standard deviation of the first parameters of a random start


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
    settings: RecurrentLMSettings
    roundable: ClassVar[tuple[str, ...]] = ("inputs", "outputs")
    _predictor: RecurrentPredictor | None = None

    @configured_by(RecurrentLMSettings)
    def __init__(self, settings: RecurrentLMSettings) -> None:
        super().__init__(settings)

    @property
    def network(self) -> Network:
        """The learned network. Raises NotFittedError."""
        return self._learned(self._predictor).network

    def _fit(self, corpus: Corpus, valid: Corpus | None, run: FitRun) -> None:
        settings = self.settings
        text = Stream.of_corpus(corpus, across=True)
        held_out = None if valid is None else Stream.of_corpus(valid, settings.across_sentences)
        network, lds = self._start_network(corpus, text.ids[1:])
        rate, schedule = choose_schedule(settings, is_evaluated=valid is not None)
        trainer = RecurrentTrainer(settings, network, text, held_out, rate)
        source = Windows(trainer.ring, settings.streams, settings.window_words, settings.seed)
        run = replace(run, callbacks=(*run.callbacks, WhenSettled()))
        # a resumed fit may have more epochs, and may find the same LDS in another folder
        identity = {"start": lds}
        history = train(trainer, source, run, schedule, identity, may_change=("lds", "epochs"))
        self._vocabulary, self._predictor = corpus.vocabulary, trainer.predictor()
        self.fitted_on = {"training": history.as_dict()}

    def _start_network(self, corpus: Corpus, text: Ids) -> tuple[Network, str | None]:
        """Return the network that training starts from, and the digest of the LDS it was made from, if any.

        Raises ConfigurationError, ArtifactError.
        """
        settings, width = self.settings, self.settings.width
        counts = corpus.type_counts + _ADDED_COUNT
        frequencies = counts / counts.sum()
        if settings.lds is None:
            rng = np.random.default_rng([settings.seed, 1])
            sizes, scale = (width, len(counts), len(counts)), np.float32(_INITIAL_SCALE)
            A, B, C = (rng.standard_normal((n, width), np.float32) * scale for n in sizes)
            outputs = np.column_stack([C, np.log(frequencies).astype(np.float32)])
            return Network(A, B, np.zeros((1, width), np.float32), outputs), None
        system = LinearSystem.load(settings.lds, corpus.vocabulary)
        states = len(system.transitions)
        if states != width:
            raise ConfigurationError(
                f"RecurrentLM: width is {width}, and the LDS in {settings.lds} has {states} states: give "
                f"width={states}, or fit an LDS with n_states={width}"
            )
        return system.start_network(text, frequencies), system.source

    def _rebuild(self, arrays: dict[str, npt.NDArray[Any]]) -> RecurrentPredictor:
        types, width = len(self.vocabulary), self.settings.width
        saved = SavedNetwork.from_arrays(arrays, types=types, width=width)
        outputs = np.hstack([saved.outputs, saved.biases])
        network = Network(saved.transitions, saved.inputs, saved.offsets, outputs)
        return RecurrentPredictor(network, self.vocabulary.boundary_id)
