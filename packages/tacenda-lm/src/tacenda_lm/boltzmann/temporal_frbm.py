"""`TemporalFRBM`: hidden units that remember, and their training (Mnih and Hinton 2007; Mnih 2010, section 3.2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from tacenda.corpus import Corpus
from tacenda.errors import ConfigurationError
from tacenda.fitting import FitRun, StepResult, fingerprint_arrays
from tacenda.settings import configured_by
from tacenda_lm.boltzmann.frbm import (
    FRBM,
    LEAST_STEPS,
    BoltzmannTrainer,
    WordBoltzmann,
    fit_frbm,
    initial_parameters,
)
from tacenda_lm.boltzmann.gradients import Contrast, by_word, gradients
from tacenda_lm.boltzmann.parameters import (
    BoltzmannParameters,
    Floats,
    context_features,
    inputs_of_contexts,
    sigmoid,
)
from tacenda_lm.boltzmann.settings import FRBMSettings, TemporalFRBMSettings
from tacenda_lm.streams import Contexts, Stream, streams_of
from tacenda_lm.training import falling_rate, train

__all__ = ["Stretches", "TemporalFRBM", "TemporalTrainer", "with_zero_transitions"]


class TemporalFRBM(WordBoltzmann):
    """A temporal factored restricted Boltzmann machine language model.

    An `FRBM` whose hidden units get A p_{t-1} besides, from the probabilities of the hidden units at the word before
    (Mnih 2010, equation 3.14), so that a prediction depends on all words before, at the cost of N_h^2 more
    multiplications a word. Training begins with the parameters of an `FRBM` and with A = 0, as in the thesis, whose
    model has ``hidden=1000, learning="divergence", piece_words=1``. A text of fewer than 16 ``batch_words`` words is
    read in smaller steps, as by an `FRBM`: it is cut into fewer stretches.

    A text is scored as a stream with ``perplexity(text, context="stream")``: the filter goes on over the ends of
    sentences.
    """

    name: ClassVar[str] = "temporal_frbm"
    settings_class = TemporalFRBMSettings
    temporal: ClassVar[bool] = True
    _begin: FRBM | None = None

    @configured_by(TemporalFRBMSettings)
    def __init__(self, settings: TemporalFRBMSettings) -> None:
        super().__init__(settings)

    @classmethod
    def starting_from(cls, frbm: FRBM, **options: Any) -> Self:
        """Return an unfitted model whose training begins with the parameters of a fitted `FRBM`, and with A = 0.

        Parameters
        ----------
        frbm
            Fitted, to a text with the vocabulary of the one to come.
        options
            Options of the model. Those that an `FRBM` has too are by default as in ``frbm``; ``features``, ``hidden``,
            ``context`` and ``across_sentences`` must be.

        Raises
        ------
        ConfigurationError
            ``frbm`` is no `FRBM`, one of these options differs, or an option is unknown, out of range or without
            effect.
        NotFittedError
            ``frbm`` was not fitted.
        """
        if not isinstance(frbm, FRBM):
            raise ConfigurationError(
                f"TemporalFRBM: training begins with a fitted FRBM, not with {type(frbm).__name__}: give "
                "starting_from an FRBM, or leave starting_from out and let fit train one"
            )
        _ = frbm.parameters  # raises NotFittedError
        theirs: FRBMSettings = frbm.settings
        shared = {one.name: getattr(theirs, one.name) for one in theirs.options()}
        for name in ("features", "hidden", "context", "across_sentences"):
            if options.get(name, shared[name]) != shared[name]:
                raise ConfigurationError(
                    f"TemporalFRBM: {name} is {shared[name]} in the FRBM that training begins with, "
                    f"and cannot be {options[name]}: leave it out"
                )
        if options.get("frbm_epochs"):
            raise ConfigurationError(
                "TemporalFRBM: frbm_epochs has no effect where an FRBM is given; leave it out"
            )
        if options.get("learning", theirs.learning) != theirs.learning:
            shared["advanced"] = theirs.advanced.without_sampling()
        made = cls.from_settings({**shared, "frbm_epochs": 0, **options})
        made._begin = frbm
        return made

    def _fit(self, corpus: Corpus, valid: Corpus | None, fitting: FitRun) -> None:
        settings: TemporalFRBMSettings = self.settings
        told: dict[str, Any] = {}
        if self._begin is not None:
            self._begin.vocabulary.require_same(corpus.vocabulary, "the text of a TemporalFRBM")
            begin = self._begin.parameters
        elif settings.frbm_epochs:
            plain, history = fit_frbm(
                settings.plain(), corpus, valid, fitting.stage("frbm"), "fitting the FRBM"
            )
            begin, told["frbm"] = plain.parameters, history.as_dict()
            fitting = fitting.after_first()
        else:
            begin = initial_parameters(settings, corpus.type_counts)
        text, held_out = streams_of(corpus, valid, across=settings.across_sentences)
        trainer = TemporalTrainer(settings, with_zero_transitions(begin), text, held_out)
        history = train(
            trainer,
            trainer.stretches,
            settings,
            text,
            held_out,
            fitting.stage("temporal"),
            falling_rate(settings.learning_rate, settings.epochs, trainer.stretches),
            identity={"begin": fingerprint_arrays(tuple(begin))},
        )
        self._vocabulary, self._predictor = corpus.vocabulary, trainer.predictor()
        self.fitted_on = {**told, "training": history.as_dict()}


def with_zero_transitions(plain: BoltzmannParameters) -> BoltzmannParameters:
    """Return a copy with A = 0."""
    copies = {
        name: np.array(table, np.float32, order="C") for name, table in plain._asdict().items()
    }
    hidden = plain.hidden
    return BoltzmannParameters(**{**copies, "transitions": np.zeros((hidden, hidden), np.float32)})


class Stretches:
    """A text as stretches of equal length, which are read side by side, a piece of each at a time.

    There are batch_words / piece_words of them, and fewer where they would be shorter than `LEAST_STEPS` pieces.
    A batch is the place within the stretches where the pieces begin.
    """

    def __init__(self, text: Stream, settings: TemporalFRBMSettings) -> None:
        n, piece = len(text.ids), settings.piece_words
        wanted = max(1, settings.batch_words // piece)
        self.length = -(-n // max(1, min(wanted, n // (LEAST_STEPS * piece))))
        self.begins = np.arange(0, n, self.length)
        self.piece, self._text = piece, text

    def positions(self, first: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Return where the words of the pieces stand, (piece, stretches), and which of them there are."""
        within = first + np.arange(min(self.piece, self.length - first))[:, None]
        places = self.begins + within
        last = len(self._text.ids) - 1
        return np.minimum(places, last), places <= last

    def n_batches(self, epoch: int) -> int:
        """Return the pieces of a stretch."""
        return -(-self.length // self.piece)

    def batches(self, epoch: int, skip: int = 0) -> Iterator[int]:
        """Yield where they begin, in the order of the text."""
        yield from range(skip * self.piece, self.length, self.piece)

    def fingerprint(self) -> str:
        """Identify the text and how it is cut."""
        return fingerprint_arrays(tuple(self._text), "stretches", self.length, self.piece)


class _Unrolled(NamedTuple):
    """The filter over a piece of every stretch."""

    inputs: Floats  # b_t (words of a piece, stretches, hidden)
    before: Floats  # p_{t-1}, of the same shape
    hidden: Floats  # p_t


class TemporalTrainer(BoltzmannTrainer):
    """A temporal machine under training; batches are those of `Stretches`.

    The probabilities of the hidden units at the ends of the pieces are carried to the next step, and belong to the
    state.
    """

    def __init__(
        self,
        settings: TemporalFRBMSettings,
        parameters: BoltzmannParameters,
        text: Stream,
        valid: Stream | None,
    ) -> None:
        super().__init__(settings, parameters, text, valid)
        self.stretches = Stretches(text, settings)
        self._firsts = text.firsts
        shape = len(self.stretches.begins), parameters.hidden
        self.carried = self.rest["carried"] = np.zeros(shape, parameters.words.dtype)

    def step(self, batch: Any, learning_rate: float) -> StepResult:
        """Take one step on the summed loss of a piece of every stretch."""
        if batch == 0:
            self.carried[:] = 0
        now = self.current
        places, inside = self.stretches.positions(batch)
        opening = self._firsts[places]
        read = Contexts.at(self.text, places.ravel(), self.settings.context)
        features = context_features(now, read)
        unrolled = self._unroll(features, read.targets, opening)
        self.carried[:] = unrolled.hidden[-1]
        counted = (inside & ~opening).ravel()
        hidden = now.hidden
        inputs, before = (each.reshape(-1, hidden) for each in unrolled[:2])
        found, loss = self.contrast(inputs[counted], read.targets[counted])
        slopes = np.zeros_like(inputs)
        slopes[counted] = found.inputs
        if self.settings.learning == "likelihood" and len(places) > 1:
            slopes, onward = self._through_time(slopes.reshape(unrolled.inputs.shape), unrolled)
            found = self._with_onward(found, read.targets, onward)
        made = gradients(now, read, features, before, found, slopes)
        self.climb(made, int(counted.sum()), learning_rate)
        return StepResult(loss, int(counted.sum()))

    def _unroll(
        self,
        features: Floats,
        targets: npt.NDArray[np.integer[Any]],
        opening: npt.NDArray[np.bool_],
    ) -> _Unrolled:
        """Run the filter (eq 3.14) over the pieces, from what was carried."""
        now, shape = self.current, (*opening.shape, self.current.hidden)
        inputs = inputs_of_contexts(now, features, None).reshape(shape)
        hidden = (now.words[targets] @ now.outputs).reshape(shape)
        before = np.empty_like(hidden)
        state = self.carried
        for t in range(len(inputs)):
            before[t] = state
            inputs[t] += state @ now.transitions.T
            hidden[t] = sigmoid(inputs[t] + hidden[t])
            hidden[t][opening[t]] = 0
            state = hidden[t]
        return _Unrolled(inputs, before, hidden)

    def _through_time(self, slopes: Floats, unrolled: _Unrolled) -> tuple[Floats, Floats]:
        """Return the gradients of b_t (tokens, hidden) with what comes back from later words of the piece.

        And that part alone, which is the gradient of a_w of the words that are there.
        """
        onward = np.zeros_like(slopes)
        back = np.zeros_like(slopes[0])
        for t in reversed(range(len(slopes))):
            p = unrolled.hidden[t]
            onward[t] = back * p * (1 - p)  # nothing where a sequence begins: there p is 0
            slopes[t] += onward[t]
            back = slopes[t] @ self.current.transitions
        width = slopes.shape[-1]
        return slopes.reshape(-1, width), onward.reshape(-1, width)

    def _with_onward(
        self, found: Contrast, targets: npt.NDArray[np.integer[Any]], onward: Floats
    ) -> Contrast:
        """Add to a contrast what words that are there do for later ones, through the hidden units."""
        now = self.current
        return found._replace(
            words=found.words + by_word(targets, len(now.words)) @ (onward @ now.outputs.T),
            outputs=found.outputs + now.words[targets].T @ onward,
        )
