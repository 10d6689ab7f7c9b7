"""A table of few bits: each order has 2^bits values for its log-probabilities, and as many for its back-offs.

They begin as the means of bins that hold equally many values (Federico and Bertoldi 2006, "How many bits are needed to
store probabilities for phrase-based translation?", as in KenLM) and are moved to the means of what is nearest to them
until this changes little (Lloyd's algorithm), which makes the squared error of the logarithms least. A back-off of
zero, which most n-grams that nothing continues have, stays exact. Distributions no longer sum to one exactly.
"""

from __future__ import annotations

import numpy as np

from tacenda_lm.ngram.packing import Float32, TableWriter
from tacenda_lm.ngram.spooling import Scratch, default_budget
from tacenda_lm.ngram.table import Table

__all__ = ["quantized"]

_ROUNDS = 20


def quantized(table: Table, bits: int) -> Table:
    """Return the same n-grams with log-probabilities and back-offs of ``bits`` bits."""
    codes = [_codes_of(table, n, bits) for n in range(1, table.order + 1)]
    with Scratch(default_budget()) as scratch:
        writer = TableWriter(table.order, table.n_types, scratch, codes)
        for n in range(1, table.order + 1):
            for block in table.blocks(n):
                found = table.unpacked(n, *block)
                writer.add_ngrams(n, found.word, found.log_prob)
                if n < table.order:
                    writer.add_contexts(n, found.n_after, found.backoff)
            writer.end_order(n)
        return Table(*writer.finish())


def _codes_of(table: Table, order: int, bits: int) -> tuple[Float32, Float32]:
    """The values of an order's log-probabilities and back-offs, ascending."""
    parts = [table.unpacked(order, *block) for block in table.blocks(order)]
    nothing = np.zeros(0, np.float32)
    probs = np.concatenate([nothing, *(part.log_prob for part in parts)])
    backoffs = np.concatenate([nothing, *(part.backoff for part in parts)])
    found = _values(probs, 1 << bits)
    others = _values(backoffs[backoffs != 0], (1 << bits) - 1)
    return found, np.unique(np.append(others, np.float32(0)))


def _values(values: Float32, n: int) -> Float32:
    """At most n values, ascending, and at least two, that stand for all."""
    ordered = np.sort(values).astype(np.float64)
    if len(ordered) < 2:
        return np.array([*ordered, 0.0] if len(ordered) else [-1.0, 0.0], np.float32)
    sums = np.concatenate([[0.0], np.cumsum(ordered)])
    cuts = np.linspace(0, len(ordered), n + 1).astype(np.int64)
    for _ in range(_ROUNDS):
        cuts = np.unique(cuts)
        means = np.diff(sums[cuts]) / np.diff(cuts)
        inner = np.searchsorted(ordered, (means[1:] + means[:-1]) / 2)
        cuts = np.concatenate([[0], inner, [len(ordered)]])
    found = np.unique(means.astype(np.float32))
    return found if len(found) > 1 else np.append(found, found + np.float32(1e-3))
