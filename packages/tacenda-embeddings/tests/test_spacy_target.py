"""Where vectors go, and who may write Doc.tensor."""

import gc
import re

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc
from spacy.training import Example

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
    tok2vec = {"@architectures": "spacy.Tok2VecListener.v1", "width": width, "upstream": upstream}
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


@pytest.mark.parametrize("order", [("tok2vec", "toy", "tagger"), ("tok2vec", "tagger", "toy")])
def test_tensor_of_a_tok2vec_with_listeners_is_not_overwritten(toy, order):
    nlp = stock(*order)
    with pytest.raises(
        ConfigurationError, match=r"'tok2vec' owns it and 'tagger' listens.*upstream = 'toy'"
    ):
        nlp.get_pipe("toy").initialize(artifact=toy)


def test_clash_that_arises_later_is_found_at_first_use(toy):
    nlp = stock("tok2vec", "toy")
    with pytest.warns(UserWarning, match="'toy' overwrites what 'tok2vec' wrote"):
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
    with pytest.warns(UserWarning, match="'tok2vec' overwrites what 'toy' wrote to doc.tensor"):
        nlp.get_pipe("toy").initialize(artifact=toy)
    nlp.initialize()
    assert nlp(TEXT)[0].tag_ == "N"


def test_appending_after_the_listeners_is_no_clash(toy):
    nlp = stock("tok2vec", "tagger")
    add(nlp, "toy", mode="append").initialize(artifact=toy)
    nlp.initialize()
    assert nlp(TEXT)._.tensor_columns == {"tok2vec": [0, 8], "toy": [8, 16]}


# -- sourced components --------------------------------------------------------------------------------


def with_sourced(toy, *order, upstream="tok2vec", **config):
    """A pipeline of new components around one that was sourced, and the pipeline that it comes from."""
    home = spacy.blank("en")
    add(home, "toy", **config).initialize(artifact=toy)
    nlp = stock(*(name for name in order if name != "toy"), upstream=upstream)
    nlp.initialize()
    here = order.index("toy")
    nlp.add_pipe(
        "toy", source=home, **({"first": True} if here == 0 else {"after": order[here - 1]})
    )
    return nlp, home


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("upstream", ["tok2vec", "*"])
@pytest.mark.parametrize("n_states", [4, 7])
def test_sourced_component_does_not_overwrite_what_is_listened_to(
    toy_class, toy_corpus, n_states, upstream, kept
):
    model = toy_class(n_states=n_states).fit(toy_corpus)
    nlp, home = with_sourced(model, "tok2vec", "toy", "tagger", upstream=upstream)
    if not kept:
        del home
        gc.collect()
    with pytest.raises(
        ConfigurationError, match=r"'toy' cannot write Doc.tensor: .*tok2vec'? owns"
    ):
        nlp(TEXT)
    example = Example.from_dict(nlp.make_doc(TEXT), {"tags": ["N"] * 5})
    with pytest.raises(ConfigurationError, match="'toy' cannot write"):
        nlp.update([example], annotates=["toy"])


@pytest.mark.parametrize(
    ("order", "settings"),
    [
        (("toy", "tok2vec", "tagger"), {}),
        (("tok2vec", "tagger", "toy"), {}),
        (("tok2vec", "toy", "tagger"), {"target": "sourced_aside"}),
        (("toy", "tagger"), {"upstream": "toy"}),
    ],
)
def test_sourced_component_in_nobodys_way_works(toy, order, settings):
    nlp, _ = with_sourced(toy, *order, **settings)
    assert nlp(TEXT)[0].tag_ == "N"


def test_components_sourced_in_another_order_are_in_another_pipeline(toy):
    home = stock("tok2vec", "tagger")
    home.initialize()
    add(home, "toy", target="tensor", mode="replace")
    home.get_pipe("toy")._set_model(toy)
    nlp = spacy.blank("en")
    for name in ("tok2vec", "toy", "tagger"):
        nlp.add_pipe(name, source=home)
    with pytest.raises(ConfigurationError, match="'toy' cannot write"):
        nlp(TEXT)


def test_sourced_component_works_again_in_its_own_pipeline(toy):
    nlp, home = with_sourced(toy, "tok2vec", "toy", "tagger")
    with pytest.raises(ConfigurationError, match="cannot write"):
        nlp(TEXT)
    home.add_pipe("sentencizer")
    assert home(TEXT).tensor.shape == (5, 8)


# -- the order of the pipeline -------------------------------------------------------------------------


def reader(source="tensor", width=8):
    tok2vec = {"@architectures": "tacenda.DocTensor.v1", "source": source, "width": width}
    return {"model": {"@architectures": "spacy.Tagger.v2", "tok2vec": tok2vec}}


@pytest.mark.parametrize("target", ["tensor", "read_too_early"])
def test_reader_before_the_writer_is_told_to_change_places(toy, target):
    nlp = spacy.blank("en")
    nlp.add_pipe("tagger", config=reader(target)).add_label("N")
    component = add(nlp, "toy", target=target)
    with pytest.raises(ConfigurationError, match=r"'tagger' reads .*: move 'toy' before it"):
        component.initialize(artifact=toy)


def test_listener_before_the_component_it_listens_to_is_told_to_change_places(toy):
    nlp = stock("tagger", "toy", upstream="toy")
    with pytest.raises(ConfigurationError, match="move 'toy' before it"):
        nlp.get_pipe("toy").initialize(artifact=toy)


