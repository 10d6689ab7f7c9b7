"""Mixtures of everything on Penn Treebank: how far the models of this project get together.

    python -m benchmarks.language_models.mixtures [--tables lm-mixtures lm-mixtures-apart]

The HLBLs are those of `budgets`, the hidden Markov models those of `hidden_markov mixtures`, the Boltzmann machine that
of `thesis --only machines`, the network that of `recurrent`, fitted now unless they are kept. Mixtures grow model by
model. `lm-mixtures`: models of running text, in both contexts. `lm-mixtures-apart`: the same models, but trained on
sentences apart, for texts of single sentences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from benchmarks.language_models import budgets, contexts, recurrent
from benchmarks.language_models.contexts import Texts
from benchmarks.language_models.hidden_markov.mixtures import COMPONENTS, SHARED
from benchmarks.reporting import Row, Table, main
from tacenda_lm import (
    HLBL,
    VLHMM,
    AdaptiveMixture,
    KneserNey,
    LanguageModel,
    Mixture,
    NeuralCache,
    TemporalFRBM,
    UnigramCache,
)

PLANNED = 9  # epochs of the network beside models trained apart
PROTOCOL = {
    "text": contexts.TEXT,
    "context": contexts.PROTOCOL,
    "mixture": "linear, its weights fitted to the validation text, in the context of the row",
    "HLBL": "of a quarter of an hour (lm-budgets); five of them with seeds 0 to 4",
    "trained apart": "the same settings, but every sentence begins anew, in training too",
    "VLHMM": f"2^15 states, classes by exchange, {COMPONENTS['exchange']['epochs']} epochs; predictive: 2^14 states, "
    "classes by what follows",
    "TemporalFRBM": "100 features and hidden units, 8 epochs of the plain machine and 6 of the temporal one, by "
    "likelihood",
    "RecurrentLM": "started from an LDS after EM, with dropout, of running text (lm-recurrent); beside models trained "
    f"apart that of {PLANNED} planned epochs",
    "adaptive": "AdaptiveMixture: the weights follow how well each model predicted the words before",
    "caches": "UnigramCache and NeuralCache with their defaults; NeuralCache has the vectors of the first HLBL",
}
TEMPORAL: dict[str, Any] = {"features": 100, "hidden": 100, "frbm_epochs": 8, "epochs": 6}
Models = dict[str, LanguageModel]


def fitted(model: Any, texts: Texts) -> Any:
    """Return a model that is kept."""
    return contexts.fitted(model, texts.name, texts.train, texts.valid)[0]


def hidden_markov(name: str, texts: Texts) -> VLHMM:
    found: VLHMM = fitted(VLHMM(**SHARED, **COMPONENTS[name]), texts)
    return found


def running(texts: Texts) -> Iterator[tuple[str, Models]]:
    """Yield the name of each mixture of models of running text and its components, from n-grams to all."""
    found: Models = {"KneserNey": KneserNey(order=5).fit(texts.train)}
    settings = budgets.SETTINGS["hour"]
    found["HLBL"] = fitted(HLBL(**settings, seed=0), texts)
    yield "KneserNey(5) + HLBL", dict(found)
    for seed in range(1, budgets.SEEDS):
        found[f"HLBL, seed {seed}"] = fitted(HLBL(**settings, seed=seed), texts)
    yield "KneserNey(5) + 5 HLBL", dict(found)
    found["TemporalFRBM"] = fitted(TemporalFRBM(**TEMPORAL), texts)
    name = "KneserNey(5) + 5 HLBL + TemporalFRBM"
    yield name, dict(found)
    found["VLHMM"] = hidden_markov("exchange", texts)
    yield f"{name} + VLHMM", dict(found)
    found["VLHMM, predictive"] = hidden_markov("predictive", texts)
    found["unigram cache"] = UnigramCache().fit(texts.train)
    found["neural cache"] = NeuralCache.over(found["HLBL"])
    yield f"{name} + 2 VLHMM + caches", dict(found)
    found["RecurrentLM"] = recurrent.network("dropout", "EM", texts)
    yield f"{name} + 2 VLHMM + RecurrentLM + caches", dict(found)


def apart(texts: Texts) -> Iterator[tuple[str, Models]]:
    """Yield the same with models that start again with every sentence, in training too."""
    trained = "trained apart"
    settings = {**budgets.SETTINGS["15 minutes"], "across_sentences": False}
    found: Models = {"HLBL": fitted(HLBL(**settings, seed=0), texts)}
    yield f"HLBL, {trained}", dict(found)
    found["KneserNey"] = KneserNey(order=5).fit(texts.train)
    yield f"KneserNey(5) + HLBL, {trained}", dict(found)
    for seed in range(1, budgets.SEEDS):
        found[f"HLBL, seed {seed}"] = fitted(HLBL(**settings, seed=seed), texts)
    name = "KneserNey(5) + 5 HLBL"
    yield f"{name}, {trained}", dict(found)
    found["TemporalFRBM"] = fitted(TemporalFRBM(**TEMPORAL, across_sentences=False), texts)
    yield f"{name} + TemporalFRBM, {trained}", dict(found)
    found["VLHMM"] = hidden_markov("exchange", texts)
    yield f"{name} + TemporalFRBM + VLHMM, {trained}", dict(found)
    found["RecurrentLM"] = recurrent.network("dropout", "EM", texts, planned=PLANNED)
    yield f"{name} + TemporalFRBM + VLHMM + RecurrentLM, {trained}", dict(found)
    found["unigram cache"] = UnigramCache().fit(texts.train)
    found["neural cache"] = NeuralCache.over(found["HLBL"])
    yield f"{name} + TemporalFRBM + VLHMM + RecurrentLM + caches, {trained}", dict(found)


def rows(mixtures: Callable[[Texts], Iterator[tuple[str, Models]]], options: Any) -> Iterator[Row]:
    """Yield the rows of each mixture for each context; the last one is measured adaptive too.

    ``--only`` takes whole names; nothing is fitted that comes after the last of them.
    """
    texts, left = Texts(), set(options.only)
    name, models = "", Models()
    for name, models in mixtures(texts):
        if options.chosen([name]):
            yield from of(name, Mixture(models), texts)
        left.discard(name)
        if options.only and not left:
            return
    yield from of(f"{name}, adaptive", AdaptiveMixture(models), texts)


def of(name: str, mixture: Mixture, texts: Texts) -> Iterator[Row]:
    for row in contexts.perplexities(mixture, texts.held_out, weights_on=texts.valid):
        yield {"what": f"{name}, {row['context']}", "mixture": name, **row}


if __name__ == "__main__":
    main(
        __doc__,
        Table("lm-mixtures", PROTOCOL, partial(rows, running), key="what"),
        Table("lm-mixtures-apart", PROTOCOL, partial(rows, apart), key="what"),
    )
