"""What an HLBL learns and what it predicts: vectors of words and nodes, contexts, scores of streams.

    r = b + sum_i c_i o R_{w_i} + sum_k a_k o u_k

(Mnih 2010, equation 4.5.) A tail u_k is the sum of the vectors of all words older than the n weighted
positions, each multiplied by rate_k for every word since.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.arrays import to_device, to_numpy
from tacenda.artifact import require
from tacenda.corpus.storage import forget_pages
from tacenda.kernels.log_bilinear import context_sum, tree_softmax
from tacenda.kernels.log_bilinear.context_sum import Context
from tacenda.kernels.log_bilinear.stream_scores import Packed, pack, rounded, scores
from tacenda.kernels.machinery.memory import WIDE, aligned
from tacenda_lm.log_bilinear.settings import HLBLSettings
from tacenda_lm.log_bilinear.trees import Tree
from tacenda_lm.sequences import Float64, Ids
from tacenda_lm.states import State, rows_of_block, vector_of, window_of
from tacenda_lm.streams import Stream

__all__ = ["HLBLPredictor", "Parameters", "Predicted"]

_Floats = npt.NDArray[np.float32]
_ROWS = 512  # tokens that are predicted side by side, at most, then scored


@dataclass
class Parameters:
    """What is learned, float32 in C order, on the device of the fit until it is done."""

    words: _Floats  # R (types, width), of the words that have a position
    far_words: _Floats  # (types, width), of those in the tails; no rows where R serves for both
    positions: _Floats  # c (context, width), the last word's weights first
    bias: _Floats  # b (1, width), of the predicted vector
    tails: _Floats  # a (tails, width)
    nodes: _Floats  # q (nodes, width)
    node_biases: _Floats  # (nodes, 1)

    @classmethod
    def drawn(
        cls, settings: HLBLSettings, n_words: int, node_biases: _Floats, rng: np.random.Generator
    ) -> Parameters:
        """Draw small vectors; weights of positions are 1 / (2 sqrt(i)), those of a tail sum to about 1/2."""
        width, advanced = settings.width, settings.advanced

        def normal(rows: int, scale: float) -> _Floats:
            return _placed(rng.standard_normal((rows, width), np.float32) * np.float32(scale))

        weights = 0.5 / np.sqrt(np.arange(1, settings.context + 1))
        of_tails = 0.5 * (1 - np.array(advanced.tail_rates, np.float64))
        return cls(
            words=normal(n_words, 0.05),
            far_words=normal(n_words if advanced.far_words else 0, 0.05),
            positions=_placed(np.repeat(weights[:, None], width, 1).astype(np.float32)),
            bias=np.zeros((1, width), np.float32),
            tails=_placed(np.repeat(of_tails[:, None], width, 1).astype(np.float32)),
            nodes=normal(len(node_biases), 0.01),
            node_biases=node_biases.reshape(-1, 1).astype(np.float32),
        )

    @classmethod
    def from_arrays(
        cls, settings: HLBLSettings, arrays: dict[str, npt.NDArray[Any]], n_words: int, n_nodes: int
    ) -> Parameters:
        """Return the parameters of an artefact, checked. Raises ArtifactError."""
        width, advanced = settings.width, settings.advanced
        shapes = {
            "words": (n_words, width),
            "far_words": (n_words if advanced.far_words else 0, width),
            "positions": (settings.context, width),
            "bias": (1, width),
            "tails": (len(advanced.tail_rates), width),
            "nodes": (n_nodes, width),
            "node_biases": (n_nodes, 1),
        }
        found = {}
        for name, shape in shapes.items():
            array = require(arrays, name, dtype=np.float32, shape=shape, finite=True)
            found[name] = _placed(np.ascontiguousarray(array))
        return cls(**found)

    def on(self, device: str) -> Parameters:
        """Return the same on a device."""
        return Parameters(
            **{name: to_device(array, device) for name, array in self.arrays().items()}
        )

    def on_host(self) -> Parameters:
        """Return the same as arrays of numpy."""
        return Parameters(**{name: to_numpy(array) for name, array in self.arrays().items()})

    def context(self, rates: _Floats) -> Context:
        """Return the weights of positions and tails as `context_sum` takes them; the rates lie where they do."""
        return Context(self.positions, self.bias[0], rates, self.tails)

    @property
    def far(self) -> _Floats | None:
        """The vectors of the words in the tails, or None where they are R."""
        return self.far_words if len(self.far_words) else None

    def arrays(self) -> dict[str, _Floats]:
        """Return the arrays themselves, by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def _placed(array: _Floats) -> _Floats:
    """Place the rows in memory where they are read fastest, if their width allows."""
    return array if array.shape[1] % WIDE else aligned(array, WIDE)


