"""The component as a user meets it: scores of tokens, spans and documents are those of the model."""

import math
import warnings

import numpy as np
import pytest
import spacy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from spacy.matcher import Matcher
from spacy.tokens import Doc, Span, Token

from tacenda.errors import ConfigurationError, NotFittedError
from tacenda_lm import KneserNey, UnknownWords
from tacenda_lm.spacy.component import LanguageModelScorer

FIRST, SECOND = "the cat saw a dog .", "a red mouse ate the bird ."


def surprisals(doc):
    return [token._.surprisal for token in doc]


def test_surprisal_is_that_of_the_model_in_bits(pipeline, model):
    doc = pipeline()(FIRST)
    np.testing.assert_array_equal(surprisals(doc), model.surprisal(FIRST.split()))
    natural = [token._.lm_logprob for token in doc]
    np.testing.assert_array_equal(natural, model.token_log_probs([FIRST.split()], eos=False)[0])


def test_figures_of_a_document_are_the_perplexity_of_the_model(pipeline, model):
    doc = pipeline()(FIRST)
    expected = model.perplexity([FIRST.split()])
    assert doc._.perplexity == pytest.approx(float(expected))
    assert doc._.lm_logprob == pytest.approx(expected.log_prob)
    assert doc._.lm_bpc == pytest.approx(expected.bits_per_character)
    assert doc._.lm_logprob / math.log(10) == pytest.approx(model.score(FIRST))


def test_a_sentence_has_its_end_and_a_phrase_in_it_has_none(pipeline, model):
    doc = pipeline(sentences=True)(f"{FIRST} {SECOND}")
    first, second = doc.sents
    words, end = np.split(model.token_log_probs([SECOND.split()])[0], [-1])
    assert second._.lm_eos == pytest.approx(end[0])
    assert second._.lm_logprob == pytest.approx(words.sum() + end[0])
    assert second._.perplexity == pytest.approx(float(model.perplexity([SECOND.split()])))
    phrase = doc[second.start + 1 : second.end]  # up to its last word, but not from its first
    assert phrase._.lm_eos is None
    assert phrase._.lm_logprob == pytest.approx(words[1:].sum())
    assert phrase._.perplexity == pytest.approx(math.exp(-words[1:].mean()))
    both = [sentence._.lm_logprob for sentence in (first, second)]
    assert doc._.lm_logprob == pytest.approx(sum(both)) == pytest.approx(doc[:]._.lm_logprob)
    across = doc[first.start : second.end - 1]
    assert across._.lm_eos == pytest.approx(first._.lm_eos)


def test_without_eos_only_words_count(pipeline, model):
    doc = pipeline(sentences=True, eos=False)(f"{FIRST} {SECOND}")
    assert doc._.lm_logprob == pytest.approx(sum(token._.lm_logprob for token in doc))
    assert next(doc.sents)._.lm_eos is None
    alone = pipeline(eos=False)(FIRST)
    assert alone._.perplexity == pytest.approx(model.perplexity([FIRST.split()]).without_eos)


@pytest.mark.parametrize(
    ("unknown", "unseen_types"), [("spelling", None), ("even", 1000), ("class", None)]
)
def test_unknown_word_is_marked_and_has_its_share_of_unk(pipeline, model, unknown, unseen_types):
    nlp = pipeline(unknown=unknown, unseen_types=unseen_types)
    doc = nlp("the zebra saw a dog")
    assert [token._.lm_oov for token in doc] == [False, True, False, False, False]
    expected = model.surprisal(["the", "<unk>", "saw", "a", "dog"])
    share = UnknownWords(model.vocabulary, unknown, unseen_types).log_share("zebra")
    expected[1] -= share / math.log(2)
    np.testing.assert_allclose(surprisals(doc), expected, rtol=1e-14)
    scored = model.perplexity([[token.text for token in doc]])
    assert doc._.lm_logprob == pytest.approx(scored.log_prob + share)
    assert doc[1:3]._.lm_logprob == pytest.approx(sum(t._.lm_logprob for t in doc[1:3]))
    assert nlp("zebra yak")._.perplexity == pytest.approx(
        float(model.perplexity([["zebra", "yak"]]))
    )
    docs = [nlp.make_doc("the gnu"), spacy.blank("en").make_doc("the yak")]  # of two vocabularies
    found = nlp.get_pipe("lm_scorer").predict(docs)
    assert [scores.oov.tolist() for scores in found] == [[False, True]] * 2


