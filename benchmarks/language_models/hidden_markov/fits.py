"""Texts, fits and rows that all parts of the benchmark share."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks import freshness, parts, reporting
from benchmarks.language_models import contexts
from benchmarks.language_models.contexts import Texts
from tacenda import Corpus
from tacenda_lm import VLHMM, KneserNey, Mixture
from tacenda_lm.hidden_markov.tables import text_of
from tacenda_lm.hidden_markov.training import draw_network
from tacenda_lm.language_model import LanguageModel

PROTOCOL = {
    "text": "a line is a sentence; <unk> is an ordinary word; </s> is predicted, <s> is not; closed vocabulary",
    "choices": "settings were chosen by the perplexity of the validation text, the test text having been looked at on "
    "the way (benchmarks/language_models/hidden_markov/README.md); seed 0",
    "context": contexts.PROTOCOL,
    "CPU seconds": "of the processor, one thread, all of the fit: classes, training, evaluations",
    "train, training": "perplexity of the training text under the model, all states kept; and the mean over the last "
    "epoch as training saw it, states left out, which is what the gap to the validation text is to be read against",
}
ROLES = ("train", "valid", "test")
Row = dict[str, Any]


def perplexities(
    model: LanguageModel, texts: Texts, roles: Iterable[str] = ROLES
) -> list[dict[str, Any]]:
    """Of each text: one row for each context, or one for both."""
    found = {role: getattr(texts, role) for role in roles}
    return list(contexts.perplexities(model, found, weights_on=texts.valid))


def fitted(
    texts: Texts, what: str, settings: dict[str, Any], folder: Path | None = None
) -> tuple[VLHMM, Row]:
    """A model and its row; with a folder the fit can be killed and gone on with."""
    model = VLHMM(**settings)
    start = time.process_time()
    model.fit(texts.train, texts.valid, checkpoints=folder)
    seconds = time.process_time() - start
    losses = model.fitted_on["training"]["epoch_losses"]
    [found] = perplexities(model, texts)  # a sentence does not depend on those before it
    row = {
        "what": what,
        "states": model.settings.n_states,
        "epochs": len(losses),
        "training": math.exp(losses[-1]),
        "parameters": parameters(model, texts.train),
        "CPU seconds": seconds,
        **found,
        "settings": model.settings.to_dict(),
    }
    return model, row


def parameters(model: VLHMM, train: Corpus) -> int:
    """Count the numbers that were learned."""
    network = draw_network(model.settings, model.tables.lexicon, *text_of(train))
    return sum(parameter.numel() for parameter in network.parameters())


def mixed(texts: Texts, name: str, models: Mapping[str, LanguageModel]) -> Iterator[Row]:
    """A mixture of fitted models, its weights fitted on the validation text in the context of the row."""
    yield from named(name, perplexities(Mixture(dict(models)), texts, ("valid", "test")))


def named(what: str, rows: Iterable[Row]) -> Iterator[Row]:
    """Rows in several contexts with a name for each: that of the stream says so."""
    for row in rows:
        yield {"what": f"{what}, stream" if row["context"] == "stream" else what, **row}


def ngrams(texts: Texts) -> tuple[KneserNey, Row]:
    """The n-gram model beside which the others stand."""
    model = KneserNey(order=5)
    start = time.process_time()
    model.fit(texts.train)
    row = {"what": "KneserNey(5)", "CPU seconds": time.process_time() - start}
    [found] = perplexities(model, texts)
    return model, {**row, **found}


def save(name: str, protocol: dict[str, Any], part: str, rows: Iterator[Row]) -> None:
    """Every row of a part as soon as it is found."""
    found: list[Row] = []
    for row in rows:
        found.append({"part": part, **row})
        reporting.save(name, protocol, found, seeds=(0,), keep="what")


def measured(name: str) -> dict[str, Row]:
    """The rows of a results file by what they say, without those that are older than the code."""
    path = parts.RESULTS / f"{name}.json"
    if not path.exists():
        return {}
    report = json.loads(path.read_text(encoding="utf-8"))
    run_of = {
        row: earlier["run"] for earlier in report.get("earlier", ()) for row in earlier["rows"]
    }
    return {
        row["what"]: row
        for row in report["rows"]
        if not freshness.changed(name, run_of.get(row["what"], report["run"]))
    }


def rows_of(name: str) -> list[Row]:
    """The rows of a results file, old and new, for its pictures."""
    path = parts.RESULTS / f"{name}.json"
    return list(json.loads(path.read_text(encoding="utf-8"))["rows"])
