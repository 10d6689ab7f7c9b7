"""Conformance of a rating model and of an algorithm for Surprise: subclass a kit in a test file and say which.

    from tacenda_surprise.testing import RecommenderTests

    class TestMyModel(RecommenderTests):
        def make_model(self):
            return MyModel(n_factors=4)

tests what the model promises to every host. `AlgorithmTests` tests the algorithm that hosts it:

    from tacenda_surprise.testing import AlgorithmTests

    class TestMine(AlgorithmTests):
        def make_algorithm(self, **settings):
            return Recommender(name="mine", settings={"n_factors": 4}, **{"random_state": 0, **settings})

The tests are what Surprise's own suite checks of every prediction algorithm, and what
`tacenda_surprise.algorithm.TacendaAlgorithm` promises beyond that. ``settings`` are ``random_state`` and
``verbose``.
"""

from tacenda_surprise.testing.algorithms import AlgorithmTests
from tacenda_surprise.testing.models import RecommenderTests
from tacenda_surprise.testing.surprise_suite import SurpriseTests, dataset, small_dataset

__all__ = ["AlgorithmTests", "RecommenderTests", "SurpriseTests", "dataset", "small_dataset"]
