"""Fits and the scores they give, cells that are measured once and kept, and the `Study` that they are made for."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import tacenda
from benchmarks import kept
from benchmarks.language_models.contexts import CONTEXTS
from benchmarks.language_models.thesis import published, recipes
from benchmarks.language_models.thesis.recipes import (
    Flat,
    Hierarchical,
    Machine,
    NGrams,
    Plan,
    Recipe,
    Shape,
)
from benchmarks.language_models.thesis.texts import PROTOCOL, Texts, tokens, without_part
from benchmarks.reporting import Options, Table
from tacenda import Corpus
from tacenda.fitting import FitRun, History
from tacenda_lm import FRBM, HLBL, LBL, KneserNey, LanguageModel, TemporalFRBM, Tree, build_tree
from tacenda_lm.log_bilinear.hlbl import (
    HLBLPredictor,
    HLBLSettings,
    average_predictions,
    train_hlbl,
)
from tacenda_lm.log_bilinear.tree_building import join
from tacenda_lm.mixture import fit_weights
from tacenda_lm.perplexity import Context
from tacenda_lm.streams import Stream, streams_of


def clustered_vectors(model: HLBL, text: Corpus) -> npt.NDArray[np.float64]:
    """Return what trees are built from: the average vector that a model predicts for each word (section 4.4)."""
    predictor = HLBLPredictor(model.parameters, model.tree, (), model.vocabulary.boundary_id)
    return average_predictions(predictor, Stream.of_corpus(text, False))


def tree_of(shape: Shape, n_words: int, vectors: npt.NDArray[np.float64] | None) -> Tree:
    """Join one tree for each seed under a balanced top."""
    made = {
        seed: build_tree(shape.rule, n_words, vectors=vectors, overlap=shape.overlap, seed=seed)
        for seed in set(shape.seeds)
    }
    return join([made[seed] for seed in shape.seeds])


def hlbl_on(
    settings: HLBLSettings, tree: Tree, text: Corpus, valid: Corpus, checkpoints: Path
) -> tuple[HLBL, History]:
    """Return the model trained on a tree that is given, and how the training went."""
    streams = streams_of(text, valid, across=settings.across_sentences)
    context = FitRun(checkpoints)
    predictor, history = train_hlbl(settings, tree, text.type_counts, *streams, context)
    vocabulary = text.vocabulary
    arrays = {**predictor.arrays(), **vocabulary.arrays()}
    config = {"settings": settings.to_dict(), "vocabulary": vocabulary.config_dict()}
    return HLBL.from_arrays(config, arrays), history


Scores = npt.NDArray[np.float64]
STOPPING = 80_000
"""Words at most of the validation text that an LBL stops by."""
KEPT = Hierarchical(recipes.RANDOM)
"""Whose model is wanted again, not only its scores: the other trees are made of its vectors."""


@dataclass(frozen=True)
class Fit:
    """What is left of a fit.

    Attributes
    ----------
    valid, test
        Natural log-probabilities of the words to predict, float64 (tokens,).
    facts
        Seconds of the processor, perplexity of the validation text by epoch, the tree's figures.
    """

    name: str
    valid: Scores
    test: Scores
    facts: dict[str, Any]

    @property
    def perplexity(self) -> float:
        return perplexity(self.test)


def perplexity(scores: Scores) -> float:
    """Of words with these log-probabilities; two decimals."""
    return round(float(np.exp(-scores.mean())), 2)


@dataclass(frozen=True)
class Mixed:
    """Test perplexity of two models: equal shares, fitted shares, and the share of the first one then."""

    halves: float
    fitted: float
    share: float


def mixed(first: Fit, second: Fit) -> Mixed:
    """Eq 3.26; the share that makes the validation text most probable."""
    share = float(fit_weights(np.stack([first.valid, second.valid]))[0])

    def at(weight: float) -> float:
        parts = np.log(weight) + first.test, np.log1p(-weight) + second.test
        return perplexity(np.logaddexp(*parts))

    return Mixed(at(0.5), at(share), round(share, 2))


class Bench:
    """The texts, and the fits of them that are kept."""

    def __init__(self, texts: Texts) -> None:
        self.texts = texts

    def fit(self, recipe: Recipe, context: Context | None = None) -> Fit:
        """Return what is left of the fit of a recipe: fitted, scored and saved unless it is kept.

        ``context`` is that of the scores, by default the model's own.
        """
        folder, facts = self._kept(recipe)
        names = scored_as(recipe, context or own_context(recipe))
        with np.load(folder / "scores.npz") as scores:
            valid, test = (scores[name].astype(np.float64) for name in names)
        fit = Fit(recipe.name, valid, test, facts)
        print(f"{recipe}: {fit.perplexity:.1f}", flush=True)
        return fit

    def model(self, recipe: Recipe) -> LanguageModel:
        """Return the fitted model itself, of a recipe whose model is kept."""
        found = tacenda.load(self._kept(recipe)[0] / "model")
        assert isinstance(found, LanguageModel)
        return found

    def _kept(self, recipe: Recipe) -> tuple[Path, dict[str, Any]]:
        facts = recipes.facts_of(recipe, self.texts.data)
        return kept.folder("lm-thesis", facts, lambda folder: self._measure(recipe, folder))

    def tree(self, shape: Shape) -> Tree:
        """Built anew: it takes a second, and is always the same."""
        vectors = None
        if shape.rule != "random":
            plain = self.model(KEPT)
            assert isinstance(plain, HLBL)
            vectors = clustered_vectors(plain, self.texts.train)
        return tree_of(shape, len(self.texts.train.vocabulary), vectors)

    def _measure(self, recipe: Recipe, place: Path) -> dict[str, Any]:
        start = time.process_time()
        model, facts = self._fitted(recipe, place)
        facts["seconds"] = round(time.process_time() - start, 1)
        texts = self.texts.valid, self.texts.test
        scores: dict[str, npt.NDArray[np.float32]] = {}
        for context in CONTEXTS if own_context(recipe) == "stream" else CONTEXTS[:1]:
            for name, text in zip(scored_as(recipe, context), texts, strict=True):
                scores[name] = scores_of(model, text, context).astype(np.float32)
        np.savez(place / "scores.npz", **scores)  # type: ignore[arg-type]
        if recipe == KEPT or isinstance(recipe, Machine):
            model.save(place / "model")
        return facts

    def _fitted(self, recipe: Recipe, place: Path) -> tuple[LanguageModel, dict[str, Any]]:
        texts = self.texts
        if isinstance(recipe, NGrams):
            least = 1 if recipe.smoothing == "interpolated" else 2
            text = self._text(recipe.without)
            grams = KneserNey(order=recipe.order, smoothing=recipe.smoothing, min_count=least)
            return grams.fit(text), {}
        checkpoints = place / "checkpoints"
        if isinstance(recipe, Flat):
            flat = LBL.from_settings(recipe.settings).fit(
                texts.train, self._stopping, checkpoints=checkpoints
            )
            return flat, {"evaluations": evaluations(flat.fitted_on["training"])}
        if isinstance(recipe, Machine):
            machine = self._machine(recipe).fit(texts.train, texts.valid, checkpoints=checkpoints)
            return machine, {"evaluations": evaluations(machine.fitted_on["training"])}
        tree, text = self.tree(recipe.tree), self._text(recipe.without)
        model, history = hlbl_on(recipe.settings, tree, text, texts.valid, checkpoints)
        counts = texts.counts
        codes = np.diff(tree.codes.word_codes)
        return model, {
            "evaluations": evaluations(history.as_dict()),
            "tree": tree.statistics(counts)._asdict(),
            "codes per token": float(codes @ counts / counts.sum()),
        }

    def _machine(self, recipe: Machine) -> FRBM | TemporalFRBM:
        """The machine before it is fitted; a temporal one has the parameters of the plain one that it begins with."""
        if not recipe.temporal:
            return FRBM.from_settings(recipe.settings)
        plain = self.model(recipe.plain)
        assert isinstance(plain, FRBM)
        settings = recipe.settings
        options = {one.name: getattr(settings, one.name) for one in settings.options()}
        return TemporalFRBM.starting_from(plain, **options)

    def _text(self, without: int | None) -> Corpus:
        return self.texts.train if without is None else without_part(self.texts.train, without)

    @property
    def _stopping(self) -> Corpus:
        """What an LBL stops by: not all of a long text, as scoring costs it as much as learning."""
        valid = self.texts.valid
        n = int(np.searchsorted(valid.offsets, STOPPING, side="right"))
        return valid.head(n) if n < valid.n_sentences else valid


def own_context(recipe: Recipe) -> Context:
    """``"stream"`` for a model that looks beyond ``</s>``."""
    if isinstance(recipe, Machine):
        return "stream"
    return "stream" if isinstance(recipe, Hierarchical) and recipe.across else "sentence"


def scored_as(recipe: Recipe, context: Context) -> tuple[str, str]:
    """The names of the validation and the test text's scores; without a stream of its own a model has one pair."""
    kind = context if own_context(recipe) == "stream" else "sentence"
    return f"valid-{kind}", f"test-{kind}"


