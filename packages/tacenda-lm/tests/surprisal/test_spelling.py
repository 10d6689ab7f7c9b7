"""The letter model against a loop over dictionaries, and as a distribution over all strings."""

import itertools
import math
from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacenda_lm.unknown_words import LetterModel

WORDS = ["abba", "ab", "b", "baab", "cab", "a", "abab"]
CODE_POINTS = 0x110000


def naive(words, order):
    """q of a string, as the module's equations say it, one letter after another."""
    alphabet = {letter for word in words for letter in word}
    following = defaultdict(Counter)
    for word in words:
        letters = ["^", *word, "$"]
        for i in range(1, len(letters)):
            for n_before in range(min(order, i + 1)):
                following[tuple(letters[i - n_before : i])][letters[i]] += 1

    def p(letter, before, k):
        if k == 0:
            seen = letter in alphabet or letter == "$"
            return 0.0 if seen else 1 / (CODE_POINTS - len(alphabet))
        context = tuple(before[len(before) - (k - 1) :]) if k > 1 else ()
        lower = p(letter, before, k - 1)
        if k - 1 > len(before) or context not in following:
            return lower
        n, types = following[context].total(), len(following[context])
        return (following[context][letter] + types * lower) / (n + types)

    def q(word):
        letters = ["^", *word, "$"]
        return math.prod(p(letters[i], letters[:i], order) for i in range(1, len(letters)))

    q.p = p
    return q


@pytest.mark.parametrize("order", [1, 2, 3, 6])
def test_every_string_has_the_probability_of_the_equations(order):
    q, model = naive(WORDS, order), LetterModel(WORDS, order)
    strings = ["abba", "", "a", "cc", "xa", "aéx", "b" * 40, "abc", "\ud800", "日本"]
    np.testing.assert_allclose(
        np.exp(model.log_probs(strings)), [q(s) for s in strings], rtol=1e-10
    )


@settings(max_examples=50)
@given(
    words=st.lists(st.text("abé", max_size=5), min_size=1, max_size=6, unique=True),
    strings=st.lists(st.text("abéx", max_size=6), min_size=1, max_size=4),
)
def test_any_words_and_strings_agree_with_the_equations(words, strings):
    q, model = naive(words, 3), LetterModel(words, 3)
    np.testing.assert_allclose(np.exp(model.log_probs(strings)), [q(s) for s in strings], rtol=1e-9)


def test_all_strings_together_have_probability_one():
    """The strings of up to four letters, and all longer ones by their first five letters."""
    words = ["ab", "a", "bb"]
    model, p = LetterModel(words, 3), naive(words, 3).p
    unseen = CODE_POINTS - 2  # one letter, x, stands for all that no word has
    total = 0.0
    for length in range(6):
        for letters in itertools.product("abx", repeat=length):
            several = float(unseen) ** letters.count("x")
            if length < 5:
                total += several * math.exp(model.log_probs(["".join(letters)])[0])
            else:
                before = [["^", *letters[:i]] for i in range(length)]
                each = [p(letter, h, 3) for letter, h in zip(letters, before, strict=True)]
                total += several * math.prod(each)
    assert total == pytest.approx(1, abs=1e-12)


def test_words_like_the_known_ones_are_likelier_than_noise():
    words = ["walking", "talking", "singing", "looked", "walked", "sings", "talks", "rang"]
    near, far, foreign = LetterModel(words).log_probs(["looking", "gnikool", "смотря"])
    assert near > far > foreign


def test_no_strings_have_no_scores():
    assert LetterModel(WORDS).log_probs([]).shape == (0,)


def test_without_words_it_has_seen_the_empty_string():
    strings = ["", "a", "ab"]
    np.testing.assert_array_equal(
        LetterModel([]).log_probs(strings), LetterModel([""]).log_probs(strings)
    )
