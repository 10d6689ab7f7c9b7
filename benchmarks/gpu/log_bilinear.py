"""HLBL and LBL: steps of the models of the thesis, width 100 and five words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.gpu.case import FLOAT, Case, Work, words
from tacenda.kernels.contexts import Context, Spans, context_sum, context_sum_backward
from tacenda.kernels.trees import Codes, Nodes, NodeSums, tree_softmax_step

TOKENS, WIDTH, CONTEXT, DEPTH = 65_536, 100, 5, 14
FLAT_TYPES = 10_000


def trees() -> Iterator[Case]:
    """A step on 2^14 types under one balanced tree."""
    types = 1 << DEPTH
    nodes, row = types - 1, WIDTH * FLOAT

    def step(device: str) -> Callable[[], Any]:
        import torch

        ids = words(TOKENS, types, np.random.default_rng(0)).astype(np.int32)
        r, q = (torch.randn((n, WIDTH), device=device) for n in (TOKENS, nodes))
        b, sums, bias_sums = (torch.ones(nodes, device=device) for _ in range(3))
        grad, there = -torch.ones(TOKENS, device=device), torch.from_numpy(ids).to(device)
        tables, own = Nodes(q, b), NodeSums(sums, bias_sums)
        return lambda: tree_softmax_step(r, there, _tree(types), tables, grad, own, 1e-4)

    def contexts(device: str) -> Callable[[], Any]:
        import torch

        ids = words(TOKENS, types, np.random.default_rng(0)).astype(np.int32)
        R, starts = torch.randn((types, WIDTH), device=device), np.arange(0, TOKENS, 128)
        parts = ((CONTEXT, WIDTH), (WIDTH,), (0,), (0, WIDTH))
        context = Context(*(torch.ones(shape, device=device) for shape in parts))
        spans = Spans(ids, np.array([0, TOKENS]), starts, starts + 128), context

        def both() -> Any:
            found = context_sum(R, *spans)
            return context_sum_backward(R, *spans, found.before, found.vectors)

        return both

    case = f"{TOKENS:,} tokens, width {WIDTH}, {types:,} types"
    yield Case(
        "tree_softmax_step", case,
        Work(6.0 * TOKENS * DEPTH * WIDTH, 2 * TOKENS * row + 2 * nodes * row),
        TOKENS * row + TOKENS * DEPTH * (40 + row / 256) + nodes * row, step, TOKENS, "token",
    )  # fmt: skip
    yield Case(
        "context_sum and backward", case,
        Work(6.0 * TOKENS * CONTEXT * WIDTH, 2 * TOKENS * row + 2 * types * row),
        3 * TOKENS * row, contexts, TOKENS, "token",
    )  # fmt: skip


def _tree(types: int, kept: dict[int, Codes] = {}) -> Codes:  # noqa: B006 - made once
    if types not in kept:
        leaf = np.random.default_rng(1).permutation(types)
        above = (1 << np.arange(DEPTH)) - 1
        of_leaf = above + (leaf[:, None] >> np.arange(DEPTH, 0, -1))
        bits = (leaf[:, None] >> np.arange(DEPTH - 1, -1, -1)) & 1
        steps = np.arange(types + 1)
        kept[types] = Codes(steps, steps * DEPTH, of_leaf.ravel(), (1 - 2 * bits).ravel())
    return kept[types]


def flat() -> Iterator[Case]:
    """A whole step of LBL: exact likelihood, full matrices, tied vectors, AdaGrad."""
    V, w, n = FLAT_TYPES, WIDTH, CONTEXT
    for tokens in (512, 4_096):
        # predictions and scores, and twice as much for their gradients; the tables are read and written once
        flops = 6.0 * tokens * w * (V + n * w)
        tables = 2 * FLOAT * (V * (w + 3) + n * w * w + n * w)
        yield Case(
            "LBL step", f"{tokens:,} words, width {w}, {V:,} types",
            Work(flops, tables + tokens * (n + 1) * 8), FLOAT * (2 * tokens * V + V * w),
            lambda device, tokens=tokens: _flat_step(device, tokens), tokens, "word",
        )  # fmt: skip


def _flat_step(device: str, tokens: int) -> Callable[[], Any]:
    from tacenda_lm.log_bilinear.lbl import LBLSettings, LBLTrainer
    from tacenda_lm.streams import Stream

    settings = LBLSettings(width=WIDTH, context=CONTEXT, dropout=0.0)
    ids = words(1 << 20, FLAT_TYPES, np.random.default_rng(0)).astype(np.int32)
    text = Stream(ids, np.array([0, len(ids)]))
    trainer = LBLTrainer(settings, np.bincount(ids, minlength=FLAT_TYPES), text, None, device)
    batch = np.random.default_rng(1).choice(len(ids) - 1, tokens, replace=False) + 1
    return lambda: trainer.step((batch,), 0.1)
