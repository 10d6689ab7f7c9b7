"""Where a component's model comes from: an artefact, an object, raw text, a configuration."""

import numpy as np
import pytest
import spacy
from spacy.util import load_config_from_str, load_model_from_config

from tacenda.errors import ConfigurationError, TacendaError

CONFIG = """
[paths]
model = null
text = null

[nlp]
lang = "en"
pipeline = ["token_embeddings"]

[components]

[components.token_embeddings]
factory = "token_embeddings"
embedder = "toy"

[initialize]

[initialize.components]

[initialize.components.token_embeddings]
artifact = ${paths.model}
corpus = ${paths.text}
"""


def add(nlp, **config):
    return nlp.add_pipe("token_embeddings", config={"embedder": "toy", **config})


def test_saved_model_is_loaded_from_its_folder(toy, tmp_path):
    toy.save(tmp_path / "toy")
    nlp = spacy.blank("en")
    add(nlp).initialize(artifact=str(tmp_path / "toy"))
    np.testing.assert_array_equal(nlp("the cat").tensor, toy.transform([["the", "cat"]])[0])
    assert str(tmp_path) not in nlp.config.to_str()


def test_missing_artefact_is_named(tmp_path):
    with pytest.raises(TacendaError, match="nothing_here"):
        add(spacy.blank("en")).initialize(artifact=tmp_path / "nothing_here")


def test_model_is_fitted_on_a_text_file_with_the_tokenizer_of_the_pipeline(toy_class, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("Don't chase the cat.\nThe cat isn't red.\n", encoding="utf8")
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


def test_unknown_model_setting_is_named(toy_class):
    nlp = spacy.blank("en")
    with pytest.raises(ConfigurationError, match="n_stats"):
        add(nlp).initialize(corpus=["a"], settings={"n_stats": 3})


def test_artifact_and_corpus_together_are_refused(toy):
    with pytest.raises(ConfigurationError, match="give one"):
        add(spacy.blank("en")).initialize(artifact=toy, corpus="text.txt")


def test_artefact_of_another_embedder_names_the_factory_for_it(toy, tmp_path):
    toy.save(tmp_path / "toy")
    lds = spacy.blank("en").add_pipe("lds_embeddings")
    with pytest.raises(ConfigurationError, match=r"'toy', not 'lds'.*token_embeddings"):
        lds.initialize(artifact=tmp_path / "toy")
    with pytest.raises(ConfigurationError, match="'toy', not 'lds'"):
        lds.initialize(artifact=toy)


def test_without_an_embedder_the_artefact_decides_and_fitting_is_refused(toy, tmp_path):
    toy.save(tmp_path / "toy")
    nlp = spacy.blank("en")
    component = nlp.add_pipe("token_embeddings")
    with pytest.raises(ConfigurationError, match=r"set embedder.*toy"):
        component.initialize(corpus=["the cat"])
    component.initialize(artifact=tmp_path / "toy")
    assert component.width == toy.width


def test_something_else_as_artifact_is_refused():
    with pytest.raises(ConfigurationError, match="folder of a saved model"):
        add(spacy.blank("en")).initialize(artifact=3)


@pytest.mark.parametrize("source", ["model", "text"])
def test_configuration_initializes_the_component(toy, tmp_path, source):
    toy.save(tmp_path / "model")
    (tmp_path / "text").write_text("the cat\na dog\n", encoding="utf8")
    overrides = {f"paths.{source}": str(tmp_path / source)}
    config = load_config_from_str(CONFIG, overrides=overrides)
    nlp = load_model_from_config(config, auto_fill=True)
    nlp.initialize()
    assert nlp("the cat").tensor.shape == (2, toy.width)
    assert str(tmp_path) not in str(nlp.config["components"])


def test_unknown_name_in_the_initialize_block_is_refused_by_spacy(toy, tmp_path):
    toy.save(tmp_path / "model")
    nlp = spacy.blank("en")
    add(nlp)
    nlp.config["initialize"]["components"]["token_embeddings"] = {"artefact": str(tmp_path)}
    with pytest.raises(ValueError, match="artefact"):
        nlp.initialize()
