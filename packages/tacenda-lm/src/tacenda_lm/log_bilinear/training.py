"""Training an HLBL: minibatches of pieces of text, AdaGrad with one accumulator a row (sections 3.3.2, 4.3, 4.6.1)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from tacenda.fitting import StepResult
from tacenda.fitting.trainable import State
from tacenda.kernels.log_bilinear import context_sum, tree_softmax
from tacenda.kernels.log_bilinear.tree_softmax import Codes
from tacenda.kernels.shared.row_steps import adagrad
from tacenda_lm.log_bilinear.parameters import Parameters
from tacenda_lm.log_bilinear.scoring import packed, score_stream
from tacenda_lm.log_bilinear.stream import Stream

__all__ = ["Trainer", "average_predicted", "dropout_mask", "pieces", "put"]

_FIRST_SUMS = {"words": 1e-6, "far_words": 1e-6}
_SUMS = 1e-8
_DOUBT = 5.0  # contexts of the average word, counted with those of each word
_FAINT = 0.02  # weight below which a tail is cut off in training
_FARTHEST = 500  # words, at most


def pieces(stream: Stream, length: int) -> npt.NDArray[np.int64]:
    """Where the pieces of a training text begin, int64 (pieces,)."""
    return np.arange(1, len(stream.ids), length, dtype=np.int64)


class Trainer:
    """An HLBL under training, as `tacenda.fitting` takes it.

    Batches are arrays of beginnings of pieces. ``state`` holds parameters, accumulators and the number of steps,
    from which the random numbers of a step are drawn.

    Parameters
    ----------
    parameters
        Changed in place.
    codes
        Of the tree.
    rates
        Of the tails.
    stream
        The training text.
    valid
        Held-out text; its perplexity is the criterion.
    length
        Words of a piece.
    dropout
        Share of the elements of predicted vectors left out.
    seed
        Of dropout.
    threads
        Of the kernels; the result does not depend on it.
    """

    def __init__(
        self,
        parameters: Parameters,
        codes: Codes,
        rates: tuple[float, ...],
        stream: Stream,
        valid: Stream | None,
        *,
        length: int,
        dropout: float,
        seed: int,
        threads: int = 1,
    ) -> None:
        self.current, self.codes, self.rates = parameters, codes, rates
        self.stream, self.valid, self.length = stream, valid, length
        self.dropout, self.seed, self.threads = dropout, seed, threads
        self.sums = {
            name: np.full(len(array), _FIRST_SUMS.get(name, _SUMS), np.float32)
            for name, array in parameters.arrays().items()
        }
        self.steps = 0
        longest = max(rates, default=0.0)
        faint = math.ceil(math.log(_FAINT) / math.log(longest)) if longest > 0 else 0
        # a tail of words that do not depend on each other is so much longer than one of them
        self._of_tails = [math.sqrt(1 - rate) for rate in rates]
        self._reach = len(parameters.positions) + min(faint, _FARTHEST)

    def step(self, batch: tuple[npt.NDArray[np.int64]], learning_rate: float) -> StepResult:
        """One step on the summed loss of some pieces."""
        now = self.current
        (begins,) = batch
        ends = np.minimum(begins + self.length, len(self.stream.ids))
        ids, offsets, starts, stops, targets, counted = self.stream.windows(
            begins, ends, self._reach
        )
        rng = np.random.default_rng([self.seed, self.steps])
        self.steps += 1
        spans = (now.words, ids, offsets, starts, stops, now.context(self.rates))
        found = context_sum.forward(*spans, far=now.far, threads=self.threads)
        vectors = found.vectors
        kept = dropout_mask(vectors.shape, self.dropout, rng) if self.dropout else None
        if kept is not None:
            vectors *= kept
        scored = tree_softmax.step(
            vectors, targets, self.codes, now.nodes, now.node_biases[:, 0], -counted.astype(np.float32),
            self.sums["nodes"], self.sums["node_biases"], learning_rate, threads=self.threads,
        )  # fmt: skip
        grad = scored.vectors
        if kept is not None:
            grad *= kept
        down = context_sum.backward(*spans, found.before, grad, now.far, threads=self.threads)
        every = np.arange(max(len(now.positions), len(now.tails), 1), dtype=np.int32)
        for name, at, gradient in (
            ("words", down.words, down.rows),
            ("far_words", down.words[: len(down.far_rows)], down.far_rows),
            ("positions", every[: len(now.positions)], down.weights),
            ("bias", every[:1], down.bias[None]),
        ):
            table, sums = getattr(now, name), self.sums[name]
            adagrad(table, sums, at, gradient, learning_rate, threads=self.threads)
        for k, slowness in enumerate(self._of_tails):
            row = every[k : k + 1]
            adagrad(
                now.tails, self.sums["tails"], row, down.tail_weights[row], slowness * learning_rate
            )
        return StepResult(-float(scored.log_probs[counted].sum()), float(counted.sum()))

    def evaluate(self) -> float | None:
        """Perplexity of the held-out text."""
        if self.valid is None:
            return None
        model = packed(self.current, self.codes, self.rates)
        scores = score_stream(model, self.valid)
        return float(np.exp(-scores.mean()))

    def parameters(self) -> State:
        """What the model is made of."""
        return self.current.arrays()

    def load_parameters(self, parameters: State) -> None:
        """Puts them back."""
        put(self.current.arrays(), parameters)

    def state(self) -> State:
        """Everything the next steps depend on."""
        sums = {f"sums/{name}": array for name, array in self.sums.items()}
        return {**self.current.arrays(), **sums, "steps": np.array(self.steps)}

    def load_state(self, state: State) -> None:
        """Puts back what ``state`` gave; ValueError where names or shapes do not fit."""
        steps = np.array(0)
        put({**self.state(), "steps": steps}, state)
        self.steps = int(steps)


def put(own: State, given: State) -> None:
    """Copies the given arrays into those of the same names; ValueError where names, shapes or dtypes differ."""
    if set(own) != set(given):
        raise ValueError(f"names differ: {', '.join(sorted(set(own) ^ set(given))[:5])}")
    for name, array in own.items():
        if array.shape != given[name].shape or array.dtype != given[name].dtype:
            raise ValueError(
                f"{name} is {array.dtype} {array.shape}, not {given[name].dtype} {given[name].shape}"
            )
        array[...] = given[name]


def dropout_mask(
    shape: tuple[int, ...], share: float, rng: np.random.Generator
) -> npt.NDArray[np.float32]:
    """0 for about so large a share (in steps of 2^-16), the others scaled to keep the mean."""
    limit = round(share * 65536)
    size = math.prod(shape)
    words = rng.integers(
        0, 2**64, -(-size // 4), dtype=np.uint64
    )  # much faster than smaller numbers
    drawn = words.view(np.uint16)[:size].reshape(shape)
    return np.asarray((drawn >= limit) * np.float32(65536 / (65536 - limit)), np.float32)


def average_predicted(
    parameters: Parameters, rates: tuple[float, ...], stream: Stream, block: int = 4096
) -> npt.NDArray[np.float64]:
    """The mean predicted vector of the contexts each word follows, less that of all words: (types, width).

    The word vectors of section 4.4, which trees are built from. Those of rare words, which are mostly noise, are
    drawn towards that of all words, as if they had followed a few contexts more.
    """
    from tacenda_lm.log_bilinear.clustering import add_rows
    from tacenda_lm.log_bilinear.scoring import predicted_blocks

    sums = np.zeros(parameters.words.shape)
    counts = np.zeros(len(sums))
    for vectors, targets, counted in predicted_blocks(parameters, rates, stream, block):
        words = targets[counted]
        add_rows(sums, words, vectors[counted])
        counts += np.bincount(words, minlength=len(counts))
    mean = sums.sum(axis=0) / max(counts.sum(), 1)
    found: Any = (sums - counts[:, None] * mean) / (counts + _DOUBT)[:, None]
    return np.asarray(found)
