import numpy as np
import pytest
from tacenda_classics.cached_bigram import CachedBigram

from tacenda_lm.testing import check_model


def test_it_keeps_what_every_language_model_promises():
    check_model(lambda: CachedBigram(memory=5))


def p(model, *words, given=()):
    state = model.start()
    for word in given:
        state = model.advance(state, model.vocabulary.id_of(word))
    row = np.exp(model.log_probs([state])[0])
    return [row[model.vocabulary.id_of(word)] for word in words]


def test_a_bigram_by_hand():
    """a is followed twice by b, once by c: c(a) = 3, T(a) = 2. 12 tokens with </s>, 4 types of 5 occur."""
    model = CachedBigram(cache=0).fit("a b\na b\na c\nb c")
    unigram = (3 + 4 / 5) / (12 + 4)  # of b
    assert p(model, "b", given=["a"]) == pytest.approx([(2 + 2 * unigram) / 5])


def test_words_come_again():
    model = CachedBigram(cache=0.5, decay=0.5).fit("a b c d\nd c b a")
    without = CachedBigram(cache=0).fit("a b c d\nd c b a")
    [c, d] = p(without, "c", "d", given=["c", "d"])
    expected = [(c + 1 / 3) / 2, (d + 2 / 3) / 2]  # weights 1/4 and 1/2, made to sum to one
    assert p(model, "c", "d", given=["c", "d"]) == pytest.approx(expected)


def test_the_cache_outlives_the_sentence_and_forgets():
    model = CachedBigram(cache=0.5, memory=2).fit("a b c d\nd c b a")
    [fresh] = p(model, "a", given=["</s>"])
    [after] = p(model, "a", given=["a", "</s>"])
    [forgotten] = p(model, "a", given=["a", "b", "b", "</s>"])
    assert after > fresh > forgotten


def test_a_cache_helps_where_words_come_again():
    text = "\n".join(f"{topic} and {topic} and {topic}" for topic in "abcdefgh" * 5)
    held_out = "h and h and h\nb and b and b"
    with_cache, without = (CachedBigram(cache=c).fit(text) for c in (0.3, 0.0))
    assert with_cache.perplexity(held_out) < without.perplexity(held_out)
