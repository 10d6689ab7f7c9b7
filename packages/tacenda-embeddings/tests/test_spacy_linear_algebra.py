"""``tacenda.numpy_blas.v1``: which layers multiply with numpy's BLAS, and that nothing else changes."""

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc
from spacy.training import Example
from thinc.api import Linear, Model, NumpyOps

from tacenda_embeddings.spacy.linear_algebra import (
    NUMPY_BLAS,
    switch_layer_to_numpy_blas,
    use_numpy_blas,
)

CALLBACK = {"after_pipeline_creation": {"@callbacks": NUMPY_BLAS}}
WORDS = ["Kim", "saw", "the", "dogs", "."]
TAGS = ["NNP", "VBD", "DT", "NNS", "."]
HEADS, RELATIONS = [1, 1, 3, 1, 1], ["nsubj", "ROOT", "det", "obj", "punct"]
ENTITIES = ["B-PERSON", "O", "O", "O", "O"]


def pipeline(nlp_settings):
    """Stock components on one tok2vec, with one between them that has no model."""
    nlp = spacy.blank("en", config={"nlp": nlp_settings})
    nlp.add_pipe("tok2vec")
    nlp.add_pipe("sentencizer")
    for head in ("tagger", "parser", "ner"):
        listener = {"@architectures": "spacy.Tok2VecListener.v1", "width": 96}
        nlp.add_pipe(head, config={"model": {"tok2vec": listener}})
    return spacy.util.load_model_from_config(nlp.config)


def examples(nlp):
    gold = Doc(nlp.vocab, words=WORDS, tags=TAGS, heads=HEADS, deps=RELATIONS, ents=ENTITIES)
    return [Example(Doc(nlp.vocab, words=WORDS), gold)] * 30


def trained(nlp_settings, steps=3):
    spacy.util.fix_random_seed(0)
    nlp = pipeline(nlp_settings)
    optimizer = nlp.initialize(lambda: examples(nlp))
    for _ in range(steps):
        nlp.update(examples(nlp), sgd=optimizer)
    return nlp


def multiply_with_blis(nlp):
    """The layers of a pipeline that multiply with BLIS, by component and name."""
    models = {name: pipe.model for name, pipe in nlp.components if hasattr(pipe, "model")}
    return [
        (name, node.name)
        for name, model in models.items()
        if isinstance(model, Model)
        for node in model.walk()
        if node.ops.use_blis
    ]


def test_without_the_callback_layers_multiply_with_blis_until_they_are_told():
    nlp = pipeline({})
    assert multiply_with_blis(nlp)
    assert use_numpy_blas(nlp) is nlp
    assert not multiply_with_blis(nlp)


def test_no_layer_is_left_out_before_training_after_it_and_from_disk(tmp_path):
    assert not multiply_with_blis(pipeline(CALLBACK))
    nlp = trained(CALLBACK)
    assert not multiply_with_blis(nlp)
    nlp.to_disk(tmp_path)
    assert not multiply_with_blis(spacy.load(tmp_path))
    assert not multiply_with_blis(spacy.load(tmp_path, disable=["ner"]))


def test_a_packaged_pipeline_needs_what_has_the_callback_if_it_names_it():
    requirements = pipeline(CALLBACK).meta["requirements"]
    assert [each.split(">")[0] for each in requirements] == ["tacenda-embeddings"]
    assert "requirements" not in use_numpy_blas(pipeline({})).meta


def test_copies_for_components_that_listen_no_longer_are_not_left_out(tmp_path):
    trained(CALLBACK).to_disk(tmp_path)
    config = {
        "nlp": {"lang": "en", "pipeline": ["tagger"], **CALLBACK},
        "components": {"tagger": {"source": str(tmp_path), "replace_listeners": ["model.tok2vec"]}},
    }
    nlp = spacy.util.load_model_from_config(config, auto_fill=True)
    assert not multiply_with_blis(nlp)
    assert [token.tag_ for token in nlp(Doc(nlp.vocab, words=WORDS))]


def test_training_and_predictions_are_the_same_but_for_rounding(tmp_path):
    usual, ours = trained({}), trained(CALLBACK)
    for name in ("tok2vec", "tagger", "parser", "ner"):
        pairs = zip(
            usual.get_pipe(name).model.walk(), ours.get_pipe(name).model.walk(), strict=True
        )
        for a, b in pairs:
            for param in a.param_names:
                np.testing.assert_allclose(
                    b.get_param(param), a.get_param(param), rtol=1e-2, atol=2e-4
                )
    usual.to_disk(tmp_path)
    same_weights = spacy.load(tmp_path, config={"nlp": CALLBACK})
    assert not multiply_with_blis(same_weights)
    doc, other = (nlp(Doc(nlp.vocab, words=WORDS)) for nlp in (usual, same_weights))
    np.testing.assert_allclose(other.tensor, doc.tensor, rtol=1e-4, atol=1e-5)
    seen = [[(t.tag_, t.dep_, t.head.i, t.ent_type_) for t in each] for each in (doc, other)]
    assert seen[0] == seen[1]


@pytest.mark.parametrize("use_blis", [True, False])
def test_operations_of_another_kind_stay(use_blis):
    class OtherOps(NumpyOps):
        """As those of a GPU or of Apple are."""

    layer = Linear(2, 2)
    layer.ops = ops = OtherOps(use_blis=use_blis)
    assert switch_layer_to_numpy_blas(layer) is layer
    assert layer.ops is ops
