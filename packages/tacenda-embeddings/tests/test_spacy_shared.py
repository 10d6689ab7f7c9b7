"""Components and vectors that several pipelines, processes or threads have in common."""

import copy
import multiprocessing
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import spacy
from spacy.training import Example

from support.pipelines import Letters, add
from tacenda_embeddings.spacy.vectors import MorphologicalVectors

LABELLED = [("the cat saw", ["DET", "NOUN", "VERB"]), ("a dog ate", ["DET", "NOUN", "VERB"])]
TEXT = "the saw a cat saw"


def pipeline(*models, target="tensor"):
    """One embedding component a model, the second of which appends."""
    nlp = spacy.blank("en")
    for i, model in enumerate(models):
        add(nlp, f"e{i}", model, target=target, mode="append" if i else "replace")
    return nlp


def sourced(source, *names):
    nlp = spacy.blank("en")
    for name in names:
        nlp.add_pipe(name, source=source)
    return nlp


def add_tagger(nlp, source="tensor"):
    layers = {"lds": {"@architectures": "tacenda.DocTensor.v1", "source": source}}
    tok2vec = {"@architectures": "tacenda.ConcatEmbed.v1", "width": 8, "embeds": layers}
    nlp.add_pipe("tagger", config={"model": {"tok2vec": tok2vec}})


def trained(nlp, disabled, annotates):
    """Initialize as ``spacy train`` does, with what is sourced disabled, and take a step."""

    def examples():
        return [Example.from_dict(nlp.make_doc(text), {"tags": tags}) for text, tags in LABELLED]

    with nlp.select_pipes(disable=disabled):
        optimizer = nlp.initialize(examples)
    nlp.update(examples(), sgd=optimizer, annotates=annotates)
    return nlp("the dog saw")


@pytest.fixture
def other(toy_class, toy_corpus):
    return toy_class(n_states=3).fit(toy_corpus)


def test_a_new_component_beside_a_sourced_one_leaves_its_width_known(toy, other):
    nlp = sourced(pipeline(toy, target="lds"), "e0")
    add(nlp, "new", other, target="other")
    add_tagger(nlp, "lds")
    assert trained(nlp, ["e0"], ["e0", "new"])[0].tag_


@pytest.mark.parametrize("new", [False, True], ids=["sourced too", "new"])
def test_widths_of_sourced_components_that_append_add_up(toy, other, new):
    source = pipeline(toy, other)
    nlp = sourced(source, "e0") if new else sourced(source, "e0", "e1")
    if new:
        add(nlp, "e1", other, mode="append")
    add_tagger(nlp)
    doc = trained(nlp, ["e0"] if new else ["e0", "e1"], ["e0", "e1"])
    assert doc.tensor.shape == (3, 14)
    assert nlp.get_pipe("tagger").model.get_ref("tok2vec").layers[0].get_dim("nO") == 14


def test_a_reader_between_a_sourced_writer_and_a_new_one_is_in_order(toy, other):
    nlp = sourced(pipeline(toy), "e0")
    add_tagger(nlp)
    add(nlp, "late", other, mode="append")
    assert trained(nlp, ["e0"], ["e0"]).tensor.shape == (3, 14)


def test_vectors_know_unseen_words_after_any_number_of_copies(monkeypatch):
    monkeypatch.setattr(
        "tacenda_embeddings.spacy.vectors.load_word_model", lambda source: Letters()
    )
    nlp = spacy.blank("en")
    nlp.vocab.vectors = MorphologicalVectors(strings=nlp.vocab.strings, model=Letters())
    [expected] = Letters().scaled_vectors(["unfriendlier"])
    once = pickle.loads(pickle.dumps(nlp))  # noqa: S301
    twice = pickle.loads(pickle.dumps(once))  # noqa: S301
    for each in (nlp, once, twice, copy.deepcopy(twice)):
        np.testing.assert_array_equal(each("unfriendlier")[0].vector, expected)


@pytest.mark.parametrize("with_vectors", ["source", "target"])
def test_similarity_goes_by_the_vectors_of_the_pipeline_that_made_the_document(toy, with_vectors):
    source = pipeline(toy)
    nlp = sourced(source, "e0")
    owner = source if with_vectors == "source" else nlp
    owner.vocab.set_vector("saw", np.ones(7, "f"))
    doc = nlp(TEXT)
    in_context = with_vectors == "source"
    assert bool(doc.user_token_hooks) == in_context
    assert doc[1].vector.shape == ((8,) if in_context else (7,))


def similarity_in_a_child(nlp, connection):
    doc = nlp("the cat saw a saw")
    doc.user_token_hooks.clear()
    nlp.get_pipe("e0").restore([doc])
    connection.send(bool(doc.user_token_hooks))


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_similarity_in_context_holds_in_a_child_that_is_not_a_worker_of_spacy(toy, no_child_left):
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(False)
    child = context.Process(target=similarity_in_a_child, args=(pipeline(toy), theirs))
    child.start()
    assert ours.recv()
    child.join()


def test_two_pipelines_share_a_component_in_threads(toy):
    source = pipeline(toy)
    nlp = sourced(source, "e0")

    def embed(turn):
        text = " ".join(f"{turn}word{i}" for i in range(200))
        return len((source, nlp)[turn % 2](text).tensor)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(2) as pool:
            assert set(pool.map(embed, range(40))) == {200}
    finally:
        sys.setswitchinterval(interval)
