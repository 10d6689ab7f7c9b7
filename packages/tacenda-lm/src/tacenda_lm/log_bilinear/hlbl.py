"""`HLBL`: the hierarchical log-bilinear model: words as paths through learned trees (Mnih 2010, chapter 4)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from tacenda.corpus import Corpus
from tacenda.settings import configured_by
from tacenda.vocabulary import Vocabulary
from tacenda_lm.contract import FitContext
from tacenda_lm.log_bilinear.hlbl_predictor import HLBLPredictor, Parameters
from tacenda_lm.log_bilinear.hlbl_training import average_predicted, train_hlbl
from tacenda_lm.log_bilinear.model import LogBilinear
from tacenda_lm.log_bilinear.settings import HLBLSettings
from tacenda_lm.log_bilinear.stream import Stream
from tacenda_lm.log_bilinear.training import texts_of
from tacenda_lm.log_bilinear.tree_building import build_tree
from tacenda_lm.log_bilinear.trees import Tree

__all__ = ["HLBL"]

_BOOTSTRAP_CONTEXT = 5  # words, as in the thesis
_DEEP = 64  # steps of a code of the random tree, at most: more than it ever has


class HLBL(LogBilinear[HLBLSettings]):
    """A hierarchical log-bilinear language model.

        r = b + sum_i c_i o r_{w_i} + tails,    P(w | context) = sum_{d in D(w)} prod_i sigma(+-(r . q_i + b_i))

    (Mnih 2010, equations 4.5 to 4.7.) Fitting trains a model on a random tree, clusters words by the average vector
    predicted for them into a better tree, and trains on that one. The models of the thesis have ``width=100,
    context=5, dropout=0.0, across_sentences=False, advanced={"tail_rates": (), "frequency_power": 0.0}``; its best
    tree has ``copies=4`` and an ``overlap`` of 0.4.

    Raises
    ------
    ConfigurationError
        An option is unknown or out of range.

    Examples
    --------
    >>> lm = HLBL(copies=2).fit(Path("train.txt"), valid=Path("valid.txt"))
    >>> lm.perplexity(Path("test.txt"), context="stream")
    """

    name: ClassVar[str] = "hlbl"
    settings_class = HLBLSettings
    _predictor: HLBLPredictor | None = None

    @configured_by(HLBLSettings)
    def __init__(self, settings: HLBLSettings) -> None:
        super().__init__(settings)

    @property
    def parameters(self) -> Parameters:
        """What was learned. Raises NotFittedError."""
        return self._learned(self._predictor).parameters

    @property
    def tree(self) -> Tree:
        """The tree over words. Raises NotFittedError."""
        return self._learned(self._predictor).tree

    def _fit(self, corpus: Corpus, valid: Corpus | None, context: FitContext) -> None:
        """Fit in three stages (section 4.4): a bootstrap, a tree, the model on it."""
        settings, counts = self.settings, corpus.type_counts
        text, held_out = texts_of(settings, corpus, valid)
        vectors = None
        if settings.tree != "random":
            vectors = self._clustered_vectors(counts, text, context.stage("bootstrap"))
            context = context.after_first()
        advanced = settings.advanced
        tree = build_tree(
            settings.tree,
            len(counts),
            vectors=vectors,
            weights=(np.maximum(counts, 1) ** advanced.frequency_power).astype(np.float32),
            overlap=advanced.overlap,
            copies=settings.copies,
            seed=settings.seed,
            max_codes=advanced.max_codes,
            max_depth=advanced.max_depth,
        )
        stage = context.stage("model")
        found, history = train_hlbl(settings, tree, counts, text, held_out, stage)
        self._vocabulary = corpus.vocabulary
        self._predictor = self._predictor_of(found.parameters, tree)
        self.fitted_on = {
            "tree": tree.statistics(counts)._asdict(),
            "training": history.as_dict(),
        }

    def _predictor_of(self, parameters: Parameters, tree: Tree) -> HLBLPredictor:
        """Return what predicts with these parameters, in the precision of the settings."""
        advanced, boundary = self.settings.advanced, self.vocabulary.boundary_id
        return HLBLPredictor(parameters, tree, advanced.tail_rates, boundary, advanced.eight_bits)

    def _clustered_vectors(
        self, counts: npt.NDArray[np.integer], text: Stream, context: FitContext
    ) -> npt.NDArray[np.float64]:
        """Train the thesis's model (five words, no tails, no dropout) on a random tree, for its predictions."""
        settings, advanced = self.settings, self.settings.advanced
        small = replace(
            settings,
            width=advanced.bootstrap_width,
            context=_BOOTSTRAP_CONTEXT,
            dropout=0.0,
            epochs=advanced.bootstrap_epochs,
            advanced=replace(advanced, tail_rates=(), far_words=False),
        )
        tree = build_tree("random", len(counts), seed=settings.seed, max_depth=_DEEP)
        predictor, _ = train_hlbl(small, tree, counts, text, None, context, "bootstrap")
        return average_predicted(predictor, text)

    @classmethod
    def from_arrays(cls, config: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Self:
        """Return the model of an artefact, every array checked. Raises ArtifactError."""
        model = cls.from_settings(config["settings"])
        settings, vocabulary = model.settings, Vocabulary.from_arrays(config["vocabulary"], arrays)
        tree = Tree.from_arrays(arrays, len(vocabulary))
        found = Parameters.from_arrays(settings, arrays, len(vocabulary), tree.n_nodes)
        model._vocabulary = vocabulary
        model._predictor = model._predictor_of(found, tree)
        return model
