"""Strings in compiled code against Python: splitting, looking up, scoring, states between words."""

import copy
import math
import pickle

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tacenda import Corpus
from tacenda.errors import CorpusError
from tacenda.tokenizers import ASCII_WHITESPACE
from tacenda_lm import KneserNey, LanguageModel, State
from tacenda_lm.ngram.words import WordTable

#: Words, everything that ``str.split`` takes for a space, and characters whose bytes begin as those of spaces do.
PIECES = [
    *("a", "b", "c", "the", "é", "ß", "日本", "𝄞", "\udc80", "<unk>", "<s", "s>", "&", "\0", "\u200b", "\u3001", "â"),
    *map(chr, (9, 10, 11, 12, 13, 28, 29, 30, 31, 32, 0x85, 0xA0, 0x1680, 0x2000, 0x200A, 0x2028, 0x2029)),
    *map(chr, (0x202F, 0x205F, 0x3000, 0x2060, 0x180E, 0xFEFF)),
]  # fmt: skip
TEXTS = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    words = ["a", "b", "c", "the", "é", "日本", "<unk>", "aa", "\u200b"]
    return KneserNey(order=4).fit(
        [rng.choice(words, rng.integers(1, 7)).tolist() for _ in range(60)]
    )


def slowly(model, function, *arguments, **options):
    """The same function as every language model has it, without compiled strings."""
    return getattr(LanguageModel, function)(model, *arguments, **options)


@settings(max_examples=300)
@given(text=TEXTS, bos=st.booleans(), eos=st.booleans())
@example("", True, True)
@example(" \u3000", True, False)
@example("a <s> b", True, True)
@example("a </s> b", True, True)
def test_a_string_has_the_score_of_its_words(model, text, bos, eos):
    expected = slowly(model, "score", text, bos, eos)
    assert model.score(text, bos, eos) == pytest.approx(expected, abs=1e-9)


@settings(max_examples=200)
@given(text=TEXTS)
@example("a zebra b <unk>")
@example("a zebra b\r\n")
@example("\ufeff\ufeffa b")
@example("a </s> b")
def test_a_line_has_the_perplexity_of_its_words(model, text):
    try:
        expected = slowly(model, "perplexity", [text]) if "\n" not in text else None
    except CorpusError:
        with pytest.raises(CorpusError):
            model.perplexity(text)
        return
    if expected is None:
        expected = slowly(model, "perplexity", text.split("\n"))
    found = model.perplexity(text)
    again = pickle.loads(pickle.dumps(found))  # noqa: S301
    assert again == copy.copy(found) == found or found != found
    for each in (found, again):
        for name, value in expected.to_dict().items():
            assert getattr(each, name) == (value if isinstance(value, str) else approx(value)), name


def approx(value):
    return pytest.approx(math.nan if value is None else value, rel=1e-12, nan_ok=True)


@pytest.mark.parametrize("line", ["a zebra b", "a zebra b\n"], ids=["line", "line of a file"])
def test_what_nobody_asks_of_a_line_is_not_computed(model, monkeypatch, line):
    monkeypatch.setattr("tacenda_lm.unknown_words.UnknownWords.log_shares", lambda *_: 1 / 0)
    with monkeypatch.context() as patch:
        patch.setattr("tacenda_lm.language_model.blocks", None)  # the way of longer texts
        found = model.perplexity(line)
    assert found == pytest.approx(10 ** (-model.score("a zebra b") / 4))
    assert (found.n_words, found.n_oov, found.context) == (3, 1, "sentence")
    assert model.perplexity([["a", "zebra"], ["b"]]).without_oov > 0
    with pytest.raises(ZeroDivisionError):
        _ = found.bits_per_character


@settings(max_examples=150)
@given(lines=st.lists(TEXTS, max_size=5), eos=st.booleans())
@example([], True)
@example([""], True)
@example(["", "a", ""], False)
@example(["a\nb", "c"], True)
@example(["\ufeffa b", "\ufeffa"], True)
def test_a_list_of_strings_has_the_scores_of_each(model, lines, eos):
    """An iterator is scored without compiled strings."""
    found = model.score_batch(lines, eos=eos)
    np.testing.assert_allclose(found, model.score_batch(iter(lines), eos=eos), atol=1e-9)


