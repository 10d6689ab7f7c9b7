"""LDS: its vectors, the operations of a fit, and a whole fit to counts of 26 million tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.gpu.case import FLOAT, ID, Case, Work, words
from tacenda.kernels.counts import lagged_counts
from tacenda.kernels.sequences import Modes, decompose, modal_scan
from tacenda.kernels.shared import sparse_product
from tacenda.tall import gram as tall_gram
from tacenda.tall import product as tall_product

TYPES, STATES, LAGS, BLOCKS = 40_000, 200, 7, 4
SENTENCES, SENTENCE, DOCUMENT = 65_536, 20, 1 << 20  # that vectors are made of, in tokens
OVERSAMPLING, SUBSPACE, FULL = 20, 20, 2  # columns of the randomised SVD, iterations of EM
DRAWN = 12_000_000  # pairs of words, of which some are the same
TOKENS, TOPICS, STREAMS = 26_000_000, 256, 10_000  # of the text that a whole fit is of


def stable(rng: np.random.Generator) -> np.ndarray:
    """A random matrix of spectral radius 0.9."""
    F = rng.standard_normal((STATES, STATES))
    return np.asarray(F * 0.9 / np.abs(np.linalg.eigvals(F)).max())


def smoothing() -> Iterator[Case]:
    """The vectors own_past_future of a fitted LDS, and the scans that they are made from."""
    h = STATES
    for case, lengths in (
        (f"{SENTENCES:,} sentences of {SENTENCE} tokens", [SENTENCE] * SENTENCES),
        (f"one document of {DOCUMENT:,} tokens", [DOCUMENT]),
    ):
        n = sum(lengths)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        block = min(n, 1 << 18) * (2 * h + 3 * h) * FLOAT
        yield Case(
            "LDS smoothing", case,
            Work(n * (4 * h * h + 16 * h), n * ID + 3 * TYPES * h * FLOAT + n * 3 * h * FLOAT),
            block, lambda device, offsets=offsets: _vectors(device, offsets), n, "token",
        )  # fmt: skip
        yield Case(
            "modal_scan", case,
            Work(n * 8 * h, n * (ID + h * FLOAT) + TYPES * h * FLOAT),
            len(lengths) * h * FLOAT, lambda device, offsets=offsets: _scan(device, offsets), n, "token",
        )  # fmt: skip


def _vectors(device: str, offsets: np.ndarray) -> Callable[[], Any]:
    import torch

    from tacenda_embeddings.lds.smoother import Recipe, Smoother, TwoSided

    rng, n = np.random.default_rng(0), int(offsets[-1])
    table = rng.standard_normal((TYPES, STATES)).astype(np.float32)
    ends = np.eye(STATES) * 0.1
    smoother = Smoother(
        TwoSided(table, stable(rng), stable(rng), ends, ends, np.eye(STATES)), device
    )
    ids, out = words(n, TYPES, rng), torch.empty((n, 3 * STATES), device=device)
    recipe = Recipe("own_past_future", own_weight=3.0)
    return lambda: smoother.write(recipe, ids, offsets, out)


def _scan(device: str, offsets: np.ndarray) -> Callable[[], Any]:
    import torch

    rng, n = np.random.default_rng(0), int(offsets[-1])
    modes = decompose(stable(rng))
    values = [torch.tensor(v, dtype=torch.float32, device=device) for v in (modes.real, modes.pairs)]  # fmt: skip
    table, out = (torch.randn((rows, STATES), device=device) for rows in (TYPES, n))
    ids = torch.tensor(words(n, TYPES, rng), device=device)
    return lambda: modal_scan(Modes(*values), table, ids, offsets, out=out)


def _pairs(nonzeros: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs of words as often as those of Zipf's law meet, in CSR."""
    rng = np.random.default_rng(0)
    keys = np.unique(words(nonzeros, TYPES, rng) * TYPES + words(nonzeros, TYPES, rng))
    rows, columns = np.divmod(keys, TYPES)
    indptr = np.searchsorted(rows, np.arange(TYPES + 1)).astype(np.int64)
    return indptr, columns.astype(np.int32), np.ones(len(keys), np.int32)


def products() -> Iterator[Case]:
    """Products with the counts of one lag, and those of tall matrices."""
    width, rows, h = BLOCKS * (STATES + OVERSAMPLING), BLOCKS * TYPES, STATES + OVERSAMPLING
    pairs = _pairs(DRAWN)
    nonzeros, work = len(pairs[1]), Work()
    work.sparse(nonzeros, TYPES, width)

    def product(device: str) -> Callable[[], Any]:
        import torch

        sparse = [torch.from_numpy(part).to(device) for part in pairs]
        dense, scale = torch.randn((TYPES, width), device=device), torch.rand(TYPES, device=device)
        return lambda: sparse_product(*sparse, dense, row_scale=scale, column_scale=scale)

    yield Case(
        "sparse_product", f"{nonzeros:,} pairs by {width} columns", work, TYPES * width * FLOAT,
        product, nonzeros, "pair",
    )  # fmt: skip

    def gram(device: str) -> Callable[[], Any]:
        import torch

        X = torch.randn((rows, h), device=device)
        return lambda: tall_gram(X, X)

    def multiply(device: str) -> Callable[[], Any]:
        import torch

        X, M = torch.randn((rows, h), device=device), np.eye(h)
        return lambda: tall_product(X, M)

    flops, tall = 2.0 * rows * h * h, rows * h * FLOAT
    case = f"{rows:,} x {h}"
    yield Case("tall_gram", case, Work(flops, tall), 12 * h * h, gram, rows, "row")
    yield Case("tall_product", case, Work(flops, 2 * tall), tall, multiply, rows, "row")


