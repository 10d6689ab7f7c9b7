"""What counts in a text: marks that are written in it, the written unknown word, blank lines, and what is announced."""

import math
import warnings

import numpy as np
import pytest

from tacenda import Corpus
from tacenda.errors import ConfigurationError, CorpusError, TacendaWarning
from tacenda_lm import KneserNey, Mixture

LINES = ["a b", "", "b a b", " \t", "b", "a"]
MARKED = ["a b", "<s> b a </s>"]


@pytest.fixture(scope="module")
def lm():
    return KneserNey(order=3).fit([["a", "b"], ["b", "a", "b"], ["b", "b"], ["a"]] * 3)


@pytest.fixture
def path(write_file):
    return write_file("text.txt", "\n".join(LINES) + "\n")


@pytest.fixture
def marked(write_file):
    return write_file("marked.txt", "\n".join(MARKED) + "\n")


# -- marks ---------------------------------------------------------------------------------------------


def test_marks_in_a_text_to_fit_or_measure_are_refused_with_their_line(lm, marked):
    mixture = Mixture([lm, lm])
    for act in (
        lambda: KneserNey(order=2).fit(marked),
        lambda: KneserNey(order=2).fit([["a"]], valid=marked),
        lambda: lm.perplexity(marked),
        lambda: lm.record(marked, "it"),
        lambda: mixture.fit_weights(marked),
    ):
        with pytest.raises(CorpusError, match=r"marked\.txt, line 2: <s> is written"):
            act()
    for text in ([line.split() for line in MARKED], Corpus.from_text(marked)):
        with pytest.raises(CorpusError, match="sentence 2"):
            KneserNey(order=2).fit(text)
    kept = Corpus.from_text(marked, vocabulary=lm.vocabulary)
    with pytest.raises(CorpusError, match="sentence 2 of the corpus: </s>"):
        lm.perplexity(kept)


def test_marks_that_are_skipped_change_nothing(lm, marked):
    clean = ["a b", "b a"]
    found = KneserNey(order=2).fit(marked, valid=marked, marks="skip")
    expected = KneserNey(order=2).fit(clean, valid=clean)
    assert found.vocabulary == expected.vocabulary
    assert found.figures[0]["value"] == pytest.approx(expected.figures[0]["value"])
    assert lm.perplexity(marked, marks="skip") == lm.perplexity(clean)
    assert lm.perplexity(marked, marks="keep") > lm.perplexity(clean)
    unigrams = KneserNey(order=1).fit(Corpus.from_text(["a"], vocabulary=lm.vocabulary))
    mixture = Mixture([lm, unigrams])
    weights = mixture.fit_weights(marked, marks="skip").weights
    assert weights == pytest.approx(mixture.fit_weights(clean).weights)
    assert min(weights.values()) < 0.4


def test_a_mixture_is_fitted_to_marked_text_as_it_is_told(marked):
    mixture = Mixture([KneserNey(order=1), KneserNey(order=2)])
    with pytest.raises(CorpusError, match="line 2"):
        mixture.fit(marked)
    mixture.fit(marked, valid=marked, marks="keep")
    assert "<s>" in mixture.vocabulary


# -- the written unknown word --------------------------------------------------------------------------


def test_the_written_unknown_word_is_said_once_and_counted(tmp_path):
    text = [["a", "<unk>", "b"], ["<unk>", "a"]]
    with pytest.warns(UserWarning, match="<unk> is written 2 times") as caught:
        model = KneserNey(order=2).fit(text, valid=text)
    assert len([each for each in caught if "<unk> is written" in str(each.message)]) == 1
    assert model.fitted_on["written_unknown"] == 2
    assert model.figures[0]["n_oov"] == 2
    found = model.perplexity(text)
    spelled = [["never" if word == "<unk>" else word for word in tokens] for tokens in text]
    assert (found.n_oov, found) == (2, model.perplexity(spelled))
    assert found.without_oov == model.perplexity(spelled).without_oov
    assert "<unk>" not in model
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="<unk> is written")
        KneserNey(order=2).fit([["a", "rare"], ["a"]])
        KneserNey(order=2).fit(Corpus.from_sentences([["a", "rare"], ["a"]], min_count=2))


