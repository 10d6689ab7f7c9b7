"""Our language models against the kit that third parties use."""

from tacenda_lm import FRBM, HLBL, LBL, KneserNey, Mixture, TemporalFRBM
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
        return HLBL(
            width=17, epochs=2, dropout=0.1, advanced={"bootstrap_width": 9, "piece_words": 32}
        )


class TestHLBLBySentence(LanguageModelTests):
    def make_model(self):
        return HLBL(
            width=16, context=2, tree="noisy", epochs=2, across_sentences=False,
            advanced={"bootstrap_width": 9, "overlap": 0.3, "piece_words": 16},
        )  # fmt: skip


class TestHLBLOfTailsAlone(LanguageModelTests):
    def make_model(self):
        return HLBL(
            width=5,
            context=0,
            tree="random",
            copies=1,
            epochs=2,
            dropout=0.0,
            advanced={"piece_words": 32, "far_words": True},
        )


class TestMixtureOfStreams(LanguageModelTests):
    def make_model(self):
        return Mixture(
            [KneserNey(order=3), HLBL(width=8, epochs=1, advanced={"bootstrap_width": 8})]
        )


class TestLBL(LanguageModelTests):
    def make_model(self):
        return LBL(width=9, context=3, epochs=3, batch_words=64, learning_rate=0.05)


class TestLBLUntiedFullBySentence(LanguageModelTests):
    def make_model(self):
        return LBL(
            width=6,
            context=2,
            epochs=3,
            batch_words=64,
            across_sentences=False,
            advanced={"tied": False},
        )


class TestLBLByNoise(LanguageModelTests):
    def make_model(self):
        return LBL(width=8, loss="nce", epochs=8, batch_words=64, advanced={"noise_words": 50})


class TestFRBM(LanguageModelTests):
    def make_model(self):
        return FRBM(features=9, hidden=7, epochs=3, batch_words=64)


class TestFRBMByDivergenceBySentence(LanguageModelTests):
    def make_model(self):
        return FRBM(
            features=6,
            hidden=17,
            context=3,
            learning="divergence",
            epochs=4,
            batch_words=64,
            across_sentences=False,
        )


class TestTemporalFRBM(LanguageModelTests):
    def make_model(self):
        return TemporalFRBM(
            features=8, hidden=9, frbm_epochs=2, epochs=2, batch_words=64, piece_words=8
        )


class TestTemporalFRBMByMeanFieldBySentence(LanguageModelTests):
    def make_model(self):
        return TemporalFRBM(
            features=5,
            hidden=8,
            context=1,
            learning="divergence",
            frbm_epochs=0,
            epochs=5,
            batch_words=64,
            piece_words=1,
            across_sentences=False,
            advanced={"visible": "mean_field", "gibbs_steps": 2},
        )
