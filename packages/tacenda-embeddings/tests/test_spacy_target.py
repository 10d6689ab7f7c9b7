"""Where vectors go, whose columns are whose, and who may write Doc.tensor."""

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc

from tacenda.errors import ConfigurationError

TEXT = "the cat saw a dog"
TOK2VEC = {
    "@architectures": "spacy.HashEmbedCNN.v2",
    "width": 8,
    "depth": 1,
    "embed_size": 20,
    "window_size": 1,
    "maxout_pieces": 2,
    "subword_features": False,
    "pretrained_vectors": None,
}


def listener(upstream, width=8):
    tok2vec = {
        "@architectures": "spacy.Tok2VecListener.v1",
        "width": width,
        "upstream": upstream,
    }
    return {"model": {"@architectures": "spacy.Tagger.v2", "tok2vec": tok2vec}}


def add(nlp, name, **config):
    return nlp.add_pipe("token_embeddings", name=name, config={"embedder": "toy", **config})


def stock(*names, upstream="tok2vec"):
    """A stock pipeline: a tok2vec that owns Doc.tensor, and a tagger that listens to it."""
    nlp = spacy.blank("en")
    for name in names:
        if name == "tok2vec":
            nlp.add_pipe(name, config={"model": TOK2VEC})
        elif name == "tagger":
            nlp.add_pipe(name, config=listener(upstream)).add_label("N")
        else:
            add(nlp, name)
    return nlp


def test_extension_as_target_leaves_the_tensor_alone(toy):
    nlp = spacy.blank("en")
    add(nlp, "vectors", target="toy_vectors").initialize(artifact=toy)
    doc = nlp(TEXT)
    np.testing.assert_array_equal(doc._.toy_vectors, toy.transform([TEXT.split()])[0])
    assert doc.tensor.size == 0


def test_extension_that_cannot_be_written_is_refused():
    Doc.set_extension("read_only_vectors", getter=len, force=True)
    with pytest.raises(ConfigurationError, match="read_only_vectors"):
        add(spacy.blank("en"), "vectors", target="read_only_vectors")
    Doc.remove_extension("read_only_vectors")


@pytest.mark.parametrize("target", ["tensor", "side_by_side"])
def test_appended_columns_stand_beside_the_others_and_are_recorded(
    toy, toy_class, toy_corpus, target
):
    wide = toy_class(n_states=7, seed=1).fit(toy_corpus)
    nlp = spacy.blank("en")
    add(nlp, "first", mode="append", target=target).initialize(artifact=toy)
    add(nlp, "second", mode="append", target=target).initialize(artifact=wide)
    doc = nlp(TEXT)
    array = doc.tensor if target == "tensor" else doc._.side_by_side
    np.testing.assert_array_equal(array[:, :8], toy.transform([TEXT.split()])[0])
    np.testing.assert_array_equal(array[:, 8:], wide.transform([TEXT.split()])[0])
    assert doc._.get(f"{target}_columns") == {"first": [0, 8], "second": [8, 22]}
    again = Doc(nlp.vocab).from_bytes(doc.to_bytes())
    assert again._.get(f"{target}_columns") == doc._.get(f"{target}_columns")


def test_append_after_replace_puts_the_columns_down_to_their_writer(toy):
    nlp = spacy.blank("en")
    add(nlp, "first").initialize(artifact=toy)
    add(nlp, "second", mode="append").initialize(artifact=toy)
    assert nlp(TEXT)._.tensor_columns == {"first": [0, 8], "second": [8, 16]}
    assert nlp("").tensor.shape == (0, 16)


def test_appending_again_replaces_only_our_columns(toy):
    nlp = spacy.blank("en")
    first, second = add(nlp, "first", mode="append"), add(nlp, "second", mode="append")
    first.initialize(artifact=toy)
    second.initialize(artifact=toy)
    doc = nlp(TEXT)
    before = doc.tensor.copy()
    for _ in range(2):
        doc = first(second(doc))
    np.testing.assert_array_equal(doc.tensor, before)
    doc.tensor = doc.tensor[:, :3]  # somebody has replaced it
    assert second(doc).tensor.shape == (5, 11)
    assert second(doc)._.tensor_columns["second"] == [3, 11]


@pytest.mark.parametrize("order", [("tok2vec", "toy", "tagger"), ("tok2vec", "tagger", "toy")])
def test_tensor_of_a_tok2vec_with_listeners_is_not_overwritten(toy, order):
    nlp = stock(*order)
    with pytest.raises(
        ConfigurationError, match=r"'tok2vec' owns it and 'tagger' listens.*upstream = 'toy'"
    ):
        nlp.get_pipe("toy").initialize(artifact=toy)


def test_clash_that_arises_later_is_found_at_first_use(toy):
    nlp = stock("tok2vec", "toy")
    nlp.get_pipe("toy").initialize(artifact=toy)
    nlp.add_pipe("tagger", config=listener("tok2vec")).add_label("N")
    with pytest.raises(ConfigurationError, match="owns it"):
        nlp.get_pipe("toy")(nlp.make_doc(TEXT))


def test_listener_to_any_upstream_means_the_tok2vec(toy):
    nlp = stock("tok2vec", "tagger", "toy", upstream="*")
    with pytest.raises(ConfigurationError, match="'tok2vec' owns it"):
        nlp.get_pipe("toy").initialize(artifact=toy)


def test_target_of_its_own_settles_the_clash(toy):
    nlp = stock("tok2vec", "tagger")
    add(nlp, "toy", target="aside").initialize(artifact=toy)
    nlp.initialize()
    assert nlp(TEXT)._.aside.shape == (5, 8)


def test_listener_to_us_is_no_clash(toy):
    nlp = stock("toy", "tagger", upstream="toy")
    nlp.get_pipe("toy").initialize(artifact=toy)
    nlp.initialize()
    assert nlp(TEXT)[0].tag_ == "N"


def test_listener_to_us_with_another_width_is_told_the_right_one(toy):
    nlp = spacy.blank("en")
    component = add(nlp, "toy")
    nlp.add_pipe("tagger", config=listener("toy", width=96))
    with pytest.raises(ConfigurationError, match="set width = 8"):
        component.initialize(artifact=toy)


def test_tok2vec_that_comes_between_us_and_our_listener_is_named(toy):
    nlp = stock("toy", "tok2vec", "tagger", upstream="toy")
    with pytest.raises(ConfigurationError, match="'tok2vec' overwrites"):
        nlp.get_pipe("toy").initialize(artifact=toy)


def test_tok2vec_after_us_with_its_own_listeners_is_no_clash(toy):
    nlp = stock("toy", "tok2vec", "tagger")
    nlp.get_pipe("toy").initialize(artifact=toy)
    nlp.initialize()
    assert nlp(TEXT)[0].tag_ == "N"


def test_appending_after_the_listeners_is_no_clash(toy):
    nlp = stock("tok2vec", "tagger")
    add(nlp, "toy", mode="append").initialize(artifact=toy)
    nlp.initialize()
    assert nlp(TEXT)._.tensor_columns == {"tok2vec": [0, 8], "toy": [8, 16]}
