"""Who chooses what, without ratings: `ImplicitMF` against dense weighted least squares, and as users meet it."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from support.ratings import Frame
from support.recommenders import trainset_of
from tacenda.errors import ConfigurationError, DataError
from tacenda.ratings import Ratings
from tacenda.testing.models import check_estimator
from tacenda_surprise import PMF, ImplicitMF, SideInfo
from tacenda_surprise.choices import Choosing
from tacenda_surprise.identities import Identities
from tacenda_surprise.top_n import best_items, quality

CONFIDENCE, PENALTY = 2.0, 3.0


def blocks(n_users=60, n_items=40, n_groups=4, seed=0):
    """Users and items of some groups; most of what is chosen is of the user's own group."""
    rng = np.random.default_rng(seed)
    own = np.arange(n_users)[:, None] % n_groups == np.arange(n_items) % n_groups
    chosen = rng.random((n_users, n_items)) < np.where(own, 0.6, 0.05)
    return [(f"user {u}", f"item {i}") for u, i in zip(*np.nonzero(chosen), strict=True)]


def ratings_of(pairs):
    return Ratings.from_triples(
        [(user, item, 1.0 + k % 5) for k, (user, item) in enumerate(pairs)], scale=(1, 5)
    )


@pytest.fixture(scope="module")
def pairs():
    return blocks()


@pytest.fixture(scope="module")
def model(pairs):
    return ImplicitMF(n_factors=5, random_state=0).fit(pairs)


def dense(others, chosen):
    """The factors of a row that has ``chosen`` some columns (0 or 1), by weighted least squares over all columns."""
    weights = np.diag(1 + CONFIDENCE * chosen)
    Y = others.astype(np.float64)
    return np.linalg.solve(Y.T @ weights @ Y + PENALTY * np.eye(Y.shape[1]), Y.T @ weights @ chosen)


def test_factors_are_those_of_weighted_least_squares_over_all_pairs(pairs):
    ratings = ratings_of(pairs)
    options = {"n_factors": 4, "confidence": CONFIDENCE, "reg_all": PENALTY}
    found = ImplicitMF(**options, n_epochs=60, random_state=0).fit(ratings).learned
    P = ratings.to_csr().toarray() > 0
    for side, others, table in ((found.x, found.y, P), (found.y, found.x, P.T)):
        expected = np.array([dense(others, row.astype(float)) for row in table])
        np.testing.assert_allclose(side, expected, atol=2e-3)
    assert np.abs(found.x).max() > 0.3


def test_the_loss_is_that_of_all_pairs_and_falls(pairs):
    ratings = ratings_of(pairs)
    trained = Choosing(Identities.of(ratings), ratings.n_items, 4, (CONFIDENCE, PENALTY), 0)
    P, losses = ratings.to_csr().toarray() > 0, []
    for _ in range(6):
        losses.append(trained.step(None, 1.0).loss)
        x, y = trained.x.astype(float), trained.y.astype(float)
        errors = np.where(P, 1 + CONFIDENCE, 1) * (P - x @ y.T) ** 2
        expected = errors.sum() + PENALTY * ((x**2).sum() + (y**2).sum())
        assert losses[-1] == pytest.approx(expected, rel=1e-5)
    assert all(np.diff(losses) < 1e-6 * losses[0])


def test_pairs_frames_sparse_matrices_and_ratings_are_read_alike(pairs):
    ratings = ratings_of(pairs)

    def lists(data):
        return ImplicitMF(n_factors=3, n_epochs=3, random_state=0).fit(data).top_n(5)

    expected = lists(pairs)
    assert lists(iter([(u, i, "further fields") for u, i in pairs])) == expected
    assert lists([*pairs, *pairs]) == expected
    users, items = zip(*pairs, strict=True)
    assert lists(Frame(time=range(len(pairs)), item=items, user=users)) == expected
    triples = [(u, i, 3.0) for u, i in pairs]
    assert lists(trainset_of(triples)) == expected
    assert lists(ratings).keys() == expected.keys()
    table = ratings.to_csr()
    numbered = list(zip(*(part.tolist() for part in table.tocoo().coords), strict=True))
    assert lists(table) == lists(numbered)
    zeros = ratings.to_csr()
    zeros.data[:7] = 0
    some = ImplicitMF(n_factors=3, n_epochs=3, random_state=0).fit(zeros)
    assert some.fitted_on["n_ratings"] == len(pairs) - 7


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_frame_of_two_columns_is_read(pairs, library):
    make = pytest.importorskip(library).DataFrame
    users, items = zip(*pairs, strict=True)
    frame = make({"user": users, "item": items})
    options = {"n_factors": 3, "n_epochs": 3, "random_state": 0}
    expected = ImplicitMF(**options).fit(pairs).top_n(5)
    assert ImplicitMF(**options).fit(frame).top_n(5) == expected
    timed = make({"when": [0] * len(pairs), "user": users, "item": items})
    assert ImplicitMF(**options).fit(timed).top_n(5) == expected
    assert SideInfo(timed).pairs == pairs
    for model, columns in ((PMF, ["user", "item"]), (ImplicitMF, ["user"])):
        with pytest.raises(DataError, match=f"has {len(columns)} columns: give user, item"):
            model().fit(frame[columns])


