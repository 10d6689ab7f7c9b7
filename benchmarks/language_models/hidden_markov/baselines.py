"""The models that the slides compare with, measured on the same texts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

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
from tacenda_lm.hidden_markov.classed_text import text_of

__all__ = ["BASELINES_PROTOCOL", "NAME", "rows_of"]

NAME = "lm-hidden-markov-baselines"
BASELINES_PROTOCOL = {
    **PROTOCOL,
    "neural": "plain torch, 256 units, one matrix of word vectors for input and output, exact softmax, Adam, the rate "
    "falling along half a cosine; products in bfloat16 while training and for the training text's perplexity",
    "choices": "dropout as it is usual at this size, not tuned; the epoch that was best on the validation text",
}
PLANS: dict[str, tuple[type[FeedForward | Recurrent], dict[str, Any], dict[str, Any]]] = {
    "LSTM, 2 layers of 256": (Recurrent, {"dropout": 0.3}, {"epochs": 8}),
    "feed-forward 5-gram, 256 units": (FeedForward, {"dropout": 0.3}, {"epochs": 6}),
}
EM: dict[str, Any] = {"n_states": 256, "epochs": 20}


def neural(texts: Texts, what: str, folder: Path | None) -> Row:
    """A network of torch."""
    kind, shape, way = PLANS[what]
    torch.manual_seed(0)
    model = kind(len(texts.train.vocabulary), **shape)
    checkpoint = None if folder is None else folder / f"{kind.__name__}.pt"
    train, valid, test = (text_of(text) for text in (texts.train, texts.valid, texts.test))
    fit = Fit(model, train, valid, checkpoint=checkpoint, **way)
    found = fit.run()
    return {
        "what": what,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        **found,
        "train": fit.perplexity(*train),
        "valid": fit.perplexity(*valid, precise=True),
        "test": fit.perplexity(*test, precise=True),
        "settings": {**shape, **way},
    }


def plain(texts: Texts, what: str, folder: Path | None) -> Row:
    """A hidden Markov model of scalars, by EM."""
    model = HMM(**EM)
    start = time.process_time()
    model.fit(texts.train, texts.valid, checkpoints=folder and folder / "hmm")
    seconds = time.process_time() - start
    Z, V = model.settings.n_states, len(texts.train.vocabulary)
    training = model.fitted_on["training"]
    return {
        "what": what,
        "parameters": Z * Z + Z * V + Z,
        "epochs": training["epochs"],
        "CPU seconds": seconds,
        **perplexities(model, texts),
        "settings": model.settings.to_dict(),
    }


def rows_of(texts: Texts, folder: Path | None, again: bool) -> Iterator[Row]:
    """Every baseline; those measured before are taken over unless ``again``."""
    before = {} if again else measured(NAME)
    for what in ("KneserNey(5)", *PLANS, f"HMM of {EM['n_states']} states, EM"):
        if what in before:
            yield before[what]
        elif what == "KneserNey(5)":
            yield ngrams(texts)[1]
        else:
            yield (neural if what in PLANS else plain)(texts, what, folder)
