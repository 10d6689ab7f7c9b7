"""Similarity in context: tokens, spans and documents, what it leaves alone, and what documents lose on their ways."""

import multiprocessing
import os
import pickle
import warnings

import numpy as np
import pytest
from spacy.tokens import Doc, DocBin

from support.pipelines import pipeline, reload
from tacenda.errors import ConfigurationError

TEXT = "the cat saw a cat"
OTHER = "a red bird ate the cat"


@pytest.fixture
def nlp(toy):
    return pipeline(toy)


@pytest.fixture(autouse=True)
def _no_warning():
    """Neither W007 (no word vectors) nor W008 (no vector)."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=r"\[W00[78]\]")
        yield


def cosine(a, b):
    return a @ b / np.linalg.norm(a) / np.linalg.norm(b)


def test_similarity_is_the_cosine_wherever_spacy_looks(nlp, toy):
    doc, other = nlp(TEXT), nlp(OTHER)
    rows, others = toy.transform([TEXT.split(), OTHER.split()])
    same_word = cosine(rows[1], others[5])
    assert same_word < 0.999
    for one in (doc[1], doc[1:2]):
        for another in (other[5], other[5:6]):
            assert one.similarity(another) == pytest.approx(same_word, abs=1e-6)
    means = rows[:3].mean(0), others[1:4].mean(0)
    assert doc[:3].similarity(other[1:4]) == pytest.approx(cosine(*means), abs=1e-6)
    assert doc.similarity(other) == pytest.approx(cosine(rows.mean(0), others.mean(0)), abs=1e-6)
    assert doc.similarity(other[5]) == pytest.approx(cosine(rows.mean(0), others[5]), abs=1e-6)
    assert doc[1].similarity(other) == pytest.approx(cosine(rows[1], others.mean(0)), abs=1e-6)
    assert doc[1].similarity(doc[1]) == pytest.approx(1)
    assert isinstance(doc[1].similarity(other), float)


def test_vectors_are_the_rows_and_their_means(nlp, toy):
    doc = nlp(TEXT)
    [rows] = toy.transform([TEXT.split()])
    for part, own in ((doc[1], rows[1:2]), (doc[1:3], rows[1:3]), (doc, rows)):
        np.testing.assert_allclose(part.vector, own.mean(0), rtol=1e-6)
        assert part.vector_norm == pytest.approx(np.linalg.norm(own.mean(0)))
        assert part.has_vector


def test_whitespace_and_empty_documents_are_similar_to_nothing(nlp):
    doc = nlp("the \n cat")
    assert doc[1].similarity(doc[0]) == 0.0
    assert doc[1:2].similarity(doc) == 0.0
    assert nlp("").similarity(doc) == 0.0
    with pytest.warns(UserWarning, match="W008") as caught:
        assert doc.similarity(nlp.make_doc("the")) == 0.0
    assert caught[0].filename == __file__


def test_documents_of_unknown_words_alone_are_similar_to_nothing(toy):
    """What a layer reads of them, the tensor, stays what the model gives."""
    toy.knows = toy.vocabulary.__contains__
    nlp = pipeline(toy)
    unknown, other, known = nlp("qqq \n rrr"), nlp("sss"), nlp("sss cat")
    np.testing.assert_array_equal(unknown.tensor[[0, 2]], toy.transform([["qqq", "rrr"]])[0])
    for each in (unknown, unknown[0], unknown[2:]):
        assert not each.has_vector
        assert each.vector.shape == (toy.width,)
        assert not each.vector.any()
        with pytest.warns(UserWarning, match="W008"):
            assert each.similarity(other) == 0.0
        with pytest.warns(UserWarning, match="W008"):
            assert known.similarity(each) == 0.0
    assert known.has_vector
    assert known[0].has_vector  # its context is known
    assert known.similarity(nlp("cat")) > 0


def test_vectors_of_another_pipeline_cannot_be_compared(nlp, toy_class, toy_corpus):
    wide = pipeline(toy_class(n_states=7).fit(toy_corpus))
    with pytest.raises(ConfigurationError, match=r"has 8 columns .* has 14"):
        nlp(TEXT)[1].similarity(wide(TEXT)[1])
    with pytest.raises(ConfigurationError, match=r"has 8 columns .* has 14"):
        nlp("the \n")[1].similarity(wide(TEXT)[1])


def test_word_vectors_of_the_pipeline_stay_in_force(toy):
    nlp = pipeline(toy)
    nlp.vocab.set_vector("cat", np.ones(3, "f"))
    doc = nlp(TEXT)
    assert doc[1].vector.tolist() == [1, 1, 1]
    assert doc[1].similarity(doc[4]) == 1.0


def test_similarity_in_context_can_be_asked_for_beside_word_vectors(toy):
    nlp = pipeline(toy, similarity=True, target="compared")
    nlp.vocab.set_vector("cat", np.ones(3, "f"))
    doc, other = nlp(TEXT), nlp(OTHER)
    rows, others = toy.transform([TEXT.split(), OTHER.split()])
    assert doc[1].similarity(other[5]) == pytest.approx(cosine(rows[1], others[5]), abs=1e-6)
    assert doc.similarity(other) == pytest.approx(cosine(rows.mean(0), others.mean(0)), abs=1e-6)
    np.testing.assert_allclose(doc[2].vector, rows[2])
    assert doc[2].has_vector
    assert nlp.vocab["cat"].vector.tolist() == [1, 1, 1]


@pytest.mark.parametrize("config", [{"target": "put_aside"}, {"similarity": False}], ids=str)
def test_vectors_put_aside_or_by_choice_are_not_compared(toy, config):
    doc = pipeline(toy, **config)(TEXT)
    assert not any((doc.user_token_hooks, doc.user_span_hooks, doc.user_hooks))
    assert doc.has_vector == ("target" not in config)


def test_hooks_of_others_stay(nlp):
    doc = nlp.make_doc(TEXT)
    doc.user_span_hooks["sentiment"] = lambda span: 5.0
    assert nlp(doc)[:2].sentiment == 5.0


# -- ways on which documents lose something ------------------------------------------------------------


def check(docs, again):
    for one, other in zip(docs, again, strict=True):
        np.testing.assert_allclose(one.tensor, other.tensor)
        if len(one):
            assert other[1].similarity(other[-1]) == one[1].similarity(one[-1])


def test_documents_from_a_doc_bin_have_lost_their_tensor_and_get_it_back(nlp):
    docs = [nlp(TEXT), nlp(""), nlp(OTHER)]
    stored = DocBin(docs=docs).to_bytes()
    again = list(DocBin().from_bytes(stored).get_docs(nlp.vocab))
    assert not any(doc.tensor.size for doc in again)
    assert nlp.get_pipe("token_embeddings").restore(again) == again
    check(docs, again)


def test_an_extension_survives_a_doc_bin_with_user_data(toy):
    nlp = pipeline(toy, target="surviving", similarity=True)
    doc = nlp(TEXT)
    stored = DocBin(docs=[doc], store_user_data=True).to_bytes()
    [again] = DocBin().from_bytes(stored).get_docs(nlp.vocab)
    np.testing.assert_array_equal(again._.surviving, doc._.surviving)
    toy.calls.clear()
    nlp.get_pipe("token_embeddings").restore([again])
    assert not toy.calls
    assert again[1].similarity(again[4]) == doc[1].similarity(doc[4])


def test_bytes_keep_the_tensor_and_lose_the_hooks(nlp, toy):
    doc = nlp(TEXT)
    with pytest.warns(UserWarning, match="W109"):
        stored = doc.to_bytes()
    again = Doc(nlp.vocab).from_bytes(stored)
    np.testing.assert_array_equal(again.tensor, doc.tensor)
    toy.calls.clear()
    nlp.get_pipe("token_embeddings").restore([again])
    assert not toy.calls
    check([doc], [again])


def test_pickles_and_copies_lose_nothing(nlp):
    doc = nlp(TEXT)
    check([doc, doc], [pickle.loads(pickle.dumps(doc)), doc.copy()])  # noqa: S301 - our own


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="does not fork")
def test_other_processes_keep_the_tensor_and_what_they_lose_comes_back(
    nlp, no_child_left, monkeypatch, capfd
):
    monkeypatch.setattr(multiprocessing, "Process", multiprocessing.get_context("fork").Process)
    # what a child records stays in the child: its warnings are written where capfd reads
    monkeypatch.setattr(
        warnings, "showwarning", lambda message, *_, **__: os.write(2, f"{message}\n".encode())
    )
    docs = list(nlp.pipe([TEXT, OTHER]))
    again = list(nlp.pipe([TEXT, OTHER], n_process=2, batch_size=1))
    check(docs, nlp.get_pipe("token_embeddings").restore(again))
    assert "[W" not in capfd.readouterr().err


def test_the_setting_is_saved(toy, tmp_path):
    nlp = pipeline(toy, similarity=True, target="kept_setting")
    doc = reload(nlp, tmp_path / "pipeline")(TEXT)
    assert doc[1].similarity(doc[4]) == nlp(TEXT)[1].similarity(nlp(TEXT)[4])
