"""Caches in mixtures with n-grams and HLBL on Penn Treebank.

    python -m benchmarks.language_models.caches [--choose]

The HLBL is the default one that `log_bilinear` measures. ``--choose`` tries the options of both caches on the last
tenth of the training text, by models fitted to the rest of it, and writes `lm-caches-choice`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks import parts, reporting
from benchmarks.language_models import contexts, log_bilinear
from benchmarks.language_models.held_back import cut
from benchmarks.language_models.kept import kept
from tacenda import Corpus
from tacenda_lm import HLBL, KneserNey, LanguageModel, Mixture, NeuralCache, UnigramCache
from tacenda_lm.mixture_weights import fit_weights
from tacenda_lm.sequences import with_ends

PROTOCOL = {
    "text": log_bilinear.PROTOCOL["text"],
    "context": contexts.PROTOCOL,
    "settings": "the defaults; the caches' were chosen by the last tenth of the training text (lm-caches-choice)",
    "mixture": log_bilinear.PROTOCOL["mixture"],
    "ns a token": "processor time of `score_corpus` over the test text as one stream, the least of three runs",
}
# what options do not name stays as in the best of those tried before
TRIED: dict[str, list[dict[str, Any]]] = {
    "UnigramCache": [
        *(
            {"window": 2000, "decay": decay, "prior_words": prior}
            for decay in (0.99, 0.995, 0.998, 1.0)
            for prior in (10.0, 50.0, 250.0)
        ),
        *({"window": 500}, {"window": 8000}, {"window": 8000, "decay": 0.9995}),
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


def seconds_of(model: LanguageModel, text: Corpus) -> float:
    """Processor time that a stream takes, the least of three."""
    ids = with_ends(text.ids, text.offsets, text.vocabulary.boundary_id)[0]
    found = []
    for _ in range(3):
        began = time.process_time()
        model.score_corpus(ids, np.array([0, len(ids)]))
        found.append(time.process_time() - began)
    return min(found)


def rows_of(text: dict[str, Corpus]) -> Iterator[dict[str, Any]]:
    """The models alone, and mixtures with each cache and with both."""
    train, held_out = text["train"], {name: text[name] for name in ("valid", "test")}
    hlbl, _ = log_bilinear.fitted(train, text["valid"])
    ngrams = KneserNey(order=5).fit(train)
    cache, neural = UnigramCache().fit(train), NeuralCache.over(hlbl)
    both = {"kneser_ney": ngrams, "hlbl": hlbl}
    models: dict[str, LanguageModel] = {
        "UnigramCache": cache,
        "NeuralCache": neural,
        "KneserNey(5) + UnigramCache": Mixture({"kneser_ney": ngrams, "cache": cache}),
        "HLBL + NeuralCache": Mixture({"hlbl": hlbl, "neural": neural}),
        "KneserNey(5) + HLBL": Mixture(both),
        "KneserNey(5) + HLBL + UnigramCache": Mixture({**both, "cache": cache}),
        "KneserNey(5) + HLBL + NeuralCache": Mixture({**both, "neural": neural}),
        "KneserNey(5) + HLBL + both": Mixture({**both, "cache": cache, "neural": neural}),
    }
    tokens = text["test"].n_tokens + text["test"].n_sentences
    for name, model in models.items():
        more = {}
        if isinstance(model, UnigramCache | NeuralCache):
            more = {"ns a token": 1e9 * seconds_of(model, text["test"]) / tokens}
        for row in contexts.perplexities(model, held_out, weights_on=text["valid"]):
            yield {"part": "perplexity", "model": name, **row, **more}


def choose(train: Corpus) -> Iterator[dict[str, Any]]:
    """Perplexities of the held-back part under KneserNey, HLBL and one cache, with the best weights for it."""
    held_back = len(train) // 10
    rest, last = cut(train, len(train) - held_back, held_back)
    settings = HLBL().settings.to_dict()
    hlbl, _ = kept(
        "hlbl-ptb-nine-tenths",
        settings,
        parts.BILINEAR,
        lambda checkpoints: HLBL.from_settings(settings).fit(rest, checkpoints=checkpoints),
    )
    ids = with_ends(last.ids, last.offsets, last.vocabulary.boundary_id)[0]
    whole = np.array([0, len(ids)])
    ngrams = KneserNey(order=5).fit(rest)
    scores = [model.score_corpus(ids, whole) for model in (ngrams, hlbl)]
    for name, tries in TRIED.items():
        best: dict[str, Any] = {}
        least = np.inf
        for options in tries:
            tried = {**best, **options}
            cache = (
                UnigramCache(**tried).fit(rest)
                if name == "UnigramCache"
                else NeuralCache.over(hlbl, **tried)
            )
            own = cache.score_corpus(ids, whole)
            stacked = np.stack([*scores, own])
            weights = fit_weights(stacked)
            mixed = np.logaddexp.reduce(stacked + np.log(weights)[:, None], axis=0)
            found = {"alone": float(np.exp(-own.mean())), "mixture": float(np.exp(-mixed.mean()))}
            yield {"what": f"{name} {tried}", "model": name, **tried, **found, "weight": weights[2]}
            if found["mixture"] < least:
                least, best = found["mixture"], tried


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--choose", action="store_true", help="try options instead")
    options, rows = parser.parse_args(), []
    text = log_bilinear.texts()
    if options.choose:
        protocol = {
            "text": "Penn Treebank: the last tenth of the training text as a stream, by models of the rest",
            "mixture": "KneserNey(5) + HLBL + the cache, with the best weights for that text",
        }
        for row in choose(text["train"]):
            rows.append(row)
            reporting.save("lm-caches-choice", protocol, rows, seeds=(0,))
        return
    for row in rows_of(text):
        rows.append(row)
        reporting.save("lm-caches", PROTOCOL, rows, seeds=(0,))


if __name__ == "__main__":
    main()