def scores_of(model: LanguageModel, text: Corpus, context: Context) -> Scores:
    """Log-probabilities of all words to predict, sentence by sentence or as one stream."""
    ids, offsets = tokens(text)
    return model.score_corpus(ids, np.array([0, len(ids)]) if context == "stream" else offsets)


def evaluations(history: dict[str, Any]) -> list[float]:
    """Perplexity of the validation text after every epoch."""
    return [round(value, 2) for _, _, value in history["evaluations"]]


@dataclass(frozen=True)
class Study:
    """Fits to be had, how much of them, and whether results are written."""

    bench: Bench
    plan: Plan
    options: Options

    @property
    def write(self) -> bool:
        return not (self.options.no_save or self.options.rows_to)

    def name(self, what: str) -> str:
        """Of a results file."""
        return f"lm-thesis-{what}-{self.bench.texts.data}"

    def save(
        self,
        what: str,
        told: dict[str, Any],
        rows: list[dict[str, Any]],
        scored: str | None = None,
    ) -> None:
        """Rows and their protocol; ``told`` comes first.

        ``scored`` is the context of perplexities in rows that do not name theirs.
        """
        if scored is not None:
            rows = [{"scored": scored, **row} for row in rows]
        texts = self.bench.texts
        protocol = {
            **told,
            "data": f"{texts.data}: {texts.train.n_tokens:,} words of training text, {len(texts.counts):,} types",
            "measure": "perplexity of the test text",
            "text": PROTOCOL,
            "scored": "sentence: each sentence by itself, after one </s>; stream: the running text; either: the model "
            "begins anew after every </s>, and both are the same",
            **recipes.SETTINGS,
            "published": published.SOURCE,
        }
        Table(self.name(what), protocol, lambda _: rows).run(self.options)