def test_the_name_of_a_file_is_no_list_of_strings(model, write_file):
    for name in (str(write_file("there.txt", "a b")), "missing.txt"):
        with pytest.raises(CorpusError, match=r"a string is text itself.* give"):
            model.score_batch([name])


@settings(max_examples=150)
@given(line=TEXTS)
def test_ids_are_those_of_the_vocabulary(model, line):
    words = WordTable(model.vocabulary)
    found = words.encode([line], False)
    tokens = line.split()
    if "\n" in line or line[:1] == "\ufeff" or {"<s>", "</s>"} & {*tokens}:
        assert found is None
    else:
        assert found[0].tolist() == model.vocabulary.encode(tokens).tolist()


@settings(max_examples=100)
@given(text=TEXTS)
def test_a_model_of_kenlm_splits_at_ascii_whitespace_alone(model, text):
    same = KneserNey.from_artifact(model.to_artifact())
    same.fitted_on["tokenizer"] = ASCII_WHITESPACE
    assert same.score(text) == pytest.approx(slowly(same, "score", text), abs=1e-9)
    np.testing.assert_allclose(same.score_batch([text]), same.score_batch(iter([text])), atol=1e-9)


def test_words_that_are_changed_before_they_are_looked_up_are_left_to_python():
    text = ["A 12 b", "a 3 B"] * 3
    corpus = Corpus.from_text(text, lowercase=True, digits=True)
    model = KneserNey(order=2).fit(corpus)
    assert model.score("A 7 B") == model.score("a 12 b")
    np.testing.assert_allclose(model.score_batch(["A 7 B"]), [model.score("a 12 b")])


@settings(max_examples=100)
@given(
    words=st.lists(st.sampled_from(["a", "b", "the", "never", "</s>", "<unk>", "日本"]), max_size=9)
)
def test_word_by_word_is_as_a_model_without_hints(model, words):
    state, after, expected = State(), State(), State()
    model.BeginSentenceWrite(state)
    model.BeginSentenceWrite(expected)
    for word in words:
        after_expected = State()
        assert model.BaseScore(state, word, after) == pytest.approx(
            slowly(model, "BaseScore", expected, word, after_expected), abs=1e-9
        )
        assert after == after_expected
        full = model.BaseFullScore(state, word, State())
        assert full == pytest.approx(slowly(model, "BaseFullScore", expected, word, State()))
        # two states take turns, as with kenlm: each is written over when the other was read
        state, after, expected = after, state, after_expected


def test_a_state_may_be_written_over_and_serves_any_model(model):
    other = KneserNey(order=2).fit([["b", "a"], ["a"]])
    state = State()
    model.NullContextWrite(state)
    model.BaseScore(state, "a", state)  # into itself
    model.BaseScore(state, "b", state)
    before, after = (model.score(words, bos=False, eos=False) for words in ("a b", "a b the"))
    expected = after - before
    for same in (state, copy.copy(state), copy.deepcopy(state), pickle.loads(pickle.dumps(state))):  # noqa: S301
        assert model.BaseScore(same, "the", State()) == pytest.approx(expected)
    # what was found in one model is nothing to another, nor to a state that was written anew
    there = State(state.value)
    assert other.BaseScore(state, "a", State()) == other.BaseScore(there, "a", State())
    model.BeginSentenceWrite(state)
    assert model.BaseScore(state, "a", State()) == pytest.approx(model.score("a", eos=False))


def test_many_words_find_their_numbers():
    words = [f"w{i}" for i in range(5000)] + ["", "é" * 100]
    model = KneserNey(order=1).fit([words])
    assert model.score(" ".join(words[:100]), eos=False) == pytest.approx(
        slowly(model, "score", words[:100], eos=False)
    )
