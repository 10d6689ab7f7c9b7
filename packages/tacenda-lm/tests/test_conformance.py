"""Our language models against the kit that third parties use."""

from dataclasses import replace

import numpy as np
import pytest

import tacenda_lm as lm
from tacenda.errors import ArtifactError
from tacenda.testing.models import sample_sentences
from tacenda_lm.testing import check_model

BY_SENTENCE = {"across_sentences": False}
SMALL_HLBL = {"width": 8, "epochs": 1, "copies": 1}
SMALL_VLHMM = {"n_classes": 6, "states_per_class": 4, "width": 8, "batch_words": 200, "epochs": 3}
SMALL_STATES = {"order": 3, "internal": 5, "features": 6, "epochs": 4}
SMALL_STATES["advanced"] = {"streams": 32, "piece": 5}

MODELS = {
    "KneserNey": lambda: lm.KneserNey(order=3),
    "FiveGrams": lambda: lm.KneserNey(),
    "Unigrams": lambda: lm.KneserNey(order=1),
    "BackOff": lambda: lm.KneserNey(order=4, smoothing="backoff", min_count=2),
    "GoodTuring": lambda: lm.KneserNey(order=3, smoothing="good_turing"),
    "Mixture": lambda: lm.Mixture(
        {"kn": lm.KneserNey(order=3), "katz": lm.KneserNey(smoothing="good_turing")}, [3, 1]
    ),
    "MixtureOfMixtures": lambda: lm.Mixture(
        [lm.KneserNey(order=2), lm.Mixture([lm.KneserNey(order=1), lm.KneserNey(order=3)])]
    ),
    "AdaptiveMixture": lambda: lm.AdaptiveMixture(
        {"kn": lm.KneserNey(order=3), "cache": lm.UnigramCache()},
        [3, 1],
        adaptation=0.5,
        memory=0.9,
    ),
    "HLBL": lambda: lm.HLBL(width=17, epochs=2, dropout=0.1),
    "HLBLBySentence": lambda: lm.HLBL(
        width=16, context=2, tree="noisy", epochs=2, advanced={"overlap": 0.3}, **BY_SENTENCE
    ),
    "HLBLOfTailsAlone": lambda: lm.HLBL(
        width=5, context=0, tree="random", copies=1, epochs=2, dropout=0.0
    ),
    "MixtureOfStreams": lambda: lm.Mixture([lm.KneserNey(order=3), lm.HLBL(width=8, epochs=1)]),
    "LBL": lambda: lm.LBL(width=9, context=3, epochs=3, batch_words=64, learning_rate=0.05),
    "LBLUntiedFullBySentence": lambda: lm.LBL(
        width=6, context=2, epochs=3, batch_words=64, advanced={"tied": False}, **BY_SENTENCE
    ),
    "LBLByNoise": lambda: lm.LBL(
        width=8, loss="nce", epochs=8, batch_words=64, advanced={"noise_words": 50}
    ),
    "FRBM": lambda: lm.FRBM(features=9, hidden=7, epochs=3, batch_words=64),
    "FRBMByDivergenceBySentence": lambda: lm.FRBM(
        **{"features": 6, "hidden": 17, "context": 3, "epochs": 4, "batch_words": 64},
        **{"learning": "divergence", **BY_SENTENCE},
    ),
    "TemporalFRBM": lambda: lm.TemporalFRBM(
        features=8, hidden=9, frbm_epochs=2, epochs=2, batch_words=64, piece_words=8
    ),
    "TemporalFRBMByMeanFieldBySentence": lambda: lm.TemporalFRBM(
        **{"features": 5, "hidden": 8, "context": 1, "frbm_epochs": 0, "epochs": 5},
        **{"learning": "mean_field", "gibbs_steps": 2, "batch_words": 64, "piece_words": 1},
        **BY_SENTENCE,
    ),
    "Recurrent": lambda: lm.RecurrentLM(width=9, epochs=4, streams=4, window_words=5, dropout=0.1),
    "RecurrentBySentence": lambda: lm.RecurrentLM(
        width=8, epochs=4, streams=4, window_words=5, across_sentences=False
    ),
    "UnigramCache": lambda: lm.UnigramCache(window=40, decay=0.95, prior_words=100.0),
    "UnigramCacheOfAWindow": lambda: lm.UnigramCache(window=3, decay=1.0, prior_words=60.0),
    "NeuralCache": lambda: lm.NeuralCache(window=40, prior_words=9.0, hlbl=SMALL_HLBL),
    "NeuralCacheOfSentences": lambda: lm.NeuralCache.over(
        lm.HLBL(**SMALL_HLBL, across_sentences=False), window=30, decay=0.9, prior_words=9.0
    ),
    "NeuralCacheOfARecurrentModel": lambda: lm.NeuralCache.over(
        lm.RecurrentLM(width=8, epochs=2, streams=4, window_words=5),
        window=25,
        sharpness=0.5,
        prior_words=60.0,
    ),
    "MixtureWithCaches": lambda: lm.Mixture(
        {
            "kn": lm.KneserNey(order=3),
            **{"cache": lm.UnigramCache(), "neural": lm.NeuralCache(hlbl=SMALL_HLBL)},
        }
    ),
    "VLHMM": lambda: lm.VLHMM(**SMALL_VLHMM),
    "VLHMMFlat": lambda: lm.VLHMM(**SMALL_VLHMM, transitions="flat", state_dropout=0.25),
    "VLHMMOfFeatures": lambda: lm.VLHMM(
        **SMALL_VLHMM, transitions="features", advanced={"n_features": 5}, state_dropout=0.0
    ),
    "VLHMMDense": lambda: lm.VLHMM(
        **{**SMALL_VLHMM, "n_classes": 1, "states_per_class": 9, "epochs": 6},
        transitions="features",
        advanced={"n_features": 4},
    ),
    "VLHMMOfOneStateAClass": lambda: lm.VLHMM(
        **{**SMALL_VLHMM, "n_classes": 30, "states_per_class": 1},
        advanced={"word_classes": "predictive"},
    ),
    "VLHMMWithoutNetworks": lambda: lm.VLHMM(
        **{**SMALL_VLHMM, "epochs": 5, "width": 64}, advanced={"neural": False}
    ),
    "HMM": lambda: lm.HMM(n_states=9, epochs=12),
    "StateSpace": lambda: lm.StateSpaceLM(**SMALL_STATES),
    "StateSpaceOfMostProbableStates": lambda: lm.StateSpaceLM(
        **SMALL_STATES, inference="map", across_sentences=False
    ),
    "StateSpaceOfTheInternalStateAlone": lambda: lm.StateSpaceLM(
        order=1, internal=8, epochs=8, dropout=0.0
    ),
    "StateSpaceOfLastTokensAlone": lambda: lm.StateSpaceLM(
        order=4, internal=0, features=5, epochs=4
    ),
    "StateSpaceOfRunsOfTokens": lambda: lm.StateSpaceLM(
        **{**SMALL_STATES, "advanced": {"joint_order": 3, "joint_width": 4, "piece": 5}}
    ),
    "StateSpaceByRules": lambda: lm.StateSpaceLM(
        order=2,
        internal=3,
        features=6,
        epochs=8,
        training="rules",
        inference="map",
        learning_rate=0.5,
        advanced={"biases": False, "variance": 0.1, "piece": 1, "last_piece": 4},
    ),
    "MixtureOfStates": lambda: lm.Mixture(
        [lm.KneserNey(order=2), lm.StateSpaceLM(**{**SMALL_STATES, "epochs": 1})]
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_keeps_every_promise(name):
    check_model(MODELS[name], uses_context=name != "Unigrams")


@pytest.mark.parametrize("name", ["LBL", "HLBL", "FRBM", "TemporalFRBM", "Recurrent", "StateSpace"])
def test_weights_a_million_times_too_large_are_refused_when_loaded(name):
    rng = np.random.default_rng(0)
    text = [rng.choice(["a", "b", "c", "d"], 6).tolist() for _ in range(60)]
    whole = MODELS[name]().fit(text).to_artifact()
    type(MODELS[name]()).from_artifact(whole)
    huge = {
        key: array * np.float32(1e6) if array.dtype == np.float32 else array
        for key, array in whole.arrays.items()
    }
    with pytest.raises(ArtifactError, match="implausibly large"):
        type(MODELS[name]()).from_artifact(replace(whole, arrays=huge))


@pytest.mark.parametrize(
    "name",
    ["HMM", "Recurrent", "StateSpaceOfRunsOfTokens", *(n for n in MODELS if n.startswith("VLHMM"))],
)
def test_arrays_of_another_size_or_dtype_are_refused_when_loaded(name):
    """Those that are missing, of another rank or hold NaN are refused in `check_model`."""
    model = MODELS[name]().fit(sample_sentences(60))
    for key, array in model.arrays().items():
        if array.dtype == np.float32:
            for damaged in (array[:-1], array.astype(np.float64)):
                with pytest.raises(ArtifactError, match=key):
                    type(model).from_arrays(model.config_dict(), {**model.arrays(), key: damaged})
