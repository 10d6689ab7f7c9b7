"""``token._.lm_state``: the hidden state behind each token."""

import numpy as np
import pytest
from spacy.tokens import Doc

from tacenda.errors import ConfigurationError
from tacenda_lm import VLHMM

TEXT = "the cat saw the red bird . a mouse chased a dog ."


@pytest.fixture(scope="module")
def hmm():
    lines = ["the cat saw a dog .", "the bird ate a red mouse .", "a dog chased the cat ."] * 9
    settings = {"n_classes": 4, "states_per_class": 3, "width": 4, "batch_words": 40, "epochs": 3}
    return VLHMM(**settings).fit([line.split() for line in lines])


def test_tokens_have_the_states_of_the_best_path(pipeline, hmm):
    doc = pipeline(artifact=hmm, sentences=True, state=True, prefix="s_")(TEXT)
    words = TEXT.split()
    expected = np.concatenate([hmm.viterbi(words[:7])[:-1], hmm.viterbi(words[7:])[:-1]])
    assert [token._.s_lm_state for token in doc] == expected.tolist()
    assert [s // hmm.tables.k for s in expected] == [hmm.class_of(word) for word in words]


def test_a_document_without_boundaries_is_one_sentence(pipeline, hmm):
    doc = pipeline(artifact=hmm, state=True)(TEXT)
    assert [token._.lm_state for token in doc] == hmm.viterbi(TEXT.split())[:-1].tolist()


def test_whitespace_has_none_and_a_saved_document_keeps_its_states(pipeline, hmm):
    nlp = pipeline(artifact=hmm, state=True)
    doc = nlp("the  cat")
    assert [token._.lm_state is None for token in doc] == [False, True, False]
    again = Doc(nlp.vocab).from_bytes(doc.to_bytes())
    assert [t._.lm_state for t in again] == [t._.lm_state for t in doc]


def test_models_without_states_and_streams_are_refused(pipeline, hmm):
    with pytest.raises(ConfigurationError, match="KneserNey has no states"):
        pipeline(state=True)
    with pytest.raises(ConfigurationError, match="stream"):
        pipeline(artifact=hmm, state=True, context="stream")