class Predicted(NamedTuple):
    """The predicted vectors of some consecutive positions of a stream."""

    vectors: _Floats  # (rows, width)
    words: Ids  # (rows,), the words there
    counted: npt.NDArray[
        np.bool_
    ]  # (rows,), False at the first id of a sequence, which nothing predicts


class HLBLPredictor:
    """A fitted HLBL. ``boundary`` is the id of ``</s>``.

    With ``eight_bits`` the node vectors are rounded, so that all results agree with the scores of texts; the
    parameters must not change once a text was scored. The value of a state is ``(the last n words, oldest first; the
    bytes of the tails)``.
    """

    def __init__(
        self,
        parameters: Parameters,
        tree: Tree,
        rates: tuple[float, ...],
        boundary: int,
        eight_bits: bool = False,
    ) -> None:
        self.parameters, self.tree, self.boundary = parameters, tree, boundary
        self.context = parameters.context(np.array(rates, np.float32))
        self._eight_bits = eight_bits
        if eight_bits:
            parameters.nodes = _placed(rounded(parameters.nodes))

    # -- one word after another --------------------------------------------------------------------

    def start(self) -> State:
        """Return the state after one ``</s>``."""
        nothing = np.zeros(self.context.tail_weights.shape, np.float32)
        return self._longer((), nothing, self.boundary)

    def after(self, state: State, word: int) -> State:
        """Return the state after one more word: the one that leaves the window goes into the tails."""
        return self._longer(*self._parts(state), word)

    def _longer(self, window: tuple[int, ...], tails: _Floats, word: int) -> State:
        far = self.parameters.words if self.parameters.far is None else self.parameters.far
        window = (*window, word)
        if len(window) > len(self.context.weights):
            tails = self.context.rates[:, None] * tails + far[window[0]]
            window = window[1:]
        return State((window, tails.tobytes()))

    def _parts(self, state: State) -> tuple[tuple[int, ...], _Floats]:
        words, packed = state.parts(2)
        window = window_of(words, len(self.context.weights), len(self.parameters.words))
        weights = self.context.tail_weights
        return window, vector_of(packed, np.float32, weights.size).reshape(weights.shape)

    def vectors(self, states: Sequence[State]) -> _Floats:
        """Return the predicted vector of each state, (states, width)."""
        c, b, _, a = self.context
        found = np.repeat(b[None], len(states), 0)
        for row, state in zip(found, states, strict=True):
            window, tails = self._parts(state)
            if window:
                row += (c[: len(window)] * self.parameters.words[list(reversed(window))]).sum(0)
            row += (a * tails).sum(axis=0)
        return found

    def log_probs(self, states: Sequence[State]) -> _Floats:
        """Return natural log-probabilities of every next word, (states, types)."""
        return self._distribution(self.vectors(states))

    def log_prob(self, states: Sequence[State], words: Ids) -> Float64:
        """Return natural log p(word | state), (states,), along the paths of these words alone."""
        return self._log_prob(self.vectors(states), words)

    def _log_prob(self, vectors: _Floats, words: Ids) -> Float64:
        nodes, biases = self.parameters.nodes, self.parameters.node_biases[:, 0]
        return tree_softmax.forward(vectors, words, self.tree.codes, nodes, biases)

    def _distribution(self, vectors: _Floats) -> _Floats:
        nodes, biases = self.parameters.nodes, self.parameters.node_biases[:, 0]
        rows = tree_softmax.distribution(vectors, self.tree.codes, nodes, biases)
        return np.asarray(rows, np.float32)

    # -- whole texts -------------------------------------------------------------------------------

    @cached_property
    def _packed(self) -> Packed:
        """Node vectors in 8 bits and the paths of words, made when a text is first scored; the rest is shared."""
        p = self.parameters
        codes, biases = self.tree.codes, p.node_biases[:, 0]
        return pack(p.words, self.context, codes, p.nodes, biases, p.far)

    def score(self, stream: Stream) -> Float64:
        """Return natural log-probabilities of all but the first id of every sequence."""
        if self._eight_bits:
            return scores(self._packed, stream.ids, stream.offsets).log_probs[~stream.firsts]
        found = [
            self._log_prob(vectors[counted], words[counted])
            for vectors, words, counted in self.predicted(stream, _ROWS)
        ]
        return np.concatenate(found) if found else np.empty(0)

    def score_from(self, state: State, ids: Ids) -> tuple[Float64, State]:
        """Return the scores of ids that follow a state with no new sentence among them, and the state after."""
        if not self._eight_bits:
            vectors, last = self.vectors_from(state, ids)
            return self._log_prob(vectors, ids), last
        window, tails = self._parts(state)
        text, first = np.concatenate([np.array(window, np.int32), ids]), len(window)
        log_probs, after = scores(self._packed, text, np.array([0, len(text)]), first, tails)
        kept = text[max(0, len(text) - len(self.context.weights)) :]
        tails = np.asarray(after, np.float32)
        return log_probs, State((tuple(kept.tolist()), tails.tobytes()))

    def vectors_from(self, state: State, ids: Ids) -> tuple[_Floats, State]:
        """Return the predicted vector of ids as `score_from` takes them, (tokens, width), and the state after."""
        window, tails = self._parts(state)
        text, first = np.concatenate([np.array(window, np.int32), ids]), len(window)
        offsets = np.array([0, len(text)])
        span = offsets[:1] + first, offsets[1:]
        p = self.parameters
        found = context_sum.forward(p.words, text, offsets, *span, self.context, tails[None], p.far)
        last = text[max(0, len(text) - len(self.context.weights)) :]
        after = np.asarray(found.after[0], np.float32).tobytes()
        return found.vectors, State((tuple(last.tolist()), after))

    def predicted(self, stream: Stream, rows: int) -> Iterator[Predicted]:
        """Yield the predicted vectors of all positions, in blocks, exactly as if the stream were read in one go."""
        ids, n = stream.ids, len(self.context.weights)
        tails: _Floats | None = None
        for start in range(0, len(ids), rows):
            end = min(start + rows, len(ids))
            low = max(0, start - n)
            firsts = stream.firsts_within(low, end)
            if firsts[start - low]:
                tails = None  # those of the sequence that has just ended
            offsets = np.unique(np.concatenate([[0], np.flatnonzero(firsts), [end - low]]))
            read = np.array(ids[low:end])
            forget_pages(ids)
            span = np.array([start - low]), np.array([end - low])
            p = self.parameters
            found = context_sum.forward(p.words, read, offsets, *span, self.context, tails, p.far)
            tails = found.after
            yield Predicted(found.vectors, read[start - low :], ~firsts[start - low :])

    def distributions(self, stream: Stream) -> Iterator[_Floats]:
        """Yield natural log-probabilities of all words at the positions that `score` scores, (rows, types)."""
        rows = min(_ROWS, rows_of_block(self.tree.n_words))
        for vectors, _, counted in self.predicted(stream, rows):
            if counted.any():
                yield self._distribution(vectors[counted])

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return parameters and tree by name."""
        return {**self.parameters.arrays(), **self.tree.arrays()}
