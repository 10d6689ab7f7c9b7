"""Layers know the vectors that they were trained on, and components the tokens that their model was fitted to."""

import shutil
import warnings

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc
from spacy.training import Example

import tacenda
from support.pipelines import add, pipeline, reload
from tacenda import Corpus
from tacenda.errors import ConfigurationError
from tacenda_embeddings import LDS
from tacenda_embeddings.spacy.training_input import SAME, Fingerprint, Reading, compare_and_record

TEXT = [
    ["the", "cat", "saw", "a", "dog", "."],
    ["a", "bird", "ate", "the", "mouse", "."],
    ["the", "dog", "ate", "the", "red", "bird", "."],
] * 60  # fmt: skip
TAGS = [["DET", "N", "V", "DET", "N", "P"], ["DET", "N", "V", "DET", "N", "P"]]
LISTENER = {
    "@architectures": "spacy.Tok2VecListener.v1",
    "width": 8,
    "upstream": "token_embeddings",
}
LAYERS = {"doc_tensor": {"@architectures": "tacenda.DocTensor.v1"}, "listener": LISTENER}
MISMATCH = "'tagger' had other vectors in training than 'token_embeddings'"


@pytest.fixture
def other(toy_class, toy_corpus):
    """An embedder of the same width with other random numbers."""
    return toy_class(seed=1).fit(toy_corpus)


def examples(nlp):
    docs = [(Doc(nlp.vocab, words=words), tags) for words, tags in zip(TEXT, TAGS, strict=False)]
    return [Example.from_dict(doc, {"tags": tags}) for doc, tags in docs]


def build(model, layer="doc_tensor"):
    nlp = pipeline(model)
    nlp.add_pipe("tagger", config={"model": {"tok2vec": LAYERS[layer]}})
    return nlp


def train(nlp, optimizer=None):
    optimizer = optimizer or nlp.initialize(lambda: examples(nlp))
    optimizer.learn_rate = 0.05
    for _ in range(3):
        nlp.update(examples(nlp), sgd=optimizer, annotates=["token_embeddings"])
    return nlp


def initialize_from(nlp, folder):
    nlp.config["initialize"]["components"]["token_embeddings"] = {"artifact": str(folder)}


@pytest.fixture(autouse=True)
def loud():
    """Fail at a warning that a test does not expect."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*had other vectors|.*does not know")
        yield


def announced(function, *arguments, **options):
    """Return what a call says of other vectors, or of unknown tokens."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function(*arguments, **options)
    said = [str(each.message) for each in caught]
    return [each for each in said if "had other vectors" in each or "does not know" in each]


@pytest.mark.parametrize("layer", LAYERS)
def test_a_model_put_under_a_trained_layer_is_announced_once(toy, other, layer):
    nlp = train(build(toy, layer))
    component = nlp.get_pipe("token_embeddings")
    assert announced(component.initialize, artifact=toy) == []
    with pytest.warns(UserWarning, match=MISMATCH):
        component.initialize(artifact=other)
    assert announced(nlp, "the cat") == announced(nlp, "a dog") == []
    assert announced(component.initialize, artifact=toy) == []
    assert announced(nlp, "the cat") == []


@pytest.mark.parametrize("layer", LAYERS)
def test_a_saved_pipeline_knows_what_it_was_trained_on(toy, other, tmp_path, layer):
    nlp = reload(train(build(toy, layer)), tmp_path / "nlp")
    assert announced(nlp, "the cat") == []
    shutil.rmtree(tmp_path / "nlp" / "token_embeddings" / "model")
    other.save(tmp_path / "nlp" / "token_embeddings" / "model")
    nlp = spacy.load(tmp_path / "nlp")
    with pytest.warns(UserWarning, match=MISMATCH):
        nlp("the cat")
    with pytest.warns(UserWarning, match=MISMATCH):
        spacy.load(tmp_path / "nlp")("the cat")


@pytest.mark.parametrize("layer", LAYERS)
def test_training_again_on_another_model_is_silent(toy, other, tmp_path, layer):
    nlp = train(build(toy, layer))
    nlp.config["initialize"]["components"] = {}
    other.save(tmp_path / "other")
    initialize_from(nlp, tmp_path / "other")
    assert announced(train, nlp) == []
    assert announced(reload(nlp, tmp_path / "nlp"), "the cat") == []


@pytest.mark.parametrize("returns", [False, True])
def test_after_the_announcement_training_goes_on_with_the_model_that_is_there(
    toy, other, tmp_path, returns
):
    nlp = reload(train(build(toy)), tmp_path / "nlp")
    component = nlp.get_pipe("token_embeddings")
    with pytest.warns(UserWarning, match=MISMATCH):
        component.initialize(artifact=other)
    if returns:
        component.initialize(artifact=toy)
    assert announced(train, nlp, nlp.resume_training()) == []
    assert announced(reload(nlp, tmp_path / "more"), "the cat") == []
    if returns:
        with pytest.warns(UserWarning, match=MISMATCH):
            component.initialize(artifact=other)
        assert announced(component.initialize, artifact=toy) == []


def test_a_sourced_tagger_is_compared_with_the_component_it_comes_to(toy, other):
    trained = train(build(toy))
    for model in (toy, other):
        nlp = spacy.blank("en")
        add(nlp, "vectors", model)
        nlp.add_pipe("tagger", source=trained)
        if model is toy:
            assert announced(nlp, "the cat") == []
            continue
        with pytest.warns(UserWarning, match="'tagger' had other vectors.*than 'vectors'"):
            nlp("the cat")


def test_a_frozen_tagger_hears_of_another_model_when_the_rest_is_initialized(toy, other, tmp_path):
    nlp = train(build(toy))
    other.save(tmp_path / "other")
    initialize_from(nlp, tmp_path / "other")
    with nlp.select_pipes(disable=["tagger"]):
        nlp.initialize(lambda: examples(nlp))
    with pytest.warns(UserWarning, match=MISMATCH):
        nlp("the cat")


