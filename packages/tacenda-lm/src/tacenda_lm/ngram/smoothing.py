"""Smoothing: from counted n-grams to probabilities and back-offs, a block of whole contexts at a time.

c(.) are Kneser-Ney's counts: the occurrences for the highest order and for n-grams that begin with ``<s>``, and
otherwise the number of distinct words before the n-gram (see ``counting``). N_k(h .) = |{w : c(h w) = k}|, and h' is h
without its first word.

Interpolated modified Kneser-Ney (Chen and Goodman 1998, section 4.1.6):

    p(w | h) = (c(h w) - D(c(h w))) / sum_v c(h v) + gamma(h) p(w | h')
    gamma(h) = (D(1) N_1(h .) + D(2) N_2(h .) + D(3+) N_{3+}(h .)) / sum_v c(h v)

Unigrams are interpolated with the uniform distribution over all types, so ``<unk>`` has a probability even if
the text does not contain it. The back-off forms leave out the second term for words seen after h, and give the
mass that the discounts free to the other words, in proportion to p(w | h').

The discounts D come from counts of counts: three for each order (modified Kneser-Ney), or one for each count
(Katz).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.errors import warn
from tacenda.progress import Progress, track
from tacenda_lm.ngram.counting import Counted, split_counts
from tacenda_lm.ngram.packing import TableWriter
from tacenda_lm.ngram.rows import Int64, Packing, Parents, Rows, regroup
from tacenda_lm.ngram.spooling import Scratch, Sorter, Spool
from tacenda_lm.sequences import Float64

#: The discounts where a text is too small or too odd to give them: those of ``lmplz --discount_fallback``.
FALLBACK = (0.5, 1.0, 1.5)
#: The k of Katz (1987): higher counts are not discounted. Katz's section IV has 5, SRILM 7.
CUTOFF = 7


class Estimate(NamedTuple):
    """Results of `estimate` in addition to the n-grams, order by order."""

    discounts: list[Float64]  # from `kneser_ney_discounts` or `good_turing_ratios`
    from_text: list[bool]  # whether they come from the text, not from a fallback


def estimate(
    counted: Counted, smoothing: str, min_count: int, scratch: Scratch, writer: TableWriter
) -> Estimate:
    """Smooth the n-grams of a text, and give them to ``writer``.

    Each order is read twice along with the one below: by suffix, to find p(w | h') of every n-gram h w, and then by
    prefix, where the n-grams that continue a context are neighbors. Warns where the text does not give discounts.
    """
    packing, order = counted.packing, len(counted.orders) + 1
    total = 2 * sum(spool.n_rows for spool in counted.orders)
    bar: Progress[object] = track(None, "smoothing n-grams", total=total, unit="n-gram")
    with closing(bar):
        n_types = counted.unigrams.shape[1]
        smoother = _Smoother(counted, smoothing, min_count, 1)
        result = Estimate([smoother.discounts], [smoother.from_text])
        # unigrams are interpolated with a uniform distribution
        context, everything = np.zeros(n_types, np.int64), np.ones(n_types, bool)
        counts, uniform = counted.unigrams[int(smoother.katz)], np.full(n_types, 1 / n_types)
        p, _ = smoother.compute_probabilities(context, counts, everything, uniform, 1)
        writer.add_ngrams(1, np.arange(n_types), np.log(p))
        keys = np.arange(1, n_types + 1, dtype=np.uint64)[:, None] << np.uint64(64 - packing.bits)
        contexts: Iterator[Rows] = iter([keys])
        lower: Iterator[Rows] = iter([np.hstack([keys, p.view(np.uint64)[:, None]])])
        for n in range(2, order + 1):
            smoother = _Smoother(counted, smoothing, min_count, n)
            result.discounts.append(smoother.discounts)
            result.from_text.append(smoother.from_text)
            n_keys = packing.columns(n)
            by_prefix = Sorter(scratch, n_keys, n_keys + 2)
            for rows in _join_lower(counted.orders[n - 2].drain(), lower, n, packing):
                by_prefix.append(rows)
                bar.update(len(rows))
            keys_of_order = Spool(scratch, n_keys)
            by_suffix = Sorter(scratch, n_keys, n_keys + 1)
            for rows, p in smoother.smooth(by_prefix.read_sorted(), contexts, packing, writer):
                bar.update(len(rows))
                if n < order:
                    key = np.ascontiguousarray(rows[:, :n_keys])
                    keys_of_order.append(key)
                    by_suffix.append(packing.reverse(key, n, p.view(np.uint64)))
            writer.end_order(n - 1)
            contexts, lower = keys_of_order.drain(), by_suffix.read_sorted()
        writer.end_order(order)
    _warn_about_discounts(result.from_text, smoothing)
    return result


def _warn_about_discounts(from_text: list[bool], smoothing: str) -> None:
    """Warn about orders whose discounts do not come from the text, where lmplz would stop."""
    orders = [str(n) for n, given in enumerate(from_text, 1) if not given]
    if not orders:
        return
    used = f"{', '.join(map(str, FALLBACK))} are used, as with lmplz --discount_fallback"
    if smoothing == "good_turing":
        used = f"the discounts of a cutoff below {CUTOFF}, or else half a count, are used"
    warn(
        f"the text does not give the discounts of order {', '.join(orders)} (it is too small, or sentences repeat in "
        f"it): {used}"
    )


def _join_lower(
    blocks: Iterator[Rows], lower: Iterator[Rows], n: int, packing: Packing
) -> Iterator[Rows]:
    """Yield the rows of n-grams by prefix, with p(w | h') in an added last column, zero if h' w is not listed.

    ``blocks`` are the rows by suffix, and ``lower`` those of the order below with their probabilities.
    """
    below = Parents(lower, n, packing, packing.columns(n - 1) + 1)
    for block in regroup(blocks, n, packing):
        rows = block[packing.last(block, n) >= 0]
        if not len(rows):
            continue
        parents, places = below.read_for(rows)
        p = np.append(parents[:, -1], np.uint64(0))[places]  # place -1 has the zero
        yield packing.reverse(rows, n, p)


class _Smoother:
    """The equations for the n-grams of one order, a block of whole contexts at a time."""

    def __init__(self, counted: Counted, smoothing: str, min_count: int, n: int) -> None:
        self.n, self.min_count = n, min_count
        self.katz = smoothing == "good_turing"
        self.interpolates = smoothing == "interpolated" or n == 1
        tally = counted.counts_of_counts[n - 1, 1 if self.katz else 0]
        if self.katz:
            self.discounts, self.from_text = good_turing_ratios(tally, CUTOFF)
        else:
            self.discounts, self.from_text = kneser_ney_discounts(tally, self.interpolates)

    def smooth(
        self, blocks: Iterator[Rows], contexts: Iterator[Rows], packing: Packing, out: TableWriter
    ) -> Iterator[tuple[Rows, Float64]]:
        """Yield the rows that the model lists, and their probabilities (n-grams,); write them and their contexts.

        Rows have a key with the first word first, counts, and p(w | h'). ``contexts`` are keys of the order below.
        """
        n = self.n
        parents = Parents(contexts, n, packing, packing.columns(n - 1))
        for rows in regroup(blocks, n, packing):
            own_contexts, prefix = parents.read_for(rows)
            adjusted, occurrences = split_counts(rows[:, -2])
            # parts of an n-gram occur at least as often as the n-gram, so parts of listed n-grams are listed
            listed = np.ones(len(rows), bool) if n < 3 else occurrences >= self.min_count
            below = np.ascontiguousarray(rows[listed, -1]).view(np.float64)
            c = occurrences if self.katz else adjusted
            p, backoff = self.compute_probabilities(prefix, c, listed, below, len(own_contexts))
            rows = rows[listed]
            n_after = np.bincount(prefix[listed], minlength=len(own_contexts))
            out.add_contexts(n - 1, n_after, np.log(backoff))
            out.add_ngrams(n, packing.last(rows, n), np.log(p))
            yield rows, p
        for rest in parents.read_rest():  # contexts that nothing continues
            out.add_contexts(n - 1, np.zeros(len(rest), np.int64), np.zeros(len(rest)))

    def compute_probabilities(
        self,
        prefix: Int64,
        c: Int64,
        listed: npt.NDArray[np.bool_],
        below: Float64,
        n_contexts: int,
    ) -> tuple[Float64, Float64]:
        """Return the probabilities (n-grams listed,) and the back-offs (contexts,) of a block of whole contexts.

        ``prefix`` (n-grams,) is the place of each context, -1 of one that is not listed itself; ``c`` (n-grams,) are
        counts, and ``below`` (n-grams listed,) is p(w | h').
        """
        # sum_v c(h v), unlisted n-grams too; those of contexts that are not listed come first
        total = _sum_by_context(prefix + 1, c, n_contexts + 1)[1:]
        c, prefix = c[listed], prefix[listed]
        if self.katz:
            discounted = c * self.discounts[np.where(c > CUTOFF, 0, c)]
        else:
            discounted = c - self.discounts[np.minimum(c, 3)]
        # D(1) N_1 + D(2) N_2 + D(3+) N_3+ with the counts of what is not listed, which lower orders predict
        free = total - _sum_by_context(prefix, discounted, n_contexts)
        if self.katz:
            # a context whose counts are all above the cutoff would leave nothing to unseen words: count it once more
            nothing_left = (total > 0) & (free <= 1e-9 * total)
            total, free = total + nothing_left, np.where(nothing_left, 1.0, free)
        seen = total > 0
        divisor = np.where(seen, total, 1)
        left = np.where(seen, free / divisor, 1.0)  # gamma(h)
        p = discounted / divisor[prefix]
        if self.interpolates:
            return p + left[prefix] * below, left
        # a back-off model gives gamma(h) only to the words not seen after h, in proportion to p(w | h')
        unseen = 1 - _sum_by_context(prefix, below, n_contexts)
        # a context after which every word was seen keeps its mass
        closed = seen & (unseen <= 1e-9)
        p /= np.where(closed, 1 - left, 1)[prefix]
        return p, np.where(closed | ~seen, 1.0, left / np.where(closed, 1, unseen))


def _sum_by_context(prefix: Int64, values: npt.NDArray[np.generic], n_contexts: int) -> Float64:
    """Sum values (n-grams,) over the n-grams of each context: float64 (contexts,)."""
    return np.bincount(prefix, values, n_contexts).astype(np.float64, copy=False)


def kneser_ney_discounts(
    counts_of_counts: Int64, interpolates: bool = True
) -> tuple[Float64, bool]:
    """Return discounts D(0) ... D(3+) of modified Kneser-Ney, and whether they come from the text (eq. 26).

        Y = t_1 / (t_1 + 2 t_2),   D(k) = k - (k + 1) Y t_{k+1} / t_k

    ``counts_of_counts`` are t_0, t_1, ... of the adjusted counts of one order. Where t_1, t_2 or t_3 is zero or a
    discount is not within 0 .. k, the discounts are `FALLBACK`. D(0) is 0. As in lmplz, t_4 may be zero: D(3+) is 3
    then, and the lower orders predict what occurs three times. Without interpolation that would have no probability.
    """
    t = counts_of_counts.astype(np.float64)
    if (t[1:4] > 0).all():
        Y = t[1] / (t[1] + 2 * t[2])
        k = np.arange(1, 4)
        D = k - (k + 1) * Y * t[2:5] / t[1:4]
        # a D(k) of 0 would leave a context whose words all occur k times nothing to back off with
        if ((D > 0) & ((k >= D) if interpolates else (k > D))).all():
            return np.concatenate([[0.0], D]), True
    return np.array([0.0, *FALLBACK]), False


def good_turing_ratios(counts_of_counts: Int64, cutoff: int) -> tuple[Float64, bool]:
    """Return the shares d_0 ... d_cutoff of counts that remain, and whether all come from the text (Katz 1987, eq. 14).

        r* = (r + 1) n_{r+1} / n_r,   mu = (k + 1) n_{k+1} / n_1,   d_r = (r* / r - mu) / (1 - mu)

    ``counts_of_counts`` are n_0, n_1, ... of one order. Counts above ``cutoff``, the k of the equations, are not
    discounted. Where the text does not give all shares, k is lowered until it does; if no k is left, an absolute
    discount of 0.5 is used.
    """
    n = counts_of_counts.astype(np.float64)
    ratios = np.ones(cutoff + 1)
    for k in range(cutoff, 0, -1):
        r = np.arange(1, k + 1)
        if not (n[1 : k + 1] > 0).all():
            continue
        mu = (k + 1) * n[k + 1] / n[1]
        if mu >= 1:
            continue
        d = ((r + 1) * n[2 : k + 2] / n[1 : k + 1] / r - mu) / (1 - mu)
        if ((d > 0) & (d < 1)).all():
            ratios[1 : k + 1] = d
            return ratios, k == cutoff
    ratios[1:] = 1 - 0.5 / np.arange(1, cutoff + 1)
    return ratios, False
