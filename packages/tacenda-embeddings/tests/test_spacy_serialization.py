"""Saving, loading, pickling and sourcing the component, with and without a model."""

import pickle

import numpy as np
import pytest
import spacy

from tacenda.errors import NotFittedError, TacendaError

TEXT = "the cat saw a dog"


@pytest.fixture
def nlp(toy):
    nlp = spacy.blank("en")
    nlp.add_pipe("token_embeddings", config={"embedder": "toy"}).initialize(artifact=toy)
    return nlp


def test_pipeline_survives_the_disk(nlp, tmp_path):
    nlp.to_disk(tmp_path / "pipeline")
    loaded = spacy.load(tmp_path / "pipeline")
    np.testing.assert_array_equal(loaded(TEXT).tensor, nlp(TEXT).tensor)
    assert not list((tmp_path / "pipeline").rglob("*.pkl"))


def test_pipeline_survives_bytes(nlp):
    loaded = spacy.blank("en")
    loaded.add_pipe("token_embeddings", config={"embedder": "toy"})
    loaded.from_bytes(nlp.to_bytes())
    np.testing.assert_array_equal(loaded(TEXT).tensor, nlp(TEXT).tensor)


@pytest.mark.parametrize("factory", ["lds_embeddings", "token_embeddings"])
def test_component_without_a_model_survives_and_still_has_none(factory, tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe(factory)
    nlp.to_disk(tmp_path / "empty")
    for loaded in (
        spacy.load(tmp_path / "empty"),
        spacy.blank("en").from_config(nlp.config).from_bytes(nlp.to_bytes()),
    ):
        with pytest.raises(NotFittedError):
            loaded(TEXT)


def test_model_can_be_excluded(nlp, tmp_path, toy):
    component = nlp.get_pipe("token_embeddings")
    assert len(component.to_bytes(exclude=["model"])) < 100
    component.to_disk(tmp_path / "component", exclude=["model"])
    assert not (tmp_path / "component" / "model").exists()
    component.to_disk(tmp_path / "whole")
    component.from_disk(tmp_path / "whole", exclude=["model"])
    assert component.width == toy.width
    component.from_bytes(component.to_bytes(), exclude=["model"])
    assert component.width == toy.width


def test_saving_without_a_model_over_a_saved_model_leaves_none(nlp, tmp_path):
    nlp.get_pipe("token_embeddings").to_disk(tmp_path / "component")
    empty = spacy.blank("en").add_pipe("token_embeddings", config={"embedder": "toy"})
    empty.to_disk(tmp_path / "component")
    assert empty.from_disk(tmp_path / "component").width is None


def test_damaged_model_on_disk_is_refused_in_one_sentence(nlp, tmp_path):
    nlp.to_disk(tmp_path / "pipeline")
    tensors = next((tmp_path / "pipeline").rglob("*.safetensors"))
    tensors.write_bytes(tensors.read_bytes()[:-8])
    with pytest.raises(TacendaError):
        spacy.load(tmp_path / "pipeline")


def test_pickled_component_gives_the_same_vectors(nlp):
    component = nlp.get_pipe("token_embeddings")
    copy = pickle.loads(pickle.dumps(component))  # noqa: S301 - what spaCy does to spawn a process
    assert copy.name == component.name
    np.testing.assert_array_equal(
        copy(nlp.make_doc(TEXT)).tensor, component(nlp.make_doc(TEXT)).tensor
    )


def test_component_can_be_sourced_from_another_pipeline(nlp, tmp_path):
    other = spacy.blank("en")
    other.add_pipe("token_embeddings", name="vectors", source=nlp)
    np.testing.assert_array_equal(other(TEXT).tensor, nlp(TEXT).tensor)
    other.to_disk(tmp_path / "other")
    np.testing.assert_array_equal(spacy.load(tmp_path / "other")(TEXT).tensor, nlp(TEXT).tensor)
