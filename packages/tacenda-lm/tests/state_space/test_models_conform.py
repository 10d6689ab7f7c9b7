"""State-space models against the kit that third parties use."""

import pytest

from tacenda_lm import KneserNey, Mixture, StateSpaceLM
from tacenda_lm.testing import check_model

SMALL = {
    "order": 3,
    "internal": 5,
    "features": 6,
    "epochs": 4,
    "advanced": {"streams": 32, "piece": 5},
}

MODELS = {
    "Gradients": lambda: StateSpaceLM(**SMALL),
    "MostProbableStates": lambda: StateSpaceLM(**SMALL, inference="map", across_sentences=False),
    "InternalStateAlone": lambda: StateSpaceLM(order=1, internal=8, epochs=8, dropout=0.0),
    "LastTokensAlone": lambda: StateSpaceLM(order=4, internal=0, features=5, epochs=4),
    "RunsOfTokens": lambda: StateSpaceLM(
        **{
            **SMALL,
            "advanced": {"joint_order": 3, "joint_width": 4, "piece": 5},
        }
    ),
    "Rules": lambda: StateSpaceLM(
        order=2,
        internal=3,
        features=6,
        epochs=8,
        training="rules",
        inference="map",
        learning_rate=0.5,
        advanced={"biases": False, "variance": 0.1, "piece": 1, "last_piece": 4},
    ),
    "Mixture": lambda: Mixture([KneserNey(order=2), StateSpaceLM(**SMALL)]),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_keeps_every_promise(name):
    check_model(MODELS[name])
