"""Discounts from counts of counts: three for each order (modified Kneser-Ney), or one for each count (Katz)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tacenda_lm.ngram.counts import Int64

__all__ = ["FALLBACK", "good_turing_ratios", "kneser_ney_discounts"]

Float64 = npt.NDArray[np.float64]

#: The discounts where a text is too small or too odd to say: those of ``lmplz --discount_fallback``.
FALLBACK = (0.5, 1.0, 1.5)


def kneser_ney_discounts(counts: Int64) -> tuple[Float64, bool]:
    """D(0) ... D(3+) of modified Kneser-Ney (Chen and Goodman 1998, eq. 26), and whether the text gave them.

        Y = t_1 / (t_1 + 2 t_2),   D(k) = k - (k + 1) Y t_{k+1} / t_k

    Parameters
    ----------
    counts
        Adjusted counts (n-grams,) of one order; zeros do not count.

    Returns
    -------
    float64 (4,), with D(0) = 0; `FALLBACK` and False where a t_k is zero or a discount is not within 0 .. k.
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
    """d_r = what remains of a count r (Katz 1987, eq. 14), for r = 0 ... cutoff.

        r* = (r + 1) n_{r+1} / n_r,   mu = (k + 1) n_{k+1} / n_1,   d_r = (r* / r - mu) / (1 - mu)

    Parameters
    ----------
    counts
        Counts (n-grams,) of one order; zeros do not count.
    cutoff
        k; counts above it keep what they have.

    Returns
    -------
    float64 (cutoff + 1,) within 0 .. 1, with d_0 = 1, and whether the text gave all of them; where
    it did not, k is lowered until it does, and with no k left an absolute discount of 0.5 takes its place.
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