# -- texts of unknown words ----------------------------------------------------------------------------


def test_a_text_of_unknown_words_or_of_another_tokenizer_is_announced_once(tmp_path):
    corpus = Corpus.from_text("the cat, the dog. the mat, (the cat)\n" * 5, tokenizer="words")
    lm, again, other = (KneserNey(order=2).fit(corpus) for _ in range(3))
    line = "the cat, the dog. (the mat) the dog, the cat."
    for model, separator in ((lm, "\n"), (other, " ")):
        with pytest.warns(TacendaWarning, match="of 60 words .* give tokenizer='words'"):
            model.perplexity(separator.join([line] * 6))
    with warnings.catch_warnings(action="error"):
        lm.perplexity("\n".join([line] * 6))  # said once
        again.perplexity("\n".join([line] * 6), tokenizer="words")
        again.perplexity([["x"]] * 49)
        again.perplexity(corpus)
        for each in line.split():
            again.perplexity(each)
    with pytest.warns(TacendaWarning, match="50 of 50 words .* split alike"):
        again.perplexity([["x"]] * 50)


# -- blank lines ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("blank_lines", ["skip", "count"])
@pytest.mark.parametrize("form", ["path", "string", "lines", "tokens"])
def test_blank_lines_count_alike_wherever_a_text_is_scored(lm, path, form, blank_lines):
    text = {
        "path": path,
        "string": "\n".join(LINES),
        "lines": LINES,
        "tokens": list(map(str.split, LINES)),
    }[form]
    found = lm.perplexity(text, blank_lines=blank_lines)
    scores = lm.score_batch(text, blank_lines=blank_lines)
    assert len(scores) == len(LINES)
    assert found.log_prob == pytest.approx(scores.sum() * math.log(10))
    assert lm.perplexity(text, blank_lines=blank_lines, context="stream").n_tokens == found.n_tokens
    end = lm.score("")
    assert scores[[1, 3]].tolist() == pytest.approx(
        [end, end] if blank_lines == "count" else [0, 0]
    )
    n_blank = 2 if blank_lines == "count" else 0
    assert (found.n_sentences, found.n_words) == (4 + n_blank, 7)
    assert found.n_characters == 14 + n_blank
    assert ("of </s> alone" in found.protocol) == (blank_lines == "count")


def test_a_text_of_blank_lines(lm):
    assert math.isnan(lm.perplexity("\n\n"))
    found = lm.perplexity("\n \n", blank_lines="count")
    assert (found.n_sentences, found.n_words) == (2, 0)
    assert found == pytest.approx(10 ** -lm.score(""))
    np.testing.assert_array_equal(lm.score_batch("\n\n", eos=False), [0, 0])


def test_blank_lines_of_a_corpus_cannot_be_counted(lm, path):
    corpus = Corpus.from_text(path, vocabulary=lm.vocabulary)
    assert lm.perplexity(corpus) == pytest.approx(lm.perplexity(path))
    with pytest.raises(ConfigurationError, match="leaves blank lines out"):
        lm.perplexity(corpus, blank_lines="count")
    for act in (lm.perplexity, lm.score_batch):
        with pytest.raises(ConfigurationError, match="'skip' or 'count'"):
            act(path, blank_lines="some")


# -- discounts -----------------------------------------------------------------------------------------


def test_discounts_that_the_text_does_not_give_are_announced():
    with pytest.warns(UserWarning, match=r"order 1, 2 \(.*0\.5, 1\.0, 1\.5 .*--discount_fallback"):
        model = KneserNey(order=2).fit([["a", "b"]] * 4)
    assert model.fitted_on["discounts_from_text"] == [False, False]
    with pytest.warns(UserWarning, match="of order 1, 2 .*cutoff below 7"):
        KneserNey(order=2, smoothing="good_turing").fit([["a", "b"]] * 4)
    rng = np.random.default_rng(0)
    text = [[f"w{word}" for word in rng.zipf(1.5, 12) if word < 500] for _ in range(800)]
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="the text does not give")
        assert all(KneserNey(order=2).fit(text).fitted_on["discounts_from_text"])
