"""VLHMM: a step of 4,096 words at 2^15 states in 128 classes, half of them dropped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.gpu.case import FLOAT, Case, Work, words
from tacenda.kernels.hidden_markov import (
    Sequences,
    Vectors,
    block_softmax,
    block_softmax_backward,
    class_softmax,
    hmm_block,
    hmm_block_backward,
    streaming_logsumexp,
)

CLASSES, KEPT, WIDTH, TYPES, TOKENS, SENTENCE = 128, 128, 256, 10_000, 4_096, 21


def blocks() -> Iterator[Case]:
    """Blocks of the transition matrix, forward-backward over them, and the gradients of both."""
    observed, pairs = _text()
    u, k, n = len(pairs[0]), KEPT, TOKENS
    table, states = u * k * k * FLOAT, n * k * FLOAT
    of_words = TYPES * k * FLOAT
    case = f"{n:,} words, {u:,} blocks of {k} x {k}"
    # forward reads the blocks; backward reads them too, and writes as many counts
    yield Case(
        "hmm_block and backward", case,
        Work(n * 6 * k * k, 3 * table + 4 * states + 3 * of_words), table + 3 * states + of_words,
        lambda device: _passes(device, observed, u), n, "word",
    )  # fmt: skip
    vectors = (2 * WIDTH + 1) * CLASSES * k * FLOAT
    yield Case(
        "block_softmax and backward", f"{u:,} blocks of {k} x {k}, width {WIDTH}",
        # blocks are written, then read with their counts
        Work(u * 6 * k * k * WIDTH, 3 * table + 3 * vectors), table + vectors,
        lambda device: _made(device, pairs), u, "block",
    )  # fmt: skip


def _text() -> tuple[Sequences, tuple[np.ndarray, np.ndarray]]:
    """Sentences of words by Zipf's law, whose classes have about as many tokens each, and the pairs of classes."""
    rng = np.random.default_rng(0)
    ids = words(TOKENS, TYPES, rng)
    mass = np.cumsum(1 / np.arange(1, TYPES + 1))
    classes = np.minimum((CLASSES * mass / mass[-1]).astype(np.int64), CLASSES - 1)[ids]
    offsets = np.append(np.arange(0, TOKENS, SENTENCE), TOKENS)
    keys = np.roll(classes, 1) * CLASSES + classes
    different, of_tokens = np.unique(keys, return_inverse=True)
    return Sequences(of_tokens, ids, classes[offsets[:-1]], offsets), divmod(different, CLASSES)


def _passes(device: str, observed: Sequences, n_blocks: int) -> Callable[[], Any]:
    import torch

    def shares(*shape: int) -> torch.Tensor:
        return torch.rand(shape, device=device).softmax(dim=-2).contiguous()

    tables = shares(n_blocks, KEPT, KEPT), shares(TYPES, KEPT), shares(CLASSES, KEPT)

    def both() -> Any:
        found = hmm_block(*tables, observed)
        return hmm_block_backward(*tables, observed, found)

    return both


def _made(device: str, pairs: tuple[np.ndarray, np.ndarray]) -> Callable[[], Any]:
    import torch

    left, reached = (torch.randn((CLASSES, KEPT, WIDTH), device=device) / 16 for _ in range(2))
    vectors = Vectors(left, reached, torch.randn((CLASSES, KEPT), device=device))
    weights = torch.rand((len(pairs[0]), KEPT), device=device)
    counts = torch.rand((len(pairs[0]), KEPT, KEPT), device=device)

    def both() -> Any:
        found = block_softmax(vectors, *pairs, weights)
        return block_softmax_backward(vectors, *pairs, found, counts, weights)

    return both


def softmaxes() -> Iterator[Case]:
    """Normalisers of a softmax over all states, and emissions of the words of each class."""
    states = CLASSES * KEPT

    def normalisers(device: str) -> Callable[[], Any]:
        import torch

        x, y = (torch.randn((states, WIDTH), device=device) for _ in range(2))
        b = torch.randn(states, device=device)
        return lambda: streaming_logsumexp(x, y, b)

    def emissions(device: str) -> Callable[[], Any]:
        import torch

        y, b = torch.randn((TYPES, WIDTH), device=device), torch.randn(TYPES, device=device)
        x = torch.randn((CLASSES, KEPT, WIDTH), device=device)
        offsets = np.linspace(0, TYPES, CLASSES + 1).astype(np.int64)
        return lambda: class_softmax(y, b, x, offsets)

    yield Case(
        "streaming_logsumexp", f"{states:,} x {states:,}, width {WIDTH}",
        Work(2.0 * states * states * WIDTH, (2 * states * WIDTH + 2 * states) * FLOAT),
        states * FLOAT, normalisers, states, "state",
    )  # fmt: skip
    yield Case(
        "class_softmax", f"{TYPES:,} words, {CLASSES} classes of {KEPT} states",
        Work(2.0 * TYPES * KEPT * WIDTH, (TYPES * WIDTH + states * WIDTH + TYPES * KEPT) * FLOAT),
        TYPES * KEPT * FLOAT, emissions, TYPES, "word",
    )  # fmt: skip