def test_bits_per_character_are_none_where_unknown_words_pay_for_none(pipeline, model):
    line = "the zebra saw a dog"
    spelled = pipeline()(line)._.lm_bpc
    assert spelled == pytest.approx(model.perplexity([line]).bits_per_character)
    assert pipeline(unknown="class")(line)._.lm_bpc is None
    assert pipeline(unknown="class")(FIRST)._.lm_bpc == pipeline()(FIRST)._.lm_bpc
    even = pipeline(unknown="even", unseen_types=8)(line)
    assert even._.lm_bpc == pytest.approx(-even._.lm_logprob / math.log(2) / (len(line) + 1))


def test_a_written_unk_is_the_unknown_word(pipeline):
    nlp = pipeline()
    doc = nlp.get_pipe("lm_scorer")(Doc(nlp.vocab, words=["the", "<unk>", "saw"]))
    assert [token._.lm_oov for token in doc] == [False, True, False]


def test_whitespace_tokens_have_no_bits_and_change_none(pipeline):
    nlp = pipeline(rank=True, entropy=True)
    doc = nlp(" the  cat \n saw ")
    blank = [token for token in doc if token.is_space]
    assert len(blank) == 3
    for name in ("surprisal", "lm_logprob", "lm_oov", "lm_rank", "lm_entropy"):
        values = [token._.get(name) for token in blank]
        assert values == [0] * 3
        assert all(math.copysign(1, value) == 1 for value in values)
    kept = [token._.surprisal for token in doc if not token.is_space]
    assert kept == surprisals(nlp("the cat saw"))


@pytest.mark.parametrize("text", ["", " ", " \n\n  "])
def test_text_without_words_has_a_logprob_of_zero_and_no_perplexity(pipeline, text):
    nlp = pipeline(sentences=True)
    for doc in [nlp(text), *nlp.pipe([FIRST, text])][::2]:
        assert doc._.lm_logprob == 0.0
        assert doc._.perplexity is None
        assert doc._.lm_bpc is None
        assert doc[:]._.perplexity is None
        assert doc.to_json(underscore=["perplexity"])["_"] == {"perplexity": None}
    assert list(nlp.pipe([])) == []


