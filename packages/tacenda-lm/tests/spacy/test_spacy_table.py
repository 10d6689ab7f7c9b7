"""The table of the component: the words of documents, as `surprisal_table` has those of texts."""

import gc
import math

import numpy as np
import pytest
import spacy

from tacenda import Corpus
from tacenda.errors import NotFittedError
from tacenda_lm import KneserNey, Mixture, surprisal_table

TEXT = '  the cat saw a zebra.\n\n"the  red bird" ate. '


pytestmark = pytest.mark.filterwarnings("ignore")


def table_of(nlp, text):
    return nlp.get_pipe("lm_scorer").surprisal_table(nlp(text))


def tables(nlp, model, text, **options):
    """The component's and the function's, of one tokenizer."""
    own = nlp.get_pipe("lm_scorer").surprisal_table({7: nlp(text)}, **options)
    return own, surprisal_table(model, {7: text}, tokenizer="spacy:en", **options)


def test_rows_are_those_of_the_function(pipeline, model):
    own, other = tables(pipeline(), model, TEXT.replace("\n", " "), previous=2)
    assert set(own["text"]) == {"7"}
    assert own.columns == other.columns
    assert own.notes == other.notes
    for mine, theirs in zip(own.rows(), other.rows(), strict=True):
        assert mine == pytest.approx(theirs)


def test_sentences_are_those_of_the_pipeline(pipeline, model):
    own, _ = tables(pipeline(sentences=True), model, "the cat saw. a dog ate! the bird")
    assert own["sentence"].tolist() == [1, 1, 1, 2, 2, 2, 3, 3]


def test_a_merged_token_does_not_change_the_words(pipeline, model):
    nlp = pipeline()
    doc = nlp("the cat saw a dog")
    component = nlp.get_pipe("lm_scorer")
    before = component.surprisal_table(doc)
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[0:2])
    after = component.surprisal_table([doc])
    assert after["word"] == ["the", "cat", "saw", "a", "dog"]
    np.testing.assert_array_equal(after["surprisal"], before["surprisal"])


def test_spelling_for_the_look_up_changes_frequencies_and_not_words(pipeline, model):
    nlp = pipeline(lowercase=True)
    table = table_of(nlp, "The CAT")
    assert table["word"] == ["The", "CAT"]
    assert table["known"].all()
    lower = table_of(nlp, "the cat")
    np.testing.assert_array_equal(table["log_frequency"], lower["log_frequency"])


def test_what_can_be_misread_is_said(pipeline):
    with pytest.warns(UserWarning, match="too low"):
        table = table_of(pipeline(unknown="class"), "the zebra")
    assert len(table.notes) == 2


def test_a_document_that_was_not_scored_is_refused(pipeline):
    nlp = pipeline()
    with pytest.raises(NotFittedError, match="no scores"):
        nlp.get_pipe("lm_scorer").surprisal_table(spacy.blank("en")("the cat"))


def test_an_empty_document_has_no_rows(pipeline):
    assert len(table_of(pipeline(), " ")) == 0


def test_a_component_whose_pipeline_is_gone_still_makes_tables(pipeline):
    nlp = pipeline()
    doc, component = nlp("the zebra’s cat"), nlp.get_pipe("lm_scorer")
    expected = component.surprisal_table(doc)["surprisal"]
    del nlp
    gc.collect()
    assert component._nlp() is None
    assert component.surprisal_table(doc)["surprisal"].tolist() == expected.tolist()


def test_a_mixture_has_the_frequencies_of_words_of_its_first_model(pipeline):
    lines = ["the cat didn't see a dog .", "a dog didn't see the cat ."] * 3
    corpus = Corpus.from_text(lines, tokenizer="spacy:en", count_words=True)
    models = [KneserNey(order=order).fit(corpus) for order in (1, 2)]
    tables = []
    for artifact in (models[0], Mixture(dict(zip("ab", models, strict=True)))):
        tables.append(table_of(pipeline(artifact=artifact), "the cat didn't"))
    n_tokens = corpus.vocabulary.counts.sum() - len(lines)
    for table in tables:
        assert table["log_frequency"][2] == pytest.approx(math.log2(6 / n_tokens))
