"""Smoothing: from counted n-grams to probabilities and back-offs, a block of whole contexts at a time.

c(.) are Kneser-Ney's counts: the occurrences for the highest order and for n-grams that begin with ``<s>``, and
otherwise the number of distinct words before the n-gram (see ``counts``). N_k(h .) = |{w : c(h w) = k}|, and h' is h
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

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from tacenda.progress import Progress, track
from tacenda.settings import Settings, option
from tacenda_lm.ngram.counts import Counted, Int64, counts_of
from tacenda_lm.ngram.layout import MAX_ORDER
from tacenda_lm.ngram.rows import Packing, Parents, Rows, grouped
from tacenda_lm.ngram.spooling import Scratch, Sorter, Spool
from tacenda_lm.sequences import Float64

__all__ = [
    "FALLBACK",
    "Estimate",
    "KneserNeySettings",
    "estimate",
    "good_turing_ratios",
    "kneser_ney_discounts",
]

#: The discounts where a text is too small or too odd to give them: those of ``lmplz --discount_fallback``.
FALLBACK = (0.5, 1.0, 1.5)


@dataclass(frozen=True, kw_only=True)
class KneserNeySettings(Settings):
    """Options of `KneserNey`."""

    order: int = option(
        5,
        "words that an n-gram spans: order - 1 words of context and the predicted one",
        at_least=1,
        at_most=MAX_ORDER,
    )
    smoothing: Literal["interpolated", "backoff", "good_turing"] = option(
        "interpolated",
        """``"interpolated"`` is modified Kneser-Ney (Chen and Goodman 1998), estimated as lmplz does;
        ``"backoff"`` has the same discounts, but asks a lower order only where a higher one has not seen the
        word; ``"good_turing"`` is Katz's back-off with Good-Turing discounts (Katz 1987) on raw counts""",
    )
    min_count: int = option(
        1,
        """n-grams of three or more words that occur less often are not listed, and are predicted from their
        last words; 2 is SRILM's default, and the two back-off forms need it""",
        at_least=1,
    )
    cutoff: int = option(
        7,
        """the k of Katz: higher counts are trusted as they are; for ``smoothing="good_turing"``""",
        at_least=1,
        at_most=100,
    )
    prune: float = option(
        0.0,
        """n-grams of two or more words without which the model's perplexity rises by less than this share are not
        listed (Stolcke 1998), as SRILM's -prune; 1e-8 to 1e-6 are common""",
        at_least=0,
        below=1,
    )
    bits: int | None = option(
        None,
        """bits of a log-probability and of a back-off in the table; by default they are exact to float32. 8 make the
        table half as large, and change the probabilities a little""",
        at_least=2,
        at_most=16,
    )
    memory_gb: float | None = option(
        None,
        """gigabytes that fitting may take; what does not fit goes to a temporary folder (that of TMPDIR). By default a
        quarter of the machine's memory, of which no more is taken than makes it faster""",
        above=0,
    )

    def idle(self) -> Mapping[str, str]:
        """Only Good-Turing discounts have a cutoff."""
        return (
            {} if self.smoothing == "good_turing" else {"cutoff": "without smoothing='good_turing'"}
        )


class Estimate(NamedTuple):
    """What `estimate` found beside the n-grams, order by order."""

    sizes: list[int]  # n-grams listed
    discounts: list[Float64]  # of `kneser_ney_discounts` or `good_turing_ratios`
    from_text: list[bool]  # whether the text gave these discounts


class Sink(Protocol):
    """What takes the n-grams of a smoothed model, order by order; all arrays are (n-grams,)."""

    def add_ngrams(self, order: int, words: Int64, log_probs: Float64) -> None:
        """Take the next n-grams of an order: their last words and log p(w_n | w_1 ... w_{n-1}).

        They are sorted by their words, the first word first.
        """

    def add_contexts(self, order: int, n_after: Int64, log_backoffs: Float64) -> None:
        """Take how many n-grams continue the next n-grams of an order, and their back-offs, natural logarithms."""

    def end_order(self, order: int) -> None:
        """All is known of the n-grams of an order."""