def test_reader_without_a_width_before_the_writer_is_told_to_change_places(toy):
    nlp = spacy.blank("en")
    nlp.add_pipe("tagger", config=reader(width=None)).add_label("N")
    add(nlp, "toy")
    with pytest.raises(ConfigurationError, match="move the embedding component before it"):
        nlp.initialize()


def test_reader_of_an_earlier_writer_may_come_before_another(toy):
    nlp = spacy.blank("en")
    add(nlp, "first").initialize(artifact=toy)
    nlp.add_pipe("tagger", config=reader()).add_label("N")
    add(nlp, "second").initialize(artifact=toy)
    nlp.initialize()
    assert nlp(TEXT)[0].tag_ == "N"


# -- a second writer -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("order", "match"),
    [
        (("toy", "tok2vec"), "'tok2vec' overwrites what 'toy' wrote.*give 'toy' a target"),
        (("tok2vec", "toy"), "'toy' overwrites what 'tok2vec' wrote.*give 'toy' a target"),
        (("toy", "third_party"), "'third_party' overwrites what 'toy' wrote"),
        (("third_party", "toy"), "'toy' overwrites what 'third_party' wrote"),
        (("toy", "other_toy"), "'other_toy' overwrites what 'toy' wrote"),
    ],
)
def test_second_writer_is_announced_once_in_either_order(toy, order, match, recwarn):
    @spacy.Language.component("third_party", assigns=["doc.tensor"])
    def third_party(doc):
        doc.tensor = np.zeros((len(doc), 3), "f")
        return doc

    nlp = spacy.blank("en")
    for name in order:
        if name == "tok2vec":
            nlp.add_pipe(name, config={"model": TOK2VEC})
        elif name == "third_party":
            nlp.add_pipe(name)
        else:
            add(nlp, name)
    for name in order:
        if name.endswith("toy"):
            nlp.get_pipe(name).initialize(artifact=toy)
    found = [str(each.message) for each in recwarn if "overwrites" in str(each.message)]
    assert len(found) == 1
    assert re.search(match, found[0])


def test_two_writers_with_a_reader_between_are_no_news(toy, recwarn):
    nlp = spacy.blank("en")
    add(nlp, "toy").initialize(artifact=toy)
    nlp.add_pipe("tagger", config=reader()).add_label("N")
    nlp.add_pipe("tok2vec", config={"model": TOK2VEC})
    nlp.initialize()
    nlp(TEXT)
    assert not [each for each in recwarn if "overwrites" in str(each.message)]


def test_tok2vec_that_reads_the_tensor_before_it_writes_it_is_no_news(toy, recwarn):
    nlp = spacy.blank("en")
    add(nlp, "toy").initialize(artifact=toy)
    nlp.add_pipe("tok2vec", config={"model": reader()["model"]["tok2vec"]})
    nlp.add_pipe("tagger", config=listener("tok2vec")).add_label("N")
    nlp.initialize()
    assert nlp(TEXT)[0].tag_ == "N"
    assert not [each for each in recwarn if "overwrites" in str(each.message)]


def test_extension_with_two_writers_is_announced(toy):
    nlp = spacy.blank("en")
    add(nlp, "first", target="same_place").initialize(artifact=toy)
    with pytest.warns(UserWarning, match="overwrites what 'first' wrote to doc._.same_place"):
        add(nlp, "second", target="same_place").initialize(artifact=toy)


# -- spaCy's analysis ----------------------------------------------------------------------------------


def test_analysis_says_who_writes_what_and_who_reads_it(toy):
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    add(nlp, "aside", target="analysed", context="sentence")
    add(nlp, "tensor")
    nlp.add_pipe("tagger", config=reader("analysed"))
    nlp.add_pipe("tok2vec", config={"model": reader()["model"]["tok2vec"]})
    summary = nlp.analyze_pipes()["summary"]
    assert summary["aside"]["assigns"] == ["doc._.analysed"]
    assert summary["aside"]["requires"] == ["token.is_sent_start"]
    assert summary["tensor"]["assigns"] == ["doc.tensor"]
    assert summary["tagger"]["requires"] == ["doc._.analysed"]
    assert "token.tag" in summary["tagger"]["assigns"]
    assert summary["tok2vec"]["requires"] == ["doc.tensor"]
    assert not any(nlp.analyze_pipes()["problems"].values())
    nlp.remove_pipe("sentencizer")
    assert nlp.analyze_pipes()["problems"]["aside"] == ["token.is_sent_start"]
    other = spacy.blank("en")
    other.add_pipe("tagger")
    assert other.analyze_pipes()["summary"]["tagger"]["requires"] == []


def test_analysis_finds_vectors_that_are_read_before_they_are_written(toy):
    nlp = spacy.blank("en")
    nlp.add_pipe("tagger", config=reader())
    add(nlp, "toy")
    nlp.add_pipe("sentencizer")
    assert nlp.analyze_pipes()["problems"]["tagger"] == ["doc.tensor"]


def test_analysis_of_a_saved_pipeline_is_the_same(toy, tmp_path):
    nlp = spacy.blank("en")
    add(nlp, "toy", target="analysed").initialize(artifact=toy)
    nlp.to_disk(tmp_path / "pipeline")
    loaded = spacy.load(tmp_path / "pipeline")
    assert loaded.analyze_pipes()["summary"] == nlp.analyze_pipes()["summary"]
