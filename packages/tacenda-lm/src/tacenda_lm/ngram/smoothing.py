"""Smoothing: from counted n-grams to probabilities and back-offs, vectorised over the n-grams of an order.

c(.) are the counts that `adjusted_counts` returns, N_k(h .) = |{w : c(h w) = k}|, and h' is h without its first word.

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

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.settings import Settings, option
from tacenda_lm.ngram.counts import Grams, Int64
from tacenda_lm.ngram.table import MAX_ORDER
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

    def idle(self) -> Mapping[str, str]:
        """Only Good-Turing discounts have a cutoff."""
        return (
            {} if self.smoothing == "good_turing" else {"cutoff": "without smoothing='good_turing'"}
        )


class Estimate(NamedTuple):
    """A smoothed model; every list has one element per order, but ``backoffs`` has none for the highest."""

    grams: list[Grams]  # the n-grams listed; prefixes and suffixes are numbered among those listed
    probs: list[Float64]  # (n-grams,): p(w_n | w_1 ... w_{n-1})
    backoffs: list[Float64]  # (n-grams,): factor of p(w | h') for words not listed after h
    discounts: list[Float64]  # of `kneser_ney_discounts` or `good_turing_ratios`
    from_text: list[bool]  # whether the text gave these discounts


def estimate(grams: list[Grams], settings: KneserNeySettings) -> Estimate:
    """Smooth the n-grams of a text, given for every order, as the settings say."""
    katz = settings.smoothing == "good_turing"
    counts = [each.occurrences for each in grams] if katz else adjusted_counts(grams)
    result = Estimate([], [], [], [], [])
    lower = np.full(len(grams[0].word), 1 / len(grams[0].word))
    place = np.arange(
        len(lower)
    )  # of each n-gram one order below, among those listed; -1 if it is not
    for here, c in zip(grams, counts, strict=True):
        n = len(result.probs) + 1
        kept, discounts, from_text = _discounted(c, settings)
        n_contexts = len(lower) if n > 1 else 1
        listed = np.ones(len(c), bool) if n < 3 else here.occurrences >= settings.min_count
        # a part of an n-gram occurs at least as often as the n-gram, so the parts of what is listed are listed
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
        if katz:
            total, free = _with_room(total, free)
        below = lower[here.suffix] if n > 1 else lower
        smooth = _interpolated if settings.smoothing == "interpolated" or n == 1 else _backed_off
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


def adjusted_counts(grams: list[Grams]) -> list[Int64]:
    """Kneser-Ney's counts (n-grams,) of every order.

    They are the occurrences for the highest order and for n-grams that begin with ``<s>``, and otherwise the
    number of distinct words before the n-gram.
    """
    found = []
    for here, above in pairwise(grams):
        before = np.bincount(above.suffix, minlength=len(here.word))
        found.append(np.where(here.at_start, here.occurrences, before))
    return [*found, grams[-1].occurrences]


def kneser_ney_discounts(counts: Int64) -> tuple[Float64, bool]:
    """Return discounts D(0) ... D(3+) of modified Kneser-Ney, and whether the text gave them (eq. 26 of the paper).

        Y = t_1 / (t_1 + 2 t_2),   D(k) = k - (k + 1) Y t_{k+1} / t_k

    ``counts`` (n-grams,) are adjusted counts of one order; zeros are left out. Where a t_k is zero or a discount is not
    within 0 .. k, the discounts are `FALLBACK`. D(0) is 0.
    """
    t = np.bincount(np.minimum(counts, 5), minlength=6).astype(np.float64)
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
    n = np.bincount(np.minimum(counts, cutoff + 2), minlength=cutoff + 3).astype(np.float64)
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


def _discounted(c: Int64, settings: KneserNeySettings) -> tuple[Float64, Float64, bool]:
    """What remains of the counts of an order, its discounts, and whether the text gave them."""
    if settings.smoothing == "good_turing":
        ratios, from_text = good_turing_ratios(c, settings.cutoff)
        return c * ratios[np.where(c > settings.cutoff, 0, c)], ratios, from_text
    discounts, from_text = kneser_ney_discounts(c)
    return c - discounts[np.minimum(c, 3)], discounts, from_text


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
