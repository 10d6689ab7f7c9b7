"""Entropy pruning: n-grams without which the model changes least are not listed.

Without the n-gram h w the model has p'(w | h) = alpha'(h) p(w | h'), and the distributions differ by

    D(p || p') = -p(h) { p(w | h) [log p(w | h') + log alpha'(h) - log p(w | h)]
                         + [log alpha'(h) - log alpha(h)] (1 - sum_{v listed after h} p(v | h)) }
    alpha'(h) = (1 - sum_{v listed, v != w} p(v | h)) / (1 - sum_{v listed, v != w} p(v | h'))

(Stolcke, "Entropy-based Pruning of Backoff Language Models", 1998, equations 2 to 6). The perplexity of what the model
itself expects rises by the share exp(D) - 1; n-grams for which this is below a threshold go. p(h) is the product of the
model's own probabilities, ``<s>`` being as probable as ``</s>``, as in SRILM.

Orders are judged from the highest down, each n-gram as if the others stayed. An n-gram stays if one that stays
continues it, and also if one that stays ends in it: look-ups go from shorter to longer n-grams. (SRILM drops the
latter; its files are completed when they are read.) The back-offs of contexts that lost n-grams are computed anew.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tacenda_lm.ngram.counts import Int64
from tacenda_lm.ngram.packing import TableWriter
from tacenda_lm.ngram.spooling import Scratch, default_budget
from tacenda_lm.ngram.table import Table
from tacenda_lm.sequences import Float64

__all__ = ["pruned"]


def pruned(table: Table, threshold: float) -> Table:
    """Return the table without the n-grams whose absence raises the perplexity by a share below ``threshold``."""
    from tacenda_lm.ngram import pruning_kernels as kernels

    order, arguments = table.order, table.arguments
    suffixes: list[Int64] = []  # of the contexts of each order
    log_probs: list[Float64] = []
    for n, size in enumerate(table.sizes[:-1]):
        suffix, log_prob = np.zeros(size, np.int64), np.empty(size, np.float64)
        if n:
            kernels.descend(*arguments, n - 1, suffixes[-1], log_probs[-1], suffix, log_prob)
        else:
            log_prob[:] = table.unpacked(1).log_prob
        suffixes.append(suffix)
        log_probs.append(log_prob)
    kept = [np.zeros(size, bool) for size in table.sizes]
    kept[0][:] = True
    backoffs = [np.empty(size, np.float32) for size in table.sizes[:-1]]
    # an n-gram that is needed by a longer one is marked as kept before its order is judged
    for n in range(order - 2, -1, -1):
        state = suffixes[n], log_probs[n], threshold, kept[n], kept[n + 1], backoffs[n]
        kernels.judge(*arguments, n, *state)
    return _only(table, kept, backoffs)


def _only(
    table: Table, kept: list[npt.NDArray[np.bool_]], backoffs: list[npt.NDArray[np.float32]]
) -> Table:
    """The n-grams that are kept, with these back-offs."""
    from tacenda_lm.ngram import pruning_kernels as kernels

    with Scratch(default_budget()) as scratch:
        writer = TableWriter(table.order, table.n_types, scratch)
        for n in range(1, table.order + 1):
            for begin, end in table.blocks(n):
                found, stays = table.unpacked(n, begin, end), kept[n - 1][begin:end]
                writer.add_ngrams(n, found.word[stays], found.log_prob[stays])
                if n < table.order:
                    n_after = np.empty(end - begin, np.int64)
                    kernels.count_kept(*table.arguments, n - 1, begin, kept[n], n_after)
                    writer.add_contexts(n, n_after[stays], backoffs[n - 1][begin:end][stays])
            writer.end_order(n)
        return Table(*writer.finish())
