"""Where a component's model comes from: an artifact, an object, raw text, a configuration."""

import pytest
import spacy

from tacenda.corpus import Corpus
from tacenda.errors import ArtifactError, ConfigurationError, CorpusError


def add(nlp, **config):
    return nlp.add_pipe("token_embeddings", config={"embedder": "toy", **config})


def test_model_is_fitted_on_a_text_file_with_the_tokenizer_of_the_pipeline(toy_class, write_file):
    text = write_file("text.txt", "Don't chase the cat.\nThe cat isn't red.\n")
    nlp = spacy.blank("en")
    component = add(nlp)
    component.initialize(corpus=str(text), settings={"n_states": 3}, oov="single")
    words = component.embeddings.vocabulary.words
    assert "n't" in words
    assert "cat." not in words
    assert nlp("the cat").tensor.shape == (2, 6)


def test_vocabulary_settings_reach_the_corpus(toy_class):
    component = add(spacy.blank("en"))
    component.initialize(
        corpus=iter(["The cat 12", "the cat 34"]),
        tokenizer="whitespace",
        lowercase=True,
        oov="single",
    )
    words = component.embeddings.vocabulary.words
    assert "the" in words
    assert "The" not in words
    assert not {"12", "34"} & set(words)


def test_lines_in_a_list_are_told_from_names_of_files(toy_class, tmp_path):
    lines = ["The cat saw a dog.", "A bird ate the mouse."]
    nlp = spacy.blank("en")
    component = add(nlp)
    for corpus in (lines, lines[0]):
        with pytest.raises(
            ConfigurationError, match=r"no file 'The cat saw a dog\.'.*iter\(lines\)"
        ):
            component.initialize(corpus=corpus)
    with pytest.raises(CorpusError, match="is a list, not a string"):
        component.initialize(corpus=[lines[0].split()])
    component.initialize(corpus=iter(lines), oov="single")
    assert "mouse" in component.embeddings.vocabulary
    (tmp_path / "a text.txt").write_text("\n".join(lines), encoding="utf8")
    component.initialize(corpus=[str(tmp_path / "a text.txt")], oov="single")
    assert "mouse" in component.embeddings.vocabulary


def test_unknown_model_setting_is_named(toy_class):
    nlp = spacy.blank("en")
    with pytest.raises(ConfigurationError, match="n_stats"):
        add(nlp).initialize(corpus=["a"], settings={"n_stats": 3})


def test_artifact_and_corpus_together_are_refused(toy):
    with pytest.raises(ConfigurationError, match="give one"):
        add(spacy.blank("en")).initialize(artifact=toy, corpus="text.txt")


@pytest.mark.parametrize(
    ("argument", "value"),
    [("settings", {"n_states": 3}), ("min_count", 7), ("tokenizer", "nope"), ("digits", False)],
)
def test_an_argument_without_effect_is_refused(toy, argument, value):
    component = add(spacy.blank("en"))
    component.initialize(artifact=toy, settings={}, tokenizer="spacy", min_count=1)
    complaint = f"'token_embeddings' was given {argument} = .*, which has no effect"
    for source in ({"artifact": toy}, {}):
        with pytest.raises(ConfigurationError, match=f"{complaint} without a corpus"):
            component.initialize(**source, **{argument: value})
    if argument != "settings":
        with pytest.raises(ConfigurationError, match=rf"{complaint} on a tacenda\.Corpus"):
            component.initialize(corpus=Corpus.from_sentences([["a"]]), **{argument: value})


def test_artifact_of_another_embedder_names_the_factory_for_it(toy, tmp_path):
    toy.save(tmp_path / "toy")
    lds = spacy.blank("en").add_pipe("lds_embeddings")
    with pytest.raises(ConfigurationError, match=r"'toy', not 'lds'.*token_embeddings"):
        lds.initialize(artifact=tmp_path / "toy")
    with pytest.raises(ConfigurationError, match="'toy', not 'lds'"):
        lds.initialize(artifact=toy)


def test_an_empty_name_is_not_the_current_folder(toy, tmp_path, monkeypatch):
    toy.save(tmp_path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ArtifactError, match="names no file or folder"):
        add(spacy.blank("en")).initialize(artifact="")


def test_without_an_embedder_the_artifact_decides_and_fitting_is_refused(toy, tmp_path):
    toy.save(tmp_path / "toy")
    nlp = spacy.blank("en")
    component = nlp.add_pipe("token_embeddings")
    with pytest.raises(ConfigurationError, match=r"set embedder.*toy"):
        component.initialize(corpus=["the cat"])
    component.initialize(artifact=tmp_path / "toy")
    assert component.width == toy.width
