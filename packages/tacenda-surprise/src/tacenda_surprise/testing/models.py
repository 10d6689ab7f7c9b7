"""Conformance of a rating model: subclass `RecommenderTests` in a test file and say which.

    from tacenda_surprise.testing import RecommenderTests

    class TestMyModel(RecommenderTests):
        def make_model(self):
            return MyModel(n_factors=4)

About twenty tests are inherited: what ``fit``, ``score_pairs``, ``score_users`` and ``fold_in`` promise to
a host, users and items of whom little or nothing is known, threads and forked processes, and the way to disk
and back.
"""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
import pytest

from tacenda.datasets import synthetic_ratings
from tacenda.errors import ConfigurationError, NotFittedError, TacendaError
from tacenda.ratings import IdIndex, Ratings, split
from tacenda.testing.models import ModelTests

__all__ = ["RecommenderTests"]


class RecommenderTests(ModelTests):
    """Inherit, and define ``make_model``.

    Attributes
    ----------
    atol
        How far predictions may differ where the same numbers are computed in another order.
    learns
        Whether the model is expected to beat the mean of all ratings on ratings held out.
    may_hold_nan, fork_seconds
        See `tacenda.testing.models.ModelTests`.
    """

    kind = "recommenders"
    atol: float = 1e-4
    learns: bool = True

    def training_data(self) -> Ratings:
        """Return `ratings`."""
        return self.ratings()

    def ratings(self) -> Ratings:
        """Return what to fit the model to; override it if the default does not suit the model."""
        return self._split()[0]

    def _split(self) -> tuple[Ratings, Ratings]:
        """Ratings to fit to, and ratings held out."""
        found = synthetic_ratings.generate(120, 60, 2300, rank=2, noise=0.6, seed=3)
        return split(found.ratings, 0.1, seed=0)

    def applied(self, model: Any) -> list[Any]:
        """Return scores and deviations of `some_pairs`, and the scores of a user folded in."""
        pairs, (items, values) = self.some_pairs(), self.ratings().of_user(0)
        folded = model.fold_in(items, values).score()
        return [model.score_pairs(*pairs), model.deviations(*pairs), folded]

    def some_pairs(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Return numbers of users and of items, unknown ones among them."""
        rng = np.random.default_rng(0)
        ratings = self.ratings()
        return rng.integers(-1, ratings.n_users, 80), rng.integers(-1, ratings.n_items, 80)

    # -- fitting -----------------------------------------------------------------------------------

    def test_fit_returns_the_model_and_notes_the_data(self) -> None:
        model = self.make_model()
        assert model.fit(self.ratings()) is model
        assert model.fitted_on["n_ratings"] == len(self.ratings())

    def test_is_refused_before_it_is_fitted(self) -> None:
        zero = np.array([0])
        with pytest.raises(NotFittedError):
            self.make_model().score_pairs(zero, zero)
        with pytest.raises(NotFittedError):
            self.make_model().score_users(zero)
        with pytest.raises(NotFittedError):
            self.make_model().fold_in(zero, [3.0])
        with pytest.raises(NotFittedError):
            _ = self.make_model().catalogue
        with pytest.raises(NotFittedError):
            self.make_model().arrays()

    def test_fitting_is_deterministic(self, model: Any) -> None:
        again = self.make_model().fit(self.ratings())
        np.testing.assert_array_equal(
            again.score_pairs(*self.some_pairs()), model.score_pairs(*self.some_pairs())
        )

    def test_fitting_again_forgets_the_first_data(self, model: Any) -> None:
        other = synthetic_ratings.generate(30, 20, 180, seed=5).ratings
        again = self.make_model().fit(other).fit(self.ratings())
        np.testing.assert_array_equal(
            again.score_pairs(*self.some_pairs()), model.score_pairs(*self.some_pairs())
        )

    def test_catalogue_is_that_of_the_data(self, model: Any) -> None:
        ratings, catalogue = self.ratings(), model.catalogue
        assert catalogue.users.raw.tolist() == ratings.users.raw.tolist()
        assert catalogue.items.raw.tolist() == ratings.items.raw.tolist()
        assert catalogue.scale == ratings.scale
        assert catalogue.mean == pytest.approx(ratings.mean)
        np.testing.assert_array_equal(catalogue.levels, [1, 2, 3, 4, 5])

    # -- predictions -------------------------------------------------------------------------------

    def test_one_finite_float32_score_for_every_pair(self, model: Any) -> None:
        scores = model.score_pairs(*self.some_pairs())
        assert scores.shape == (80,)
        assert scores.dtype == np.float32
        assert np.isfinite(scores).all()
        assert model.score_pairs(np.empty(0, int), np.empty(0, int)).shape == (0,)

    def test_blocks_of_users_score_as_pairs_do(self, model: Any) -> None:
        users, n_items = np.array([3, -1, 0]), self.ratings().n_items
        block = model.score_users(users)
        assert block.shape == (3, n_items)
        assert block.dtype == np.float32
        pairs = model.score_pairs(np.repeat(users, n_items), np.tile(np.arange(n_items), 3))
        np.testing.assert_allclose(block.ravel(), pairs, atol=self.atol)

    def test_a_pair_does_not_depend_on_its_company(self, model: Any) -> None:
        users, items = self.some_pairs()
        together = model.score_pairs(users, items)
        for k in range(0, 80, 7):
            alone = model.score_pairs(users[k : k + 1], items[k : k + 1])
            np.testing.assert_array_equal(alone, together[k : k + 1])

    def test_who_is_unknown_is_scored_without_being_confused_with_the_last(
        self, model: Any
    ) -> None:
        n_items = self.ratings().n_items
        unknown = model.score_users(np.array([-1]))
        last = model.score_users(np.array([self.ratings().n_users - 1]))
        assert unknown.shape == (1, n_items)
        if self.learns:
            assert np.abs(unknown - last).max() > 1e-3

    def test_learns_something(self, model: Any) -> None:
        train, held_out = self._split()
        found = self.make_model().fit(train)
        scores = found.score_pairs(held_out.user_ids, held_out.item_ids)
        rmse = np.sqrt(np.mean((scores - held_out.values) ** 2))
        mean = np.sqrt(np.mean((train.mean - held_out.values) ** 2))
        assert rmse < mean if self.learns else np.isfinite(rmse)

    def test_deviations_are_positive(self, model: Any) -> None:
        deviations = model.deviations(*self.some_pairs())
        assert deviations.shape == (80,)
        assert (deviations > 0).all()

    def test_probabilities_are_some_and_agree_with_the_scores(self, model: Any) -> None:
        users, items = self.some_pairs()
        p = model.probabilities(users, items)
        assert p.shape == (80, 5)
        assert (p >= 0).all()
        np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-4)
        if self.learns:
            expected = p @ model.catalogue.levels
            scores = np.clip(model.score_pairs(users, items), 1, 5)
            assert np.corrcoef(expected, scores)[0, 1] > 0.9

    # -- new users ---------------------------------------------------------------------------------

    def test_a_folded_user_is_scored_like_the_same_user_fitted(self, model: Any) -> None:
        if not self.learns:
            pytest.skip("the model learns nothing of users")
        ratings = self.ratings()
        user = int(np.argmax(np.diff(ratings.user_offsets)))
        items, values = ratings.of_user(user)
        folded = model.fold_in(items, values).score()
        fitted = model.score_users(np.array([user]))[0]
        assert folded.shape == fitted.shape
        assert folded.dtype == np.float32
        assert np.corrcoef(folded, fitted)[0, 1] > 0.8

    def test_a_user_without_ratings_can_be_folded_in(self, model: Any) -> None:
        folded = model.fold_in(np.empty(0, int), [])
        assert np.isfinite(folded.score()).all()
        some = np.array([0, -1, 3])
        assert np.isfinite(folded.score(some)).all()
        np.testing.assert_allclose(
            folded.score(some)[[0, 2]], folded.score()[[0, 3]], atol=self.atol
        )
        assert (folded.deviations(some) > 0).all()

    def test_ratings_that_make_no_sense_cannot_be_folded_in(self, model: Any) -> None:
        for items, values in (([0, 1], [3.0]), ([0], [np.nan]), ([10_000], [3.0]), ([-1], [3.0])):
            with pytest.raises(TacendaError):
                model.fold_in(np.array(items), values)

    # -- more ratings ------------------------------------------------------------------------------

    def test_goes_on_with_more_ratings(self, model: Any) -> None:
        ratings = self.ratings()
        n_users, n_items = ratings.n_users, ratings.n_items
        more = Ratings(
            np.append(ratings.user_ids, [n_users, n_users, 0]),
            np.append(ratings.item_ids, [0, n_items, n_items]),
            np.append(ratings.values, [5, 4, 2]),
            IdIndex([*ratings.users.raw, "a newcomer"], "user"),
            IdIndex([*ratings.items.raw, "a new item"], "item"),
            scale=ratings.scale,
        )
        before, pairs = copy(model), self.some_pairs()
        scores = model.score_pairs(*pairs)
        try:
            after = copy(model).partial_fit(more, epochs=2)
        except ConfigurationError as error:
            pytest.skip(str(error))
        for found, old in (
            (after.catalogue.users, model.catalogue.users),
            (after.catalogue.items, model.catalogue.items),
        ):
            assert found.raw[:-1].tolist() == old.raw.tolist()
        assert str(after.catalogue.users.raw[-1]) == "a newcomer"
        assert str(after.catalogue.items.raw[-1]) == "a new item"
        everybody = np.arange(-1, n_users + 1)
        assert after.score_users(everybody).shape == (n_users + 2, n_items + 1)
        assert np.isfinite(after.score_users(everybody)).all()
        np.testing.assert_array_equal(before.score_pairs(*pairs), scores)
        if self.learns:
            moved = np.abs(after.score_pairs(*pairs) - scores)
            assert moved.mean() < 0.5 * np.std(ratings.values)

    # -- awkward data ------------------------------------------------------------------------------

    @pytest.mark.parametrize("triples", [
        [("u", "i", 3.0)],
        [("u", "i", 1.0), ("u", "j", 5.0)],
        [("u", "i", 1.0), ("v", "i", 5.0)],
        [("u", "i", 4.0), ("v", "j", 4.0)],
    ])  # fmt: skip
    def test_hardly_any_data(self, triples: Any) -> None:
        ratings = Ratings.from_triples(triples, scale=(1, 5))
        model = self.make_model().fit(ratings)
        assert np.isfinite(model.score_users(np.arange(-1, ratings.n_users))).all()
        assert (model.deviations(np.array([0]), np.array([0])) > 0).all()

    def test_users_and_items_without_ratings(self) -> None:
        ratings = self.ratings()
        some = ratings.select((ratings.user_ids > 5) & (ratings.item_ids > 5))
        model = self.make_model().fit(some)
        assert np.isfinite(model.score_users(np.arange(8))).all()

    # -- the way to disk and back ------------------------------------------------------------------

    def test_arrays_of_others_are_of_no_concern(self, model: Any) -> None:
        """A host may keep more in the folder of a model."""
        arrays = {**model.arrays(), "host.more": np.arange(3)}
        again = type(model).from_arrays({**model.config_dict(), "host": {"more": 1}}, arrays)
        np.testing.assert_array_equal(
            again.score_pairs(*self.some_pairs()), model.score_pairs(*self.some_pairs())
        )

    # -- comparisons -------------------------------------------------------------------------------

    def assert_close(self, found: Any, expected: Any) -> None:
        """Compare arrays up to ``atol``."""
        for array, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(array, other, rtol=0, atol=self.atol)

    def assert_same_model(self, model: Any, original: Any) -> None:
        """Compare two models, which must be equal in every respect, bit for bit."""
        super().assert_same_model(model, original)
        assert model.catalogue.users.raw.tolist() == original.catalogue.users.raw.tolist()
        assert model.catalogue.items.raw.tolist() == original.catalogue.items.raw.tolist()
