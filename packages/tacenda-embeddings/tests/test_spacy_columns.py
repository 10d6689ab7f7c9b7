"""Columns of several components in one target: how each component finds, replaces and restores its own."""

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc, DocBin

from support.pipelines import add
from tacenda.errors import ConfigurationError

TEXT = "the cat saw a dog"


@pytest.fixture
def wide(toy_class, toy_corpus):
    return toy_class(n_states=7, seed=1).fit(toy_corpus)


@pytest.mark.parametrize("target", ["tensor", "side_by_side"])
def test_appended_columns_stand_beside_the_others_and_are_recorded(toy, wide, target):
    nlp = spacy.blank("en")
    add(nlp, "first", toy, mode="append", target=target)
    add(nlp, "second", wide, mode="append", target=target)
    doc = nlp(TEXT)
    array = doc.tensor if target == "tensor" else doc._.side_by_side
    np.testing.assert_array_equal(array[:, :8], toy.transform([TEXT.split()])[0])
    np.testing.assert_array_equal(array[:, 8:], wide.transform([TEXT.split()])[0])
    assert doc._.get(f"{target}_columns") == {"first": [0, 8], "second": [8, 22]}
    again = Doc(nlp.vocab).from_bytes(doc.to_bytes(exclude=["user_hooks"]))
    assert again._.get(f"{target}_columns") == doc._.get(f"{target}_columns")


def test_append_after_replace_puts_the_columns_down_to_their_writer(toy):
    nlp = spacy.blank("en")
    add(nlp, "first", toy)
    add(nlp, "second", toy, mode="append")
    assert nlp(TEXT)._.tensor_columns == {"first": [0, 8], "second": [8, 16]}
    assert nlp("").tensor.shape == (0, 16)


def test_appending_again_replaces_only_our_columns(toy):
    nlp = spacy.blank("en")
    first, second = (add(nlp, name, toy, mode="append") for name in ("first", "second"))
    doc = nlp(TEXT)
    before = doc.tensor.copy()
    for _ in range(2):
        doc = first(second(doc))
    np.testing.assert_array_equal(doc.tensor, before)
    doc.tensor = doc.tensor[:, :3]  # somebody has replaced it
    assert second(doc).tensor.shape == (5, 11)
    assert second(doc)._.tensor_columns["second"] == [3, 11]


def test_a_tensor_of_another_width_is_kept_whole(toy):
    """A second pipeline has a wider upstream; the record of the first one does not hold for its tensor."""
    nlp = spacy.blank("en")
    component = add(nlp, "toy", toy, mode="append")
    doc = nlp.make_doc(TEXT)
    doc.tensor = np.ones((5, 4), "f")
    component(doc)
    upstream = np.random.default_rng(0).normal(size=(5, 20)).astype("f")
    doc.tensor = upstream
    assert not component.target.holds(doc, "toy", toy.width)
    component(doc)
    expected = np.hstack([upstream, toy.transform([TEXT.split()])[0]])
    np.testing.assert_array_equal(doc.tensor, expected)
    assert doc._.tensor_columns == {"other": [0, 20], "toy": [20, 28]}


@pytest.mark.parametrize("n_states", [2, 7])
def test_columns_of_a_changed_model_replace_its_earlier_ones(toy, toy_class, toy_corpus, n_states):
    changed = toy_class(n_states=n_states, seed=1).fit(toy_corpus)
    nlp = spacy.blank("en")
    for name in ("first", "second", "third"):
        add(nlp, name, toy, mode="append")
    doc = nlp(TEXT)
    kept = doc.tensor.copy()
    nlp.get_pipe("second").initialize(artifact=changed)
    nlp.get_pipe("second")(doc)
    [written] = changed.transform([TEXT.split()])
    np.testing.assert_array_equal(doc.tensor, np.hstack([kept[:, :8], written, kept[:, 16:]]))
    stop = 8 + changed.width
    expected = {"first": [0, 8], "third": [stop, stop + 8], "second": [8, stop]}
    assert doc._.tensor_columns == expected


def test_restoring_gives_back_the_columns_of_every_component_that_appends(toy, wide):
    nlp = spacy.blank("en")
    components = [
        add(nlp, name, model, mode="append") for name, model in (("first", toy), ("second", wide))
    ]
    doc = nlp(TEXT)
    for kept in (False, True):
        [again] = DocBin(docs=[doc], store_user_data=kept).get_docs(nlp.vocab)
        for component in components:
            component.restore([again])
        np.testing.assert_array_equal(again.tensor, doc.tensor)
        assert again._.tensor_columns == {"first": [0, 8], "second": [8, 22]}


def test_restoring_keeps_what_another_component_appended(toy):
    nlp = spacy.blank("en")
    first = add(nlp, "first", toy)
    add(nlp, "second", toy, mode="append")
    doc = nlp(TEXT)
    [again] = first.restore([Doc(nlp.vocab).from_bytes(doc.to_bytes(exclude=["user_hooks"]))])
    np.testing.assert_array_equal(again.tensor, doc.tensor)


def test_restoring_replaces_a_tensor_of_another_width(toy):
    nlp = spacy.blank("en")
    component = add(nlp, "toy", toy)
    doc = nlp.make_doc(TEXT)
    doc.tensor = np.ones((5, 3), "f")
    component.restore([doc])
    np.testing.assert_array_equal(doc.tensor, toy.transform([TEXT.split()])[0])


def test_appending_to_columns_of_other_tokens_is_refused(toy, wide):
    nlp = spacy.blank("en")
    add(nlp, "first", toy, target="merged_columns")
    second = add(nlp, "second", wide, mode="append", target="merged_columns")
    doc = nlp.get_pipe("first")(nlp.make_doc(TEXT))
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[:2])
    with pytest.raises(ConfigurationError, match=r"merged_columns has rows for 5 tokens .* has 4:"):
        second(doc)


def test_own_columns_of_other_tokens_are_replaced(wide):
    nlp = spacy.blank("en")
    add(nlp, "only", wide, mode="append", target="own_columns")
    doc = nlp(TEXT)
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[:2])
    assert nlp(doc)._.own_columns.shape == (4, 14)
