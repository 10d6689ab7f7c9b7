"""Caches in mixtures with n-grams and HLBL on Penn Treebank.

    python -m benchmarks.language_models.caches

The HLBL is the default one that `log_bilinear` measures.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.language_models import contexts, log_bilinear
from benchmarks.reporting import Row, Table, main
from tacenda_lm import HLBL, KneserNey, LanguageModel, Mixture, NeuralCache, UnigramCache

PROTOCOL = {
    "text": contexts.TEXT,
    "context": contexts.PROTOCOL,
    "settings": "the defaults; those of UnigramCache were chosen by the last tenth of the training text",
    "mixture": log_bilinear.PROTOCOL["mixture"],
}


def models_of(texts: contexts.Texts) -> Iterator[tuple[str, LanguageModel]]:
    """Yield the caches alone, and mixtures with one and with both; those without the HLBL first."""
    train = texts.train
    ngrams, cache = KneserNey(order=5).fit(train), UnigramCache().fit(train)
    yield "UnigramCache", cache
    yield "KneserNey(5)", ngrams
    yield "KneserNey(5) + UnigramCache", Mixture({"kneser_ney": ngrams, "cache": cache})
    hlbl, _ = contexts.fitted(HLBL(), "ptb", train, texts.valid)
    neural, both = NeuralCache.over(hlbl), {"kneser_ney": ngrams, "hlbl": hlbl}
    yield "NeuralCache", neural
    yield "HLBL + NeuralCache", Mixture({"hlbl": hlbl, "neural": neural})
    yield "KneserNey(5) + HLBL", Mixture(both)
    yield "KneserNey(5) + HLBL + UnigramCache", Mixture({**both, "cache": cache})
    yield "KneserNey(5) + HLBL + NeuralCache", Mixture({**both, "neural": neural})
    yield "KneserNey(5) + HLBL + both", Mixture({**both, "cache": cache, "neural": neural})


def rows(options: Any) -> Iterator[Row]:
    texts = contexts.Texts()
    for name, model in models_of(texts):
        if not options.wants(name):
            continue
        for row in contexts.perplexities(model, texts.held_out, weights_on=texts.valid):
            yield {"model": name, **row}


if __name__ == "__main__":
    main(__doc__, Table("lm-caches", PROTOCOL, rows))
