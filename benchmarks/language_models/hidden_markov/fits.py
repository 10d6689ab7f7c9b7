"""Texts, fits and rows that all parts of the benchmark share."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import reporting
from tacenda import Corpus, datasets
from tacenda_lm import VLHMM, KneserNey, Mixture
from tacenda_lm.hidden_markov.classed_text import text_of
from tacenda_lm.hidden_markov.vlhmm_training import drawn
from tacenda_lm.language_model import LanguageModel
from tacenda_lm.perplexity import Context

__all__ = ["PROTOCOL", "ROLES", "Texts", "fitted", "mixed", "parameters", "perplexities", "save"]

PROTOCOL = {
    "text": "a line is a sentence; <unk> is an ordinary word; </s> is predicted, <s> is not; closed vocabulary; "
    "every sentence by itself",
    "choices": "settings were chosen by the perplexity of the validation text; seed 0 where no other is given",
    "CPU seconds": "of the processor, one thread, all of the fit: classes, training, evaluations",
    "train, training": "perplexity of the training text under the model, all states kept; and the mean over the last "
    "epoch as training saw it, states left out, which is what the gap to the validation text is to be read against",
}
ROLES = ("train", "valid", "test")
Row = dict[str, Any]


class Texts:
    """Train, valid, test of a dataset over the words of its training text; empty lines are left out."""

    def __init__(self, name: str = "ptb") -> None:
        files = datasets.locate(name)
        self.train = Corpus.from_text(files["train"])
        words = self.train.vocabulary
        self.valid, self.test = (
            Corpus.from_text(files[k], vocabulary=words) for k in ("dev", "test")
        )


def perplexities(
    model: LanguageModel,
    texts: Texts,
    roles: Iterable[str] = ROLES,
    context: Context = "sentence",
) -> dict[str, float]:
    """Of each text."""
    return {role: model.perplexity(getattr(texts, role), context=context).value for role in roles}


def fitted(
    texts: Texts, what: str, settings: dict[str, Any], folder: Path | None = None
) -> tuple[VLHMM, Row]:
    """A model and its row; with a folder the fit can be killed and gone on with."""
    model = VLHMM(**settings)
    start = time.process_time()
    model.fit(texts.train, texts.valid, checkpoints=folder)
    seconds = time.process_time() - start
    losses = model.fitted_on["training"]["epoch_losses"]
    row = {
        "what": what,
        "states": model.settings.n_states,
        "epochs": len(losses),
        "training": math.exp(losses[-1]),
        "parameters": parameters(model, texts.train),
        "CPU seconds": seconds,
        **perplexities(model, texts),
        "settings": model.settings.to_dict(),
    }
    return model, row


def parameters(model: VLHMM, train: Corpus) -> int:
    """Count the numbers that were learned."""
    network = drawn(model.settings, model.tables.lexicon, *text_of(train))
    return sum(parameter.numel() for parameter in network.parameters())


def mixed(
    texts: Texts, name: str, models: Mapping[str, LanguageModel], context: Context = "sentence"
) -> Row:
    """A mixture of fitted models, its weights fitted on the validation text."""
    mixture = Mixture(dict(models)).fit_weights(texts.valid, context=context)
    found = perplexities(mixture, texts, ("valid", "test"), context)
    return {"what": name, **found, "weights": mixture.weights}


def ngrams(texts: Texts) -> tuple[KneserNey, Row]:
    """The n-gram model beside which the others stand."""
    model = KneserNey(order=5)
    start = time.process_time()
    model.fit(texts.train)
    row = {"what": "KneserNey(5)", "CPU seconds": time.process_time() - start}
    return model, {**row, **perplexities(model, texts)}


def save(name: str, protocol: dict[str, Any], part: str, rows: Iterator[Row]) -> None:
    """Every row of a part as soon as it is found."""
    found: list[Row] = []
    for row in rows:
        found.append({"part": part, **row})
        reporting.save(name, protocol, found, keep="what")


def measured(name: str) -> dict[str, Row]:
    """The rows of a results file by what they say."""
    path = reporting.RESULTS / f"{name}.json"
    if not path.exists():
        return {}
    return {row["what"]: row for row in json.loads(path.read_text(encoding="utf-8"))["rows"]}


def tokens(corpus: Corpus) -> int:
    """Words to predict, ends of sentences included."""
    return int(np.diff(text_of(corpus)[1]).sum())
