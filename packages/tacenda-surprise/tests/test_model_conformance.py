"""Our rating models against the kit that third parties use."""

import numpy as np

from tacenda_surprise.models import (
    BayesianPMFModel,
    BiasModel,
    BoltzmannSettings,
    ConditionalBayesianPMFModel,
    ConditionalPMFModel,
    ConditionalRBMModel,
    PMFModel,
    RBMModel,
)
from tacenda_surprise.testing import RecommenderTests


class TestPMF(RecommenderTests):
    def make_model(self):
        return PMFModel(n_factors=6, epochs=25, penalty=0.1, seed=1)


class TestUnbiasedPMF(RecommenderTests):
    def make_model(self):
        return PMFModel(n_factors=6, epochs=25, penalty=0.1, biased=False)


class TestConditionalPMF(RecommenderTests):
    def make_model(self):
        return ConditionalPMFModel(n_factors=6, epochs=25, penalty=0.1)


class TestWithEarlyStopping(RecommenderTests):
    def make_model(self):
        return ConditionalPMFModel(n_factors=6, epochs=25, validation=0.1)


class TestBiasesOnly(RecommenderTests):
    def make_model(self):
        return PMFModel(n_factors=0, epochs=25)


class TestBias(RecommenderTests):
    def make_model(self):
        return BiasModel()


class TestBiasesOfItems(RecommenderTests):
    def make_model(self):
        return BiasModel(biases="items")

    def test_who_is_unknown_is_scored_without_being_confused_with_the_last(self, model):
        """All users are the same to it."""
        unknown, last = model.score_users(np.array([-1, self.ratings().n_users - 1]))
        np.testing.assert_array_equal(unknown, last)


class TestBayesianPMF(RecommenderTests):
    def make_model(self):
        return BayesianPMFModel(n_factors=3, burn_in=10, n_samples=20)


class TestConditionalBayesianPMF(RecommenderTests):
    def make_model(self):
        return ConditionalBayesianPMFModel(n_factors=3, burn_in=10, n_samples=20)


class TestALS(RecommenderTests):
    def make_model(self):
        return PMFModel(n_factors=3, epochs=6, solver="als", penalty=0.3)


class TestRBM(RecommenderTests):
    def make_model(self):
        return RBMModel(n_hidden=8, epochs=25)


class TestUserSideConditionalRBM(RecommenderTests):
    def make_model(self):
        return ConditionalRBMModel(n_hidden=8, epochs=25, orientation="user", validation=0.1)


class TestConditionalRBM(RecommenderTests):
    def make_model(self):
        return ConditionalRBMModel(n_hidden=8, epochs=25)


class TestThesisRBM(RecommenderTests):
    def make_model(self):
        return RBMModel.from_settings(
            BoltzmannSettings.thesis(n_hidden=8, epochs=25, learning_rate=0.05)
        )


class TestExactItemRBMWithoutTies(RecommenderTests):
    def make_model(self):
        return RBMModel(n_hidden=8, epochs=25, ordinal=False)
