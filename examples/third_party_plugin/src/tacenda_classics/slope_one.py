"""Slope One (Lemire and Maclachlan, SDM 2005), weighted and shrunk toward damped means.

The mean difference between the ratings of items i and j, over users who rated both, predicts i from each rating of j:

    d_ij = sum_{u in S_ij} (r_ui - r_uj) / (n_ij + k),   n_ij = |S_ij|

    r_ui ~ sum_j w_ij (r_uj + d_ij) + k b_ui,  divided by sum_j w_ij + k,   w_ij = n_ij / (n_ij + k)

over the items j != i that u has rated. b_ui = mean + c_i + b_u is a sum of damped means: c_i of the item's ratings
minus the mean, and b_u of the user's ratings minus both. k is a number of users: differences between items with fewer
users in common have little weight.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from tacenda.arrays import Array, Float32, Int32, Int64, take
from tacenda.errors import ArtifactError, DataError, PluginUnavailableError
from tacenda.fitting import FitRun
from tacenda.ratings import Ratings
from tacenda.settings import Settings, configured_by, option

try:
    from tacenda_surprise import RatingAlgorithm
    from tacenda_surprise.catalogue import Catalogue
    from tacenda_surprise.identities import Identities
except ImportError as error:  # the registry lists the model as unavailable, with this reason
    raise PluginUnavailableError(
        "slope_one needs tacenda-surprise: install tacenda-classics[ratings]"
    ) from error

Floats = npt.NDArray[np.float32]
Numbers = npt.NDArray[np.integer[Any]]

_BLOCK = 256  # users scored at a time


@dataclass(frozen=True, kw_only=True)
class SlopeOneSettings(Settings):
    """Settings of `SlopeOne`."""

    shrinkage: float = option(
        2.0, "number of common users at which a difference has half its weight", at_least=0
    )
    damping: float = option(5.0, "mean ratings added for each item and user", at_least=0)


class Learned(NamedTuple):
    """The learned arrays, all computed from the ratings.

    Attributes
    ----------
    rated
        (users + 1, items) sparse: the ratings; the last row is for an unknown user.
    weights, differences
        (items, items) sparse: at [j, i] w_ij, and w_ij d_ij.
    item_biases
        (items,): c.
    """

    rated: csr_array
    weights: csr_array
    differences: csr_array
    item_biases: Floats


class Folded(NamedTuple):
    """A user added after the fit; see `tacenda_surprise.users.FoldedUser`."""

    scores: Floats  # (items + 1,), the last for an unknown item
    noise: float

    def score(self, items: Numbers | None = None) -> Floats:
        """Return expected ratings (items,), of all items if None; -1 is an unknown item."""
        return self.scores[:-1] if items is None else self.scores[items]

    def deviations(self, items: Numbers) -> Floats:
        """Return the noise of the ratings (items,)."""
        return np.full(len(items), self.noise, np.float32)


class SlopeOne(RatingAlgorithm):
    """Predict ratings from mean differences between items."""

    name: ClassVar[str] = "slope_one"
    distribution: ClassVar[str] = "tacenda-classics"
    keeps_checkpoints: ClassVar[bool] = False
    settings: SlopeOneSettings
    settings_class = SlopeOneSettings

    _learned_from: Ratings | None = None
    _found: Learned | None = None
    _noise: float = 0.0

    @configured_by(SlopeOneSettings)
    def __init__(self, settings: SlopeOneSettings) -> None:
        super().__init__(settings)

    # -- fitting -----------------------------------------------------------------------------------

    def _fit(self, run: FitRun, ratings: Ratings, identities: Identities | None) -> None:
        """Fit in one step, so ``run`` is not used."""
        self._learn(ratings)
        errors = self.score_pairs(ratings.user_ids, ratings.item_ids) - ratings.values
        # Add two ratings with an error of one, so that a few ratings do not look certain.
        self._noise = float(np.sqrt((np.sum(errors**2, dtype=float) + 2) / (len(errors) + 2)))

    def _learn(self, ratings: Ratings) -> None:
        self._catalogue, self._learned_from = Catalogue.of(ratings), ratings
        offsets, items, values = ratings.user_offsets, ratings.item_ids, ratings.values
        shape = (ratings.n_users + 1, ratings.n_items)
        offsets = np.append(offsets, len(values))
        left = np.bincount(items, values - self._catalogue.mean, ratings.n_items)
        c = left / np.maximum(ratings.item_counts + self.settings.damping, 1e-9)

        # No value is zero, because a sparse product drops sums of zero.
        positive = values.astype(np.float64) - ratings.scale[0] + 1
        R, M = (csr_array((x, items, offsets), shape=shape) for x in (positive, positive**0))
        n, above, below = (x.tocsr() for x in (M.T @ M, M.T @ R, R.T @ M))
        for table in (n, above, below):
            table.sort_indices()
        others = np.repeat(np.arange(ratings.n_items), np.diff(n.indptr)) != n.indices
        k = np.maximum(self.settings.shrinkage, 1e-9)
        w = others * n.data / (n.data + k)
        d = (above.data - below.data) / (n.data + k)
        weights, differences = (
            csr_array((x.astype(np.float32), n.indices, n.indptr), shape=n.shape)
            for x in (w, w * d)
        )
        rated = csr_array((values, items, offsets), shape=shape)
        self._found = Learned(rated, weights, differences, c.astype(np.float32))

    # -- predicting --------------------------------------------------------------------------------

    def _scores(self, rated: csr_array) -> Floats:
        """Return expected ratings (users, items + 1) for the ratings of users (users, items).

        The last column is for an unknown item. Rows of a sparse product are computed one by one, so a user's scores do
        not depend on the other users.
        """
        _, weights, differences, c = self._learned(self._found)
        k = np.float32(max(self.settings.shrinkage, 1e-9))
        counts = np.diff(rated.indptr)
        users = np.repeat(np.arange(len(counts)), counts)
        left = np.bincount(users, rated.data - self.catalogue.mean - c[rated.indices], len(counts))
        b = left / np.maximum(counts + self.settings.damping, 1e-9) + self.catalogue.mean
        base = b.astype(np.float32)[:, None] + np.append(c, np.float32(0))
        M = csr_array((np.ones_like(rated.data), rated.indices, rated.indptr), shape=rated.shape)
        total, weight = (rated @ weights + M @ differences).toarray(), (M @ weights).toarray()
        base[:, :-1] = (total + k * base[:, :-1]) / (weight + k)
        return np.asarray(base, np.float32)

    def score_users(self, users: Numbers) -> Floats:
        """Return expected ratings of all items (users, items) float32, not clipped; -1 is an unknown user."""
        rated = self._learned(self._found).rated
        return np.ascontiguousarray(self._scores(rated[np.asarray(users, np.int64)])[:, :-1])

    def score_pairs(self, users: Numbers, items: Numbers) -> Floats:
        """Return expected ratings (pairs,) float32, not clipped; -1 is an unknown user or item."""
        rated = self._learned(self._found).rated
        different, place = np.unique(users, return_inverse=True)
        items, scores = np.asarray(items), np.empty(len(place), np.float32)
        for start in range(0, len(different), _BLOCK):
            block = self._scores(rated[different[start : start + _BLOCK]])
            here = (place >= start) & (place < start + _BLOCK)
            scores[here] = block[place[here] - start, items[here]]
        return scores

    def deviations(self, users: Numbers, items: Numbers) -> Floats:
        """Return the noise of the ratings (pairs,), the same for every pair."""
        self._learned(self._found)
        return np.full(len(users), self._noise, np.float32)

    def _fold(self, items: Numbers, values: Floats, known: Numbers) -> Folded:
        """Add a user after the fit; see `RatingAlgorithm.fold`, which checks the numbers."""
        shape = 1, len(self.catalogue.items)
        row = csr_array((values, items, [0, len(values)]), shape=shape)
        return Folded(self._scores(row)[0], self._noise)

    # -- saving and loading: only the ratings are saved, and the rest is computed again ----

    def config_dict(self) -> dict[str, Any]:
        """Add the noise to the options and the scale."""
        return {**super().config_dict(), "noise": self._noise}

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the ratings, and the raw ids of users and items."""
        ratings = self._learned(self._learned_from)
        return {
            "ratings.offsets": ratings.user_offsets,
            "ratings.items": ratings.item_ids,
            "ratings.values": ratings.values,
            **self.catalogue.arrays(),
        }

    @classmethod
    def from_arrays(cls, config: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Self:
        """Rebuild the model of an artifact. Raises ArtifactError."""
        model = cls.from_settings(config["settings"])
        catalogue = Catalogue.from_arrays(config["catalogue"], arrays)
        sizes: dict[str, int] = {}
        offsets = take(arrays, "ratings.offsets", Int64[Array, "users+1"], sizes)
        items = take(arrays, "ratings.items", Int32[Array, "n"], sizes)
        values = take(arrays, "ratings.values", Float32[Array, "n"], sizes)
        try:
            ratings = Ratings.from_csr(
                offsets, items, values, catalogue.users, catalogue.items, scale=catalogue.scale
            )
        except DataError as error:
            raise ArtifactError(f"its ratings cannot be used: {error}") from error
        model._noise = float(config["noise"])
        if not 0 < model._noise < np.inf:
            raise ArtifactError(f"the noise of the ratings is {model._noise}: the file is damaged")
        model._learn(ratings)
        return model
