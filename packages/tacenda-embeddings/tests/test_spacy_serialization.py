"""The component as every one that holds a model."""

import pytest
import spacy

from support.components import ComponentTests


class TestTokenEmbeddings(ComponentTests):
    factory, options = "token_embeddings", {"embedder": "toy"}
    factories = ("lds_embeddings", "token_embeddings")
    assigns, distribution = "doc.tensor", "tacenda-embeddings"

    @pytest.fixture
    def fitted(self, toy):
        return toy

    def values(self, doc):
        return doc.tensor.tolist()


def test_saving_without_a_model_over_a_saved_model_leaves_none(toy, tmp_path):
    factory, config = "token_embeddings", {"embedder": "toy"}
    component = spacy.blank("en").add_pipe(factory, config=config)
    component.initialize(artifact=toy)
    component.to_disk(tmp_path / "component")
    empty = spacy.blank("en").add_pipe(factory, config=config)
    empty.to_disk(tmp_path / "component")
    assert empty.from_disk(tmp_path / "component").width is None