@pytest.mark.parametrize("name", ["surprisal", "lm_rank", "lm_entropy", "lm_logprob"])
def test_matcher_compares_scores_in_a_text_with_whitespace_tokens(pipeline, name):
    nlp = pipeline(rank=True, entropy=True)
    doc = nlp("the  cat \n saw a dog")
    values = [token._.get(name) for token in doc]
    middle = sorted(values)[len(values) // 2]
    matcher = Matcher(nlp.vocab)
    matcher.add("higher", [[{"_": {name: {">": middle}}}]])
    found = [start for _, start, _ in matcher(doc)]
    assert found == [i for i, value in enumerate(values) if value > middle]


class _Searched(np.ndarray):
    """An array that refuses a search which would convert all of it to another type."""

    def searchsorted(self, value, *rest, **more):
        assert np.result_type(self, np.asarray(value)) == self.dtype == np.asarray(value).dtype
        return np.asarray(self).searchsorted(value, *rest, **more)


def test_score_of_a_token_does_not_convert_those_of_the_document(pipeline):
    doc = pipeline()(FIRST)
    expected = surprisals(doc)
    kept = doc.user_data["._.", "lm_scores", None, None]
    kept["start"] = kept["start"].view(_Searched)
    assert surprisals(doc) == expected
    assert doc[1:3]._.lm_logprob == pytest.approx(sum(t._.lm_logprob for t in doc[1:3]))


def test_document_that_was_not_scored_has_none_everywhere(pipeline):
    nlp = pipeline()
    doc = nlp.make_doc(FIRST)
    found = [doc._.perplexity, doc._.lm_logprob, doc._.lm_bpc, doc[0]._.surprisal, doc[0]._.lm_oov]
    assert [*found, doc[:2]._.perplexity, doc[:2]._.lm_logprob, doc[:2]._.lm_eos] == [None] * 8


def test_very_long_document_equals_the_model_in_one_piece(pipeline, model):
    words = (FIRST.split() + SECOND.split()) * 2500
    nlp = pipeline(batch_tokens=100)
    doc = nlp.get_pipe("lm_scorer")(Doc(nlp.vocab, words=words))
    np.testing.assert_array_equal(surprisals(doc), model.surprisal(words))


def test_ranks_and_entropies_are_those_of_the_model(pipeline, model):
    doc = pipeline(rank=True, entropy=True)(FIRST)
    assert [token._.lm_rank for token in doc] == model.ranks(FIRST.split()).tolist()
    entropies = [token._.lm_entropy for token in doc]
    np.testing.assert_allclose(entropies, model.entropy(FIRST.split()))
    np.testing.assert_array_equal(surprisals(doc), model.surprisal(FIRST.split()))


def test_attributes_are_those_of_the_factory_and_others_only_where_asked_for(pipeline):
    nlp = pipeline(prefix="plain_")
    for assigned in nlp.get_pipe_meta("lm_scorer").assigns:
        host, name = assigned.split("._.")
        assert {"token": Token, "span": Span, "doc": Doc}[host].has_extension(f"plain_{name}")
    assert "span._.lm_eos" in nlp.get_pipe_meta("lm_scorer").assigns
    for name in ("rank", "entropy", "state"):
        assert not Token.has_extension(f"plain_lm_{name}")


def test_stream_equals_single_documents_in_one_call_a_batch(pipeline, model, monkeypatch):
    texts = [FIRST, "", SECOND, " ", "the zebra"] * 4
    nlp = pipeline(sentences=True)
    single = [surprisals(nlp(text)) for text in texts]
    calls, score = [], model.score_corpus
    monkeypatch.setattr(model, "score_corpus", lambda *given: calls.append(1) or score(*given))
    streamed = list(nlp.pipe(texts))
    assert [surprisals(doc) for doc in streamed] == single
    assert len(calls) == 1


def test_two_components_with_different_prefixes_stand_side_by_side(pipeline, model):
    nlp = pipeline()
    unigram = KneserNey(order=1).fit([FIRST.split()])
    other = nlp.add_pipe("lm_scorer", name="unigram", config={"prefix": "uni_"})
    other.initialize(artifact=unigram)
    doc = nlp(FIRST)
    np.testing.assert_array_equal(surprisals(doc), model.surprisal(FIRST))
    np.testing.assert_array_equal([t._.uni_surprisal for t in doc], unigram.surprisal(FIRST))
    assert doc._.uni_perplexity != doc._.perplexity


def test_two_components_with_one_prefix_are_refused(pipeline, model):
    nlp = pipeline()
    other = nlp.add_pipe("lm_scorer", name="second")
    with pytest.raises(ConfigurationError, match=r"'lm_scorer' and 'second'.*another prefix"):
        other.initialize(artifact=model)


def test_attribute_of_somebody_else_is_not_taken():
    Token.set_extension("theirs_surprisal", getter=len)
    Doc.set_extension("written_perplexity", default=None)
    for prefix in ("theirs_", "written_"):
        with pytest.raises(ConfigurationError, match=f"{prefix}.*another prefix"):
            spacy.blank("en").add_pipe("lm_scorer", config={"prefix": prefix})


def test_component_without_a_model_says_how_to_get_one():
    nlp = spacy.blank("en")
    nlp.add_pipe("lm_scorer")
    with pytest.raises(NotFittedError, match=r"initialize\(artifact=.*nlp\.initialize"):
        nlp(FIRST)
    with pytest.raises(ConfigurationError, match=r"artifact .* or corpus"):
        nlp.initialize()


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        *(("context", "page"), ("batch_tokens", 0), ("prefix", "my-"), ("number_word", "a b")),
        *(("unknown", "cheap"), ("unknown", "even"), ("unseen_types", 5)),
    ],
)
def test_bad_setting_is_named(setting, value):
    with pytest.raises(ConfigurationError, match=setting):
        spacy.blank("en").add_pipe("lm_scorer", config={setting: value})


