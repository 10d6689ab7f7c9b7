"""Mixtures of everything on Penn Treebank: how far the models of this project get together.

    python -m benchmarks.language_models.mixtures [--trained running apart]

The HLBLs are those of `budgets`, the hidden Markov models those of `hidden_markov mixtures`, the Boltzmann machine that
of `thesis --only machines`, the network that of `recurrent`, fitted now unless they are kept. Mixtures grow model by
model; a row is saved as soon as it is found. `running`: models of running text, in both contexts. `apart`: the same
models, but trained on sentences apart, for texts of single sentences.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks import parts, reporting
from benchmarks.language_models import budgets, contexts, recurrent
from benchmarks.language_models.hidden_markov.fits import Texts
from benchmarks.language_models.hidden_markov.mixtures import COMPONENTS, SHARED
from benchmarks.language_models.kept import kept
from benchmarks.language_models.log_bilinear import fitted
from tacenda_lm import (
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
    "text": budgets.PROTOCOL["text"],
    "context": contexts.PROTOCOL,
    "mixture": "linear, its weights fitted by EM on the validation text, in the context of the row",
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
Row = dict[str, Any]


def hidden_markov(name: str, texts: Texts) -> VLHMM:
    """A hidden Markov model that is kept."""
    model = VLHMM(**SHARED, **COMPONENTS[name])
    measures = (*parts.TRAINING, *parts.MARKOV)
    found: VLHMM = kept(
        "vlhmm-ptb",
        model.settings.to_dict(),
        measures,
        lambda checkpoints: model.fit(texts.train, texts.valid, checkpoints=checkpoints),
    )[0]
    return found


def temporal(texts: Texts, across: bool = True) -> TemporalFRBM:
    """A temporal machine that is kept."""
    model = TemporalFRBM(**TEMPORAL, across_sentences=across)
    found: TemporalFRBM = kept(
        "temporal-frbm-ptb",
        model.settings.to_dict(),
        parts.MACHINES,
        lambda checkpoints: model.fit(texts.train, texts.valid, checkpoints=checkpoints),
    )[0]
    return found


def running(texts: Texts) -> Iterator[tuple[str, dict[str, LanguageModel]]]:
    """The name of each mixture of models of running text and its components, from n-grams to all."""
    found: dict[str, LanguageModel] = {"KneserNey": KneserNey(order=5).fit(texts.train)}
    first, *others = (model for model, _ in budgets.members("ptb", texts, "hour"))
    found["HLBL"] = first
    yield "KneserNey(5) + HLBL", dict(found)
    found |= {f"HLBL, seed {seed}": model for seed, model in enumerate(others, 1)}
    yield "KneserNey(5) + 5 HLBL", dict(found)
    found["TemporalFRBM"] = temporal(texts)
    yield "KneserNey(5) + 5 HLBL + TemporalFRBM", dict(found)
    caches: dict[str, LanguageModel] = {
        "unigram cache": UnigramCache().fit(texts.train),
        "neural cache": NeuralCache.over(first),
    }
    yield "KneserNey(5) + 5 HLBL + TemporalFRBM + caches", {**found, **caches}
    found["VLHMM"] = hidden_markov("exchange", texts)
    yield "KneserNey(5) + 5 HLBL + TemporalFRBM + VLHMM", dict(found)
    found["VLHMM, predictive"] = hidden_markov("predictive", texts)
    yield "KneserNey(5) + 5 HLBL + TemporalFRBM + 2 VLHMM", dict(found)
    yield "KneserNey(5) + 5 HLBL + TemporalFRBM + 2 VLHMM + caches", {**found, **caches}
    found["RecurrentLM"] = recurrent.network("dropout", "EM", texts)
    yield "KneserNey(5) + 5 HLBL + TemporalFRBM + 2 VLHMM + RecurrentLM", dict(found)
    yield (
        "KneserNey(5) + 5 HLBL + TemporalFRBM + 2 VLHMM + RecurrentLM + caches",
        {**found, **caches},
    )


def apart(texts: Texts) -> Iterator[tuple[str, dict[str, LanguageModel]]]:
    """The same with models that begin anew with every sentence, in training too."""
    found: dict[str, LanguageModel] = {}
    settings = {**budgets.recipe("15 minutes"), "across_sentences": False}
    for seed in range(budgets.SEEDS):
        name = f"HLBL, seed {seed}" if seed else "HLBL"
        found[name] = fitted(texts.train, texts.valid, "ptb", **settings, seed=seed)[0]
        if not seed:
            yield "HLBL", dict(found)
            found["KneserNey"] = KneserNey(order=5).fit(texts.train)
            yield "KneserNey(5) + HLBL", dict(found)
    yield "KneserNey(5) + 5 HLBL", dict(found)
    found["TemporalFRBM"] = temporal(texts, across=False)
    yield "KneserNey(5) + 5 HLBL + TemporalFRBM", dict(found)
    found["VLHMM"] = hidden_markov("exchange", texts)
    yield "KneserNey(5) + 5 HLBL + TemporalFRBM + VLHMM", dict(found)
    found["RecurrentLM"] = recurrent.planned("dropout", "EM", PLANNED, texts)
    yield "KneserNey(5) + 5 HLBL + TemporalFRBM + VLHMM + RecurrentLM", dict(found)
    found["unigram cache"] = UnigramCache().fit(texts.train)
    found["neural cache"] = NeuralCache.over(found["HLBL"])
    yield "KneserNey(5) + 5 HLBL + TemporalFRBM + VLHMM + RecurrentLM + caches", dict(found)


TRAINED = {"running": running, "apart": apart}


def main() -> None:
    parser = reporting.Command(__doc__)
    parser.add_argument("--trained", nargs="+", choices=TRAINED, default=list(TRAINED))
    options = parser.parse_args()
    texts = Texts()
    for trained in options.trained:
        models: dict[str, LanguageModel] = {}
        name = ""
        for name, models in TRAINED[trained](texts):
            name = name if trained == "running" else f"{name}, trained apart"
            save(name, Mixture(models), texts)
        save(f"{name}, adaptive", AdaptiveMixture(models), texts)


def save(name: str, mixture: Mixture, texts: Texts) -> None:
    """A row of the results for each context."""
    for row in contexts.perplexities(mixture, texts.held_out, weights_on=texts.valid):
        row = {"what": f"{name}, {row['context']}", "mixture": name, **row}
        reporting.save("lm-mixtures", PROTOCOL, [row], seeds=(0,), keep="what")


if __name__ == "__main__":
    main()
