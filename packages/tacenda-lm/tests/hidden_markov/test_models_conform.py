"""Hidden Markov models against the kit that third parties use."""

import pytest

from tacenda_lm import HMM, VLHMM
from tacenda_lm.testing import check_model

SMALL = {"n_classes": 6, "states_per_class": 4, "width": 8, "batch_words": 200, "epochs": 3}

MODELS = {
    "TwoLevel": lambda: VLHMM(**SMALL),
    "Flat": lambda: VLHMM(**SMALL, transitions="flat", state_dropout=0.25),
    "Features": lambda: VLHMM(
        **SMALL, transitions="features", advanced={"n_features": 5}, state_dropout=0.0
    ),
    "Dense": lambda: VLHMM(
        **{**SMALL, "n_classes": 1, "states_per_class": 9, "epochs": 6},
        transitions="features",
        advanced={"n_features": 4},
    ),
    "OneStateAClass": lambda: VLHMM(
        **{**SMALL, "n_classes": 30, "states_per_class": 1}, advanced={"word_classes": "predictive"}
    ),
    "WithoutNetworks": lambda: VLHMM(
        **{**SMALL, "epochs": 5, "width": 64}, advanced={"neural": False}
    ),
    "HMM": lambda: HMM(n_states=9, epochs=12),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_keeps_every_promise(name):
    check_model(MODELS[name])