def test_lists_hold_what_is_chosen_and_not_yet_known(pairs, model):
    seen, shares = set(pairs), []
    for user, best in model.top_n(5).items():
        assert not any((user, item) in seen for item, _ in best)
        assert all(0 <= score <= 1 for _, score in best)
        own = int(user.split()[1]) % 4
        shares.append(np.mean([int(item.split()[1]) % 4 == own for item, _ in best[:2]]))
    assert np.mean(shares) > 0.6  # by chance a quarter
    everything = model.top_n(3, ["user 0"], exclude_seen=False)["user 0"]
    assert any(("user 0", item) in seen for item, _ in everything)
    assert model.top_n(3, by="choice") == model.top_n(3)


def test_a_new_user_is_a_set_of_items_and_gets_what_a_fitted_one_gets(pairs, model):
    own = {item for user, item in pairs if user == "user 5"}
    new = model.fold_in(own)
    expected = model.top_n(5, ["user 5"])["user 5"]
    assert [item for item, _ in new.top_n(5)] == [item for item, _ in expected]
    for other in (
        model.fold_in(list(own)),
        model.fold_in(dict.fromkeys(own, 4.0)),
        model.fold_in(rated=own),
    ):
        assert other.top_n(5) == new.top_n(5)
    assert new.predict(expected[0][0]) == pytest.approx(expected[0][1], abs=1e-5)
    counts = {}
    for _, item in pairs:
        counts[item] = counts.get(item, 0) + 1
    assert model.fold_in().top_n(1)[0][0] == max(counts, key=counts.get)


def test_it_goes_on_with_more_choices(pairs):
    model = ImplicitMF(n_factors=4, random_state=0).fit(pairs)
    before = model.top_n(5, ["user 1"])
    model.partial_fit([("newcomer", f"item {i}") for i in (0, 4, 8, 12)] + [("newcomer", "new")])
    assert [int(i.split()[1]) % 4 for i, _ in model.top_n(3, ["newcomer"])["newcomer"]] == [0, 0, 0]
    assert "new" in dict(model.top_n(40, ["user 0"])["user 0"])
    after = model.top_n(5, ["user 1"])
    assert {i for i, _ in after["user 1"]} & {i for i, _ in before["user 1"]}


def test_it_keeps_what_every_model_promises(pairs):
    users, items = np.array([0, -1, 3]), np.array([1, 2, -1])

    def apply(model):
        scores = model.score_pairs(users, items), model.score_users(users)
        return [*scores, model.fold(np.array([0, 3]), [1.0, 1.0]).score()]

    check_estimator(
        lambda: ImplicitMF(n_factors=3, random_state=0), ratings_of(pairs), apply, atol=1e-5
    )


def test_a_saved_model_ranks_as_before_and_knows_who_was_folded_in(pairs, model, tmp_path):
    model.fold_in({"item 1", "item 5"}, uid="guest")
    model.save(tmp_path / "model")
    loaded = ImplicitMF.load(tmp_path / "model")
    everybody = [*dict.fromkeys(u for u, _ in pairs), "guest"]
    assert loaded.top_n(4, everybody) == model.top_n(4, everybody)


