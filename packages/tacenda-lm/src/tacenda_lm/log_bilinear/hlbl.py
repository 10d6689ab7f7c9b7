"""`HLBL`: the hierarchical log-bilinear model: words as paths through learned trees (Mnih 2010, chapter 4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from tacenda.corpus import Corpus
from tacenda.kernels.log_bilinear import tree_softmax
from tacenda.kernels.log_bilinear.stream_scores import Packed
from tacenda.vocabulary import Vocabulary
from tacenda_lm.contract import FitContext
from tacenda_lm.log_bilinear.base import LogBilinear
from tacenda_lm.log_bilinear.config import HLBLConfig
from tacenda_lm.log_bilinear.context import ContextStates
from tacenda_lm.log_bilinear.fitting import Fitted, fit_hlbl
from tacenda_lm.log_bilinear.parameters import Parameters
from tacenda_lm.log_bilinear.scoring import (
    distribution_blocks,
    packed,
    score_on,
    score_stream,
)
from tacenda_lm.log_bilinear.stream import Stream
from tacenda_lm.log_bilinear.trees import Tree
from tacenda_lm.sequences import Float64, Ids, checked
from tacenda_lm.state import State

__all__ = ["HLBL"]

_CELLS = 1 << 22  # log-probabilities of a block of distributions


class HLBL(LogBilinear[HLBLConfig]):
    """A hierarchical log-bilinear language model.

        r = b + sum_i c_i o r_{w_i} + tails,    P(w | context) = sum_{d in D(w)} prod_i sigma(+-(r . q_i + b_i))

    (eqs 4.5 to 4.7.) Fitting trains a model on a random tree, clusters words by the average vector predicted for
    them into a better tree, and trains on that one.

    Parameters
    ----------
    config
        Settings; keyword arguments replace single ones.
    settings
        Any field of `HLBLConfig`.

    Raises
    ------
    ConfigurationError
        a setting is unknown or out of range.

    Examples
    --------
    >>> lm = HLBL(copies=2).fit(Path("train.txt"), valid=Path("valid.txt"))
    >>> lm.perplexity(Path("test.txt"), context="stream")
    """

    name: ClassVar[str] = "hlbl"
    settings = HLBLConfig
    _fitted: Fitted | None = None
    _scored_with: Packed | None = None

    def _fit(self, corpus: Corpus, valid: Corpus | None, context: FitContext) -> None:
        fitted = fit_hlbl(self.config, corpus, valid, context.checkpoints, context.resume)
        self._vocabulary, self._fitted, self._scored_with = corpus.vocabulary, fitted, None
        self.fitted_on = {
            "tree": fitted.tree.statistics(corpus.type_counts)._asdict(),
            "training": fitted.history.as_dict() if fitted.history else None,
        }

    @property
    def parameters(self) -> Parameters:
        """What was learned. Raises NotFittedError."""
        return self._found.parameters

    @property
    def tree(self) -> Tree:
        """The tree over words. Raises NotFittedError."""
        return self._found.tree

    @property
    def _found(self) -> Fitted:
        return self._learned(self._fitted)

    @property
    def _packed(self) -> Packed:
        """Made when it is first needed: node vectors in 8 bits and the paths of words; the rest is shared."""
        if self._scored_with is None:
            found = self._found
            self._scored_with = packed(found.parameters, found.tree.codes, self.config.tail_rates)
        return self._scored_with

    # -- one word after another --------------------------------------------------------------------

    @property
    def _contexts(self) -> ContextStates:
        learned, boundary = self._found.parameters, self.vocabulary.boundary_id
        far = learned.words if learned.far is None else learned.far
        return ContextStates(learned.words, far, learned.context(self.config.tail_rates), boundary)

    def start(self) -> State:
        """After one ``</s>`` and nothing else. A state holds the last words and the tails of all older ones."""
        return self._contexts.start()

    def _after(self, state: State, word: int) -> State:
        return self._contexts.advance(state, word)

    def log_probs(self, states: Sequence[State]) -> npt.NDArray[np.float32]:
        """Natural log-probabilities of every next word, float32 (states, types)."""
        found, learned = self._found, self._found.parameters
        vectors = self._contexts.vectors(states)
        biases = learned.node_biases[:, 0]
        rows = tree_softmax.distribution(vectors, found.tree.codes, learned.nodes, biases)
        return np.asarray(rows, np.float32)

    def log_prob(
        self, states: Sequence[State], words: npt.NDArray[np.integer[Any]] | Sequence[int]
    ) -> Float64:
        """Natural log p(word | state), float64 (states,); along the paths of these words alone."""
        found, learned = self._found, self._found.parameters
        ids, _ = checked(np.asarray(words), np.array([0, len(words)]), len(self.vocabulary))
        vectors = self._contexts.vectors(states)
        biases = learned.node_biases[:, 0]
        return tree_softmax.forward(vectors, ids, found.tree.codes, learned.nodes, biases).log_probs

    # -- whole texts -------------------------------------------------------------------------------

    def _score_stream(self, stream: Stream) -> Float64:
        return score_stream(self._packed, stream)

    def _score_on(self, state: State, ids: Ids) -> tuple[Float64, State]:
        contexts = self._contexts
        window, tails = contexts.read(state)
        text = np.concatenate([np.array(window, np.int32), ids])
        scores, after = score_on(self._packed, text, len(window), tails)
        last = text[max(0, len(text) - self.config.context) :]
        return scores, contexts.after_text(tuple(last.tolist()), after)

    def distributions(
        self, ids: npt.NDArray[np.integer[Any]], offsets: npt.NDArray[np.integer[Any]]
    ) -> Iterator[npt.NDArray[np.float32]]:
        """The distribution every id was drawn from: float32 (tokens of the block, types), blocks in order."""
        found = self._found
        stream = self._stream(ids, offsets)
        size = max(1, min(512, _CELLS // len(self.vocabulary)))
        yield from distribution_blocks(
            found.parameters, found.tree.codes, self.config.tail_rates, stream, size
        )

    # -- artefact ----------------------------------------------------------------------------------

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Parameters, tree and vocabulary. Raises NotFittedError."""
        found = self._found
        return {**found.parameters.arrays(), **found.tree.arrays(), **self.vocabulary.arrays()}

    @classmethod
    def from_arrays(cls, config: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Self:
        """The model of an artefact, every array checked. Raises ArtifactError."""
        model = cls(HLBLConfig.from_dict(dict(config["settings"])))
        vocabulary = Vocabulary.from_arrays(config["vocabulary"], arrays)
        tree = Tree.from_arrays(arrays, len(vocabulary))
        parameters = Parameters.from_arrays(
            arrays,
            n_words=len(vocabulary),
            width=model.config.width,
            context=model.config.context,
            tails=len(model.config.tail_rates),
            n_nodes=tree.n_nodes,
            far=model.config.far_words,
        )
        model._vocabulary, model._fitted = vocabulary, Fitted(parameters, tree, None)
        return model
