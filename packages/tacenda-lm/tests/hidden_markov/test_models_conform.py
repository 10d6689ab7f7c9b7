"""Hidden Markov models against the kit that third parties use."""

from tacenda_lm import HMM, VLHMM
from tacenda_lm.testing import LanguageModelTests

SMALL = {"n_classes": 6, "states_per_class": 4, "width": 8, "batch_words": 200, "epochs": 3}


class TestTwoLevel(LanguageModelTests):
    def make_model(self):
        return VLHMM(**SMALL)


class TestFlat(LanguageModelTests):
    def make_model(self):
        return VLHMM(**SMALL, transitions="flat", state_dropout=0.25)


class TestFeatures(LanguageModelTests):
    def make_model(self):
        return VLHMM(**SMALL, transitions="features", advanced={"n_features": 5}, state_dropout=0.0)


class TestDense(LanguageModelTests):
    """One class: every state emits every word."""

    def make_model(self):
        small = {**SMALL, "n_classes": 1, "states_per_class": 9, "epochs": 6}
        return VLHMM(**small, transitions="features", advanced={"n_features": 4})


class TestOneStateAClass(LanguageModelTests):
    def make_model(self):
        return VLHMM(
            **{**SMALL, "n_classes": 30, "states_per_class": 1},
            advanced={"word_classes": "predictive"},
        )


class TestWithoutNetworks(LanguageModelTests):
    def make_model(self):
        return VLHMM(**{**SMALL, "epochs": 5, "width": 64}, advanced={"neural": False})


class TestHMM(LanguageModelTests):
    def make_model(self):
        return HMM(n_states=9, epochs=12)