def test_an_interrupted_fit_goes_on(pairs, tmp_path):
    options = {"n_factors": 3, "random_state": 0}
    whole = ImplicitMF(**options, n_epochs=6).fit(pairs)
    ImplicitMF(**options, n_epochs=3).fit(pairs, checkpoints=tmp_path)
    resumed = ImplicitMF(**options, n_epochs=6).fit(pairs, checkpoints=tmp_path, resume=True)
    assert resumed.top_n(5) == whole.top_n(5)


def test_the_penalty_that_is_chosen_is_better_than_none_and_than_too_much(pairs):
    pairs = blocks(300, 120, 6, seed=3)
    rng = np.random.default_rng(0)
    held = rng.random(len(pairs)) < 0.2
    train = ratings_of([pair for pair, out in zip(pairs, held, strict=True) if not out])
    users, items = (
        index.numbers([pair[k] for pair, out in zip(pairs, held, strict=True) if out])
        for k, index in enumerate((train.users, train.items))
    )
    known = (users >= 0) & (items >= 0)
    test = Ratings(
        users[known], items[known], np.ones(known.sum()), train.users, train.items, scale=(0, 1)
    )

    def gain(**options):
        model = ImplicitMF(**options, random_state=0).fit(train)
        ranked = best_items(model, np.arange(train.n_users), 10, Identities.of(train))
        return quality(ranked, test, 10).ndcg

    found = gain()
    assert found > gain(reg_all=0.01)
    assert found > gain(reg_all=500.0)


@pytest.mark.parametrize("n", [0, -1, 1.5])
def test_quality_of_lists_without_a_place_is_refused(n):
    with pytest.raises(ConfigurationError, match=r"n is .* whole number of at least 1"):
        quality([], ratings_of([("ann", "a")]), n)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "nobody has chosen anything"),
        (["ab"], "^'ab' is not a pair"),
        ([("ab",)], r"^\('ab',\) is not a pair"),
        ([("ann", None)], "missing"),
        (7, "7 is no list of pairs; give"),
        ("ab", "'ab' is no list of pairs; give"),
        (np.eye(5), r"an array of shape \(5, 5\) seems to be a matrix .* np.argwhere"),
    ],
)
def test_what_are_no_pairs_is_refused(data, message):
    with pytest.raises(DataError, match=message):
        ImplicitMF().fit(data)


def test_questions_about_ratings_are_refused(model):
    for ask in (
        lambda: model.predict_std(["user 0"], ["item 0"]),
        lambda: model.predict_proba(["user 0"], ["item 0"]),
        lambda: model.fold_in({"item 0"}).predict_std("item 1"),
        lambda: model.fold_in({"item 0"}).predict_proba("item 1"),
        lambda: model.top_n(by="rating"),
    ):
        with pytest.raises(ConfigurationError, match="no ratings"):
            ask()
    with pytest.raises(ConfigurationError, match="by is 'ratings'; give"):
        model.top_n(by="ratings")


def test_a_matrix_of_one_choice_is_enough():
    model = ImplicitMF(random_state=0).fit(csr_array(np.eye(1)))
    assert model.top_n(1, exclude_seen=False)[0][0][0] == 0


def test_lists_are_made_for_as_many_users_at_a_time_as_their_scores_may_take(pairs, monkeypatch):
    model = ImplicitMF(n_factors=3, random_state=0).fit(pairs)
    expected, asked = model.top_n(3), []
    score = type(model).score_users

    def watched(self, users):
        asked.append(len(users) * len(self.catalogue.items))
        return score(self, users)

    monkeypatch.setattr(type(model), "score_users", watched)
    monkeypatch.setattr("tacenda_surprise.top_n._SCORES_PER_BLOCK", 200)
    found = model.top_n(3)
    assert max(asked) <= 200
    assert sum(asked) == len(model.catalogue.users) * len(model.catalogue.items)
    assert {u: [i for i, _ in best] for u, best in found.items()} == {
        u: [i for i, _ in best] for u, best in expected.items()
    }


def test_a_model_that_was_saved_without_its_weights_can_take_more_choices(pairs):
    model = ImplicitMF(n_factors=4, random_state=0).fit(pairs)
    model.learned = replace(model.learned, liking=model.learned.liking[:2])
    model.partial_fit([("newcomer", "item 0"), ("newcomer", "item 4")], 1)
    assert model.learned.confidence == 1.0  # that of the settings
    assert model.learned.penalty == 40.0  # that of every model of that time
