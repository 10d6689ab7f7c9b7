"""Smoothed probabilities of counted n-grams; float64, vectorised over the n-grams of an order.

c(.) are counts as adjusted below, N_k(h .) = |{w : c(h w) = k}|, and h' is h without its first word.

Interpolated modified Kneser-Ney (Chen and Goodman 1998, section 4.1.6):

    p(w | h) = (c(h w) - D(c(h w))) / sum_v c(h v) + gamma(h) p(w | h')
    gamma(h) = (D(1) N_1(h .) + D(2) N_2(h .) + D(3+) N_{3+}(h .)) / sum_v c(h v)

The unigrams interpolate with the uniform distribution over all types, so ``<unk>`` has mass even where the
text never had it. In the back-off forms the second term is left out for words seen after h, and the mass that
the discounts free is given to the other words in proportion to p(w | h').
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tacit_lm.ngram.config import KneserNeyConfig
from tacit_lm.ngram.counts import Grams, Int64
from tacit_lm.ngram.discounts import good_turing_ratios, kneser_ney_discounts

__all__ = ["Estimate", "adjusted_counts", "estimate"]

Float64 = npt.NDArray[np.float64]


class Estimate(NamedTuple):
    """A smoothed model, order by order.

    Attributes:
        probs: float64 (n-grams,) each: p(w_n | w_1 ... w_{n-1}).
        backoffs: float64 (n-grams,) each, for all orders but the highest: what multiplies p(w | h') for
            words that are not listed after h; 1 where nothing is.
        discounts: what each order was discounted by, as `discounts` gives it.
        from_text: whether the text gave these discounts.
    """

    probs: list[Float64]
    backoffs: list[Float64]
    discounts: list[Float64]
    from_text: list[bool]


def adjusted_counts(grams: list[Grams]) -> list[Int64]:
    """Kneser-Ney's counts: of the highest order, and of what begins with ``<s>``, the occurrences; of all
    others the distinct words before them.
    """
    found = []
    for here, above in zip(grams, grams[1:], strict=False):
        before = np.bincount(above.suffix, minlength=len(here.word))
        found.append(np.where(here.at_start, here.count, before))
    return [*found, grams[-1].count]


def estimate(grams: list[Grams], config: KneserNeyConfig) -> Estimate:
    """The model of these n-grams, as the configuration says."""
    katz = config.smoothing == "good_turing"
    counts = [each.count for each in grams] if katz else adjusted_counts(grams)
    result = Estimate([], [], [], [])
    lower = np.full(len(grams[0].word), 1 / len(grams[0].word))
    for here, c in zip(grams, counts, strict=True):
        n_contexts = len(lower) if result.probs else 1
        if katz:
            discounts, from_text = good_turing_ratios(c, config.cutoff)
            kept = c * discounts[np.where(c > config.cutoff, 0, c)]
        else:
            discounts, from_text = kneser_ney_discounts(c)
            kept = c - discounts[np.minimum(c, 3)]
        total = _sums(here.prefix, c, n_contexts)
        free = total - _sums(here.prefix, kept, n_contexts)
        if (
            katz
        ):  # a context of trusted counts only keeps nothing for the unseen: as if seen once more
            total, free = _with_room(total, free)
        below = lower[here.suffix] if result.probs else lower
        if config.smoothing == "interpolated" or not result.probs:
            p, backoff = _interpolated(here.prefix, kept, total, free, below)
        else:
            p, backoff = _backed_off(here.prefix, kept, total, free, below)
        if result.probs:
            result.backoffs.append(backoff)
        result.probs.append(p)
        result.discounts.append(discounts)
        result.from_text.append(from_text)
        lower = p
    return result


def _sums(prefix: Int64, values: npt.NDArray[np.generic], n_contexts: int) -> Float64:
    """Sums of values (n-grams,) over the words after each context, float64 (contexts,)."""
    return np.bincount(prefix, values, n_contexts).astype(np.float64, copy=False)


def _interpolated(
    prefix: Int64, kept: Float64, total: Float64, free: Float64, below: Float64
) -> tuple[Float64, Float64]:
    seen = total > 0
    gamma = np.where(seen, free / np.where(seen, total, 1), 1.0)
    divisor = np.where(seen, total, 1)
    return kept / divisor[prefix] + gamma[prefix] * below, gamma


def _backed_off(
    prefix: Int64, kept: Float64, total: Float64, free: Float64, below: Float64
) -> tuple[Float64, Float64]:
    seen = total > 0
    p = kept / np.where(seen, total, 1)[prefix]
    left = np.where(seen, free / np.where(seen, total, 1), 1.0)
    open_to_others = 1 - _sums(prefix, below, len(total))
    closed = seen & (open_to_others <= 1e-9)  # every word was seen here: none to give the mass to
    p /= np.where(closed, 1 - left, 1)[prefix]
    return p, np.where(closed | ~seen, 1.0, left / np.where(closed, 1, open_to_others))


def _with_room(total: Float64, free: Float64) -> tuple[Float64, Float64]:
    none = (total > 0) & (free <= 1e-9 * total)
    return total + none, np.where(none, 1.0, free)
