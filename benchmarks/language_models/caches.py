"""Caches in mixtures with n-grams and HLBL on Penn Treebank.

    python -m benchmarks.language_models.caches

The HLBL is the default one that `log_bilinear` measures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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


def models_of(texts: contexts.Texts) -> dict[str, Callable[[], LanguageModel]]:
    """Return what makes the caches alone, and mixtures with one and with both."""
    train = texts.train
    ngrams, cache = KneserNey(order=5).fit(train), UnigramCache().fit(train)

    def hlbl() -> Any:
        return contexts.fitted(HLBL(), "ptb", train, texts.valid)[0]

    def mixed(*names: str) -> Callable[[], LanguageModel]:
        parts = {"kneser_ney": lambda: ngrams, "cache": lambda: cache, "hlbl": hlbl}
        parts["neural"] = lambda: NeuralCache.over(hlbl())
        return lambda: Mixture({name: parts[name]() for name in names})

    return {
        "UnigramCache": lambda: cache,
        "KneserNey(5)": lambda: ngrams,
        "KneserNey(5) + UnigramCache": mixed("kneser_ney", "cache"),
        "NeuralCache": lambda: NeuralCache.over(hlbl()),
        "HLBL + NeuralCache": mixed("hlbl", "neural"),
        "KneserNey(5) + HLBL": mixed("kneser_ney", "hlbl"),
        "KneserNey(5) + HLBL + UnigramCache": mixed("kneser_ney", "hlbl", "cache"),
        "KneserNey(5) + HLBL + NeuralCache": mixed("kneser_ney", "hlbl", "neural"),
        "KneserNey(5) + HLBL + both": mixed("kneser_ney", "hlbl", "cache", "neural"),
    }


def rows(options: Any) -> Iterator[Row]:
    texts = contexts.Texts()
    models = models_of(texts)
    for name in options.chosen(models):
        for row in contexts.perplexities(models[name](), texts.held_out, weights_on=texts.valid):
            yield {"model": name, **row}


if __name__ == "__main__":
    main(__doc__, Table("lm-caches", PROTOCOL, rows))
