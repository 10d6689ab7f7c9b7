"""The models that the slides compare with, in plain torch: a feed-forward n-gram and an LSTM, on the same texts.

Each is trained and scored either sentence by sentence or on the running text; it has an exact softmax over all words
and shares the vectors of words between input and output. The products of the softmax and of the layers are in
bfloat16, the softmax and the parameters in float32.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy, linear

from benchmarks import kept
from benchmarks.language_models import contexts
from benchmarks.language_models.contexts import CONTEXTS, Texts
from benchmarks.language_models.hidden_markov import fits
from benchmarks.language_models.hidden_markov.fits import ngrams, perplexities
from benchmarks.reporting import Row
from tacenda_lm import HMM
from tacenda_lm.hidden_markov.tables import text_of
from tacenda_lm.perplexity import Context
from tacenda_lm.sequences import Ids, Offsets

_WIDTH = 256
_SPREAD = 0.1  # of the first vectors of words
_LEAST = 0.02  # of the learning rate, at the end
_ROWS = 32  # stretches of a stream side by side


class FeedForward(nn.Module):
    """Bengio et al. 2003: the vectors of the last n - 1 words, end to end, through one hidden layer."""

    def __init__(self, n_types: int, order: int = 5, dropout: float = 0.3) -> None:
        super().__init__()
        self.order, self.start = order, n_types
        self.words = nn.Embedding(n_types + 1, _WIDTH)
        self.hidden = nn.Linear((order - 1) * _WIDTH, _WIDTH)
        self.out, self.drop = nn.Linear(_WIDTH, _WIDTH), nn.Dropout(dropout)
        self.bias = nn.Parameter(torch.zeros(n_types))
        nn.init.normal_(self.words.weight, std=_SPREAD)

    def forward(self, inputs: torch.Tensor, before: Any = None) -> tuple[torch.Tensor, Any]:
        """Ids (rows, length) of the words before those to predict, to what predicts them (rows, length, width).

        ``before`` is what the call for the text before returned; None at the beginning of a text.
        """
        n = self.order - 1
        if before is None:
            before = inputs.new_full((len(inputs), n - 1), self.start)
        ids = torch.cat([before, inputs], 1)
        context = self.drop(self.words(ids)).unfold(1, n, 1).transpose(2, 3).flatten(2)
        hidden = self.drop(torch.relu(self.hidden(context)))
        told = self.drop(torch.relu(self.out(hidden)) + hidden)
        return told, ids[:, ids.shape[1] - n + 1 :]


class Recurrent(nn.Module):
    """An LSTM of two layers, dropout between layers as in Zaremba, Sutskever and Vinyals 2014."""

    def __init__(self, n_types: int, layers: int = 2, dropout: float = 0.4) -> None:
        super().__init__()
        self.start = n_types
        self.words = nn.Embedding(n_types + 1, _WIDTH)
        self.lstm = nn.LSTM(_WIDTH, _WIDTH, layers, batch_first=True, dropout=dropout)
        self.drop = nn.Dropout(dropout)
        self.bias = nn.Parameter(torch.zeros(n_types))
        nn.init.normal_(self.words.weight, std=_SPREAD)

    def forward(self, inputs: torch.Tensor, before: Any = None) -> tuple[torch.Tensor, Any]:
        """As of `FeedForward`."""
        told, after = self.lstm(self.drop(self.words(inputs)), before)
        return self.drop(told), tuple(each.detach() for each in after)


@dataclass
class Fit:
    """Training by Adam; the rate falls along half a cosine, and the best epoch by the held-out text is kept.

    Attributes
    ----------
    model
        Trained in place.
    train
        Ids with ``</s>`` after every sentence, and where sentences begin.
    valid
        The same of the held-out text.
    context
        ``"sentence"``, each after a start symbol, or ``"stream"``: the running text, as many stretches of it side by
        side as a step has rows, each going on where the step before left off.
    epochs
        At most.
    learning_rate
        At first.
    tokens
        Of a step, about.
    checkpoint
        a file, or None; a killed fit goes on from it at the epoch it was in.
    """

    model: FeedForward | Recurrent
    train: tuple[Ids, Offsets]
    valid: tuple[Ids, Offsets]
    context: Context
    epochs: int
    learning_rate: float = 3e-3
    tokens: int = 1024
    checkpoint: Path | None = None
    seed: int = 0

    def run(self) -> dict[str, Any]:
        """CPU seconds, epochs, and the best perplexity of the held-out text."""
        rates = {"lr": self.learning_rate, "betas": (0.9, 0.99)}
        optimizer = torch.optim.Adam(self.model.parameters(), **rates, fused=True)
        now: dict[str, Any] = {"epoch": 0, "seconds": 0.0, "curve": []}
        best: dict[str, torch.Tensor] = {}
        if self.checkpoint is not None and self.checkpoint.exists():
            kept = torch.load(self.checkpoint, weights_only=True)
            now, best = kept["now"], kept["best"]
            self.model.load_state_dict(kept["model"])
            optimizer.load_state_dict(kept["optimizer"])
        while now["epoch"] < self.epochs:
            start = time.process_time()
            self._epoch(optimizer, now["epoch"])
            found = self.perplexity(*self.valid)
            if found < min(now["curve"], default=math.inf):
                best = {name: p.detach().clone() for name, p in self.model.state_dict().items()}
            now["curve"].append(found)
            now["seconds"] += time.process_time() - start
            now["epoch"] += 1
            print(
                f"epoch {now['epoch']}: {found:.1f}, {now['seconds']:.0f} CPU seconds", flush=True
            )
            self._keep(now, best, optimizer)
        self.model.load_state_dict(best)
        return {"epochs": self.epochs, "CPU seconds": now["seconds"]}

    def _epoch(self, optimizer: torch.optim.Optimizer, epoch: int) -> None:
        self.model.train()
        torch.manual_seed(self.seed + 1000 * epoch)
        rng = np.random.default_rng([self.seed, epoch])
        batches = list(self._batches(*self.train, rng))
        before = None
        for n, (inputs, targets) in enumerate(batches):
            way = (epoch + n / len(batches)) / self.epochs
            share = _LEAST + (1 - _LEAST) * (1 + math.cos(math.pi * way)) / 2
            warm = min(1.0, (epoch * len(batches) + n + 1) / 100)
            for group in optimizer.param_groups:
                group["lr"] = self.learning_rate * share * warm
            optimizer.zero_grad(set_to_none=True)
            loss, after = self._loss(inputs, targets, before)
            before = after if self.context == "stream" else None
            (loss / int((targets >= 0).sum())).backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            optimizer.step()

    def _loss(
        self, inputs: torch.Tensor, targets: torch.Tensor, before: Any, precise: bool = False
    ) -> tuple[torch.Tensor, Any]:
        """In nats, of all words that are not padding; and what the next call may go on from."""
        with torch.autocast("cpu", torch.bfloat16, enabled=not precise):
            found, after = self.model(inputs, before)
            told = found[targets >= 0]
            scores = linear(told, self.model.words.weight[:-1], self.model.bias)
        if not self.model.training:  # a sum in bfloat16 does for its gradient, not for a figure
            scores = scores.float()
        return cross_entropy(scores, targets[targets >= 0], reduction="sum"), after

    @torch.no_grad()
    def perplexity(self, ids: Ids, offsets: Offsets, precise: bool = False) -> float:
        """Of a text, nothing dropped out; ``precise`` has all products in float32, and a stream in one piece."""
        self.model.eval()
        total, n, before = 0.0, 0, None
        for inputs, targets in self._batches(ids, offsets, None, whole=precise):
            loss, after = self._loss(inputs, targets, before, precise)
            before = after if self.context == "stream" else None
            total, n = total + float(loss), n + int((targets >= 0).sum())
        return math.exp(total / n)

    def _batches(
        self, ids: Ids, offsets: Offsets, rng: np.random.Generator | None, whole: bool = False
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        if self.context == "sentence":
            tokens = self.tokens if rng is not None else 2 * self.tokens
            return _sentences(ids, offsets, tokens, self.model.start, rng)
        rows = 1 if whole else _ROWS
        return _stretches(ids, int(ids[offsets[1] - 1]), rows, self.tokens // rows)

    def _keep(
        self, now: dict[str, Any], best: dict[str, torch.Tensor], optimizer: torch.optim.Optimizer
    ) -> None:
        if self.checkpoint is None:
            return
        self.checkpoint.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.checkpoint.with_suffix(".tmp")
        states = {"model": self.model.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save({"now": now, "best": best, **states}, temporary)
        temporary.replace(self.checkpoint)


def _sentences(
    ids: Ids, offsets: Offsets, tokens: int, start: int, rng: np.random.Generator | None
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Sentences of similar lengths side by side: inputs and targets (sentences, length), -1 where there are none."""
    lengths = np.diff(offsets)
    noise = 0.0 if rng is None else rng.random(len(lengths))
    order = np.argsort(lengths + noise, kind="stable")
    cuts = np.flatnonzero(np.diff(np.cumsum(lengths[order]) // tokens)) + 1
    parts = [part for part in np.split(order, cuts) if len(part)]
    for at in range(len(parts)) if rng is None else rng.permutation(len(parts)):
        chosen = parts[at]
        longest = int(lengths[chosen].max())
        columns = np.arange(longest)
        inside = columns < lengths[chosen][:, None]
        at_ids = np.where(inside, offsets[:-1][chosen][:, None] + columns, 0)
        targets = np.where(inside, ids[at_ids], -1).astype(np.int64)
        inputs = np.full_like(targets, start)
        inputs[:, 1:] = np.maximum(targets[:, :-1], 0)
        yield torch.from_numpy(inputs), torch.from_numpy(targets)


def _stretches(
    ids: Ids, boundary: int, rows: int, length: int
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Stretches of a running text side by side: inputs and targets (rows, length), one after another.

    The last words that do not fill all rows are left out: fewer than there are rows.
    """
    n = len(ids) // rows
    before = np.concatenate([[boundary], ids[:-1]]).astype(np.int64)
    inputs = torch.from_numpy(before[: n * rows].reshape(rows, n))
    targets = torch.from_numpy(ids[: n * rows].astype(np.int64).reshape(rows, n))
    for begin in range(0, n, length):
        yield inputs[:, begin : begin + length], targets[:, begin : begin + length]


PROTOCOL = {
    **fits.PROTOCOL,
    "neural": "plain torch, 256 units, one matrix of word vectors for input and output, exact softmax, Adam, the rate "
    "falling along half a cosine; products in bfloat16 while training and for the training text's perplexity",
    "choices": "dropout as it is usual at this size, not tuned; the epoch that was best on the validation text",
    "context": f"{fits.PROTOCOL['context']}. A network is trained in the context in which it is scored",
}
PLANS: dict[str, tuple[type[FeedForward | Recurrent], dict[str, Any], dict[str, Any]]] = {
    "LSTM, 2 layers of 256": (Recurrent, {"dropout": 0.3}, {"epochs": 8}),
    "feed-forward 5-gram, 256 units": (FeedForward, {"dropout": 0.3}, {"epochs": 6}),
}
EM: dict[str, Any] = {"n_states": 256, "epochs": 20}


def neural(texts: Texts, what: str, context: Context) -> Row:
    """Return the row of a network of torch, trained and scored in this context."""
    kind, shape, way = PLANS[what]
    train, valid, test = (text_of(text) for text in (texts.train, texts.valid, texts.test))

    def make(folder: Path) -> Row:
        torch.manual_seed(0)
        model = kind(len(texts.train.vocabulary), **shape)
        checkpoint = folder / "checkpoints" / "state.pt"
        fit = Fit(model, train, valid, context, checkpoint=checkpoint, **way)
        return {
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
            **fit.run(),
            "context": context,
            "train": fit.perplexity(*train),
            "valid": fit.perplexity(*valid, precise=True),
            "test": fit.perplexity(*test, precise=True),
        }

    settings = {**shape, **way}
    _, row = kept.folder(f"{kind.__name__}-{context}", settings, make)
    del row["seconds"]
    name = f"{what}, stream" if context == "stream" else what
    return {"what": name, **row, "settings": settings}


def plain(texts: Texts) -> Row:
    """Return the row of a hidden Markov model of scalars, by EM."""
    model, took = contexts.fitted(HMM(**EM), texts.name, texts.train, texts.valid)
    Z, V = model.settings.n_states, len(texts.train.vocabulary)
    [found] = perplexities(model, texts)
    return {
        "what": f"HMM of {Z} states, EM",
        "parameters": Z * Z + Z * V + Z,
        "epochs": model.fitted_on["training"]["epochs"],
        "CPU seconds": took["CPU s"],
        **found,
        "settings": model.settings.to_dict(),
    }


def rows(options: Any) -> Iterator[Row]:
    texts = Texts()
    works: dict[str, Callable[[], Row]] = {"KneserNey(5)": lambda: ngrams(texts)[1]}
    for what, context in product(PLANS, CONTEXTS):
        works[f"{what}, {context}"] = partial(neural, texts, what, context)
    works["HMM"] = lambda: plain(texts)
    for name in options.chosen(works):
        yield {"part": "baselines", **works[name]()}
