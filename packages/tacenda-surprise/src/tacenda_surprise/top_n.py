"""Top lists: their order and length, the lists of many users in little memory, and the quality of lists.

A list is ranked by how likely the user is to choose an item (`tacenda_surprise.choices`) and to like it then,

    (max(x_u . y_i, 0) + 0.001 n_i / n) Phi((r_ui - m) / s)^{1/4},

with the predicted rating r_ui, the mean m of all ratings and their standard deviation s; n_i of the n users have rated
the item.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from tacenda.errors import ConfigurationError, DataError, PluginError, check_whole
from tacenda.ratings import Ratings
from tacenda_surprise.catalogue import Catalogue, Floats, Numbers
from tacenda_surprise.choices import ImplicitFactors
from tacenda_surprise.identities import Identities
from tacenda_surprise.raw_ids import as_list, check_known, find_type_mismatch, find_unknown, numbers

By = Literal["both", "rating", "choice"]
_SCORES_PER_BLOCK = 2_000_000  # in memory at a time


class ScoresUsers(Protocol):
    """A model that predicts the ratings of all items by users; see `RatingAlgorithm`."""

    catalogue: Catalogue

    def score_users(self, users: Numbers, /) -> Floats: ...


class Ranked(NamedTuple):
    """The best items of one user, best first: numbers (n,) and expected ratings (n,) float32, not clipped."""

    user: int
    items: npt.NDArray[np.int64]
    scores: Floats


class Lists(NamedTuple):
    """The order of lists, and the items that they leave out.

    ``by="rating"`` ranks by the expected rating alone, which suits a choice among a few candidates;
    ``"choice"`` by how likely the item is to be chosen; ``"both"`` by their product.
    """

    factors: ImplicitFactors | None = None  # None: by the expected rating
    by: By = "rating"
    #: Items that may be listed (shown,), ascending; None: all.
    shown: npt.NDArray[np.int64] | None = None

    @classmethod
    def of(
        cls, factors: ImplicitFactors | None, by: By, hidden: npt.NDArray[np.bool_] | None = None
    ) -> Lists:
        """Make the order of lists, which leave out the ``hidden`` items (items,).

        Raises ConfigurationError if ``by`` is something else. ``"rating"`` needs no ``factors``.
        """
        if by not in ("both", "rating", "choice"):
            raise ConfigurationError(f"by is {by!r}; give 'both', 'rating' or 'choice'")
        shown = None if hidden is None or not hidden.any() else np.flatnonzero(~hidden)
        return cls(None if by == "rating" else factors, by, shown)

    def longest(self, n: int, n_items: int) -> int:
        """Return how long a list of ``n`` of the ``n_items`` can become."""
        return min(n, n_items if self.shown is None else len(self.shown))

    def values(self, ratings: Floats, x: Floats | None) -> Floats:
        """Compute the values that rank the items of a block of users (users, items)."""
        if self.factors is None or x is None:
            return ratings
        return self.factors.scores(x) if self.by == "choice" else self.factors.combine(x, ratings)

    def choose(self, values: Floats, n: int, seen: Numbers | None) -> npt.NDArray[np.int64]:
        """Return the numbers of the ``n`` items with the highest ``values`` (items,), without those ``seen``."""
        if self.shown is None:
            return top(values, n, seen)[0]
        places = None if seen is None else np.flatnonzero(np.isin(self.shown, seen))
        return self.shown[top(values[self.shown], n, places)[0]]


def find_hidden(
    items: Mapping[Any, int],
    candidates: Iterable[Any] | None,
    exclude: Iterable[Any],
    owner: object,
) -> npt.NDArray[np.bool_]:
    """Find which items (items,) lists leave out; ``items`` are their numbers by raw id, the rest is as for ``top_n``.

    Warns, once for each ``owner``, of candidates that are unknown. Raises DataError as ``top_n`` does.
    """
    hidden = np.zeros(len(items) + 1, bool)  # the last one is that of unknown items, -1
    if candidates is not None:
        candidates = as_list(candidates, "candidates")
        check_known(candidates, items, "candidates", owner)
        hidden[:] = True
        hidden[numbers(candidates, items)] = False
    exclude = as_list(exclude, "exclude")
    mismatch = find_type_mismatch(find_unknown(exclude, items), items)
    if mismatch is not None:
        raise DataError(
            f"exclude has items that are not in the trainset: {mismatch}; convert the ids"
        )
    hidden[numbers(exclude, items)] = True
    return hidden[:-1]


def top(scores: Floats, n: int, hidden: Numbers | None) -> tuple[npt.NDArray[np.int64], Floats]:
    """Return numbers and scores of the ``n`` best items, best first, without the ``hidden`` ones."""
    values = scores.copy()
    if hidden is not None:
        values[hidden] = -np.inf
    n_hidden = 0 if hidden is None else len(np.unique(hidden))
    n = min(n, len(values) - n_hidden)
    # Sort only the n best: all above the n-th best value, and those that tie with it while there is room.
    candidates = np.arange(n)
    if 0 < n < len(values):
        border = -np.partition(-values, n - 1)[n - 1]
        certain = np.flatnonzero(values > border)
        ties = np.flatnonzero(values == border)[: n - len(certain)]  # lower numbers first
        candidates = np.concatenate([certain, ties])
    order = candidates[np.lexsort((candidates, -values[candidates]))]
    return order, values[order]


def best_items(
    model: ScoresUsers, users: Numbers, n: int, seen: Identities | None, lists: Lists | None = None
) -> Iterator[Ranked]:
    """Find the ``n`` best items for each of ``users`` (numbers), without those ``seen``, ranked by ``lists``.

    Without ``lists`` the highest ratings come first. Ties go to the lower number. Fewer than ``n`` come where
    fewer are left.
    """
    lists = Lists() if lists is None else lists
    n_items = len(model.catalogue.items)
    block = max(1, _SCORES_PER_BLOCK // max(n_items, 1))
    for start in range(0, len(users), block):
        part = users[start : start + block]
        ratings = check_scores(model, "score_users", model.score_users(part), len(part), n_items)
        # an unknown user, -1, has no taste
        x = None if lists.factors is None else lists.factors.x[part] * (part >= 0)[:, None]
        values = lists.values(ratings, x)
        for user, row, own in zip(part.tolist(), values, ratings, strict=True):
            known = seen.of_user(user) if seen is not None and user >= 0 else None
            found = lists.choose(row, n, known)
            yield Ranked(user, found, own[found])


def check_answer(model: object, method: str, found: object, *shape: int) -> npt.NDArray[Any]:
    """Return ``found``, the result of ``method`` of a model that may be third-party, if it is floats of this ``shape``.

    Raises PluginError, which names the model and both shapes.
    """
    if isinstance(found, np.ndarray) and found.shape == shape and found.dtype.kind == "f":
        return found
    given = f"a {type(found).__name__}"
    if isinstance(found, np.ndarray):
        given = f"{found.dtype} of the shape {found.shape}"
    raise _wrong_answer_error(model, method, given, f"float32 of the shape {shape} was")


def check_scores(model: object, method: str, found: object, *shape: int) -> npt.NDArray[Any]:
    """Return ``found`` as `check_answer` does, if it is finite: no order is certain of NaN. Raises PluginError."""
    scores = check_answer(model, method, found, *shape)
    finite = np.isfinite(scores)
    if finite.all():
        return scores
    raise _wrong_answer_error(
        model, method, str(scores.flat[finite.argmin()]), "finite numbers were"
    )


def _wrong_answer_error(model: object, method: str, given: str, asked: str) -> PluginError:
    """Return the error for a ``method`` of a model that gave something other than was asked for."""
    name, kind = getattr(model, "name", type(model).__name__), type(model).__name__
    return PluginError(
        f"{method} of the model {name!r} ({kind}) gave {given} where {asked} asked for: correct the model"
    )


def name_items(
    items: npt.NDArray[np.int64],
    scores: npt.NDArray[np.floating[Any]],
    raw: Sequence[Any],
    scale: tuple[float, float],
) -> list[tuple[Any, float]]:
    """List items (n,) by their ``raw`` ids, each with its expected rating (n,), clipped to the scale."""
    estimates = np.clip(scores, *scale).tolist()
    return [(raw[item], score) for item, score in zip(items, estimates, strict=True)]


class TopLists(Mapping[Any, list[tuple[Any, float]]]):
    """Lists of users by raw id: (raw item id, estimate), best first.

    A list is made when it is looked up. Item numbers and estimates take 8 bytes for each place; lists of Python objects
    would take more memory than the model.
    """

    def __init__(self, uids: Iterable[Any], raw: Sequence[Any], longest: int) -> None:
        self._rows = {uid: row for row, uid in enumerate(dict.fromkeys(uids))}
        self._raw = raw
        self._items = np.full((len(self._rows), longest), -1, np.int32)
        self._estimates = np.zeros((len(self._rows), longest), np.float32)

    def fill(self, uid: Any, items: Numbers, estimates: Floats) -> None:
        """Set the list of a user to these items (numbers) with their estimates."""
        row, n = self._rows[uid], len(items)
        self._items[row, :n], self._estimates[row, :n] = items, estimates

    def __getitem__(self, uid: Any) -> list[tuple[Any, float]]:
        row = self._rows[uid]
        n = int((self._items[row] >= 0).sum())
        items, estimates = self._items[row, :n].tolist(), self._estimates[row, :n].tolist()
        return [(self._raw[item], one) for item, one in zip(items, estimates, strict=True)]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __or__(self, other: Mapping[Any, Any]) -> dict[Any, Any]:
        return dict(self) | dict(other)

    def __ror__(self, other: Mapping[Any, Any]) -> dict[Any, Any]:
        return dict(other) | dict(self)

    def __repr__(self) -> str:
        return repr(dict(self))


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
    check_whole("n", n)
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


def most_popular(train: Ratings, users: Numbers, n: int, held_out: Ratings) -> Quality:
    """Judge lists of the items with the most ratings, without what users have rated."""
    counts = train.item_counts.astype(np.float32)
    ranked = (Ranked(u, *top(counts, n, train.of_user(u)[0])) for u in users.tolist())
    return quality(ranked, held_out, n)
