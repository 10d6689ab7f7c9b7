import numpy as np
import pytest
from tacenda_classics.slope_one import SlopeOne

from tacenda.errors import ConfigurationError
from tacenda.ratings import Ratings
from tacenda_surprise import Recommender
from tacenda_surprise.testing import check_recommender


def test_is_a_recommender():
    """What every rating algorithm promises, in Surprise too."""
    check_recommender(SlopeOne)


def test_goes_by_its_name():
    assert isinstance(Recommender(name="slope_one", shrinkage=3.0, random_state=0), SlopeOne)


def test_by_hand():
    """The example of the paper: both items are rated by one user, a point apart; nothing is damped."""
    ratings = Ratings.from_triples(
        [("u", "i", 1.0), ("u", "j", 1.5), ("v", "i", 2.0), ("w", "j", 3.0)], scale=(1, 5)
    )
    model = SlopeOne(shrinkage=0, damping=1e9).fit(ratings)
    [v, w] = ratings.users.numbers(["v", "w"])
    [i, j] = ratings.items.numbers(["i", "j"])
    found = model.score_pairs(np.array([v, w]), np.array([j, i]))
    np.testing.assert_allclose(found, [2.5, 2.5], atol=1e-4)


def test_agrees_with_plain_loops():
    rng = np.random.default_rng(0)
    triples = [
        (u, i, float(rng.integers(1, 6))) for u in range(9) for i in range(6) if rng.random() < 0.6
    ]
    ratings = Ratings.from_triples(triples, scale=(1, 5))
    k, damping, mean = 3.0, 2.0, ratings.mean
    model = SlopeOne(shrinkage=k, damping=damping).fit(ratings)
    R = ratings.to_csr().toarray()
    has = R > 0
    c = [sum(R[has[:, i], i] - mean) / (sum(has[:, i]) + damping) for i in range(6)]
    scores = model.score_users(np.arange(9))
    for u in range(9):
        rated = np.flatnonzero(has[u])
        b = sum(R[u, j] - mean - c[j] for j in rated) / (len(rated) + damping)
        for i in range(6):
            total, weight = k * (mean + c[i] + b), k
            for j in rated:
                both = has[:, i] & has[:, j]
                n = both.sum()
                if j != i and n:
                    d = sum(R[both, i] - R[both, j]) / (n + k)
                    total, weight = total + n / (n + k) * (R[u, j] + d), weight + n / (n + k)
            assert scores[u, i] == pytest.approx(total / weight, abs=1e-4)


def test_ratings_around_zero_are_ratings():
    ratings = Ratings.from_triples(
        [("u", "i", 0.0), ("u", "j", 0.0), ("v", "i", -1.0), ("v", "j", 1.0), ("w", "i", 0.0)],
        scale=(-1, 1),
    )
    [w] = ratings.users.numbers(["w"])
    [j] = ratings.items.numbers(["j"])
    assert SlopeOne().fit(ratings).score_pairs(np.array([w]), np.array([j]))[0] > 0.1


def test_progress_cannot_be_saved(tmp_path):
    ratings = Ratings.from_triples([("u", "i", 1.0), ("u", "j", 2.0)])
    with pytest.raises(ConfigurationError, match="cannot save the progress"):
        SlopeOne().fit(ratings, checkpoints=tmp_path)