# -- a whole fit ---------------------------------------------------------------------------------------


def fit() -> Iterator[Case]:
    """From lagged counts to a model: the randomised SVD, EM in a subspace, EM over the whole vocabulary."""
    nonzeros = len(_pairs(DRAWN)[1])
    held = LAGS * nonzeros * 2 * (ID + FLOAT) + 16 * TYPES * BLOCKS * (STATES + OVERSAMPLING)
    case = f"{TOKENS:,} tokens, {TYPES:,} types, {STATES} states, after counting"
    yield Case("LDS fit", case, _work_of_fit([nonzeros] * LAGS), held, _fit, TOKENS, "token")


def _work_of_fit(nonzeros: list[int]) -> Work:
    """Count the products with a row for each word; those of states alone run on the CPU and are not counted.

    ``nonzeros`` are the pairs of each lag. The functions named in the comments are those of `tacenda_embeddings.lds`.
    """
    V, h, w, r = TYPES, STATES, STATES + OVERSAMPLING, BLOCKS
    work, wide = (
        Work(),
        4 * STATES,
    )  # columns of the subspace of EM, and of the blocks of Gamma side by side
    for k, pairs in enumerate(nonzeros, 1):
        blocks = min(k, 2 * r - k)
        work.sparse(pairs, V, blocks * w, times=4)  # hankel_product
        work.sparse(pairs, V, wide)  # project
        work.sparse(pairs, V, h, times=2 * FULL + 1)  # expectation, forwards and backwards
    tall = r * V
    work.product(w, tall, w, times=5)  # grams of _orthonormalize, in four passes, and of B
    work.product(tall, w, w, times=4)
    work.product(tall, w, h, times=2)  # Gamma and Delta
    work.product(h, V, h, times=2 * r + 1)  # identify
    work.product(wide, V, wide, times=4 + LAGS)  # basis, project
    work.product(V, wide, wide, times=3)  # basis
    work.product(V, wide, h, times=2)  # into the subspace and back
    # EM: a gram for each lag, and products of (V, h) with (h, h) for the expected observations of every lag
    work.product(h, V, h, times=(FULL + 1) * (LAGS + 2))
    work.product(V, h, h, times=FULL * (2 * LAGS + 2))
    small = 2 * LAGS * (2 * h * wide * wide + 2 * wide * h * h)
    work.flops += SUBSPACE * small
    work.moved += SUBSPACE * 2 * LAGS * FLOAT * (wide * wide + 4 * wide * h)
    return work


def _fit(device: str) -> tuple[Callable[[], Any], Work]:
    from tacenda_embeddings.lds import learning
    from tacenda_embeddings.settings import LDSSettings

    settings, counts = LDSSettings(n_states=STATES), _counts()  # "auto": the current one
    work = _work_of_fit([len(lag.indices) for lag in counts.lags])
    return lambda: learning.fit(settings, counts), work


def _counts() -> Any:
    """Counts of a text whose topic lasts for some words; each topic prefers its share of the words."""
    from tacenda.vocabulary import BOUNDARY, UNKNOWN, Vocabulary
    from tacenda_embeddings.lds.lagged_counts import LaggedCounts

    rng = np.random.default_rng(0)
    topics = rng.integers(TOPICS, size=STREAMS)
    length = TOKENS // STREAMS
    text = words(STREAMS * length, TYPES, rng).astype(np.int32).reshape(length, STREAMS)
    for row in text:
        topics = np.where(rng.random(STREAMS) < 0.1, rng.integers(TOPICS, size=STREAMS), topics)
        own = rng.random(STREAMS) < 0.5  # half of the words are those of the topic
        row[own] = (row[own] // TOPICS * TOPICS + topics[own]) % TYPES
    stream = np.ascontiguousarray(text.T).ravel()
    unigram = np.bincount(stream, minlength=TYPES)
    names = BOUNDARY, UNKNOWN, *(f"w{i}" for i in range(2, TYPES))
    vocabulary = Vocabulary(names, unigram)
    circle = np.concatenate([stream[-LAGS:], stream])  # the first words follow the last ones
    lags = lagged_counts(circle, LAGS, TYPES, LAGS)
    return LaggedCounts(vocabulary, lags, unigram)
