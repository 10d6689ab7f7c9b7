"""The component as a user meets it: vectors per token, empty input, batches, errors, context."""

import numpy as np
import pytest
import spacy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from spacy.tokens import Doc
from thinc.api import NumpyOps, use_ops

from support.pipelines import pipeline
from tacenda.errors import ConfigurationError, NotFittedError
from tacenda_embeddings.spacy.component import DocEncoder

TEXT = "the cat saw a dog . the bird ate"


def test_tensor_has_the_vectors_of_the_model(any_toy):
    doc = pipeline(any_toy)(TEXT)
    np.testing.assert_array_equal(doc.tensor, any_toy.transform([TEXT.split()])[0])
    assert doc.tensor.dtype == np.float32


def test_empty_document_has_a_tensor_without_rows(any_toy):
    nlp, width = pipeline(any_toy), any_toy.width
    assert nlp("").tensor.shape == (0, width)
    docs = nlp.pipe(["", "the cat", ""])
    assert [doc.tensor.shape for doc in docs] == [(0, width), (2, width), (0, width)]
    assert list(nlp.pipe([])) == []


def test_stream_equals_single_documents_and_keeps_order(any_toy):
    texts = ["the cat", "", "a dog saw the bird", " ", "red", "the big small red mouse ."] * 5
    nlp = pipeline(any_toy, batch_tokens=7)
    streamed = list(nlp.pipe(texts))
    assert [doc.text for doc in streamed] == texts
    for doc, text in zip(streamed, texts, strict=True):
        np.testing.assert_array_equal(doc.tensor, nlp(text).tensor)


def test_batches_hold_the_token_budget_and_the_document_count(toy):
    nlp = pipeline(toy, batch_tokens=6)
    toy.calls.clear()
    list(nlp.pipe(["the cat", "a dog", "a bird", "the " * 50, "red", "red"]))
    assert toy.calls == [3, 1, 2]
    toy.calls.clear()
    list(nlp.get_pipe("token_embeddings").pipe(map(nlp.make_doc, ["red"] * 5), batch_size=2))
    assert toy.calls == [2, 2, 1]


def test_an_embedder_is_asked_only_for_words_with_letters(toy):
    toy.knows = lambda word: word[0].isalpha()
    assert pipeline(toy)("the cat").tensor.any()


def test_stream_is_lazy(toy):
    def endless():
        while True:
            yield "the cat saw a dog"

    assert next(iter(pipeline(toy, batch_tokens=20).pipe(endless(), batch_size=4))).tensor.any()


def test_tensor_is_an_array_of_the_current_ops(toy):
    class Marked(NumpyOps):
        name = "marked"

        def asarray(self, data, dtype=None):
            array = super().asarray(data, dtype=dtype)
            self.seen = (array.shape, array.dtype)
            return array

    ops = Marked()
    nlp = pipeline(toy)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tacenda_embeddings.spacy.targets.get_current_ops", lambda: ops)
        nlp("the cat")
    assert ops.seen == ((2, toy.width), np.float32)
    with use_ops("numpy"):
        assert isinstance(nlp("the cat").tensor, np.ndarray)


def test_only_the_failing_document_goes_to_the_error_handler(any_toy):
    nlp = pipeline(any_toy)
    texts = ["the cat", "this may explode", "a dog"]
    any_toy.explosive = True
    with pytest.raises(RuntimeError, match="explodes"):
        list(nlp.pipe(texts))
    failed = []
    nlp.set_error_handler(lambda name, pipe, docs, error: failed.append((name, docs, error)))
    assert [doc.text for doc in nlp.pipe(texts)] == ["the cat", "a dog"]
    [(name, docs, error)] = failed
    assert (name, [doc.text for doc in docs]) == ("token_embeddings", ["this may explode"])
    assert "explodes" in str(error)


