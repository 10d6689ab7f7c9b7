"""The name under which a model records the tokenizer of a pipeline, and whether a model knows its tokens."""

from types import SimpleNamespace

import pytest

from tacenda.errors import TacendaWarning
from tacenda.tokenizers import get_tokenizer

spacy = pytest.importorskip("spacy")

from tacenda.spacy.documents import TokenSurvey  # noqa: E402
from tacenda.spacy.sources import PipelineWords  # noqa: E402

TEXT = "Don't gimme e-mails: it's 5pm."


@pytest.mark.parametrize("language", ["en", "de"])
def test_the_default_tokenizer_of_a_language_is_recorded_by_a_name_that_makes_it_again(language):
    words = PipelineWords(spacy.blank(language))
    assert words.name == f"spacy:{language}"
    assert words(TEXT) == get_tokenizer(words.name)(TEXT)


def _add_special_case(nlp):
    nlp.tokenizer.add_special_case("gimme", [{"ORTH": "gim"}, {"ORTH": "me"}])


def _split_at_hyphens(nlp):
    nlp.tokenizer.infix_finditer = spacy.util.compile_infix_regex(["-"]).finditer


def _replace(nlp):
    nlp.tokenizer = spacy.tokenizer.Tokenizer(nlp.vocab)


def _derive(nlp):
    class Derived(spacy.tokenizer.Tokenizer):
        pass

    nlp.tokenizer = Derived(nlp.vocab)


@pytest.mark.parametrize("change", [_add_special_case, _split_at_hyphens, _replace, _derive])
def test_any_other_tokenizer_is_recorded_as_custom(change):
    nlp = spacy.blank("en")
    change(nlp)
    words = PipelineWords(nlp)
    assert words.name == "spacy:en (custom)"
    assert words(TEXT) == [token.text for token in nlp.tokenizer(TEXT)]


def test_a_survey_of_tokens_asks_the_model_what_it_knows():
    model = SimpleNamespace(knows={"a", "b"}.__contains__)
    with pytest.warns(TacendaWarning, match="the model of 'it' does not know 80% of the"):
        TokenSurvey(model, "'it'").count(["a", *"cdef"] * 200)
