"""What the constructors show, and the forms of text that ``fit`` takes."""

import inspect

import numpy as np
import pytest

from tacenda import Corpus
from tacenda.datasets import synthetic_text
from tacenda.errors import ConfigurationError, CorpusError
from tacenda_embeddings import LDS, LaggedCounts, MorphologicalLDS, SumEmbed, VarEmbed

SMALL = {"n_states": 4, "subspace_iterations": 1, "full_iterations": 1}
LINES = [" ".join(s.words) for s in synthetic_text.generate(150, seed=1)]


@pytest.mark.parametrize("model_class", [LDS, VarEmbed, SumEmbed, MorphologicalLDS])
def test_a_signature_shows_about_ten_options_by_keyword(model_class):
    parameters = inspect.signature(model_class).parameters.values()
    assert {p.kind for p in parameters} == {inspect.Parameter.KEYWORD_ONLY}
    assert len(parameters) <= 12
    for parameter in parameters:
        assert f"\n{parameter.name}\n" in model_class.__doc__


def test_repr_says_the_options_and_whether_it_is_fitted():
    model = LDS(**SMALL)
    assert repr(model).startswith("<LDS(n_states=4, ")
    assert repr(model).endswith(", not fitted>")
    assert repr(model.fit("\n".join(LINES))).endswith(", fitted>")
    joint = MorphologicalLDS(lds=SMALL, words={"width": 3})
    assert "n_states=4" in repr(joint)
    assert "width=3" in repr(joint)


def test_an_option_of_the_group_is_named_where_it_is_looked_for():
    with pytest.raises(ConfigurationError, match=r"it is one of advanced=\{'noise'"):
        LDS(noise="diagonal")
    with pytest.raises(ConfigurationError, match=r"it is one of advanced=\{'kl'"):
        VarEmbed(kl="tokens")


@pytest.mark.parametrize(
    ("model", "plain", "group", "unused"),
    [
        (VarEmbed, {"start": "random"}, {}, {"start_adjacent": 0.1}),
        (VarEmbed, {"start": "word2vec"}, {}, {"start_adjacent": 0.1}),
        (VarEmbed, {}, {"softmax": "exact"}, {"negatives": 3}),
        (VarEmbed, {"epochs": 0}, {}, {"refit_morphemes": False}),
        (SumEmbed, {"segmenter": "morfessor"}, {}, {"n_morphemes": 3}),
        (VarEmbed, {"segmenter": "ngrams"}, {}, {"n_morphemes": 3}),
    ],
)
def test_an_option_without_effect_is_refused(model, plain, group, unused):
    model(**plain, advanced=group)
    model(advanced=unused)
    [name] = unused
    with pytest.raises(ConfigurationError, match=rf"advanced\.{name} has no effect with"):
        model(**plain, advanced={**group, **unused})


def test_every_form_of_a_text_gives_the_same_model(write_file):
    path = write_file("text.txt", "\n".join(LINES) + "\n")
    tokens = [line.split() for line in LINES]
    corpus = Corpus.from_sentences(tokens)
    expected = LDS(**SMALL).fit(corpus).transform(tokens[:3])
    for text in (path, "\n".join(LINES), tokens, iter(LINES), LaggedCounts.from_corpus(corpus)):
        found = LDS(**SMALL).fit(text).transform(tokens[:3])
        for array, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(array, other)


def test_the_name_of_a_file_is_not_taken_for_text(write_file):
    path = write_file("text.txt", "a b\n")
    with pytest.raises(CorpusError, match="Path"):
        LDS(**SMALL).fit(str(path))


def test_a_model_notes_the_files_and_the_tokenizer_of_its_text(write_file):
    path = write_file("text.txt", "\n".join(LINES) + "\n")
    model = LDS(**SMALL).fit(Corpus.from_text(path, tokenizer="words"))
    assert model.fitted_on["tokenizer"] == "words"
    assert model.fitted_on["sources"] == ["text.txt"]


def test_partial_fit_takes_text_in_the_vocabulary_of_the_model():
    model = LDS(**SMALL).fit("\n".join(LINES[:100]))
    words = model.vocabulary.words
    model.partial_fit("\n".join(LINES), iterations=1)
    assert model.vocabulary.words == words
    assert model.fitted_on["n_types"] == len(words)


def test_word_vectors_are_fitted_to_strings_and_held_out_text():
    pytest.importorskip("torch")
    small = {"hidden": 4, "negatives": 8, "batch_streams": 4, "unrolled_tokens": 8}
    model = VarEmbed(width=4, epochs=1, advanced=small)
    model.fit("\n".join(LINES), [line.split() for line in LINES[:20]])
    assert model.figures[0]["protocol"] == "held-out text, exact softmax"
