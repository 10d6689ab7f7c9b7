"""Where a component's model comes from: an artefact, an object, raw text, a configuration."""

import gzip
from dataclasses import replace

import numpy as np
import pytest
import spacy

import tacenda
from tacenda import Corpus
from tacenda.errors import ConfigurationError, TacendaError
from tacenda_lm import KneserNey

TEXT = "Don't chase the cat.\nThe cat isn't red.\n"


@pytest.fixture
def nlp():
    return spacy.blank("en")


@pytest.fixture
def text(write_file):
    return write_file("text.txt", TEXT)


def test_model_is_fitted_on_a_text_file_with_the_tokenizer_of_the_pipeline(nlp, text, tmp_path):
    component = nlp.add_pipe("lm_scorer")
    component.initialize(corpus=str(text), valid=[text], settings={"order": 2})
    model = component.language_model
    assert model.order == 2
    assert {"n't", "cat", "."} <= set(model.vocabulary.words)
    assert model.fitted_on["text"] == ["text.txt"]
    assert model.fitted_on["tokenizer"] == "spacy:en"
    assert model.figures[0]["n_words"] == 12
    sentences = [["Do", "n't", "chase", "the", "cat", "."], ["The", "cat", "is", "n't", "red", "."]]
    assert [t._.surprisal for t in nlp("Don't chase")] == pytest.approx(
        list(KneserNey(order=2).fit(sentences).surprisal(["Do", "n't", "chase"]))
    )
    model.save(tmp_path / "model")
    assert tacenda.load(tmp_path / "model").fitted_on["split"] == "lines"


def test_tokens_are_normalized_for_the_fit_as_for_the_scores(nlp, text):
    component = nlp.add_pipe("lm_scorer", config={"lowercase": True, "number_word": "N"})
    component.initialize(corpus=iter(["The cat ate 12 mice", "the cat"]), tokenizer="whitespace")
    words = component.language_model.vocabulary.words
    assert {"the", "N"} <= set(words)
    assert not {"The", "12"} & set(words)
    known = component.language_model.fitted_on
    assert known["token_normalization"] == {"lowercase": True, "number_word": "N"}
    assert known["tokenizer"] == "whitespace"


@pytest.mark.parametrize("packed", [False, True])
def test_paragraphs_are_split_into_sentences_where_asked_for(nlp, write_file, packed):
    paragraph = "The cat sat. A dog ran!\n\nIt slept.\n"
    content = gzip.compress(paragraph.encode()) if packed else paragraph
    path = write_file("text.txt.gz" if packed else "text.txt", content)
    component = nlp.add_pipe("lm_scorer", config={"lowercase": True})
    component.initialize(corpus=path, split="sentences")
    assert component.language_model.fitted_on["n_sentences"] == 3
    assert component.language_model.fitted_on["text"] == [path.name]
    assert "a" in component.language_model.vocabulary
    component.initialize(corpus=path, split="lines")
    assert component.language_model.fitted_on["n_sentences"] == 2


def test_vocabulary_settings_reach_the_corpus(nlp):
    component = nlp.add_pipe("lm_scorer")
    component.initialize(corpus=iter(["a a a b b c"]), min_count=2, max_vocabulary=1)
    assert set(component.language_model.vocabulary.words) == {"a", "</s>", "<unk>"}


def test_corpus_that_is_there_is_used_as_it_is(nlp):
    corpus = Corpus.from_sentences([["the", "cat"]])
    component = nlp.add_pipe("lm_scorer")
    component.initialize(corpus=corpus)
    assert component.language_model.vocabulary == corpus.vocabulary
    assert "split" not in component.language_model.fitted_on


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"settings": {"ordr": 3}}, "ordr"),
        ({"settings": {"order": 0}}, "order"),
        ({"split": "words"}, "split must be"),
        ({"split": "sentences", "tokenizer": "whitespace"}, "tokenizer = 'spacy'"),
        ({"artifact": "folder"}, "give one"),
    ],
)
def test_wrong_argument_is_named(nlp, text, arguments, complaint):
    with pytest.raises(ConfigurationError, match=complaint):
        nlp.add_pipe("lm_scorer").initialize(corpus=text, **arguments)


def test_an_argument_without_effect_is_refused(nlp, model, text):
    component, corpus = nlp.add_pipe("lm_scorer"), Corpus.from_sentences([["the", "cat"]])
    for argument in (
        {"model": "lbl"},
        {"valid": text},
        {"valid": np.array(["the cat", "a dog"])},
        {"distribution": "x"},
        {"split": "x"},
    ):
        with pytest.raises(ConfigurationError, match=f"{next(iter(argument))} = .* no effect"):
            component.initialize(artifact=model, **argument)
    with pytest.raises(ConfigurationError, match=r"min_count = 2, .* on a tacenda\.Corpus"):
        component.initialize(corpus=corpus, valid=text, min_count=2)
    component.initialize(corpus=corpus, valid=text, tokenizer="whitespace")  # of valid


def test_unknown_model_and_missing_text_are_named(nlp, text, tmp_path):
    component = nlp.add_pipe("lm_scorer")
    with pytest.raises(TacendaError, match="no_such_model"):
        component.initialize(corpus=text, model="no_such_model")
    for split in ("lines", "sentences"):
        with pytest.raises(TacendaError, match=r"missing\.txt"):
            component.initialize(corpus=tmp_path / "missing.txt", split=split)
        with pytest.raises(TacendaError, match="line 1 of the text is a list"):
            component.initialize(corpus=iter([["the", "cat"]]), split=split)


def test_model_of_another_kind_is_refused(nlp, model, tmp_path):
    artifact = replace(model.to_artifact(), kind="embedders")
    tacenda.artifact.write(tmp_path / "other", artifact)
    with pytest.raises(ConfigurationError, match="embedders, not a language model"):
        nlp.add_pipe("lm_scorer").initialize(artifact=tmp_path / "other")
