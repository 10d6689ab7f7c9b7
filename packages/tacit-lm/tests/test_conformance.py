"""Our language models against the kit that third parties use."""

from tacit.testing.language_models import LanguageModelTests
from tacit_lm import KneserNey, Mixture


class TestKneserNey(LanguageModelTests):
    def make_model(self):
        return KneserNey(order=3)


class TestFiveGrams(LanguageModelTests):
    def make_model(self):
        return KneserNey()


class TestUnigrams(LanguageModelTests):
    uses_context = False

    def make_model(self):
        return KneserNey(order=1)


class TestBackOff(LanguageModelTests):
    def make_model(self):
        return KneserNey(order=4, smoothing="backoff", min_count=2)


class TestGoodTuring(LanguageModelTests):
    def make_model(self):
        return KneserNey(order=3, smoothing="good_turing")


class TestMixture(LanguageModelTests):
    def make_model(self):
        return Mixture(
            {"kn": KneserNey(order=3), "katz": KneserNey(smoothing="good_turing")}, [3, 1]
        )


class TestMixtureOfMixtures(LanguageModelTests):
    def make_model(self):
        return Mixture([KneserNey(order=2), Mixture([KneserNey(order=1), KneserNey(order=3)])])