@pytest.mark.parametrize("setting", ["prefix", "number_word"])
def test_a_setting_of_a_component_made_without_a_factory_is_checked_too(setting):
    with pytest.raises(ConfigurationError, match=f"{setting} must be"):
        LanguageModelScorer(spacy.blank("en"), **{setting: 5})


def test_tokens_can_be_lowercased_and_numbers_replaced_for_the_look_up(pipeline):
    model = KneserNey(order=2).fit([["the", "cat", "ate", "N", "mice"]])
    words = ["The", "cat", "ATE", "1,000", "mice", "mk2"]
    plain, changed = (
        pipeline(artifact=model),
        pipeline(artifact=model, lowercase=True, number_word="N"),
    )
    docs = [nlp.get_pipe("lm_scorer")(Doc(nlp.vocab, words=words)) for nlp in (plain, changed)]
    assert [t._.lm_oov for t in docs[0]] == [True, False, True, True, False, True]
    assert [t._.lm_oov for t in docs[1]] == [False, False, False, False, False, True]
    expected = model.surprisal(["the", "cat", "ate", "N", "mice", "<unk>"])
    expected[-1] -= UnknownWords(model.vocabulary).log_share("mk2") / math.log(2)
    np.testing.assert_allclose(surprisals(docs[1]), expected, rtol=1e-14)


def test_merged_token_has_the_sum_of_its_words(pipeline):
    doc = pipeline(rank=True)(FIRST)
    before, whole = surprisals(doc), doc._.perplexity
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[0:2])
    assert surprisals(doc) == pytest.approx([before[0] + before[1], *before[2:]])
    assert doc[0]._.lm_rank is None
    assert doc._.perplexity == whole


def test_part_of_a_scored_document_is_not_taken_for_scored(pipeline):
    part = pipeline()(FIRST)[2:4].as_doc()
    assert (part._.perplexity, part[0]._.surprisal) == (None, None)


def test_only_the_failing_document_goes_to_the_error_handler(pipeline, model, monkeypatch):
    nlp = pipeline()
    bird, score = model.vocabulary.id_of("bird"), model.score_corpus

    def explosive(ids, offsets):
        if bird in ids:
            raise RuntimeError("this word explodes")
        return score(ids, offsets)

    monkeypatch.setattr(model, "score_corpus", explosive)
    failed = []
    nlp.set_error_handler(lambda name, pipe, docs, error: failed.append((docs[0].text, str(error))))
    assert [doc.text for doc in nlp.pipe([FIRST, SECOND, FIRST])] == [FIRST, FIRST]
    assert failed == [(SECOND, "this word explodes")]


VOCAB = spacy.blank("en").vocab
TOKENS = st.tuples(st.sampled_from(["the", "cat", "zebra", ".", " ", "\n"]), st.booleans())


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.lists(TOKENS, max_size=7), min_size=1, max_size=5))
def test_sentences_equal_a_loop_over_spans(pipeline, model, texts):
    component = pipeline(context="sentence", unknown="class").get_pipe("lm_scorer")
    docs = [
        Doc(VOCAB, words=[word for word, _ in text], sent_starts=[start for _, start in text])
        for text in texts
    ]
    with warnings.catch_warnings(action="ignore"):
        found = list(component.pipe(docs))
    for doc in found:
        total = 0.0
        for sentence in doc.sents if len(doc) else [Span(doc, 0, 0)]:
            kept = [token for token in sentence if not token.is_space]
            scores = model.token_log_probs([[token.text for token in kept]])[0]
            assert [token._.lm_logprob for token in kept] == scores[:-1].tolist()
            if kept:
                assert sentence._.lm_eos == scores[-1]
                total += scores.sum()
        assert doc._.lm_logprob == pytest.approx(total)


def test_tokens_that_the_model_does_not_know_are_announced_once(pipeline):
    nlp = pipeline()
    with pytest.warns(UserWarning, match="'lm_scorer' does not know 86% of the pipeline's tokens"):
        nlp("un chat voit une souris rouge . " * 150)
    with warnings.catch_warnings(action="error"):
        nlp("un chat voit une souris rouge . " * 150)


def test_tokens_that_the_component_makes_known_are_no_news(pipeline):
    with warnings.catch_warnings(action="error"):
        pipeline(lowercase=True)(FIRST.upper() * 200)
