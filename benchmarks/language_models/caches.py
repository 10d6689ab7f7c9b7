"""Caches in mixtures with n-grams and HLBL on Penn Treebank.

    python -m benchmarks.language_models.caches [--only choice | speed]

The HLBL is the default one that `log_bilinear` measures. ``choice`` tries the options of both caches on the last tenth
of the training text, by models fitted to the rest of it, and writes `lm-caches-choice`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks import reporting
from benchmarks.language_models import contexts, log_bilinear, timing
from benchmarks.language_models.held_back import cut
from tacenda import Corpus
from tacenda_lm import KneserNey, LanguageModel, Mixture, NeuralCache, UnigramCache
from tacenda_lm.mixture_weights import fit_weights
from tacenda_lm.sequences import with_ends

PROTOCOL = {
    "text": log_bilinear.PROTOCOL["text"],
    "context": contexts.PROTOCOL,
    "settings": "the defaults; those of UnigramCache were chosen by the last tenth of the training text "
    "(lm-caches-choice)",
    "mixture": log_bilinear.PROTOCOL["mixture"],
}
CHOICE = {
    "text": "Penn Treebank: the last tenth of the training text as a stream, by models of the rest",
    "mixture": "UnigramCache: with KneserNey(5); NeuralCache: with KneserNey(5) + HLBL; the best weights for that text",
}
SPEED = {
    "text": "the test text of Penn Treebank as one stream of ids, one thread",
    "turns": "the models take turns; median, least and most of five runs",
}
# what options do not name stays as in the best of those tried before
TRIED: dict[str, list[dict[str, Any]]] = {
    "UnigramCache": [
        *(
            {"window": 2000, "decay": decay, "prior_words": 10.0}
            for decay in (1.0, 0.998, 0.995, 0.99, 0.985, 0.98, 0.97, 0.95)
        ),
        *({"prior_words": prior} for prior in (0.1, 1.0, 3.0, 30.0)),
        *({"window": 500}, {"window": 8000}),
    ],
    "NeuralCache": [
        *(
            {"window": 2000, "sharpness": sharpness, "prior_words": prior, "decay": 1.0}
            for sharpness in (3.0, 10.0, 30.0)
            for prior in (0.01, 0.1, 1.0)
        ),
        *({"sharpness": 5.0}, {"sharpness": 20.0}),
        *({"window": 500}, {"window": 8000}, {"decay": 0.998}, {"decay": 0.9995}),
    ],
}


def models_of(text: dict[str, Corpus]) -> Iterator[tuple[str, LanguageModel]]:
    """The caches alone, and mixtures with one and with both; those without the HLBL first."""
    train = text["train"]
    ngrams, cache = KneserNey(order=5).fit(train), UnigramCache().fit(train)
    yield "UnigramCache", cache
    yield "KneserNey(5)", ngrams
    yield "KneserNey(5) + UnigramCache", Mixture({"kneser_ney": ngrams, "cache": cache})
    hlbl, _ = log_bilinear.fitted(train, text["valid"])
    neural, both = NeuralCache.over(hlbl), {"kneser_ney": ngrams, "hlbl": hlbl}
    yield "NeuralCache", neural
    yield "HLBL + NeuralCache", Mixture({"hlbl": hlbl, "neural": neural})
    yield "KneserNey(5) + HLBL", Mixture(both)
    yield "KneserNey(5) + HLBL + UnigramCache", Mixture({**both, "cache": cache})
    yield "KneserNey(5) + HLBL + NeuralCache", Mixture({**both, "neural": neural})
    yield "KneserNey(5) + HLBL + both", Mixture({**both, "cache": cache, "neural": neural})


def measure() -> None:
    """Save the perplexities of every model as soon as they are found."""
    text, rows = log_bilinear.texts(), []
    held_out = {name: text[name] for name in ("valid", "test")}
    for name, model in models_of(text):
        for row in contexts.perplexities(model, held_out, weights_on=text["valid"]):
            rows.append({"model": name, **row})
        reporting.save("lm-caches", PROTOCOL, rows, seeds=(0,), unfinished=True)
    reporting.save("lm-caches", PROTOCOL, rows, seeds=(0,))


def choose() -> None:
    """Try options, for each cache beside models fitted to the first nine tenths of the training text."""
    train = log_bilinear.texts()["train"]
    held_back = len(train) // 10
    rest, last = cut(train, len(train) - held_back, held_back)
    ids = with_ends(last.ids, last.offsets, last.vocabulary.boundary_id)[0]
    whole, rows = np.array([0, len(ids)]), []
    scores = [KneserNey(order=5).fit(rest).score_corpus(ids, whole)]

    def tried(name: str, options: dict[str, Any], cache: LanguageModel) -> float:
        own = cache.score_corpus(ids, whole)
        stacked = np.stack([*scores, own])
        weights = fit_weights(stacked)
        mixed = np.logaddexp.reduce(stacked + np.log(weights)[:, None], axis=0)
        found = {"alone": float(np.exp(-own.mean())), "mixture": float(np.exp(-mixed.mean()))}
        what = {"what": f"{name} {options}", "model": name}
        rows.append({**what, **options, **found, "weight": weights[-1]})
        reporting.save("lm-caches-choice", CHOICE, rows, seeds=(0,), unfinished=True)
        return found["mixture"]

    best_of(
        TRIED["UnigramCache"],
        lambda each: tried("UnigramCache", each, UnigramCache(**each).fit(rest)),
    )
    hlbl, _ = log_bilinear.fitted(rest, None, "ptb-nine-tenths")
    scores.append(hlbl.score_corpus(ids, whole))
    best_of(
        TRIED["NeuralCache"],
        lambda each: tried("NeuralCache", each, NeuralCache.over(hlbl, **each)),
    )
    reporting.save("lm-caches-choice", CHOICE, rows, seeds=(0,))


def best_of(tries: list[dict[str, Any]], measured: Callable[[dict[str, Any]], float]) -> None:
    """Try options one after another; what they do not name stays as in the best so far."""
    best: dict[str, Any] = {}
    least = np.inf
    for options in tries:
        each = {**best, **options}
        found = measured(each)
        if found < least:
            least, best = found, each


def speed() -> None:
    """Tokens a second of the test text as one stream, the caches taking turns; an untrained HLBL predicts as fast."""
    text = log_bilinear.texts()
    train, test = text["train"], text["test"]
    ids = with_ends(test.ids, test.offsets, test.vocabulary.boundary_id)[0]
    models: dict[str, LanguageModel] = {
        "UnigramCache": UnigramCache().fit(train),
        "NeuralCache": NeuralCache(hlbl={"epochs": 0, "tree": "random"}).fit(train),
    }
    whole = np.array([0, len(ids)])
    works = {name: partial(model.score_corpus, ids, whole) for name, model in models.items()}
    rows = [
        {"model": name, **timing.rate(len(ids), seconds, "tokens/s")}
        for name, seconds in timing.interleaved(works, 5).items()
    ]
    reporting.save("lm-caches-speed", SPEED, rows, seeds=(0,))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", choices=("perplexity", "choice", "speed"), default="perplexity")
    options = parser.parse_args()
    {"perplexity": measure, "choice": choose, "speed": speed}[options.only]()


if __name__ == "__main__":
    main()
