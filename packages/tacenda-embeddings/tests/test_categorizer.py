"""The mean of three text categorizers, against each of them alone."""

import numpy as np
import pytest
import spacy
from spacy.ml.models.textcat import build_bow_text_classifier_v3, build_reduce_text_classifier
from spacy.ml.models.tok2vec import build_hash_embed_cnn_tok2vec
from spacy.training import Example
from thinc.api import Adam, fix_random_seed

from tacenda_embeddings.spacy.categorizer import average_categorizers

TEXTS = ("dogs saw Kim", "the cat slept", "dogs bark", "")
TRUTH = np.eye(3, dtype=np.float32)[[0, 1, 0, 2]]


def bag(exclusive):
    return build_bow_text_classifier_v3(
        exclusive_classes=exclusive, ngram_size=1, no_output_layer=False, length=64
    )


def tok2vec():
    return build_hash_embed_cnn_tok2vec(
        width=8, depth=1, embed_size=50, window_size=1, maxout_pieces=2, subword_features=True,
        pretrained_vectors=None,
    )  # fmt: skip


@pytest.fixture
def docs():
    return [spacy.blank("en")(text) for text in TEXTS]


def train(model, docs, n_steps=5):
    optimizer = Adam(0.01)
    for _ in range(n_steps):
        scores, backprop = model.begin_update(docs)
        backprop(scores - TRUTH[: len(docs)])  # as spaCy's text categorizers do
        model.finish_update(optimizer)
    return model


@pytest.mark.parametrize("exclusive", [True, False])
def test_each_categorizer_learns_as_if_it_were_alone(docs, exclusive):
    docs = docs[:3]  # spaCy's own takes no maximum of a document without tokens
    model = average_categorizers(tok2vec(), bag(exclusive))
    model.initialize(X=docs, Y=TRUTH)
    alone = bag(exclusive)
    alone.initialize(X=docs, Y=TRUTH)
    train(model, docs)
    train(alone, docs)
    own_bag, vectors, pooled, attended = model.layers
    np.testing.assert_allclose(own_bag.predict(docs), alone.predict(docs), atol=1e-6)
    tokens = vectors.predict(docs)
    each = [own_bag.predict(docs), pooled.predict(tokens), attended.predict(tokens)]
    np.testing.assert_allclose(model.predict(docs), np.mean(each, axis=0), atol=1e-6)


def test_pooled_vectors_learn_as_in_the_categorizer_of_spacy(docs):
    docs = docs[:3]
    fix_random_seed(0)
    theirs = build_reduce_text_classifier(tok2vec(), True, False, False, True, True)
    theirs.initialize(X=docs, Y=TRUTH)
    model = average_categorizers(tok2vec(), bag(True))
    model.initialize(X=docs, Y=TRUTH)
    _, vectors, pooled, _ = model.layers
    theirs.get_ref("tok2vec").from_bytes(vectors.layers[0].to_bytes())
    scores, backprop = model.begin_update(docs)
    backprop(scores - TRUTH[:3])
    softmax = pooled.layers[-1].layers[0]
    own = {name: softmax.get_grad(name) for name in ("W", "b")}
    output = theirs.get_ref("output_layer")
    width = 8  # theirs has the maximum first
    swapped = np.hstack([softmax.get_param("W")[:, width:], softmax.get_param("W")[:, :width]])
    output.set_param("W", swapped)
    output.set_param("b", softmax.get_param("b"))
    scores, backprop = theirs.begin_update(docs)
    backprop(scores - TRUTH[:3])
    gradient = output.get_grad("W")
    np.testing.assert_allclose(
        own["W"], np.hstack([gradient[:, width:], gradient[:, :width]]), atol=1e-6
    )
    np.testing.assert_allclose(own["b"], output.get_grad("b"), atol=1e-6)


@pytest.mark.parametrize("name", ["textcat", "textcat_multilabel"])
def test_labels_are_added_to_a_trained_pipeline(name, tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe(name)
    config = nlp.config.copy()
    config["components"][name]["model"]["@architectures"] = "tacenda.TextCatAverage.v1"
    nlp = spacy.util.load_model_from_config(config)
    examples = [
        Example.from_dict(nlp.make_doc(text), {"cats": {"a": float(i), "b": 1.0 - i}})
        for i, text in enumerate(TEXTS[:2])
    ]
    nlp.initialize(lambda: examples)
    nlp.update(examples)
    before = nlp(TEXTS[0]).cats
    nlp.get_pipe(name).add_label("c")
    nlp.to_disk(tmp_path)
    nlp = spacy.load(tmp_path)
    after = nlp(TEXTS[0]).cats
    assert set(after) == {"a", "b", "c"}
    assert {label: after[label] for label in before} == pytest.approx(before, abs=1e-5)
    examples = [Example.from_dict(nlp.make_doc(TEXTS[2]), {"cats": {"a": 0.0, "b": 0.0, "c": 1.0}})]
    optimizer = nlp.resume_training()
    optimizer.learn_rate = 0.5
    for _ in range(300):
        nlp.update(examples, sgd=optimizer)
    assert nlp(TEXTS[2]).cats["c"] > after["c"]


def test_documents_without_tokens_have_scores_and_no_gradient(docs):
    model = average_categorizers(tok2vec(), bag(True))
    model.initialize(X=docs, Y=TRUTH)
    train(model, docs)
    scores = model.predict(docs)
    np.testing.assert_allclose(scores.sum(axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(model.predict(docs[:3]), scores[:3], atol=1e-6)
    assert model.predict(docs[3:]).argmax() == 2
