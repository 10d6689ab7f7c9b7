"""Known words and all strings outside the vocabulary together have probability one, or as much as was asked for."""

import copy
import gc
import itertools
import math
import pickle
import weakref

import numpy as np
import pytest

from tacenda import Corpus, Vocabulary
from tacenda.errors import ConfigurationError, CorpusError
from tacenda.testing.models import sample_sentences
from tacenda.vocabulary import Normalization
from tacenda_lm import KneserNey, UnknownWords, unknown_words
from tacenda_lm.unknown_words import LetterModel

VOCABULARY = Vocabulary(["</s>", "<unk>", "ab", "a", "bba"], [3, 2, 5, 4, 3])


def q(way, *words, vocabulary=VOCABULARY, **options):
    return np.exp(UnknownWords(vocabulary, way, **options).log_shares(words))


def test_spelling_is_the_letter_model_of_the_words_divided_by_what_it_leaves():
    proper = ["ab", "a", "bba"]
    letters = LetterModel(proper)
    left = 1 - np.exp(letters.log_probs(["", "</s>", "<unk>", *proper])).sum()
    expected = np.exp(letters.log_probs(["b", "abc"])) / left
    np.testing.assert_allclose(q("spelling", "b", "abc"), expected)


def test_strings_outside_the_vocabulary_share_the_whole_class():
    """One letter, x, stands for all that no word has; what is longer than nine letters is missing."""
    unseen, total = 0x110000 - 2, 0.0
    for length in range(1, 10):
        strings = ["".join(letters) for letters in itertools.product("abx", repeat=length)]
        outside = [string for string in strings if string not in VOCABULARY]
        counts = np.array([float(unseen) ** string.count("x") for string in outside])
        total += (q("spelling", *outside) * counts).sum()
    assert 0.9 < total < 1


@pytest.mark.parametrize(
    ("way", "options"), [("spelling", {}), ("even", {"unseen_types": 9}), ("class", {})]
)
def test_words_of_the_vocabulary_and_a_written_unk_keep_what_they_have(way, options):
    np.testing.assert_array_equal(q(way, "ab", "<unk>", "</s>", **options), 1)


def test_an_even_share_and_the_whole_class():
    np.testing.assert_allclose(q("even", "b", "zebra", unseen_types=1000), 1 / 1000)
    np.testing.assert_array_equal(q("class", "b", "zebra"), 1)


def test_spelling_is_that_of_the_normalized_word():
    vocabulary = Vocabulary(VOCABULARY.words, VOCABULARY.counts, Normalization(lowercase=True))
    assert q("spelling", "B", vocabulary=vocabulary) == q("spelling", "b", vocabulary=vocabulary)


def test_classes_share_at_most_their_own_probability():
    words = [f"{stem}ing" for stem in ("walk", "talk", "sing", "ring", "pass")]
    sentences = [[word, "Berlin", "1990"] for word in words] * 60
    corpus = Corpus.from_sentences(sentences, max_vocabulary=5, oov="classes")
    names = {corpus.vocabulary.words[i] for i in corpus.vocabulary.oov_ids}
    assert len(names) > 1
    some = ("talking", "running", "London", "1991", "?")
    shares = q("spelling", *some, vocabulary=corpus.vocabulary)
    assert ((shares > 0) & (shares <= 1)).all()
    alike = [f"{a}{b}ing" for a, b in itertools.product("abcdefghijklmnopqrstuvwxyz", repeat=2)]
    outside = [word for word in alike if word not in corpus.vocabulary]
    assert q("spelling", *outside, vocabulary=corpus.vocabulary).sum() <= 1


def test_a_vocabulary_without_words_still_spells():
    bare = Vocabulary(["</s>", "<unk>"], [1, 1])
    assert (q("spelling", "a", "ab", vocabulary=bare) > 0).all()


@pytest.mark.parametrize(
    ("way", "unseen_types"),
    [
        ("letters", None),
        *(("even", wrong) for wrong in (None, 0, "many", math.inf)),
        ("spelling", 10),
        ("class", 10),
    ],
)
def test_a_way_that_says_too_little_or_too_much_is_refused(way, unseen_types):
    with pytest.raises(ConfigurationError, match=r"unknown|unseen_types"):
        UnknownWords(VOCABULARY, way, unseen_types)


def test_what_is_no_vocabulary_is_refused():
    with pytest.raises(ConfigurationError, match=r"model\.vocabulary"):
        UnknownWords(["a", "b"])


@pytest.mark.parametrize("words", ["zebra", ["ab", math.nan], [None], [["ab"]]])
@pytest.mark.parametrize(("way", "unseen_types"), [("spelling", None), ("even", 9)])
def test_words_that_are_not_a_list_of_strings_are_refused(words, way, unseen_types):
    with pytest.raises(CorpusError, match=r"one string|not a string"):
        UnknownWords(VOCABULARY, way, unseen_types).log_shares(words)


def test_a_vocabulary_is_freed_after_words_were_spelled():
    vocabulary = Vocabulary(VOCABULARY.words, VOCABULARY.counts + 1)
    UnknownWords(vocabulary).log_share("zebra")
    reference = weakref.ref(vocabulary)
    del vocabulary
    gc.collect()
    assert reference() is None


def test_shares_survive_copies_and_processes():
    shares = UnknownWords(VOCABULARY)
    for again in (copy.deepcopy(shares), pickle.loads(pickle.dumps(shares))):  # noqa: S301
        assert again.log_share("zebra") == shares.log_share("zebra")


# -- bits per character --------------------------------------------------------------------------------


def test_bits_per_character_do_not_fall_as_words_become_unknown():
    found = []
    sentences = sample_sentences(300)
    for size in (None, 24, 8, 1):
        corpus = Corpus.from_sentences(sentences, max_vocabulary=size)
        found.append(KneserNey(order=2).fit(corpus).perplexity(sentences))
    assert [each.n_oov for each in found] == sorted(each.n_oov for each in found)
    assert found[-1] < found[0]  # the perplexity does
    bits = [each.bits_per_character for each in found]
    assert bits == sorted(bits)


def test_shares_are_found_while_another_thread_makes_room_for_more(monkeypatch):
    """The other thread comes between the look-up of what is known and the answer."""
    monkeypatch.setattr(unknown_words, "_CACHE_SIZE", 3)
    shares = UnknownWords(VOCABULARY, "even", 9)
    shares.log_share("b")
    found, others = shares._compute, [["x", "y", "z", "w"]]

    def interrupted(words):
        if others:
            shares.log_shares(others.pop())
        return found(words)

    monkeypatch.setattr(shares, "_compute", interrupted)
    assert len(shares.log_shares(["b", "zebra"])) == 2
