"""``nlp.evaluate`` reports of a text what the model's own perplexity reports."""

import pytest
import spacy
from spacy.training import Example

TEXTS = ["the cat saw a zebra .", "a red mouse ate the bird .", "the dog chased the yak ."]


def evaluate(nlp, texts):
    found = nlp.evaluate([Example.from_dict(nlp.make_doc(text), {}) for text in texts])
    return {name: value for name, value in found.items() if "lm_" in name}


def test_figures_are_those_of_the_model(pipeline, model):
    expected = model.perplexity([text.split() for text in TEXTS])
    assert evaluate(pipeline(), TEXTS) == pytest.approx(
        {
            "lm_perplexity": float(expected),
            "lm_perplexity_without_oov": expected.without_oov,
            "lm_logprob_per_token": expected.log_prob / expected.n_tokens,
            "lm_bpc": expected.bits_per_character,
            "lm_oov_rate": expected.oov_rate,
            "lm_tokens": expected.n_tokens,
        }
    )


def test_one_document_of_many_sentences_gives_the_same_figures(pipeline):
    apart = evaluate(pipeline(), TEXTS)
    together = evaluate(pipeline(sentences=True, context="sentence"), [" ".join(TEXTS)])
    assert together == pytest.approx(apart)


def test_prefix_leads_the_names(pipeline):
    figures = evaluate(pipeline(prefix="my_"), TEXTS)
    assert figures == {f"my_{name}": value for name, value in evaluate(pipeline(), TEXTS).items()}


@pytest.mark.parametrize("texts", [[""], ["", " \n "]])
def test_without_words_the_figures_are_none(pipeline, texts):
    figures = evaluate(pipeline(), texts)
    assert figures.pop("lm_tokens") == 0
    assert set(figures.values()) == {None}


def test_scorer_is_registered_and_can_be_left_out(pipeline):
    make = spacy.registry.scorers.get("tacenda.lm_scorer.v1")
    assert make() is pipeline().get_pipe("lm_scorer").scorer
    assert evaluate(pipeline(scorer=None), TEXTS) == {}