@pytest.mark.parametrize(
    "records",
    [
        *(
            {"0": [{"words": words, "width": width, "numbers": numbers}, ""]}
            for words, width, numbers in [
                (["the"], 8, b"123"),
                ("ab", 8, bytes(32)),
                ([1], 8, bytes(16)),
                (["the"], -1, b"12"),
                (["the"], 8, np.full(8, np.nan, np.float16).tobytes()),
            ]
        ),
        "0",
        ["0"],
        1,
    ],
)
def test_a_damaged_record_is_named(toy, records, tmp_path):
    nlp = train(build(toy))
    [node] = [n for n in nlp.get_pipe("tagger").model.walk() if n.name == "doc_tensor"]
    node.attrs["trained_on"] = records
    nlp = reload(nlp, tmp_path / "nlp")
    with pytest.raises(ConfigurationError, match="damaged record of its training"):
        nlp("the cat")
    with pytest.raises(ConfigurationError, match="damaged record of its training"):
        nlp.get_pipe("token_embeddings").initialize(artifact=toy)


def test_an_error_of_the_embedder_is_not_taken_for_a_damaged_record(toy, other, monkeypatch):
    def fail(sentences):
        raise ValueError("the model is broken")

    nlp = train(build(toy))
    component = nlp.get_pipe("token_embeddings")
    component.initialize(artifact=toy)
    [node] = [n for n in nlp.get_pipe("tagger").model.walk() if n.name == "doc_tensor"]
    readings = [Reading("tagger", nlp.get_pipe("tagger"), node, "0")]
    monkeypatch.setattr(other, "transform", fail)
    with pytest.raises(ValueError, match="the model is broken"):
        compare_and_record(readings, other, "'token_embeddings'")


def test_every_component_is_announced_with_its_own_cosine(toy, other):
    nlp = build(toy)
    nlp.add_pipe("tagger", "second", config={"model": {"tok2vec": LAYERS["doc_tensor"]}})
    train(nlp)
    component = nlp.get_pipe("token_embeddings")
    said = announced(component.initialize, artifact=other)
    assert [each.partition(" had")[0] for each in said] == ["'tagger'", "'second'"]
    cosine = Fingerprint.of(toy).cosine(other)
    assert all(f"(cosine {cosine:.2f})" in each for each in said)


# -- the fingerprint -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lds():
    return LDS(n_states=4, kappa=5.0).fit(Corpus.from_sentences(TEXT))


def test_a_model_in_fewer_bits_has_the_same_fingerprint(lds, tmp_path):
    print_ = Fingerprint.from_dict(Fingerprint.of(lds).to_dict())
    assert len({print_, Fingerprint.of(lds)}) == 2  # == and hash do not read the sample
    assert print_.cosine(lds) == pytest.approx(1, abs=1e-6)
    for precision in ("float16", "int8"):
        lds.save(tmp_path / "small", precision=precision)
        assert print_.cosine(tacenda.load(tmp_path / "small")) > 0.99


def test_the_cosine_is_that_of_all_vectors_where_these_are_few(toy, other):
    """With no more words and columns than the sample has, it is what numpy says of the whole."""
    found = Fingerprint.of(toy)
    ours, theirs = (model.transform([list(found.words)])[0].ravel() for model in (toy, other))
    cosine = ours @ theirs / np.linalg.norm(ours) / np.linalg.norm(theirs)
    assert found.cosine(other) == pytest.approx(cosine, abs=1e-3)
    assert cosine < SAME


def test_a_vocabulary_without_words_has_a_fingerprint(toy, monkeypatch):
    monkeypatch.setattr(type(toy.vocabulary), "is_reserved", lambda self, word: True)
    found = Fingerprint.of(toy)
    assert found.words == ()
    again = Fingerprint.from_dict(found.to_dict())
    assert again.sample.shape == (0, toy.width)
    assert again.cosine(toy) == 1


def test_another_output_of_a_model_is_another_input(lds):
    found = Fingerprint.of(lds.with_output("mean"))
    assert found.cosine(lds.with_output("filtered")) < SAME
    assert found.cosine(lds) == 0


# -- tokens --------------------------------------------------------------------------------------------


def test_a_model_of_another_language_is_announced_once(toy):
    nlp = pipeline(toy)
    text = "un chat voit une souris rouge et la mange . " * 110
    with pytest.warns(UserWarning, match=r"'token_embeddings' does not know 90% of the"):
        nlp(text)
    assert announced(nlp, text) == []


def test_punctuation_that_the_model_does_not_know_is_announced(toy_class):
    class Corpus:
        vocabulary = tacenda.Corpus.from_sentences([["cats,", "dogs,", "a", "b", "c"]]).vocabulary

    nlp = pipeline(toy_class().fit(Corpus))
    with pytest.warns(UserWarning, match="100% of the pipeline's punctuation marks"):
        nlp("a b c, " * 260)


def test_tokens_of_a_training_are_looked_at_when_it_begins(toy):
    nlp = build(toy)
    words = ["un", "chat", "voit"] * 400
    example = Example.from_dict(Doc(nlp.vocab, words=words), {"tags": ["X"] * 1200})
    with pytest.warns(UserWarning, match="does not know 100%"):
        nlp.initialize(lambda: [example])


def test_known_tokens_few_tokens_and_whitespace_are_no_news(toy):
    nlp = pipeline(toy)
    assert announced(nlp, "quite unknown words") == []
    assert announced(nlp, "the cat saw a mouse .      \n" * 200) == []
    assert announced(nlp, "quite unknown words" * 500) == []
