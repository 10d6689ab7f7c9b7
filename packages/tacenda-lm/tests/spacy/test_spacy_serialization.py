"""Saving, loading, pickling and sourcing the component, and documents that it has scored."""

import pickle

import pytest
import spacy
from spacy.tokens import Doc, DocBin

from tacenda.errors import NotFittedError, TacendaError

TEXT = "the cat saw a zebra ."


def values(doc, prefix=""):
    tokens = [
        [t._.get(prefix + name) for name in ("surprisal", "lm_logprob", "lm_oov")] for t in doc
    ]
    return tokens, doc._.get(f"{prefix}perplexity"), doc[1:4]._.get(f"{prefix}lm_logprob")


@pytest.fixture
def nlp(pipeline):
    return pipeline(sentences=True, lowercase=True, number_word="N", context="sentence")


def test_pipeline_survives_the_disk(nlp, tmp_path):
    nlp.to_disk(tmp_path / "pipeline")
    loaded = spacy.load(tmp_path / "pipeline")
    assert values(loaded("The cat saw 12 .")) == values(nlp("The cat saw 12 ."))
    assert loaded.get_pipe("lm_scorer").normalize == nlp.get_pipe("lm_scorer").normalize
    assert not list((tmp_path / "pipeline").rglob("*.pkl"))


def test_pipeline_survives_bytes(nlp):
    loaded = spacy.blank("en").from_config(nlp.config).from_bytes(nlp.to_bytes())
    assert values(loaded(TEXT)) == values(nlp(TEXT))


def test_component_without_a_model_survives_and_still_has_none(tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe("lm_scorer")
    nlp.to_disk(tmp_path / "empty")
    copy = spacy.blank("en").from_config(nlp.config).from_bytes(nlp.to_bytes())
    for loaded in (spacy.load(tmp_path / "empty"), copy):
        with pytest.raises(NotFittedError):
            loaded(TEXT)


def test_model_can_be_excluded(nlp, tmp_path):
    component = nlp.get_pipe("lm_scorer")
    before = component.language_model
    assert len(component.to_bytes(exclude=["model"])) < 100
    component.to_disk(tmp_path / "component", exclude=["model"])
    assert not (tmp_path / "component" / "model").exists()
    component.to_disk(tmp_path / "whole")
    component.from_disk(tmp_path / "whole", exclude=["model"])
    component.from_bytes(component.to_bytes(), exclude=["model"])
    assert component.language_model is before


def test_damaged_model_on_disk_is_refused_in_one_sentence(nlp, tmp_path):
    nlp.to_disk(tmp_path / "pipeline")
    tensors = next((tmp_path / "pipeline").rglob("*.safetensors"))
    tensors.write_bytes(tensors.read_bytes()[:-8])
    with pytest.raises(TacendaError):
        spacy.load(tmp_path / "pipeline")


def test_pickled_component_gives_the_same_scores(pipeline):
    settings = {
        "prefix": "pickled_",
        "context": "sentence",
        "eos": False,
        "rank": True,
        "entropy": True,
        "lowercase": True,
        "number_word": "N",
        "batch_tokens": 5,
    }
    nlp = pipeline(sentences=True, **settings)
    component = nlp.get_pipe("lm_scorer")
    copy = pickle.loads(pickle.dumps(component))  # noqa: S301 - what spaCy does to spawn a process
    assert (copy.name, copy.normalize) == (component.name, component.normalize)
    doc = nlp(TEXT)
    again = copy(nlp.get_pipe("sentencizer")(nlp.make_doc(TEXT)))
    assert values(again, "pickled_") == values(doc, "pickled_")
    assert [t._.pickled_lm_rank for t in again] == [t._.pickled_lm_rank for t in doc]
    assert copy.__reduce__()[1][2] == component.__reduce__()[1][2]


def test_component_can_be_sourced_from_another_pipeline(pipeline):
    nlp = pipeline()
    other = spacy.blank("en")
    other.add_pipe("lm_scorer", name="surprise", source=nlp)
    assert values(other(TEXT)) == values(nlp(TEXT))


def test_scores_survive_the_bytes_of_a_document(pipeline):
    nlp = pipeline(rank=True, entropy=True)
    doc = nlp(TEXT)
    copy = Doc(nlp.vocab).from_bytes(doc.to_bytes())
    assert values(copy) == values(doc)
    assert [t._.lm_rank for t in copy] == [t._.lm_rank for t in doc]
    assert [t._.lm_entropy for t in copy] == [t._.lm_entropy for t in doc]


def test_scores_survive_a_docbin_with_user_data(nlp):
    docs = [nlp(TEXT), nlp(""), nlp("a red mouse .")]
    data = DocBin(docs=docs, store_user_data=True).to_bytes()
    copies = list(DocBin().from_bytes(data).get_docs(nlp.vocab))
    assert [values(copy)[0] for copy in copies] == [values(doc)[0] for doc in docs]
    assert copies[0]._.perplexity == docs[0]._.perplexity
