"""The quality of top lists: how well they predict held-out ratings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from tacenda.ratings import Ratings
from tacenda_surprise.catalogue import Numbers
from tacenda_surprise.top_n import Ranked, top


def most_popular(train: Ratings, users: Numbers, n: int, held_out: Ratings) -> Quality:
    """Judge lists of the items with the most ratings, without what users have rated."""
    counts = train.item_counts.astype(np.float32)
    ranked = (Ranked(u, *top(counts, n, train.of_user(u)[0])) for u in users.tolist())
    return quality(ranked, held_out, n)


class Quality(NamedTuple):
    """Quality of lists: means over the users who have items held out.

    With h_k = 1 if the item in place k of the list was held out, m items held out and n places: ``hit_rate`` is how
    often any h_k is 1, ``recall`` sum_k h_k / m, ``ndcg`` sum_k h_k / log2(k + 1) over what it is at best, and
    ``mrr`` 1 / k of the first h_k that is 1, or 0.
    """

    hit_rate: float
    ndcg: float
    mrr: float
    recall: float


def quality(ranked: Iterable[Ranked], held_out: Ratings, n: int) -> Quality:
    """Compare lists of at most ``n`` items with what their users have rated in ``held_out``; others are passed over."""
    gains = 1 / np.log2(np.arange(n) + 2)
    rows = []
    for one in ranked:
        wanted, _ = held_out.of_user(one.user)
        if not len(wanted):
            continue
        places = np.flatnonzero(np.isin(one.items[:n], wanted))
        best = gains[: min(len(wanted), n)].sum()
        first = 1 / (places[0] + 1) if len(places) else 0.0
        rows.append((len(places) > 0, gains[places].sum() / best, first, len(places) / len(wanted)))
    return Quality(*np.mean(rows, axis=0).tolist()) if rows else Quality(*[float("nan")] * 4)
