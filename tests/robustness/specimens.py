"""One small fitted model of each kind, and what a user does with it after loading.

`exercise` raises `InvalidError` where a model gives an answer that is not one: a number that is not finite, a
distribution that does not sum to one, a vector of the wrong shape.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from surprise import Dataset, Reader

from tacenda import Corpus
from tacenda.datasets import synthetic_ratings

WORDS = [
    f"{stem}{end}"
    for stem in ("walk", "talk", "jump", "look", "play")
    for end in ("", "s", "ed", "ing")
]
NEW = [["walks", "unseen", "played"], [], ["look"]]


class InvalidError(Exception):
    """A loaded model gave an answer that makes no sense."""


def corpus() -> Corpus:
    """A few hundred made-up sentences over twenty words."""
    rng = np.random.default_rng(0)
    sentences = [rng.choice(WORDS, rng.integers(2, 9)).tolist() for _ in range(200)]
    return Corpus.from_sentences(sentences)


def specimens() -> dict[str, Callable[[], Any]]:
    """Names of the models, and what fits each."""
    from tacenda_embeddings import LDS, MorphologicalLDS, VarEmbed
    from tacenda_lm import HLBL, HMM, LBL, VLHMM, KneserNey, Mixture
    from tacenda_surprise import PMF, RBM, BayesianPMF, ConditionalPMF, ConditionalRBM
    from tacenda_surprise.models import BiasModel

    text = corpus()
    ratings = synthetic_ratings.generate(40, 30, 300, rank=2, noise=0.6, seed=3).ratings
    rows = [(f"u{i % 23}", f"i{i * 7 % 17}", float(i % 5 + 1), None) for i in range(150)]
    trainset = Dataset(Reader(rating_scale=(1, 5))).construct_trainset(rows)

    def mixture() -> Any:
        parts = {"kn": KneserNey(order=2).fit(text), "hmm": HMM(n_states=3, epochs=1).fit(text)}
        return Mixture(parts)

    return {
        "lds": lambda: LDS(n_states=3).fit(text),
        "morphological_lds": lambda: MorphologicalLDS(
            lds={"n_states": 3}, words={"width": 4, "epochs": 1}
        ).fit(text),
        "sumembed": lambda: sumembed(text),
        "varembed": lambda: VarEmbed(width=4, epochs=1).fit(text),
        "kneser_ney": lambda: KneserNey(order=3).fit(text),
        "lbl": lambda: LBL(width=4, context=2, epochs=1).fit(text),
        "hlbl": lambda: HLBL(width=4, context=2, epochs=1).fit(text),
        "hmm": lambda: HMM(n_states=3, epochs=1).fit(text),
        "vlhmm": lambda: VLHMM(n_classes=4, states_per_class=4, epochs=1).fit(text),
        "mixture": mixture,
        "bias": lambda: BiasModel().fit(ratings),
        "pmf": lambda: PMF(n_factors=2, n_epochs=2).fit(trainset),
        "conditional_pmf": lambda: ConditionalPMF(n_factors=2, n_epochs=2).fit(trainset),
        "bayesian_pmf": lambda: BayesianPMF(n_factors=2, burn_in=1, n_samples=3).fit(trainset),
        "rbm": lambda: RBM(n_hidden=2, n_epochs=1).fit(trainset),
        "conditional_rbm": lambda: ConditionalRBM(n_hidden=2, n_epochs=1).fit(trainset),
    }


def sumembed(text: Corpus) -> Any:
    """A small SumEmbed."""
    from tacenda_embeddings import SumEmbed

    return SumEmbed(width=4, epochs=1).fit(text)


def exercise(model: Any) -> None:
    """Use a loaded model as a user would; raises `InvalidError` for answers that make no sense."""
    from surprise import AlgoBase

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if isinstance(model, AlgoBase):
            _recommend(model)
        else:
            {"embedders": _embed, "language_models": _score, "recommenders": _rate}[model.kind](
                model
            )


def _embed(model: Any) -> None:
    for sentence, vectors in zip(NEW, model.transform(NEW), strict=True):
        _require(vectors.shape == (len(sentence), model.width), f"vectors of shape {vectors.shape}")
        _require(bool(np.isfinite(vectors).all()), "vectors that are not finite")


def _score(model: Any) -> None:
    found = model.surprisal(NEW[0])
    _require(
        bool(np.isfinite(found).all() and (np.asarray(found) > -1e-6).all()), f"surprisals {found}"
    )
    _require(model.perplexity(NEW).value >= 1 - 1e-6, "a perplexity below one")
    rows = model.log_probs([model.start()])
    total = float(np.exp(np.asarray(rows, np.float64)).sum())
    if not _has_ngrams(model):  # whose tables may come from any ARPA file, normalised or not
        _require(abs(total - 1) < 1e-3, f"a distribution that sums to {total}")
    model.top_k(NEW[0][:1], 3)


def _has_ngrams(model: Any) -> bool:
    return model.name == "kneser_ney" or any(map(_has_ngrams, model.nested().values()))


def _rate(model: Any) -> None:
    users, items = np.array([0, 1, -1, 2]), np.array([0, -1, 1, 2])
    scores = model.score_pairs(users, items)
    _require(scores.shape == (4,) and bool(np.isfinite(scores).all()), f"scores {scores}")
    folded = model.fold_in(np.array([0, 1]), np.array([3.0, 4.0])).score()
    _require(bool(np.isfinite(folded).all()), "scores of a new user that are not finite")


def _recommend(algorithm: Any) -> None:
    found = algorithm.test([("u1", "i3", 3.0), ("nobody", "i3", 3.0), ("u1", "nothing", None)])
    low, high = algorithm.trainset.rating_scale
    estimates = [prediction.est for prediction in found]
    _require(all(low <= one <= high for one in estimates), f"estimates {estimates}")
    algorithm.top_n(3, ["u1"])
    _rate(algorithm.model)


def _require(fits: bool, what: str) -> None:
    if not fits:
        raise InvalidError(what)