def test_component_without_a_model_says_how_to_get_one():
    nlp = spacy.blank("en")
    nlp.add_pipe("lds_embeddings")
    with pytest.raises(NotFittedError, match=r"initialize\(artifact=.*nlp\.initialize"):
        nlp("the cat")
    with pytest.raises(NotFittedError):
        list(nlp.pipe(["the cat"]))
    with pytest.raises(ConfigurationError, match=r"artifact .* or corpus"):
        nlp.initialize()


@pytest.mark.parametrize(
    ("setting", "value"),
    [("mode", "add"), ("context", "page"), ("batch_tokens", 0), ("target", "doc._.lds")],
)
def test_bad_setting_is_named(setting, value):
    with pytest.raises(ConfigurationError, match=setting):
        spacy.blank("en").add_pipe("lds_embeddings", config={setting: value})


def test_sentence_context_gives_the_model_one_sentence_at_a_time(any_toy):
    nlp = pipeline(any_toy, context="sentence")
    nlp.add_pipe("sentencizer", first=True)
    doc = nlp("the cat saw .  \n a dog ate .")
    assert len(list(doc.sents)) == 2
    expected = np.concatenate(
        any_toy.transform([["the", "cat", "saw", "."], ["a", "dog", "ate", "."]])
    )
    np.testing.assert_array_equal(doc.tensor[[not t.is_space for t in doc]], expected)


def test_sentence_context_without_boundaries_warns_once_and_uses_the_document(toy, recwarn):
    nlp = pipeline(toy, context="sentence")
    docs = list(nlp.pipe([TEXT, TEXT]))
    nlp(TEXT)
    assert sum("no sentence boundaries" in str(each.message) for each in recwarn) == 1
    np.testing.assert_array_equal(docs[0].tensor, toy.transform([TEXT.split()])[0])


def test_vocabulary_shared_with_other_documents_is_not_needed(any_toy):
    nlp = pipeline(any_toy)
    nlp(TEXT)
    foreign = Doc(spacy.blank("de").vocab, words=["the", "Katze", "saw"])
    rows = nlp.get_pipe("token_embeddings").predict([foreign])[0]
    np.testing.assert_array_equal(rows, any_toy.transform([["the", "Katze", "saw"]])[0])


def test_embedder_that_breaks_its_contract_is_named(toy, monkeypatch):
    nlp = pipeline(toy)
    component = nlp.get_pipe("token_embeddings")
    monkeypatch.setattr(component.fitted, "transform", lambda pieces: [np.zeros((1, 3))])
    with pytest.raises(Exception, match="Toy breaks its contract"):
        nlp("the cat")


VOCAB = spacy.blank("en").vocab
TOKENS = st.tuples(st.sampled_from(["the", "cat", "zebra", " ", "\n"]), st.booleans())


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.lists(TOKENS, max_size=7), max_size=6), sentences=st.booleans())
def test_encoder_equals_a_loop_over_tokens(any_toy, texts, sentences):
    docs = [
        Doc(VOCAB, words=[word for word, _ in text], sent_starts=[start for _, start in text])
        for text in texts
    ]
    found = DocEncoder(any_toy, sentences)(docs)
    assert len(found) == len(docs)
    for doc, rows in zip(docs, found, strict=True):
        expected = np.zeros((len(doc), any_toy.width), dtype=np.float32)
        for part in doc.sents if sentences and len(doc) else [doc]:
            kept = [token for token in part if not token.is_space]
            for token, row in zip(
                kept, any_toy.transform([[t.text for t in kept]])[0], strict=True
            ):
                expected[token.i] = row
        np.testing.assert_array_equal(rows, expected)
        assert rows.flags.owndata


def test_a_component_supplies_vectors_once_it_has_a_model(toy):
    nlp = spacy.blank("en")
    component = nlp.add_pipe("token_embeddings")
    config = nlp.config
    config["training"]["annotating_components"] = ["token_embeddings"]
    nlp.config = config
    doc = Doc(nlp.vocab, words=["the", "cat"])
    assert not component.supply(doc)
    component.initialize(artifact=toy)
    assert component.supply(doc)
    np.testing.assert_array_equal(doc.tensor, toy.transform([["the", "cat"]])[0])
