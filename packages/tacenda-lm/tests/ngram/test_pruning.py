"""Entropy pruning against distributions written out in full, and tables of few bits."""

import math

import numpy as np
import pytest

from tacenda.errors import ConfigurationError, NotFittedError
from tacenda_lm import KneserNey
from tacenda_lm.ngram.compression import _choose_values, prune, quantize


def varied(n=300, seed=0, types=40):
    rng = np.random.default_rng(seed)
    return [
        [f"w{w}" for w in np.minimum(rng.zipf(1.4, rng.integers(1, 9)) - 1, types)]
        for _ in range(n)
    ]


class Explicit:
    """A back-off model as dictionaries of tuples: log-probabilities, and the back-offs that make each sum one."""

    def __init__(self, model):
        table = model.table
        self.types, self.order = table.n_types, table.order
        self.listed = {}
        for n in range(1, table.order + 1):
            rows = map(tuple, table.words_of(n).tolist())
            self.listed |= zip(rows, table.unpack(n).log_prob.astype(float).tolist(), strict=True)

    def distribution(self, context, without=None):
        """p(. | context) for a context that is listed or not, perhaps without one of the n-grams."""
        lower = self.distribution(context[1:], without) if context else np.zeros(self.types)
        after = {g[-1]: p for g, p in self.listed.items() if g[:-1] == context and g != without}
        words, probs = list(after), np.exp(list(after.values()))
        left, below = 1 - probs.sum(), 1 - lower[words].sum()
        found = lower * (left / below if context and after else 1)
        found[words] = probs
        return found

    def probability(self, words):
        """That of a context by the chain rule, each word after those before it."""
        return math.exp(sum(self.listed[words[: i + 1]] for i in range(len(words))))

    def worth_keeping(self, n, threshold):
        """The n-grams whose loss, the divergence of equation 2, is not below the threshold."""
        found = set()
        for gram in (g for g in self.listed if len(g) == n):
            p, q = self.distribution(gram[:-1]), self.distribution(gram[:-1], without=gram)
            loss = self.probability(gram[:-1]) * (p * (np.log(p) - np.log(q))).sum()
            if math.expm1(loss) >= threshold:
                found.add(gram)
        return found


def test_n_grams_go_where_their_loss_is_below_the_threshold_and_no_longer_one_needs_them():
    """With both distributions of the context written out."""
    model = KneserNey(order=3).fit(varied())
    small, explicit = prune(model.table, 1e-4), Explicit(model)
    trigrams = set(map(tuple, small.words_of(3).tolist()))
    assert trigrams == explicit.worth_keeping(3, 1e-4)
    assert 0 < len(trigrams) < model.table.sizes[2]
    needed = {g[:-1] for g in trigrams} | {g[1:] for g in trigrams}
    expected = needed | explicit.worth_keeping(2, 1e-4)
    assert set(map(tuple, small.words_of(2).tolist())) == expected
    assert needed < expected < {g for g in explicit.listed if len(g) == 2}


@pytest.mark.parametrize("smoothing", ["interpolated", "backoff", "good_turing"])
@pytest.mark.parametrize("threshold", [1e-6, 1e-4, 1e-2, 0.9])
def test_what_is_left_sums_to_one(smoothing, threshold):
    model = KneserNey(order=4, smoothing=smoothing, min_count=2, prune=threshold).fit(varied())
    assert model.check_normalized(varied(20, seed=1)) < 1e-5
    assert model.table.sums().are_one
    model.table.check()


def test_perplexity_rises_by_no_more_than_the_lost_n_grams_say_and_sizes_fall():
    text, held_out = varied(2000), varied(500, seed=5)
    found = [KneserNey(order=4, prune=t).fit(text) for t in (0.0, 1e-6, 1e-5, 1e-4, 1e-3)]
    sizes = [sum(model.table.sizes) for model in found]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > 2 * sizes[-1]
    perplexities = [model.perplexity(held_out).value for model in found]
    assert perplexities[1] == pytest.approx(perplexities[0], rel=0.02)
    assert perplexities[4] < 1.2 * perplexities[0]


def test_nothing_is_pruned_by_a_threshold_that_every_loss_exceeds():
    model = KneserNey(order=3).fit(varied())
    same = prune(model.table, -1.0)
    np.testing.assert_array_equal(same.data, model.table.data)


# -- few bits ------------------------------------------------------------------------------------------


def test_eight_bits_are_close_and_half_as_large():
    text = varied(3000, types=300)
    exact, coarse = KneserNey(order=4).fit(text), KneserNey(order=4, bits=8).fit(text)
    assert coarse.table.sizes == exact.table.sizes
    assert len(coarse.table.data) < 0.6 * len(exact.table.data)
    held_out = varied(300, seed=3, types=300)
    assert coarse.perplexity(held_out).value == pytest.approx(
        exact.perplexity(held_out).value, rel=0.01
    )
    assert not coarse.is_normalized


@pytest.mark.parametrize("bits", [2, 3, 8, 16])
def test_values_are_the_nearest_of_few_and_zero_stays(bits):
    model = KneserNey(order=3).fit(varied())
    table = quantize(model.table, bits)
    for n in range(1, 4):
        exact, found = model.table.unpack(n), table.unpack(n)
        np.testing.assert_array_equal(found.word, exact.word)
        np.testing.assert_array_equal(found.n_after, exact.n_after)
        for mine, theirs in ((found.log_prob, exact.log_prob), (found.backoff, exact.backoff)):
            if not len(mine):
                continue
            values = np.unique(mine)
            assert len(values) <= 1 << bits
            nearest = values[np.abs(theirs[:, None] - values).argmin(axis=1)]
            np.testing.assert_allclose(np.abs(mine - theirs), np.abs(nearest - theirs), atol=1e-6)
        assert (found.backoff[exact.backoff == 0] == 0).all()


@pytest.mark.parametrize("numbers", [[], [0.5], [-0.5], [-np.inf, 0.5], [-1, -1], [3, 1, 2, 5, 4]])
def test_the_values_of_few_numbers_ascend(numbers):
    values = _choose_values(np.array(numbers, np.float32), 4)
    assert 2 <= len(values) <= 4
    assert (np.diff(values) > 0).all()
    assert len(numbers) > 4 or np.isin(np.float32(numbers), values).all()


def test_a_fitted_model_made_smaller_is_the_smaller_fit(tmp_path):
    text = varied(2000, types=200)
    whole, asked = KneserNey(order=3).fit(text), KneserNey(order=3, prune=1e-5, bits=6).fit(text)
    small = whole.smaller(prune=1e-5, bits=6)
    assert small.settings == asked.settings
    np.testing.assert_array_equal(small.table.data, asked.table.data)
    assert whole.is_normalized
    assert not small.is_normalized
    assert whole.table.sizes[2] > small.table.sizes[2] == small.fitted_on["n_grams"][2]
    rounded = whole.smaller(prune=1e-5).smaller(bits=6)
    assert (rounded.settings, rounded.table.sizes) == (asked.settings, asked.table.sizes)
    small.save(tmp_path / "m")
    assert KneserNey.load(tmp_path / "m").score("w1 w2") == small.score("w1 w2")


def test_what_has_few_bits_is_not_made_smaller_again():
    with pytest.raises(ConfigurationError, match="already rounded to a few bits"):
        KneserNey(order=2, bits=4).fit(varied()).smaller(prune=1e-6)
    with pytest.raises(NotFittedError):
        KneserNey().smaller()
