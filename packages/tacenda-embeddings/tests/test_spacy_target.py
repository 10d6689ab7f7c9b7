"""Where vectors go, and who may write Doc.tensor."""

import gc
import re

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc
from spacy.training import Example

from support.pipelines import add, reload
from tacenda.errors import ConfigurationError

TEXT = "the cat saw a dog"
TOK2VEC = {"model": {"width": 8, "depth": 1, "embed_size": 20, "subword_features": False}}


def tagger_on(architecture, **options):
    return {"model": {"tok2vec": {"@architectures": architecture, "width": 8, **options}}}


def listener(upstream, **options):
    return tagger_on("spacy.Tok2VecListener.v1", upstream=upstream, **options)


def reader(source="tensor", **options):
    return tagger_on("tacenda.DocTensor.v1", source=source, **options)


@spacy.Language.component("third_party", assigns=["doc.tensor"])
def third_party(doc):
    doc.tensor = np.zeros((len(doc), 3), "f")
    return doc


def stock(*names, tagger=None, tok2vec=TOK2VEC):
    """A pipeline: a tok2vec that owns Doc.tensor, a tagger that listens to it, embedding components."""
    nlp = spacy.blank("en")
    for name in names:
        if name == "tok2vec":
            nlp.add_pipe(name, config=tok2vec)
        elif name == "tagger":
            nlp.add_pipe(name, config=tagger or listener("tok2vec")).add_label("N")
        elif name == "third_party":
            nlp.add_pipe(name)
        else:
            add(nlp, name)
    return nlp


def test_extension_as_target_leaves_the_tensor_alone(toy):
    nlp = spacy.blank("en")
    add(nlp, "vectors", toy, target="toy_vectors")
    doc = nlp(TEXT)
    np.testing.assert_array_equal(doc._.toy_vectors, toy.transform([TEXT.split()])[0])
    assert doc.tensor.size == 0


def test_extension_that_cannot_be_written_is_refused():
    Doc.set_extension("read_only_vectors", getter=len, force=True)
    with pytest.raises(ConfigurationError, match="read_only_vectors"):
        add(spacy.blank("en"), "vectors", target="read_only_vectors")
    Doc.remove_extension("read_only_vectors")


@pytest.mark.parametrize("name", ["get", "set", "has", "doc_extensions"])
def test_a_name_that_spacy_uses_itself_is_refused(name):
    with pytest.raises(ConfigurationError, match=f"target must be .*not '{name}'"):
        add(spacy.blank("en"), "vectors", target=name)
    assert not Doc.has_extension(name)


@pytest.mark.parametrize(
    ("order", "tagger", "match"),
    [
        ("tok2vec toy tagger", None, r"'tok2vec' owns it and 'tagger' listens.*upstream = 'toy'"),
        ("tok2vec tagger toy", None, r"'tok2vec' owns it and 'tagger' listens.*upstream = 'toy'"),
        ("tok2vec tagger toy", listener("*"), "'tok2vec' owns it"),
        ("toy tagger", listener("toy", width=96), "set width = 8"),
        ("toy tok2vec tagger", listener("toy"), "'tok2vec' overwrites"),
        ("tagger toy", listener("toy"), "move 'toy' before it"),
        ("tagger toy", reader(), "'tagger' reads .*: move 'toy' before it"),
    ],
    ids=[
        "over a tok2vec with a listener",
        "over a tok2vec with an earlier listener",
        "over a tok2vec that whatever listens means",
        "to a listener of another width",
        "to a listener behind a tok2vec",
        "behind a listener",
        "behind a reader",
    ],
)
def test_writing_the_tensor_is_refused_with_the_way_out(toy, order, tagger, match):
    nlp = stock(*order.split(), tagger=tagger)
    with pytest.raises(ConfigurationError, match=match):
        nlp.get_pipe("toy").initialize(artifact=toy)


def test_clash_that_arises_later_is_found_at_first_use(toy):
    nlp = stock("tok2vec", "toy")
    with pytest.warns(UserWarning, match="'toy' overwrites what 'tok2vec' wrote"):
        nlp.get_pipe("toy").initialize(artifact=toy)
    nlp.add_pipe("tagger", config=listener("tok2vec")).add_label("N")
    with pytest.raises(ConfigurationError, match="owns it"):
        nlp.get_pipe("toy")(nlp.make_doc(TEXT))


def test_target_of_its_own_settles_the_clash(toy):
    nlp = stock("tok2vec", "tagger")
    add(nlp, "toy", toy, target="aside")
    nlp.initialize()
    assert nlp(TEXT)._.aside.shape == (5, 8)


