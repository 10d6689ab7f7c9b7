"""One small model of each kind, how it is fitted, and what a user does with it after loading.

`exercise` raises `InvalidError` where a model gives an answer that is not one: a number that is not finite, a
distribution that does not sum to one, a vector of the wrong shape.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from children import require
from surprise import Dataset, Reader

import tacenda
from tacenda import Corpus
from tacenda.datasets import synthetic_ratings

WORDS = [
    f"{stem}{end}"
    for stem in ("walk", "talk", "jump", "look", "play")
    for end in ("", "s", "ed", "ing")
]
NEW = [["walks", "unseen", "played"], [], ["look"]]


@cache
def corpus(seed: int = 0) -> Corpus:
    """A few hundred made-up sentences over twenty words."""
    rng = np.random.default_rng(seed)
    sentences = [rng.choice(WORDS, rng.integers(2, 9)).tolist() for _ in range(200)]
    return Corpus.from_sentences(sentences, vocabulary=corpus().vocabulary if seed else None)


@cache
def ratings(seed: int = 3) -> Any:
    """Three hundred made-up ratings."""
    return synthetic_ratings.generate(40, 30, 300, rank=2, noise=0.6, seed=seed).ratings


@cache
def trainset(step: int = 1) -> Any:
    """A hundred and fifty made-up ratings as Surprise has them."""
    rows = [(f"u{i % 23}", f"i{i * 7 % 17}", float(i * step % 5 + 1), None) for i in range(150)]
    return Dataset(Reader(rating_scale=(1, 5))).construct_trainset(rows)


def other_data(data: Callable[[], Any]) -> list[Any]:
    """Return two more data sets with the same words or ids as those of a specimen."""
    read: Any = data
    return [read(2), read(4)]


@dataclass(frozen=True)
class Specimen:
    """A small model."""

    make: Callable[[], Any]  # a model that is not fitted
    data: Callable[[], Any]  # what it is fitted to
    keeps_checkpoints: bool = False
    precision: str = "full"  # in which it is saved

    def fit(self, **options: Any) -> Any:
        """A fitted one; ``options`` are for ``fit``."""
        model = self.make().fit(self.data(), **options)
        if self.precision != "full":
            model.precision = self.precision
        return model


@cache
def specimens() -> dict[str, Specimen]:
    """Specimens by the names of their models."""
    from tacenda_embeddings import LDS, MorphologicalLDS, SumEmbed, VarEmbed
    from tacenda_lm import (
        FRBM,
        HLBL,
        HMM,
        LBL,
        VLHMM,
        AdaptiveMixture,
        KneserNey,
        Mixture,
        NeuralCache,
        RecurrentLM,
        StateSpaceLM,
        TemporalFRBM,
        UnigramCache,
    )
    from tacenda_surprise import (
        PMF,
        RBM,
        BayesianPMF,
        BiasOnly,
        Blend,
        ConditionalBayesianPMF,
        ConditionalPMF,
        ConditionalRBM,
        ImplicitMF,
    )

    lds, words = {"n_states": 3}, {"width": 4, "epochs": 1}
    log_bilinear = {"width": 4, "context": 2, "epochs": 4}
    machine = {"features": 4, "hidden": 3, "epochs": 4, "batch_words": 100}
    # Surprise's algorithms shuffle users and items no more than their seed says
    seeded = {"random_state": 0}
    sampled = {"n_factors": 2, "burn_in": 2, "n_samples": 6, **seeded}
    factors, boltzmann = {"n_factors": 2, "n_epochs": 6}, {"n_hidden": 2, "n_epochs": 6}
    return {
        "lds": Specimen(lambda: LDS(**lds), corpus),
        "lds_int8": Specimen(lambda: LDS(**lds), corpus, precision="int8"),
        "morphological_lds": Specimen(lambda: MorphologicalLDS(lds=lds, words=words), corpus),
        "sumembed": Specimen(lambda: SumEmbed(width=4), corpus),
        "sumembed_float16": Specimen(lambda: SumEmbed(width=4), corpus, precision="float16"),
        "varembed": Specimen(lambda: VarEmbed(width=4, epochs=4), corpus, True),
        "kneser_ney": Specimen(lambda: KneserNey(order=3), corpus),
        "lbl": Specimen(lambda: LBL(**log_bilinear), corpus, True),
        "hlbl": Specimen(lambda: HLBL(**log_bilinear), corpus, True),
        "frbm": Specimen(lambda: FRBM(**machine), corpus, True),
        "temporal_frbm": Specimen(lambda: TemporalFRBM(**machine, frbm_epochs=1), corpus, True),
        "hmm": Specimen(lambda: HMM(n_states=3, epochs=4), corpus, True),
        "vlhmm": Specimen(lambda: VLHMM(n_classes=4, states_per_class=4, epochs=4), corpus, True),
        "recurrent": Specimen(
            lambda: RecurrentLM(width=4, epochs=4, streams=8, window_words=20), corpus, True
        ),
        "unigram_cache": Specimen(lambda: UnigramCache(window=30), corpus),
        "neural_cache": Specimen(
            lambda: NeuralCache(window=30, hlbl={**log_bilinear, "copies": 1}), corpus, True
        ),
        "state_space": Specimen(
            lambda: StateSpaceLM(
                order=3,
                internal=3,
                features=4,
                epochs=4,
                inference="map",
                advanced={"joint_order": 2},
            ),
            corpus,
            True,
        ),
        "mixture": Specimen(
            lambda: Mixture({"kn": KneserNey(order=2), "hmm": HMM(n_states=3, epochs=4)}),
            corpus,
            True,
        ),
        "adaptive_mixture": Specimen(
            lambda: AdaptiveMixture({"kn": KneserNey(order=2), "hmm": HMM(n_states=3, epochs=4)}),
            corpus,
            True,
        ),
        "bias": Specimen(BiasOnly, ratings),
        "pmf": Specimen(lambda: PMF(**factors, **seeded), trainset, True),
        "conditional_pmf": Specimen(lambda: ConditionalPMF(**factors, **seeded), trainset, True),
        "bayesian_pmf": Specimen(lambda: BayesianPMF(**sampled), trainset, True),
        "conditional_bayesian_pmf": Specimen(
            lambda: ConditionalBayesianPMF(**sampled), trainset, True
        ),
        "blend": Specimen(
            lambda: Blend([ConditionalPMF(**factors, **seeded), BiasOnly()], **seeded), trainset
        ),
        "rbm": Specimen(lambda: RBM(**boltzmann, **seeded), trainset, True),
        "implicit_mf": Specimen(lambda: ImplicitMF(n_factors=2, **seeded), trainset, True),
        "conditional_rbm": Specimen(lambda: ConditionalRBM(**boltzmann, **seeded), trainset, True),
    }


@cache
def fitted(name: str) -> Any:
    """A specimen that is fitted, and has been used, so that what must be compiled is."""
    model = specimens()[name].fit()
    exercise(model)
    return model


def load(folder: Path, name: str, said: list[str] | None = None) -> Any:
    """Load a saved specimen as its users do; add the warnings to ``said``."""
    with noting(said):
        return _load(folder, name)


@contextmanager
def noting(said: list[str] | None) -> Iterator[None]:
    """Add the texts of warnings to a list, if there is one."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        yield
    if said is not None:
        said += [str(each.message) for each in found]