def estimate(
    counted: Counted, settings: KneserNeySettings, scratch: Scratch, sink: Sink
) -> Estimate:
    """Smooth the n-grams of a text as the settings say, and hand them to ``sink``.

    Each order is read twice along with the one below: sorted by its last words, where p(w | h') is found for every
    n-gram h w, and then by its first words, where those that continue a context are neighbours.
    """
    packing, order = counted.packing, len(counted.orders) + 1
    result = Estimate([], [], [])
    bar: Progress[object] = track(
        None,
        "smoothing n-grams",
        total=2 * sum(each.n_rows for each in counted.orders),
        unit="n-gram",
    )
    with bar:
        p = _unigrams(counted, settings, result, sink)
        keys = np.arange(1, len(p) + 1, dtype=np.uint64)[:, None] << np.uint64(64 - packing.bits)
        contexts: Iterator[Rows] = iter([keys])
        lower: Iterator[Rows] = iter([np.hstack([keys, p.view(np.uint64)[:, None]])])
        for n in range(2, order + 1):
            smoother = _Smoother(counted, settings, n)
            result.discounts.append(smoother.discounts)
            result.from_text.append(smoother.from_text)
            by_prefix = Sorter(scratch, packing.columns(n), packing.columns(n) + 2)
            for rows in _with_lower(counted.orders[n - 2].drained(), lower, n, packing):
                by_prefix.append(rows)
                bar.update(len(rows))
            kept = Spool(scratch, packing.columns(n))
            by_suffix = Sorter(scratch, packing.columns(n), packing.columns(n) + 1)
            size = 0
            for rows, p in smoother.smoothed(by_prefix.sorted(), contexts, packing, sink):
                size += len(rows)
                bar.update(len(rows))
                if n < order:
                    key = rows[:, : packing.columns(n)]
                    kept.append(key)
                    with_p = np.hstack([key, p.view(np.uint64)[:, None]])
                    by_suffix.append(packing.turned(with_p, n))
            result.sizes.append(size)
            sink.end_order(n - 1)
            contexts, lower = kept.drained(), by_suffix.sorted()
        sink.end_order(order)
    return result


def _unigrams(
    counted: Counted, settings: KneserNeySettings, result: Estimate, sink: Sink
) -> Float64:
    """Smooth the unigrams, which are interpolated with a uniform distribution: probabilities (types,)."""
    n_types = counted.unigrams.shape[1]
    smoother = _Smoother(counted, settings, 1)
    nothing, everything = np.zeros(n_types, np.int64), np.ones(n_types, bool)
    c = counted.unigrams[1 if smoother.katz else 0]
    p, _ = smoother.probabilities(nothing, c, everything, np.full(n_types, 1 / n_types), 1)
    result.sizes.append(n_types)
    result.discounts.append(smoother.discounts)
    result.from_text.append(smoother.from_text)
    sink.add_ngrams(1, np.arange(n_types), np.log(p))
    return p


def _with_lower(
    blocks: Iterator[Rows], lower: Iterator[Rows], n: int, packing: Packing
) -> Iterator[Rows]:
    """Turn rows of n-grams sorted by suffixes into such with the first word first, and p(w | h') in the last column.

    ``lower`` are the rows of the order below, with its probabilities. A row has zero there if h' w is not listed.
    """
    from tacenda_lm.ngram import row_kernels

    n_keys = packing.columns(n - 1)
    below = Parents(lower, n_keys, n_keys + 1)
    for block in grouped(blocks, n, packing):
        rows = block[packing.last(block, n) >= 0]
        if not len(rows):
            continue
        there = below.through(packing.parent(rows[-1], n))
        places = np.empty(len(rows), np.int64)
        row_kernels.parents(rows, *packing.without_last(n), there, n_keys, places)
        p = np.zeros(len(rows), np.uint64)
        p[places >= 0] = there[places[places >= 0], n_keys]
        yield packing.turned(np.hstack([rows, p[:, None]]), n)


