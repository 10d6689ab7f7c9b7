"""State-space models against the kit that third parties use."""

from tacenda_lm import KneserNey, Mixture, StateSpaceLM
from tacenda_lm.testing import LanguageModelTests

SMALL = {
    "order": 3,
    "internal": 5,
    "features": 6,
    "epochs": 4,
    "advanced": {"streams": 32, "piece": 5},
}


class TestGradients(LanguageModelTests):
    def make_model(self):
        return StateSpaceLM(**SMALL)


class TestMostProbableStates(LanguageModelTests):
    def make_model(self):
        return StateSpaceLM(**SMALL, inference="map", across_sentences=False)


class TestInternalStateAlone(LanguageModelTests):
    def make_model(self):
        return StateSpaceLM(order=1, internal=8, epochs=8, dropout=0.0)


class TestLastTokensAlone(LanguageModelTests):
    def make_model(self):
        return StateSpaceLM(order=4, internal=0, features=5, epochs=4)


class TestRunsOfTokens(LanguageModelTests):
    def make_model(self):
        advanced = {"joint_order": 3, "joint_width": 4, "joint_min_count": 2, "piece": 5}
        return StateSpaceLM(**{**SMALL, "advanced": advanced})


class TestRules(LanguageModelTests):
    def make_model(self):
        return StateSpaceLM(
            order=2,
            internal=3,
            features=6,
            epochs=8,
            training="rules",
            inference="map",
            learning_rate=0.5,
            advanced={"biases": False, "variance": 0.1, "piece": 1, "last_piece": 4},
        )


class TestMixture(LanguageModelTests):
    def make_model(self):
        return Mixture([KneserNey(order=2), StateSpaceLM(**SMALL)])
