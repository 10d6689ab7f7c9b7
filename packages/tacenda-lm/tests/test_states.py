"""States that are not of the model they are given to, and lists of states and words that do not fit together."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import tacenda_lm as lm
from tacenda.errors import DataError
from tacenda.testing.models import assert_refuses, sample_sentences
from tacenda_lm.states import State

SMALL = {"width": 6, "epochs": 1}
MODELS = {
    "n-grams": lambda: lm.KneserNey(order=3),
    "HLBL": lambda: lm.HLBL(**SMALL),
    "LBL": lambda: lm.LBL(**SMALL),
    "FRBM": lambda: lm.FRBM(features=5, hidden=6, epochs=1),
    "temporal FRBM": lambda: lm.TemporalFRBM(features=5, hidden=6, epochs=1, frbm_epochs=1),
    "recurrent": lambda: lm.RecurrentLM(**SMALL),
    "state space": lambda: lm.StateSpaceLM(internal=3, features=4, epochs=1),
    "VLHMM": lambda: lm.VLHMM(**SMALL, n_classes=4, states_per_class=2),
    "HMM": lambda: lm.HMM(n_states=5, epochs=1),
    "unigram cache": lm.UnigramCache,
    "neural cache": lambda: lm.NeuralCache.over(lm.RecurrentLM(**SMALL)),
    "mixture": lambda: lm.Mixture([lm.UnigramCache(), lm.RecurrentLM(**SMALL)]),
    "adaptive": lambda: lm.AdaptiveMixture([lm.UnigramCache(), lm.KneserNey(order=2)]),
}


@cache
def fitted(name):
    return MODELS[name]().fit(sample_sentences(40))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, value) for name in MODELS for value in (3.5, b"seven b", frozenset({1}), None)),
        *(("n-grams", words) for words in (("a",), (1.5,), (2**70,), ((1, 2), (3,)), ((1,), (2,)))),
        *(("LBL", words) for words in ((), (1, 2, 3) * 20, (10**6,), ("a",))),
        *(("VLHMM", value) for value in ((99, bytes(8)), (0, bytes(12)), (-1, bytes(8)))),
        *(("HMM", (first, bytes(20))) for first in (1, "a")),
        *(("FRBM", value) for value in (((), b""), ((0,), b"1234"))),
        *(
            (name, (words, bytes(size)))
            for name, size in (
                ("HLBL", 96),
                ("FRBM", 0),
                ("temporal FRBM", 24),
                ("state space", 12),
            )
            for words in ((10**6,), (-1,), ("a",), "words", (1, 2, 3) * 200)
        ),
        *(("temporal FRBM", value) for value in ((1, 2), ((0,), b""), ((0,), b"123"), 7)),
    ],
    ids=str,
)
def test_a_state_that_is_none_of_the_model_is_refused(name, value):
    model, state = fitted(name), State(value)
    word = next(n for n, word in enumerate(model.vocabulary.words) if not word.startswith("<"))
    acts = {
        "advance": lambda: model.advance(state, word),
        "score_from": lambda: model.score_from(state, np.array([word, word])),
        "log_prob": lambda: model.log_prob([state], np.array([word])),
        "log_probs": lambda: model.log_probs([state]),
    }
    for act_name, act in acts.items():
        assert_refuses(act, DataError, f"{name}, {act_name} of a state that holds {value!r:.40}")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("VLHMM", (99, bytes(8))),
        ("HMM", (1, bytes(20))),
        *((name, 3.5) for name in ("HLBL", "LBL", "FRBM", "recurrent", "state space")),
    ],
)
def test_models_of_sentences_refuse_a_wrong_state_before_the_end_and_before_no_word(name, value):
    model, state = MODELS[name](), State(value)
    if "across_sentences" in vars(model.settings):
        model = type(model).from_settings(replace(model.settings, across_sentences=False))
    model.fit(sample_sentences(40))
    with pytest.raises(DataError, match="not one of this model"):
        model.advance(state, model.vocabulary.boundary_id)
    with pytest.raises(DataError, match="not one of this model"):
        model.score_from(state, np.array([], np.int32))


@pytest.mark.parametrize("name", MODELS)
def test_a_word_that_is_no_whole_number_and_a_missing_state_are_refused(name):
    model = fitted(name)
    for word in (1.5, np.float64(2), True, "1", None, -1):
        with pytest.raises(DataError, match="there is no id"):
            model.advance(model.start(), word)
    with pytest.raises(DataError, match="the state is None: give"):
        model.advance(None, 2)
    expected = model.advance(model.start(), 2)
    assert model.advance(model.start(), np.uint8(2)) == expected


@pytest.mark.parametrize("other", ["recurrent", "unigram cache", "mixture", "VLHMM", "state space"])
@pytest.mark.parametrize(
    "name", ["unigram cache", "neural cache", "mixture", "HLBL", "state space"]
)
def test_a_state_of_another_model_is_refused(name, other):
    if name != other:
        state = fitted(other).start()
        for word in (1, 2, 3):
            state = fitted(other).advance(state, word)
        assert_refuses(lambda: fitted(name).log_probs([state]), DataError, f"{name}, of {other}")


@pytest.mark.parametrize("name", MODELS)
def test_states_and_words_that_do_not_fit_together_are_refused(name):
    model, ragged = fitted(name), [[1, 2], [1]]
    one, two = [model.start()], [model.start()] * 2
    for use, message in (
        (lambda: model.score_from(None, np.array([1, 2])), "the state is None: give model"),
        (lambda: model.log_prob([None], [1]), "the state is None: give model"),
        (lambda: model.log_prob([1], [1]), "the state is 1: give model"),
        (lambda: model.log_prob(1, [1]), "give a list of states"),
        (lambda: model.log_probs([*one, None]), "the state is None: give model"),
        (lambda: model.log_prob(None, [1]), "give a list of states"),
        (lambda: model.log_prob(*one, [1]), "give a list of states"),
        (lambda: model.log_probs(*one), "give a list of states"),
        (lambda: model.log_prob(two, [1]), "2 states and 1 words: give one for each"),
        (lambda: model.log_prob(one, [1, 2]), "1 states and 2 words: give one for each"),
        (lambda: model.log_prob([], [1]), "0 states and 1 words: give one for each"),
        (lambda: model.log_prob(one, []), "1 states and 0 words: give one for each"),
        (lambda: model.log_prob(two, ragged), "not lists of different lengths"),
        (lambda: model.score_from(*one, ragged), "not lists of different lengths"),
        (lambda: model.score_corpus(ragged, [0, 2]), "not lists of different lengths"),
        (lambda: list(model.distributions(ragged, [0, 2])), "not lists of different lengths"),
    ):
        with pytest.raises(DataError, match=message):
            use()
    if hasattr(model, "state_vectors"):
        with pytest.raises(DataError, match="give a list of states"):
            model.state_vectors(*one)


@pytest.mark.parametrize(
    ("words", "vectors"),
    [
        ((10**6,), (bytes(24),)),
        ((1, 2), (bytes(24),)),
        ((1,), (bytes(20),)),
        ((1,), bytes(24)),
        ((1,), ("a",)),
    ],
    ids=str,
)
def test_a_neural_cache_refuses_entries_that_are_not_its_own(words, vectors):
    model = fitted("neural cache")
    state = State((model.start().value[0], np.array(words, np.int32).tobytes(), vectors))
    assert_refuses(lambda: model.log_probs([state]), DataError, "log_probs")
    assert_refuses(lambda: model.score_from(state, np.array([1])), DataError, "score_from")
