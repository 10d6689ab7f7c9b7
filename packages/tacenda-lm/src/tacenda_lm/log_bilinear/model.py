"""What the log-bilinear models share: texts as streams, a language model around a predictor, training by AdaGrad.

A stream is one long row of ids with ``</s>`` before and after every sentence. Across sentences, the context of a word
is everything before it, and one ``</s>`` stands between two sentences. Otherwise every sentence begins anew, after a
``</s>`` of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from tacenda.corpus import Corpus
from tacenda.fitting import ArrayBatches, History, StepResult
from tacenda.fitting.trainable import State as Arrays
from tacenda.kernels.shared.row_steps import adagrad
from tacenda_lm.contract import State
from tacenda_lm.language_model import ConfiguredLanguageModel
from tacenda_lm.log_bilinear.settings import HLBLSettings, LBLSettings
from tacenda_lm.perplexity import Context
from tacenda_lm.sequences import (
    Float64,
    Ids,
    Integers,
    Offsets,
    check_word,
    checked,
    checked_ids,
    with_ends,
)
from tacenda_lm.training import FitContext, falling_rate, put, train

if TYPE_CHECKING:
    from tacenda_lm.log_bilinear.hlbl_predictor import HLBLPredictor
    from tacenda_lm.log_bilinear.lbl import LBLPredictor

__all__ = ["LogBilinear", "Stream", "Trainer", "dropout_mask", "texts_of", "train_trainer"]

S = TypeVar("S", bound=HLBLSettings | LBLSettings)
_LEAST = 0.1  # of the learning rate, at the end
_WARM = 200  # steps at most before the learning rate is what it says, and half an epoch


class Windows(NamedTuple):
    """Pieces of a stream, one after another, as `tacenda.kernels.log_bilinear.context_sum` takes them."""

    ids: Ids  # (tokens,), each piece with what comes before it
    offsets: Offsets  # (sequences + 1,); no context reaches over these
    starts: npt.NDArray[np.int64]  # (pieces,), where the positions to predict begin in ids
    ends: npt.NDArray[np.int64]  # (pieces,), where they end
    targets: Ids  # (rows,), the words at these positions
    counted: npt.NDArray[np.bool_]  # (rows,), False at the first id of a sequence


class Stream(NamedTuple):
    """Ids with boundaries, cut into sequences whose first id is context only."""

    ids: Ids  # (tokens,)
    offsets: Offsets  # (sequences + 1,)

    @classmethod
    def of(
        cls,
        ids: Integers,
        offsets: Integers,
        boundary: int,
        across: bool,
    ) -> Stream:
        """Put a ``</s>`` before every sequence; unless ``across``, a ``</s>`` within one ends it and begins another."""
        words = np.asarray(ids, np.int32)
        cuts = np.unique(np.asarray(offsets, np.int64)[:-1])
        if not across:
            cuts = np.union1d(cuts, np.flatnonzero(words[:-1] == boundary) + 1)
        cuts = cuts[cuts < len(words)]
        stream = np.insert(words, cuts, boundary)
        begins = cuts + np.arange(len(cuts))
        return cls(stream, np.append(begins, len(stream)).astype(np.int64))

    @classmethod
    def of_corpus(cls, corpus: Corpus, across: bool) -> Stream:
        """Return a corpus as one sequence, or as one for every sentence."""
        boundary = corpus.vocabulary.boundary_id
        ids, offsets = with_ends(corpus.ids, corpus.offsets, boundary)
        if across:
            offsets = np.array([0, len(ids)])
        return cls.of(ids, offsets, boundary, across)

    @property
    def firsts(self) -> npt.NDArray[np.bool_]:
        """Which ids are context only, bool (tokens,): the first of every sequence."""
        found = np.zeros(len(self.ids), bool)
        found[self.offsets[:-1]] = True
        return found

    def windows(
        self, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64], reach: int
    ) -> Windows:
        """Return the pieces between ``starts`` and ``ends``, each with up to ``reach`` ids before it."""
        begins = self.offsets[:-1]
        of_starts = begins[np.searchsorted(begins, starts, side="right") - 1]
        lows = np.maximum(of_starts, starts - reach)
        lengths = ends - lows
        firsts = np.concatenate([[0], np.cumsum(lengths)])
        at = np.repeat(lows - firsts[:-1], lengths) + np.arange(firsts[-1])
        inner = [
            begins[slice(*np.searchsorted(begins, (low + 1, end)))] - low + first
            for low, end, first in zip(lows, ends, firsts[:-1], strict=True)
        ]
        offsets = np.sort(np.concatenate([firsts, *inner])).astype(np.int64)
        rows = np.repeat(starts, ends - starts) + _within(ends - starts)
        places = begins[np.searchsorted(begins, rows, side="right") - 1]
        return Windows(
            self.ids[at],
            offsets,
            firsts[:-1] + starts - lows,
            firsts[1:],
            self.ids[rows],
            rows > places,
        )


def _within(lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return 0, 1, 2 ... for each length, one after another."""
    ends = np.cumsum(lengths)
    return np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - lengths, lengths)


