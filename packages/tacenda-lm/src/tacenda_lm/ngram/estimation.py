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

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda_lm.ngram.config import KneserNeyConfig
from tacenda_lm.ngram.counts import Grams, Int64
from tacenda_lm.ngram.discounts import good_turing_ratios, kneser_ney_discounts

__all__ = ["Estimate", "adjusted_counts", "estimate"]

Float64 = npt.NDArray[np.float64]


class Estimate(NamedTuple):
    """A smoothed model, order by order.

    Attributes
    ----------
    grams
        The n-grams listed; prefixes and suffixes are numbered among those listed.
    probs
        float64 (n-grams,) each: p(w_n | w_1 ... w_{n-1}).
    backoffs
        float64 (n-grams,) each, for all orders but the highest: what multiplies p(w | h') for
        words that are not listed after h; 1 where nothing is.
    discounts
        What each order was discounted by, as `discounts` gives it.
    from_text
        Whether the text gave these discounts.
    """

    grams: list[Grams]
    probs: list[Float64]
    backoffs: list[Float64]
    discounts: list[Float64]
    from_text: list[bool]


def adjusted_counts(grams: list[Grams]) -> list[Int64]:
    """Kneser-Ney's counts: of the highest order, and of what begins with ``<s>``, the occurrences; of all
    others the distinct words before them.
    """
    found = []
    for here, above in pairwise(grams):
        before = np.bincount(above.suffix, minlength=len(here.word))
        found.append(np.where(here.at_start, here.occurrences, before))
    return [*found, grams[-1].occurrences]


def estimate(grams: list[Grams], config: KneserNeyConfig) -> Estimate:
    """The model of these n-grams, as the configuration says."""
    katz = config.smoothing == "good_turing"
    counts = [each.occurrences for each in grams] if katz else adjusted_counts(grams)
    result = Estimate([], [], [], [], [])
    lower = np.full(len(grams[0].word), 1 / len(grams[0].word))
    place = np.arange(len(lower))  # of the n-grams one order below among those listed; -1 if not
    for here, c in zip(grams, counts, strict=True):
        n = len(result.probs) + 1
        kept, discounts, from_text = _discounted(c, config)
        n_contexts = len(lower) if n > 1 else 1
        listed = np.ones(len(c), bool) if n < 3 else here.occurrences >= config.min_count
        # what is listed occurs at least as often as what it is part of, so its parts are listed too
        all_prefixes = place[here.prefix]
        known = all_prefixes >= 0
        total = _sums(all_prefixes[known], c[known], n_contexts)
        here = Grams(
            prefix=all_prefixes[listed],
            word=here.word[listed],
            suffix=place[here.suffix[listed]],
            occurrences=here.occurrences[listed],
            at_start=here.at_start[listed],
        )
        kept = kept[listed]
        free = total - _sums(here.prefix, kept, n_contexts)
        if (
            katz
        ):  # a context of trusted counts only keeps nothing for the unseen: as if seen once more
            total, free = _with_room(total, free)
        below = lower[here.suffix] if n > 1 else lower
        smooth = _interpolated if config.smoothing == "interpolated" or n == 1 else _backed_off
        p, backoff = smooth(here.prefix, kept, total, free, below)
        if n > 1:
            result.backoffs.append(backoff)
        result.grams.append(here)
        result.probs.append(p)
        result.discounts.append(discounts)
        result.from_text.append(from_text)
        lower = p
        place = np.where(listed, np.cumsum(listed) - 1, -1)
    return result


def _discounted(c: Int64, config: KneserNeyConfig) -> tuple[Float64, Float64, bool]:
    """What remains of the counts of an order, its discounts, and whether the text gave these."""
    if config.smoothing == "good_turing":
        ratios, from_text = good_turing_ratios(c, config.cutoff)
        return c * ratios[np.where(c > config.cutoff, 0, c)], ratios, from_text
    discounts, from_text = kneser_ney_discounts(c)
    return c - discounts[np.minimum(c, 3)], discounts, from_text


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
