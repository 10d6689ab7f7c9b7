"""`HLBL`: the hierarchical log-bilinear model: words as paths through learned trees (Mnih 2010, chapter 4)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from tacit.corpus import Corpus
from tacit.fitting.recorder import Resume
from tacit.kernels import tree_softmax
from tacit.vocabulary import Vocabulary
from tacit_lm.language_model import LanguageModel
from tacit_lm.log_bilinear.config import HLBLConfig
from tacit_lm.log_bilinear.context import ContextStates
from tacit_lm.log_bilinear.fitting import Fitted, fit_hlbl
from tacit_lm.log_bilinear.parameters import Parameters
from tacit_lm.log_bilinear.scoring import distribution_blocks, score_stream
from tacit_lm.log_bilinear.stream import Stream
from tacit_lm.log_bilinear.trees import Tree
from tacit_lm.sequences import Float64, checked
from tacit_lm.state import State

__all__ = ["HLBL"]

_CELLS = 1 << 22  # log-probabilities of a block of distributions


class HLBL(LanguageModel):
    """A hierarchical log-bilinear language model.

        r = b + sum_i c_i o r_{w_i} + tails,    P(w | context) = sum_{d in D(w)} prod_i sigma(+-(r . q_i + b_i))

    (eqs 4.5 to 4.7.) Fitting trains a model on a random tree, clusters words by the average vector predicted for
    them into a better tree, and trains on that one.

    Args:
        config: settings; keyword arguments replace single ones.
        settings: any field of `HLBLConfig`.

    Raises:
        ConfigurationError: a setting is unknown or out of range.

    Example:
        >>> lm = HLBL(copies=2).fit("train.txt", valid="valid.txt")
        >>> lm.perplexity(Path("test.txt"), context="stream")
    """

    name: ClassVar[str] = "hlbl"
    distribution: ClassVar[str] = "tacit-lm"

    def __init__(self, config: HLBLConfig | None = None, **settings: Any) -> None:
        base = (config or HLBLConfig()).to_dict()
        self.config = HLBLConfig.from_dict({**base, **settings})
        self.figures: list[dict[str, Any]] = []
        self.fitted_on: dict[str, Any] = {}
        self._vocabulary: Vocabulary | None = None
        self._fitted: Fitted | None = None
        self._checkpoints: Path | None = None
        self._resume: Resume = "auto"

    # -- fitting -----------------------------------------------------------------------------------

    def checkpointed(self, folder: str | os.PathLike[str], resume: Resume = "auto") -> Self:
        """Makes `fit` save its way into ``folder`` and go on from what is there.

        Args:
            folder: one for each fit; a fit killed and started again ends in the same model.
            resume: ``"auto"`` goes on if there is something, True requires it, False starts afresh.
        """
        self._checkpoints, self._resume = Path(folder), resume
        return self

    def _fit(self, corpus: Corpus, valid: Corpus | None) -> None:
        fitted = fit_hlbl(self.config, corpus, valid, self._checkpoints, self._resume)
        self._vocabulary, self._fitted = corpus.vocabulary, fitted
        self.fitted_on = {
            "tree": fitted.tree.statistics(corpus.type_counts)._asdict(),
            "training": fitted.history.as_dict() if fitted.history else None,
        }

    @property
    def vocabulary(self) -> Vocabulary:
        """What the ids mean. Raises NotFittedError."""
        if self._vocabulary is None:
            raise self._not_fitted()
        return self._vocabulary

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
        if self._fitted is None:
            raise self._not_fitted()
        return self._fitted

    # -- one word after another --------------------------------------------------------------------

    @property
    def _contexts(self) -> ContextStates:
        found, boundary = self._found, self.vocabulary.boundary_id
        return ContextStates(
            found.parameters.words, found.parameters.context(self.config.tail_rates), boundary
        )

    def start(self) -> State:
        """After one ``</s>`` and nothing else."""
        return self._contexts.start()

    def advance(self, state: State, word: int) -> State:
        """The state after one more word (an id). After ``</s>`` the context goes on with ``across_sentences``, and
        begins anew without.
        """
        checked(np.array([word]), np.array([0, 1]), len(self.vocabulary))
        if word == self.vocabulary.boundary_id and not self.config.across_sentences:
            return self.start()
        return self._contexts.advance(state, int(word))

    def log_probs(self, states: Sequence[State]) -> npt.NDArray[np.float32]:
        """Natural log-probabilities of every next word, float32 (states, types)."""
        found = self._found
        vectors = self._contexts.vectors(states)
        parts = [np.empty((0, len(self.vocabulary)), np.float32)]
        size = max(1, _CELLS // len(self.vocabulary))
        for i in range(0, len(vectors), size):
            parts.append(
                tree_softmax.distribution(
                    vectors[i : i + size],
                    found.tree.codes,
                    found.parameters.nodes,
                    found.parameters.node_biases[:, 0],
                ).astype(np.float32)
            )
        return np.concatenate(parts)

    def log_prob(
        self, states: Sequence[State], words: npt.NDArray[np.integer[Any]] | Sequence[int]
    ) -> Float64:
        """Natural log p(word | state), float64 (states,); along the paths of these words alone."""
        found = self._found
        ids, _ = checked(np.asarray(words), np.array([0, len(words)]), len(self.vocabulary))
        return tree_softmax.forward(
            self._contexts.vectors(states),
            ids,
            found.tree.codes,
            found.parameters.nodes,
            found.parameters.node_biases[:, 0],
        ).log_probs

    # -- whole texts -------------------------------------------------------------------------------

    def _stream(
        self, ids: npt.NDArray[np.integer[Any]], offsets: npt.NDArray[np.integer[Any]]
    ) -> Stream:
        ids, offsets = checked(ids, offsets, len(self.vocabulary))
        boundary = self.vocabulary.boundary_id
        return Stream.of(ids, offsets, boundary, self.config.across_sentences)

    def score_corpus(
        self, ids: npt.NDArray[np.integer[Any]], offsets: npt.NDArray[np.integer[Any]]
    ) -> Float64:
        """Log-probability of every id given those before it in its sequence, natural, float64 (tokens,)."""
        found = self._found
        stream = self._stream(ids, offsets)
        return score_stream(found.parameters, found.tree.codes, self.config.tail_rates, stream)

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

    def config_dict(self) -> dict[str, Any]:
        """Settings and the vocabulary's, as JSON values."""
        return {"settings": self.config.to_dict(), "vocabulary": self.vocabulary.config_dict()}

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
        )
        model._vocabulary, model._fitted = vocabulary, Fitted(parameters, tree, None)
        return model
