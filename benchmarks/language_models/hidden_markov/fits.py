"""Fits and rows that all parts of the benchmark share."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from benchmarks.language_models import contexts
from benchmarks.language_models.contexts import Texts
from benchmarks.reporting import Row
from tacenda import Corpus
from tacenda_lm import VLHMM, KneserNey, LanguageModel, Mixture
from tacenda_lm.hidden_markov.network import draw_network
from tacenda_lm.hidden_markov.tables import pairs_of
from tacenda_lm.sequences import encode_corpus

PROTOCOL = {
    "text": contexts.TEXT,
    "choices": "settings were chosen by the perplexity of the validation text, the test text having been looked at on "
    "the way (benchmarks/language_models/hidden_markov/README.md); seed 0",
    "context": contexts.PROTOCOL,
    "CPU seconds": "of the processor, one thread, all of the fit: classes, training, evaluations",
    "train, training": "perplexity of the training text under the model, all states kept; and the mean over the last "
    "epoch as training saw it, states left out, which is what the gap to the validation text is to be read against",
    "mixture": "linear, weights fitted to the validation text, in the context of the row",
}
ROLES = ("train", "valid", "test")


def perplexities(model: LanguageModel, texts: Texts, roles: Iterable[str] = ROLES) -> list[Row]:
    """Return one row for each context, or one for both, with the perplexity of each text."""
    found = {role: getattr(texts, role) for role in roles}
    return list(contexts.perplexities(model, found, weights_on=texts.valid))


def fitted(texts: Texts, what: str, settings: dict[str, Any]) -> tuple[VLHMM, Row]:
    """Return a model that is kept and its row."""
    model, took = contexts.fitted(VLHMM(**settings), texts.name, texts.train, texts.valid)
    losses = model.fitted_on["training"]["epoch_losses"]
    [found] = perplexities(model, texts)  # a sentence does not depend on those before it
    row = {
        "what": what,
        "states": model.settings.n_classes * model.settings.states_per_class,
        "epochs": len(losses),
        "training": math.exp(losses[-1]),
        "parameters": parameters(model, texts.train),
        "CPU seconds": took["CPU s"],
        "seconds": took["fit s"],
        **found,
        "settings": model.settings.to_dict(),
    }
    return model, row


def parameters(model: VLHMM, train: Corpus) -> int:
    """Count the numbers that were learned."""
    settings, lexicon = model.settings, model.tables.lexicon
    keys = None if settings.advanced.neural else pairs_of(*encode_corpus(train), lexicon)
    network = draw_network(settings, lexicon, train.type_counts, keys)
    return sum(parameter.numel() for parameter in network.parameters())


def mixed(texts: Texts, name: str, models: Mapping[str, LanguageModel]) -> Iterator[Row]:
    """Yield the rows of a mixture of fitted models."""
    yield from named(name, perplexities(Mixture(dict(models)), texts, ("valid", "test")))


def named(what: str, rows: Iterable[Row]) -> Iterator[Row]:
    """Yield rows in several contexts with a name for each: that of the stream says so."""
    for row in rows:
        yield {"what": f"{what}, stream" if row["context"] == "stream" else what, **row}


def ngrams(texts: Texts) -> tuple[KneserNey, Row]:
    """Return the n-gram model that the others are compared with, and its row."""
    model = KneserNey(order=5)
    start = time.process_time()
    model.fit(texts.train)
    row = {"what": "KneserNey(5)", "CPU seconds": time.process_time() - start}
    [found] = perplexities(model, texts)
    return model, {**row, **found}