class LogBilinear(ConfiguredLanguageModel[S]):
    """Base of `HLBL` and `LBL`, whose ``_fit`` and ``from_arrays`` set the predictor and the vocabulary."""

    keeps_checkpoints = True
    _predictor: HLBLPredictor | LBLPredictor | None = None

    @property
    def _found(self) -> HLBLPredictor | LBLPredictor:
        self._learned(self._predictor)
        assert self._predictor is not None
        return self._predictor

    @property
    def own_context(self) -> Context:
        """``"stream"`` with ``across_sentences``, else ``"sentence"``."""
        return "stream" if self.settings.across_sentences else "sentence"

    def start(self) -> State:
        """Return the state after one ``</s>`` and nothing else."""
        return self._found.start()

    def advance(self, state: State, word: int) -> State:
        """Return the state after one more word.

        After ``</s>`` the context goes on with ``across_sentences``, and begins anew without.
        """
        check_word(word, len(self.vocabulary))
        if word == self.vocabulary.boundary_id and not self.settings.across_sentences:
            return self.start()
        return self._found.after(state, int(word))

    def log_probs(self, states: Sequence[State]) -> npt.NDArray[np.float32]:
        """Return natural log-probabilities of every next word, float32 (states, types)."""
        return self._found.log_probs(states)

    def log_prob(self, states: Sequence[State], words: Integers | Sequence[int]) -> Float64:
        """Return natural log p(word | state) for pairs, float64 (states,)."""
        return self._found.log_prob(states, checked_ids(words, len(self.vocabulary)))

    def score_corpus(self, ids: Integers, offsets: Integers) -> Float64:
        """Return the natural log-probability of every id given those before it in its sequence, float64 (tokens,)."""
        return self._found.score(self._stream(ids, offsets))

    def score_from(self, state: State, ids: Integers) -> tuple[Float64, State]:
        """Return the log-probability of every id of a sequence that follows a state, and the state after it."""
        ids = checked_ids(ids, len(self.vocabulary))
        ends = np.flatnonzero(ids == self.vocabulary.boundary_id) + 1
        if self.settings.across_sentences or not len(ends):
            return self._found.score_from(state, ids)
        # the rest of a sentence, whole sentences, and the beginning of one
        first, _ = self._found.score_from(state, ids[: ends[0]])
        inner = self.score_corpus(ids[ends[0] : ends[-1]], ends - ends[0])
        last, state = self._found.score_from(self.start(), ids[ends[-1] :])
        return np.concatenate([first, inner, last]), state

    def distributions(self, ids: Integers, offsets: Integers) -> Iterator[npt.NDArray[np.float32]]:
        """Yield the distribution that every id was drawn from, float32 (tokens of the block, types), in order."""
        return self._found.distributions(self._stream(ids, offsets))

    def _stream(self, ids: Integers, offsets: Integers) -> Stream:
        ids, offsets = checked(ids, offsets, len(self.vocabulary))
        boundary = self.vocabulary.boundary_id
        return Stream.of(ids, offsets, boundary, self.settings.across_sentences)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return what was learned, and the vocabulary. Raises NotFittedError."""
        return {**self._found.arrays(), **self.vocabulary.arrays()}


class Trainer:
    """A model under training, as `tacenda.fitting` takes it; a subclass implements `step` and `predictor`.

    AdaGrad has one accumulator for each row of a table. `state` holds tables, accumulators and the number of steps,
    from which the random numbers of a step are drawn.
    The tables, float32 in C order, are changed in place; ``sums`` are the accumulators to begin with, by the name of
    the table. The perplexity of ``valid`` is the criterion.
    """

    def __init__(
        self,
        tables: dict[str, npt.NDArray[np.float32]],
        sums: Mapping[str, float],
        text: Stream,
        valid: Stream | None,
        seed: int,
    ) -> None:
        self.tables, self.text, self.valid, self.seed = tables, text, valid, seed
        self.sums = {
            name: np.full(len(_rows(table)), sums[name], np.float32)
            for name, table in tables.items()
        }
        self.steps = 0

    def step(self, batch: Any, learning_rate: float) -> StepResult:
        """Take one step on the summed loss of a batch."""
        raise NotImplementedError

    def predictor(self) -> HLBLPredictor | LBLPredictor:
        """Return what the present parameters predict."""
        raise NotImplementedError

    def draw(self) -> np.random.Generator:
        """Return the random numbers of this step, and count it."""
        rng = np.random.default_rng([self.seed, self.steps])
        self.steps += 1
        return rng

    def move(
        self,
        name: str,
        rows: npt.NDArray[np.integer[Any]] | None,
        gradient: npt.NDArray[np.floating[Any]],
        learning_rate: float,
        threads: int = 1,
    ) -> None:
        """Move some rows of a table, each once, against their gradient; None stands for all rows."""
        table = _rows(self.tables[name])
        every = np.arange(len(table), dtype=np.int32) if rows is None else rows
        slopes = np.ascontiguousarray(gradient.reshape(len(every), table.shape[1]), np.float32)
        adagrad(table, self.sums[name], every, slopes, learning_rate, threads=threads)

    def evaluate(self) -> float | None:
        """Return the perplexity of the held-out text."""
        if self.valid is None:
            return None
        return float(np.exp(-self.predictor().score(self.valid).mean()))

    def parameters(self) -> Arrays:
        """Return what the model is made of."""
        return self.tables

    def load_parameters(self, parameters: Arrays) -> None:
        """Put them back."""
        put(self.tables, parameters)

    def state(self) -> Arrays:
        """Return everything the next steps depend on."""
        sums = {f"sums/{name}": array for name, array in self.sums.items()}
        return {**self.tables, **sums, "steps": np.array(self.steps)}

    def load_state(self, state: Arrays) -> None:
        """Put back what `state` gave. Raises ValueError where names or shapes do not fit."""
        steps = np.array(0)
        put({**self.state(), "steps": steps}, state)
        self.steps = int(steps)


def _rows(array: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """View an array in two dimensions, matrices one under the other."""
    return array if array.ndim == 2 else array.reshape(-1, array.shape[-1])


def dropout_mask(
    shape: tuple[int, ...], share: float, rng: np.random.Generator
) -> npt.NDArray[np.float32]:
    """Draw 0 for about this share of the elements (in steps of 2^-16), and for the others what keeps the mean."""
    limit = min(round(share * 65536), 65535)  # some are kept, however large the share
    size = math.prod(shape)
    # four 16-bit numbers in each word: much faster than drawing small numbers
    words = rng.integers(0, 2**64, -(-size // 4), dtype=np.uint64)
    drawn = words.view(np.uint16)[:size].reshape(shape)
    return np.asarray((drawn >= limit) * np.float32(65536 / (65536 - limit)), np.float32)


def texts_of(
    settings: HLBLSettings | LBLSettings, corpus: Corpus, valid: Corpus | None
) -> tuple[Stream, Stream | None]:
    """Return the training text and the held-out text as streams."""
    across = settings.across_sentences
    held_out = None if valid is None else Stream.of_corpus(valid, across)
    return Stream.of_corpus(corpus, across), held_out


def train_trainer(
    trainer: Trainer,
    source: ArrayBatches,
    settings: HLBLSettings | LBLSettings,
    fitting: FitContext,
    identity: Mapping[str, Any] | None = None,
    description: str = "fitting",
) -> History:
    """Train in place, at a rate that falls to a tenth; see `tacenda_lm.training.train`."""
    epochs = settings.epochs or 0
    rate = falling_rate(settings.learning_rate, epochs, source, least=_LEAST, warm=_WARM)
    texts = trainer.text, trainer.valid
    return train(
        trainer, source, settings, *texts, fitting, rate, identity=identity, description=description
    )