class _Smoother:
    """The equations for the n-grams of one order, a block of whole contexts at a time."""

    def __init__(self, counted: Counted, settings: KneserNeySettings, n: int) -> None:
        self._settings, self.n = settings, n
        self.katz = settings.smoothing == "good_turing"
        tally = counted.counts_of_counts[n - 1, 1 if self.katz else 0]
        self.discounts, self.from_text = (
            _ratios_of(tally, settings.cutoff) if self.katz else _discounts_of(tally)
        )

    def smoothed(
        self, blocks: Iterator[Rows], contexts: Iterator[Rows], packing: Packing, sink: Sink
    ) -> Iterator[tuple[Rows, Float64]]:
        """Yield the rows that are listed, and their probabilities (n-grams,); tell the sink of them and of contexts.

        Rows have a key with the first word first, counts, and p(w | h'). ``contexts`` are keys of the order below.
        """
        from tacenda_lm.ngram import row_kernels

        n, n_keys = self.n, packing.columns(self.n - 1)
        above = Parents(contexts, n_keys, n_keys)
        for rows in grouped(blocks, n, packing):
            there = above.through(packing.parent(rows[-1], n))
            prefix = np.empty(len(rows), np.int64)
            row_kernels.parents(rows, *packing.without_last(n), there, n_keys, prefix)
            adjusted, occurrences = counts_of(rows[:, -2])
            # a part of an n-gram occurs at least as often as it, so the parts of what is listed are listed
            listed = np.ones(len(rows), bool) if n < 3 else occurrences >= self._settings.min_count
            below = np.ascontiguousarray(rows[listed, -1]).view(np.float64)
            c = occurrences if self.katz else adjusted
            p, backoff = self.probabilities(prefix, c, listed, below, len(there))
            rows = rows[listed]
            sink.add_contexts(
                n - 1, np.bincount(prefix[listed], minlength=len(there)), np.log(backoff)
            )
            sink.add_ngrams(n, packing.last(rows, n), np.log(p))
            yield rows, p
        for there in above.rest():
            sink.add_contexts(n - 1, np.zeros(len(there), np.int64), np.zeros(len(there)))

    def probabilities(
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
        known = prefix >= 0
        total = _sums(prefix[known], c[known], n_contexts)
        kept, prefix = self._discounted(c[listed]), prefix[listed]
        free = total - _sums(prefix, kept, n_contexts)
        if self.katz:
            total, free = _with_room(total, free)
        interpolated = self._settings.smoothing == "interpolated" or self.n == 1
        return (_interpolated if interpolated else _backed_off)(prefix, kept, total, free, below)

    def _discounted(self, c: Int64) -> Float64:
        """What remains of counts (n-grams,)."""
        if self.katz:
            return c * self.discounts[np.where(c > self._settings.cutoff, 0, c)]
        return c - self.discounts[np.minimum(c, 3)]


def kneser_ney_discounts(counts: Int64) -> tuple[Float64, bool]:
    """Return discounts D(0) ... D(3+) of modified Kneser-Ney, and whether the text gave them (eq. 26 of the paper).

        Y = t_1 / (t_1 + 2 t_2),   D(k) = k - (k + 1) Y t_{k+1} / t_k

    ``counts`` (n-grams,) are adjusted counts of one order; zeros are left out. Where a t_k is zero or a discount is not
    within 0 .. k, the discounts are `FALLBACK`. D(0) is 0.
    """
    return _discounts_of(np.bincount(np.minimum(counts, 5), minlength=6))


def _discounts_of(counts_of_counts: Int64) -> tuple[Float64, bool]:
    """As `kneser_ney_discounts`, given t_0, t_1, ..."""
    t = counts_of_counts.astype(np.float64)
    if (t[1:5] > 0).all():
        Y = t[1] / (t[1] + 2 * t[2])
        k = np.arange(1, 4)
        D = k - (k + 1) * Y * t[2:5] / t[1:4]
        if ((D > 0) & (k > D)).all():
            return np.concatenate([[0.0], D]), True
    return np.array([0.0, *FALLBACK]), False


def good_turing_ratios(counts: Int64, cutoff: int) -> tuple[Float64, bool]:
    """Return the shares d_0 ... d_cutoff that remain of counts, and whether the text gave them all (Katz 1987, eq. 14).

        r* = (r + 1) n_{r+1} / n_r,   mu = (k + 1) n_{k+1} / n_1,   d_r = (r* / r - mu) / (1 - mu)

    ``counts`` (n-grams,) are those of one order; zeros are left out. Counts above ``cutoff``, the k of the equations,
    are not discounted. Where the text does not give all shares, k is lowered until it does; if no k is left, an
    absolute discount of 0.5 is used.
    """
    return _ratios_of(np.bincount(np.minimum(counts, cutoff + 2), minlength=cutoff + 3), cutoff)


def _ratios_of(counts_of_counts: Int64, cutoff: int) -> tuple[Float64, bool]:
    """As `good_turing_ratios`, given n_0, n_1, ..."""
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


def _sums(prefix: Int64, values: npt.NDArray[np.generic], n_contexts: int) -> Float64:
    """Sums of values (n-grams,) over the words after each context, float64 (contexts,)."""
    return np.bincount(prefix, values, n_contexts).astype(np.float64, copy=False)


def _interpolated(
    prefix: Int64, kept: Float64, total: Float64, free: Float64, below: Float64
) -> tuple[Float64, Float64]:
    """Probabilities (n-grams,) and gammas (contexts,) of the interpolated form."""
    seen = total > 0
    gamma = np.where(seen, free / np.where(seen, total, 1), 1.0)
    divisor = np.where(seen, total, 1)
    return kept / divisor[prefix] + gamma[prefix] * below, gamma


def _backed_off(
    prefix: Int64, kept: Float64, total: Float64, free: Float64, below: Float64
) -> tuple[Float64, Float64]:
    """Probabilities (n-grams,) and back-offs (contexts,) of the back-off forms."""
    seen = total > 0
    p = kept / np.where(seen, total, 1)[prefix]
    left = np.where(seen, free / np.where(seen, total, 1), 1.0)
    open_to_others = 1 - _sums(prefix, below, len(total))
    closed = seen & (
        open_to_others <= 1e-9
    )  # every word was seen here, so there is none to give the mass to
    p /= np.where(closed, 1 - left, 1)[prefix]
    return p, np.where(closed | ~seen, 1.0, left / np.where(closed, 1, open_to_others))


def _with_room(total: Float64, free: Float64) -> tuple[Float64, Float64]:
    """Totals and free mass; a context whose counts are all trusted is treated as if it was seen once more.

    Such a context would leave no probability to the words that were not seen after it.
    """
    none = (total > 0) & (free <= 1e-9 * total)
    return total + none, np.where(none, 1.0, free)
