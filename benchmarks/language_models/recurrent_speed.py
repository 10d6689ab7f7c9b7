"""Training a recurrent network on one thread: words a second, beside torch and beside its three large products alone.

    python -m benchmarks.language_models.recurrent_speed

Words are drawn at random, for speed does not depend on them: ten thousand types and three hundred elements of the
state, as on Penn Treebank.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from benchmarks import reporting
from benchmarks.language_models import timing
from tacenda_lm.recurrent import (
    FallingWhereHeldOutSays,
    Network,
    RecurrentLMSettings,
    RecurrentTrainer,
)
from tacenda_lm.streams import Stream

TYPES, WIDTH = 10_000, 300
SIZES = ((1, 20), (8, 20), (20, 20), (20, 35), (64, 20))  # streams, words of a window
TURNS = 5
PROTOCOL = {
    "step": "one step of gradient descent: forward, backward, clipping and update, in float32 on one thread",
    "torch": "the same network and batch by torch.autograd: a loop of products, cross_entropy, clip_grad_norm_, SGD",
    "three products": "the states with C, and the two products of its gradient, by the same BLAS and no more",
    "turns": "all ways take turns at each size; median, least and most of the runs",
}


def ours(text: np.ndarray, places: np.ndarray) -> Callable[[], object]:
    """A step of `RecurrentLM`."""
    rng = np.random.default_rng(0)
    shapes = ((WIDTH, WIDTH), (TYPES, WIDTH), (1, WIDTH), (TYPES, WIDTH + 1))
    network = Network(
        *(rng.standard_normal(shape, np.float32) * np.float32(0.1) for shape in shapes)
    )
    settings = RecurrentLMSettings(width=WIDTH, streams=places.shape[1])
    stream = Stream(np.append(0, text), np.array([0, len(text) + 1]))
    trainer = RecurrentTrainer(settings, network, stream, None, FallingWhereHeldOutSays(0.1))
    return lambda: trainer.step((places, False), 0.1)


def by_torch(text: np.ndarray, places: np.ndarray) -> Callable[[], object]:
    """The same step in plain torch."""
    torch.manual_seed(0)
    shapes = ((WIDTH, WIDTH), (TYPES, WIDTH), (WIDTH,), (TYPES, WIDTH), (TYPES,))
    parameters = [(0.1 * torch.randn(shape)).requires_grad_() for shape in shapes]
    A, B, a, C, b = parameters
    optimiser = torch.optim.SGD(parameters, 0.1 / places.shape[1])
    read, targets = torch.from_numpy(text[places]).long(), torch.from_numpy(text[places + 1]).long()

    def step() -> None:
        h, found = torch.full((places.shape[1], WIDTH), 0.5), []
        for words in read:
            h = torch.sigmoid(torch.nn.functional.linear(h, A, a) + B[words])
            found.append(h)
        scores = torch.nn.functional.linear(torch.stack(found), C, b)
        loss = torch.nn.functional.cross_entropy(
            scores.reshape(-1, TYPES), targets.reshape(-1), reduction="sum"
        )
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 5.0 * places.shape[1])
        optimiser.step()

    return step


def products(rows: int) -> Callable[[], object]:
    """The three products with C that no exact softmax can do without."""
    rng = np.random.default_rng(0)
    states, C = rng.random((rows, WIDTH), np.float32), rng.random((TYPES, WIDTH), np.float32)
    scores, gradient = np.empty((rows, TYPES), np.float32), np.empty_like(C)

    def multiply() -> None:
        np.matmul(states, C.T, out=scores)
        _ = scores @ C
        np.matmul(scores.T, states, out=gradient)

    return multiply


def main() -> None:
    argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0]).parse_args()
    torch.set_num_threads(1)
    text = np.random.default_rng(0).integers(0, TYPES, 100_000).astype(np.int32)
    rows: list[dict[str, Any]] = []
    for streams, window in SIZES:
        places = np.arange(window)[:, None] + 1000 * np.arange(streams)
        works = {
            "RecurrentLM": ours(text, places),
            "torch": by_torch(text, places),
            "three products": products(places.size),
        }
        for way, seconds in timing.interleaved(works, TURNS).items():
            found = timing.rate(places.size, seconds, "words/s")
            rows.append({"streams": streams, "window": window, "way": way, **found})
        reporting.save("lm-recurrent-speed", PROTOCOL, rows, seeds=(0,))


if __name__ == "__main__":
    main()