def test_listener_to_us_is_no_clash(toy):
    nlp = stock("toy", "tagger", tagger=listener("toy"))
    nlp.get_pipe("toy").initialize(artifact=toy)
    nlp.initialize()
    assert nlp(TEXT)[0].tag_ == "N"


def test_tok2vec_after_us_with_its_own_listeners_is_no_clash(toy):
    nlp = stock("toy", "tok2vec", "tagger")
    with pytest.warns(UserWarning, match="'tok2vec' overwrites what 'toy' wrote to doc.tensor"):
        nlp.get_pipe("toy").initialize(artifact=toy)
    nlp.initialize()
    assert nlp(TEXT)[0].tag_ == "N"


def test_appending_after_the_listeners_is_no_clash(toy):
    nlp = stock("tok2vec", "tagger")
    add(nlp, "toy", toy, mode="append")
    nlp.initialize()
    assert nlp(TEXT)._.tensor_columns == {"tok2vec": [0, 8], "toy": [8, 16]}


# -- sourced components --------------------------------------------------------------------------------


def with_sourced(toy, *order, upstream="tok2vec", **config):
    """A pipeline of new components around one that was sourced, and the pipeline that it comes from."""
    home = spacy.blank("en")
    add(home, "toy", toy, **config)
    nlp = stock(*(name for name in order if name != "toy"), tagger=listener(upstream))
    nlp.initialize()
    here = order.index("toy")
    place = {"after": order[here - 1]} if here else {"first": True}
    nlp.add_pipe("toy", source=home, **place)
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


@pytest.mark.parametrize("place", [{"last": True}, {"first": True}], ids=str)
@pytest.mark.filterwarnings("ignore:'tok2vec' overwrites")
def test_components_sourced_in_another_order_are_in_another_pipeline(toy, place):
    home = stock("tok2vec", "tagger")
    home.initialize()
    home.add_pipe("token_embeddings", "toy", **place)._set_model(toy)
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


def test_reader_before_the_writer_of_an_extension_is_told_to_change_places(toy):
    nlp = stock("tagger", tagger=reader("read_too_early"))
    with pytest.raises(ConfigurationError, match=r"'tagger' reads .*: move 'toy' before it"):
        add(nlp, "toy", toy, target="read_too_early")


def test_reader_without_a_width_before_the_writer_is_told_to_change_places(toy):
    nlp = stock("tagger", "toy", tagger=reader(width=None))
    with pytest.raises(ConfigurationError, match="move the embedding component before it"):
        nlp.initialize()


def test_reader_of_an_earlier_writer_may_come_before_another(toy):
    nlp = stock("first", "tagger", "second", tagger=reader())
    for name in ("first", "second"):
        nlp.get_pipe(name).initialize(artifact=toy)
    nlp.initialize()
    assert nlp(TEXT)[0].tag_ == "N"


# -- a second writer -----------------------------------------------------------------------------------


def overwriting(warnings):
    return [str(each.message) for each in warnings if "overwrites" in str(each.message)]


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
    nlp = stock(*order)
    for name in order:
        if name.endswith("toy"):
            nlp.get_pipe(name).initialize(artifact=toy)
    [found] = overwriting(recwarn)
    assert re.search(match, found)


@pytest.mark.parametrize(
    ("order", "configs"),
    [
        (("toy", "tagger", "tok2vec"), {"tagger": reader()}),
        (("toy", "tok2vec", "tagger"), {"tok2vec": {"model": reader()["model"]["tok2vec"]}}),
    ],
    ids=["a reader between two writers", "a tok2vec that reads the tensor before it writes it"],
)
def test_vectors_that_are_read_before_they_are_overwritten_are_no_news(
    toy, order, configs, recwarn
):
    nlp = stock(*order, **configs)
    nlp.get_pipe("toy").initialize(artifact=toy)
    nlp.initialize()
    assert nlp(TEXT)[0].tag_ == "N"
    assert not overwriting(recwarn)


def test_extension_with_two_writers_is_announced(toy):
    nlp = spacy.blank("en")
    add(nlp, "first", toy, target="same_place")
    with pytest.warns(UserWarning, match="overwrites what 'first' wrote to doc._.same_place"):
        add(nlp, "second", toy, target="same_place")


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
    nlp = stock("tagger", "toy", tagger=reader())
    nlp.add_pipe("sentencizer")
    assert nlp.analyze_pipes()["problems"]["tagger"] == ["doc.tensor"]


def test_analysis_of_a_saved_pipeline_is_the_same(toy, tmp_path):
    nlp = spacy.blank("en")
    add(nlp, "toy", toy, target="analysed")
    loaded = reload(nlp, tmp_path / "pipeline")
    assert loaded.analyze_pipes()["summary"] == nlp.analyze_pipes()["summary"]
