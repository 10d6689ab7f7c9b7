"""Our language models against the kit that third parties use."""

from tacenda_lm import HLBL, LBL, KneserNey, Mixture
from tacenda_lm.testing import LanguageModelTests


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


class TestHLBL(LanguageModelTests):
    def make_model(self):
        return HLBL(width=17, bootstrap_width=9, epochs=2, piece=32, dropout=0.1)


class TestHLBLBySentence(LanguageModelTests):
    def make_model(self):
        return HLBL(
            width=16, bootstrap_width=9, context=2, tree="noisy", overlap=0.3, epochs=2, piece=16,
            across_sentences=False,
        )  # fmt: skip


class TestHLBLOfTailsAlone(LanguageModelTests):
    def make_model(self):
        return HLBL(
            width=5,
            context=0,
            tree="random",
            copies=1,
            epochs=2,
            piece=32,
            dropout=0.0,
            far_words=True,
        )


class TestMixtureOfStreams(LanguageModelTests):
    def make_model(self):
        return Mixture([KneserNey(order=3), HLBL(width=8, bootstrap_width=8, epochs=1)])


class TestLBL(LanguageModelTests):
    def make_model(self):
        return LBL(width=9, context=3, epochs=3, batch=64, learning_rate=0.05)


class TestLBLUntiedFullBySentence(LanguageModelTests):
    def make_model(self):
        return LBL(
            width=6,
            context=2,
            contexts="full",
            tied=False,
            epochs=3,
            batch=64,
            across_sentences=False,
        )


class TestLBLByNoise(LanguageModelTests):
    def make_model(self):
        return LBL(width=8, loss="nce", noise=50, epochs=8, batch=64)