def _load(folder: Path, name: str) -> Any:
    if specimens()[name].data is not trainset:
        return tacenda.load(folder)
    from tacenda_surprise import Blend, RatingAlgorithm

    if name == "blend":  # an algorithm, and a model that none of its parts is
        exercise(tacenda.load(folder))
        return Blend.load(folder)
    return RatingAlgorithm.load(folder)


def exercise(model: Any, said: list[str] | None = None) -> list[np.ndarray]:
    """Use a model as a user would; return what it answers. Raises `InvalidError` for answers that make no sense."""
    from surprise import AlgoBase

    with noting(said):
        if isinstance(model, AlgoBase):
            return _recommended(model)
        by_kind = {"embedders": _embedded, "language_models": _scored, "recommenders": _rated}
        return by_kind[model.kind](model)


def _embedded(model: Any) -> list[np.ndarray]:
    found = list(model.transform(NEW))
    for sentence, vectors in zip(NEW, found, strict=True):
        require(vectors.shape == (len(sentence), model.width), f"vectors of shape {vectors.shape}")
        require(bool(np.isfinite(vectors).all()), "vectors that are not finite")
    return found


def _scored(model: Any) -> list[np.ndarray]:
    found = np.asarray(model.surprisal(NEW[0]))
    require(bool(np.isfinite(found).all() and (found > -1e-6).all()), f"surprisals {found}")
    require(model.perplexity(NEW).value >= 1 - 1e-6, "a perplexity below one")
    states = [model.start()]
    for word in model.vocabulary.encode(NEW[0]).tolist():
        states.append(model.advance(states[-1], word))
    rows = np.asarray(model.log_probs(states), np.float64)
    totals = np.exp(rows).sum(axis=1)
    require(bool((abs(totals - 1) < 1e-3).all()), f"distributions that sum to {totals}")
    best = np.array([p for _, p in model.top_k(NEW[0][:1], 3)])
    return [found, rows, best]


def _rated(model: Any) -> list[np.ndarray]:
    users, items = np.array([0, 1, -1, 2]), np.array([0, -1, 1, 2])
    scores = model.score_pairs(users, items)
    require(scores.shape == (4,) and bool(np.isfinite(scores).all()), f"scores {scores}")
    folded = model.fold_in(np.array([0, 1]), np.array([3.0, 4.0])).score()
    require(bool(np.isfinite(folded).all()), "scores of a new user that are not finite")
    return [scores, folded]


def _recommended(algorithm: Any) -> list[np.ndarray]:
    found = algorithm.test([("u1", "i3", 3.0), ("nobody", "i3", 3.0), ("u1", "nothing", None)])
    low, high = algorithm.trainset.rating_scale
    estimates = np.array([prediction.est for prediction in found])
    require(bool(((low <= estimates) & (estimates <= high)).all()), f"estimates {estimates}")
    algorithm.top_n(3, ["u1"])
    model = getattr(algorithm, "model", None)  # a blend has several
    return [estimates] if model is None else [estimates, *_rated(model)]
