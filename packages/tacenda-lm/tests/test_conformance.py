"""Our language models against the kit that third parties use."""

from tacenda_lm import (
    FRBM,
    HLBL,
    LBL,
    AdaptiveMixture,
    KneserNey,
    Mixture,
    NeuralCache,
    RecurrentLM,
    TemporalFRBM,
    UnigramCache,
)
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


class TestAdaptiveMixture(LanguageModelTests):
    def make_model(self):
        return AdaptiveMixture(
            {"kn": KneserNey(order=3), "cache": UnigramCache()}, [3, 1], adaptation=0.5, memory=0.9
        )


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


class TestRecurrent(LanguageModelTests):
    def make_model(self):
        return RecurrentLM(width=9, epochs=4, streams=4, window_words=5, dropout=0.1)


class TestRecurrentBySentence(LanguageModelTests):
    def make_model(self):
        return RecurrentLM(width=8, epochs=4, streams=4, window_words=5, across_sentences=False)


class TestUnigramCache(LanguageModelTests):
    def make_model(self):
        return UnigramCache(window=40, decay=0.95, prior_words=100.0)


class TestUnigramCacheOfAWindow(LanguageModelTests):
    def make_model(self):
        return UnigramCache(window=3, decay=1.0, prior_words=60.0)


SMALL_HLBL = {"width": 8, "epochs": 1, "copies": 1, "advanced": {"bootstrap_width": 8}}


class TestNeuralCache(LanguageModelTests):
    def make_model(self):
        return NeuralCache(window=40, prior_words=9.0, hlbl=SMALL_HLBL)


class TestNeuralCacheOfSentences(LanguageModelTests):
    def make_model(self):
        hlbl = HLBL(**SMALL_HLBL, across_sentences=False)
        return NeuralCache.over(hlbl, window=30, decay=0.9, prior_words=9.0)


class TestNeuralCacheOfARecurrentModel(LanguageModelTests):
    def make_model(self):
        model = RecurrentLM(width=8, epochs=2, streams=4, window_words=5)
        return NeuralCache.over(model, window=25, sharpness=0.5, prior_words=60.0)


class TestMixtureWithCaches(LanguageModelTests):
    def make_model(self):
        caches = {"cache": UnigramCache(), "neural": NeuralCache(hlbl=SMALL_HLBL)}
        return Mixture({"kn": KneserNey(order=3), **caches})
