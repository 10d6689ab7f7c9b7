"""What a token's probability depends on: its sentence, its document, or all documents so far."""

import pickle
import warnings

import numpy as np
import pytest
from spacy.tokens import Doc

from tacenda_lm import LanguageModel
from tacenda_lm.states import State

FIRST, SECOND = "the cat saw a dog .", "a red mouse ate the bird ."


class Remembers(LanguageModel):
    """Predicts only words that it has seen, from the first word on; nothing makes it forget."""

    name, distribution = "remembers", "nobody"

    def __init__(self, vocabulary):
        self._vocabulary = vocabulary

    vocabulary = property(lambda self: self._vocabulary)

    def start(self):
        return State(())

    def advance(self, state, word):
        return State((*state.value, word))

    def log_probs(self, states):
        counts = np.array(
            [np.bincount(np.array(s.value, int), minlength=len(self.vocabulary)) for s in states]
        )
        return np.log((counts + 1.0) / (counts + 1.0).sum(axis=1, keepdims=True))


@pytest.fixture
def memory(model):
    return Remembers(model.vocabulary)


def logprobs(*docs):
    return [token._.lm_logprob for doc in docs for token in doc]


def in_a_row(model, *sentences):
    """Log-probabilities of the words of sentences in one sequence, </s> after each."""
    boundary, encode = model.vocabulary.boundary_id, model.vocabulary.encode
    ids = np.concatenate([[*encode(sentence.split()), boundary] for sentence in sentences])
    return model.score_corpus(ids, np.array([0, len(ids)]))[ids != boundary].tolist()


def test_sentence_context_starts_anew_and_document_context_goes_on(pipeline, memory):
    text = f"{FIRST} {SECOND}"
    apart = pipeline(sentences=True, artifact=memory, context="sentence")(text)
    assert logprobs(apart) == in_a_row(memory, FIRST) + in_a_row(memory, SECOND)
    whole = pipeline(sentences=True, artifact=memory, context="doc")(text)
    assert logprobs(whole) == in_a_row(memory, FIRST, SECOND)
    assert logprobs(whole) != logprobs(apart)


def test_document_without_boundaries_ends_once(pipeline, memory):
    nlp = pipeline(artifact=memory)
    doc = nlp.get_pipe("lm_scorer")(Doc(nlp.vocab, words=[*FIRST.split(), *SECOND.split()]))
    assert logprobs(doc) == in_a_row(memory, f"{FIRST} {SECOND}")


def test_sentence_context_without_boundaries_warns_once_and_uses_the_document(pipeline, memory):
    nlp = pipeline(artifact=memory, context="sentence")
    with warnings.catch_warnings(record=True, action="always") as warned:
        docs = list(nlp.pipe([f"{FIRST} {SECOND}", SECOND]))
        nlp(FIRST)
    assert len([each for each in warned if "no sentence boundaries" in str(each.message)]) == 1
    assert logprobs(docs[0]) == in_a_row(memory, f"{FIRST} {SECOND}")


def test_stream_carries_what_was_read_from_document_to_document(pipeline, memory):
    nlp = pipeline(artifact=memory, context="stream", batch_tokens=7)
    docs = list(nlp.pipe([FIRST, "", SECOND]))
    assert logprobs(*docs) == pytest.approx(in_a_row(memory, FIRST, SECOND))
    last = nlp(FIRST)
    expected = in_a_row(memory, FIRST, SECOND, FIRST)[-len(last) :]
    assert logprobs(last) == pytest.approx(expected)
    nlp.get_pipe("lm_scorer").restart_stream()
    assert logprobs(nlp(FIRST)) == pytest.approx(in_a_row(memory, FIRST))


@pytest.mark.parametrize("method", ["predict", "set_annotations"])
def test_stream_goes_on_from_before_the_documents_that_failed(
    pipeline, memory, monkeypatch, method
):
    nlp, bad, failed = pipeline(artifact=memory, context="stream"), "the red dog", []
    component = nlp.get_pipe("lm_scorer")
    original = getattr(component, method)

    def fail(docs, *scores):
        done = original(docs, *scores)
        if any(doc.text == bad for doc in docs):
            raise RuntimeError("too late")
        return done

    monkeypatch.setattr(component, method, fail)
    with pytest.raises(RuntimeError, match="too late"):
        nlp(bad)
    nlp.set_error_handler(lambda name, pipe, docs, error: failed.extend(docs))
    docs = list(nlp.pipe([FIRST, SECOND, bad, FIRST]))
    nlp(bad)
    docs.append(nlp(SECOND))
    assert [doc.text for doc in failed] == [bad, bad]
    assert logprobs(*docs) == pytest.approx(in_a_row(memory, FIRST, SECOND, FIRST, SECOND))


def test_stream_has_ranks_and_entropies_too(pipeline, memory):
    nlp = pipeline(artifact=memory, context="stream", rank=True, entropy=True)
    nlp(FIRST)
    whole = pipeline(artifact=memory, sentences=True, rank=True, entropy=True)
    expected = list(whole(f"{FIRST} {SECOND}"))[-7:]
    found = list(nlp(SECOND))
    assert [t._.lm_rank for t in found] == [t._.lm_rank for t in expected]
    assert [t._.lm_entropy for t in found] == pytest.approx([t._.lm_entropy for t in expected])


def test_stream_goes_on_in_a_copy_of_the_component(pipeline):
    """In the same process; in another it is refused: see test_spacy_processes.py."""
    component = pickle.loads(pickle.dumps(pipeline(context="stream").get_pipe("lm_scorer")))  # noqa: S301
    assert component(Doc(component.vocab, words=["the", "cat"]))[0]._.surprisal > 0
