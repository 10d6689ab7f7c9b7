"""The component as every one that holds a model."""

import pytest
import spacy
import srsly

from support.components import ComponentTests
from support.pipelines import add
from tacenda.errors import ArtifactError


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
    add(spacy.blank("en"), "full", toy).to_disk(tmp_path / "component")
    empty = add(spacy.blank("en"), "empty")
    empty.to_disk(tmp_path / "component")
    assert empty.from_disk(tmp_path / "component").width is None


def test_what_cannot_be_saved_or_restored_is_refused(toy, tmp_path):
    component = add(spacy.blank("en"), "token_embeddings", toy)
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ArtifactError, match=r"cannot write .*file: File exists"):
        component.to_disk(tmp_path / "file")
    for data in (b"", b"garbage", b"\x01", srsly.msgpack_dumps({"model": 3}), "text"):
        with pytest.raises(ArtifactError, match="'token_embeddings' from bytes that to_bytes did"):
            component.from_bytes(data)
    assert component.width
