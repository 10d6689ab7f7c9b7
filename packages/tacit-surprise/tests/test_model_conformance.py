"""Our rating models against the kit that third parties use."""

from tacit.testing.recommenders import RecommenderTests
from tacit_surprise.models import ConditionalPMFModel, PMFModel


class TestPMF(RecommenderTests):
    def make_model(self):
        return PMFModel(n_factors=6, n_epochs=25, reg_factors=0.1, seed=1)


class TestUnbiasedPMF(RecommenderTests):
    def make_model(self):
        return PMFModel(n_factors=6, n_epochs=25, reg_factors=0.1, biased=False)


class TestConditionalPMF(RecommenderTests):
    def make_model(self):
        return ConditionalPMFModel(n_factors=6, n_epochs=25, reg_factors=0.1)


class TestWithEarlyStopping(RecommenderTests):
    def make_model(self):
        return ConditionalPMFModel(n_factors=6, n_epochs=25, validation=0.1)


class TestBiasesOnly(RecommenderTests):
    def make_model(self):
        return PMFModel(n_factors=0, n_epochs=25)
