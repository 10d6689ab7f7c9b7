"""What the paper prints (Siivola and Honkela, Tables 1 to 3): perplexities on excerpts of a book it does not name."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["DEVELOPMENT", "TEST", "Published"]


class Published(NamedTuple):
    """The best state-space model of an order, its dimensions, and the n-gram of that order (Good-Turing)."""

    internal: int
    features: int | None
    state_space: float
    ngram: float


#: Tables 1 and 2, by training text and order.
DEVELOPMENT = {
    "sparse": {
        1: Published(5, None, 22.9, 17.3),
        2: Published(10, 15, 12.5, 13.7),
        3: Published(20, 15, 12.5, 13.4),
        5: Published(10, 15, 14.4, 12.7),
    },
    "dense": {
        2: Published(3, 15, 11.1, 10.8),
        3: Published(5, 25, 10.0, 8.0),
        5: Published(0, 15, 9.7, 5.7),
    },
}
#: Table 3, by training text: the state-space model and the n-gram that were best on the development text.
TEST = {"sparse": (12.3, 11.8), "dense": (9.5, 5.7)}
