"""The models that the slides compare with, measured on the same texts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from benchmarks.language_models.contexts import CONTEXTS
from benchmarks.language_models.hidden_markov.fits import (
    PROTOCOL,
    Row,
    Texts,
    measured,
    ngrams,
    perplexities,
)
from benchmarks.language_models.hidden_markov.neural import FeedForward, Fit, Recurrent
from tacenda_lm import HMM
from tacenda_lm.hidden_markov.tables import text_of
from tacenda_lm.perplexity import Context

__all__ = ["BASELINES_PROTOCOL", "NAME", "rows_of"]

NAME = "lm-hidden-markov-baselines"
BASELINES_PROTOCOL = {
    **PROTOCOL,
    "neural": "plain torch, 256 units, one matrix of word vectors for input and output, exact softmax, Adam, the rate "
    "falling along half a cosine; products in bfloat16 while training and for the training text's perplexity",
    "choices": "dropout as it is usual at this size, not tuned; the epoch that was best on the validation text",
    "context": f"{PROTOCOL['context']}. A network is trained in the context in which it is scored",
}
PLANS: dict[str, tuple[type[FeedForward | Recurrent], dict[str, Any], dict[str, Any]]] = {
    "LSTM, 2 layers of 256": (Recurrent, {"dropout": 0.3}, {"epochs": 8}),
    "feed-forward 5-gram, 256 units": (FeedForward, {"dropout": 0.3}, {"epochs": 6}),
}
EM: dict[str, Any] = {"n_states": 256, "epochs": 20}


def neural(texts: Texts, what: str, context: Context, folder: Path) -> Row:
    """A network of torch, trained and scored in this context."""
    kind, shape, way = PLANS[what]
    torch.manual_seed(0)
    model = kind(len(texts.train.vocabulary), **shape)
    checkpoint = folder / f"{kind.__name__}-{context}.pt"
    train, valid, test = (text_of(text) for text in (texts.train, texts.valid, texts.test))
    fit = Fit(model, train, valid, context, checkpoint=checkpoint, **way)
    found = fit.run()
    return {
        "what": named_in(what, context),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        **found,
        "context": context,
        "train": fit.perplexity(*train),
        "valid": fit.perplexity(*valid, precise=True),
        "test": fit.perplexity(*test, precise=True),
        "settings": {**shape, **way},
    }


def named_in(what: str, context: Context) -> str:
    return f"{what}, stream" if context == "stream" else what


def plain(texts: Texts, what: str, folder: Path) -> Row:
    """A hidden Markov model of scalars, by EM."""
    model = HMM(**EM)
    start = time.process_time()
    model.fit(texts.train, texts.valid, checkpoints=folder / "hmm")
    seconds = time.process_time() - start
    Z, V = model.settings.n_states, len(texts.train.vocabulary)
    [found] = perplexities(model, texts)
    return {
        "what": what,
        "parameters": Z * Z + Z * V + Z,
        "epochs": model.fitted_on["training"]["epochs"],
        "CPU seconds": seconds,
        **found,
        "settings": model.settings.to_dict(),
    }


def rows_of(texts: Texts, folder: Path, again: bool) -> Iterator[Row]:
    """Every baseline; those measured before are taken over unless ``again``."""
    before = {} if again else measured(NAME)
    plans: dict[str, Callable[[], Row]] = {"KneserNey(5)": lambda: ngrams(texts)[1]}
    for what in PLANS:
        for context in CONTEXTS:
            plans[named_in(what, context)] = lambda what=what, context=context: (  # type: ignore[misc]
                neural(texts, what, context, folder)
            )
    markov = f"HMM of {EM['n_states']} states, EM"
    plans[markov] = lambda: plain(texts, markov, folder)
    for what, measure in plans.items():
        yield before[what] if what in before else measure()
