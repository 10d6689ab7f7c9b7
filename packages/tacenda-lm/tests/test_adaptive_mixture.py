"""Weights that follow the text, against a plain loop over its words, and their fit against a search."""

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tacenda
from tacenda.errors import ArtifactError, ConfigurationError, DataError
from tacenda.testing.models import sample_sentences
from tacenda_lm import AdaptiveMixture, KneserNey, Mixture, UnigramCache
from tacenda_lm.sequences import encode_sentences

TEXT, VALID = sample_sentences(), sample_sentences(80, seed=3)


@pytest.fixture(scope="module")
def models():
    return {
        "order-1": KneserNey(order=1).fit(TEXT),
        "order-4": KneserNey(order=4).fit(TEXT),
        "cache": UnigramCache().fit(TEXT),
    }


def test_the_settings_on_the_card_are_in_the_order_of_the_configuration(models, monkeypatch):
    config = {f"option-{i}": i for i in range(20)}
    monkeypatch.setattr(AdaptiveMixture, "config_dict", lambda self: {**config, "vocabulary": {}})
    assert list(AdaptiveMixture(models).card["settings"]) == list(config)


def weights_by_loop(weights, adaptation, memory, rows):
    """The weights before each word, given the probabilities of the words by component."""
    known, found = [0.0] * len(weights), []
    for row in rows:
        raised = [w * np.exp(adaptation * a) for w, a in zip(weights, known, strict=True)]
        found.append([each / sum(raised) for each in raised])
        mean = sum(row) / len(row)
        known = [memory * a + np.log(0.3 + p / mean) for a, p in zip(known, row, strict=True)]
    return np.array(found)


@settings(max_examples=40)
@given(
    st.floats(0, 3),
    st.floats(0, 0.99),
    st.tuples(st.just(0.0) | st.floats(0.01, 1), st.floats(0.01, 1), st.floats(0.01, 1)),
)
def test_weights_are_those_of_a_plain_loop(models, adaptation, memory, weights):
    mixture = AdaptiveMixture(models, weights, adaptation=adaptation, memory=memory)
    sentence = VALID[1]
    rows = np.exp(list(mixture.component_scores([sentence])[0].values())).T
    expected = weights_by_loop(list(mixture.weights.values()), adaptation, memory, rows)
    found = mixture.token_log_probs([sentence])[0]
    np.testing.assert_allclose(np.exp(found), (expected * rows).sum(axis=1), rtol=1e-9)


def test_words_one_by_one_have_the_scores_of_the_text_in_whatever_pieces(models):
    mixture = AdaptiveMixture(models, adaptation=0.7, memory=0.9)
    ids, _ = encode_sentences(VALID[:6], mixture.vocabulary, eos=True)
    whole, last = mixture.score_from(mixture.start(), ids)
    state, found = mixture.start(), []
    for word in ids.tolist():
        found.append(mixture.log_prob([state], [word])[0])
        row = mixture.log_probs([state])[0]
        assert row[word] == pytest.approx(found[-1])
        assert np.exp(row).sum() == pytest.approx(1, abs=1e-5)
        state = mixture.advance(state, word)
    np.testing.assert_allclose(whole, found, rtol=1e-9)
    np.testing.assert_allclose(mixture._split(state)[1], mixture._split(last)[1], rtol=1e-9)
    first, middle = mixture.score_from(mixture.start(), ids[:7])
    nothing, same = mixture.score_from(middle, ids[:0])
    assert (len(nothing), same) == (0, middle)
    np.testing.assert_allclose([*first, *mixture.score_from(middle, ids[7:])[0]], whole, rtol=1e-9)


def test_distributions_have_the_weights_of_their_place(models, monkeypatch):
    from tacenda_lm.mixture import fixed

    mixture = AdaptiveMixture(models, adaptation=2.0, memory=0.8)
    ids, offsets = encode_sentences(VALID[:5], mixture.vocabulary, eos=True)
    scores = mixture.score_corpus(ids, offsets)
    for size in (1, 3, 1000):
        monkeypatch.setattr(fixed, "rows_of_block", lambda n_types, size=size: size)
        rows = np.concatenate(list(mixture.distributions(ids, offsets)))
        np.testing.assert_allclose(rows[np.arange(len(ids)), ids], scores, rtol=1e-9)


def test_without_adaptation_it_is_a_mixture(models):
    fixed = Mixture(models, [1, 2, 3])
    mixture = AdaptiveMixture(models, [1, 2, 3], adaptation=0)
    for context in ("sentence", "stream"):
        expected = fixed.perplexity(VALID, context=context).value
        assert mixture.perplexity(VALID, context=context).value == pytest.approx(expected)


@pytest.mark.parametrize("context", ["sentence", "stream"])
def test_what_is_fitted_is_the_best_near_it_and_better_than_fixed_weights(models, context):
    mixture = AdaptiveMixture(models).fit_weights(VALID, context=context)
    best = mixture.perplexity(VALID, context=context).value
    fixed = Mixture(models).fit_weights(VALID, context=context)
    assert best <= fixed.perplexity(VALID, context=context).value + 1e-6
    weights = np.array(list(mixture.weights.values()))
    for change in itertools.product((0.9, 1.0, 1.1), repeat=4):
        numbers = {"adaptation": mixture.adaptation * change[3], "memory": mixture.memory}
        near = AdaptiveMixture(models, weights * change[:3], **numbers)
        assert near.perplexity(VALID, context=context).value >= best - 1e-5
    assert mixture.fitted_on["weights_n_tokens"] == mixture.perplexity(VALID).n_tokens


ONE, TWO = ["a b c d"] * 50, ["d c b a"] * 50


@pytest.fixture
def parts():
    """Components that know one of two texts each, and one that knows neither."""
    words = KneserNey(order=2).fit([*ONE, *TWO]).vocabulary
    texts = (tacenda.Corpus.from_text(t, vocabulary=words) for t in (ONE, TWO, ["a a"]))
    return [KneserNey(order=2).fit(each) for each in texts]


def test_it_follows_a_text_that_changes(parts):
    """Each of two components knows one half of a text: fixed weights can only wait for both."""
    text = [*ONE[:20], *TWO[:20], *ONE[:20], *TWO[:20]]
    fixed = Mixture(parts[:2]).fit_weights(text, context="stream")
    for used in (parts[:2], parts):  # a component without weight is evidence about the others
        mixture = AdaptiveMixture(used, [1, 1, 0][: len(used)]).fit_weights(text, context="stream")
        assert mixture.adaptation > 0
        changed = [factor * mixture.adaptation for factor in (0.96, 1.04)]
        near = (
            AdaptiveMixture(used, mixture.weights, adaptation=each, memory=mixture.memory)
            for each in changed
        )
        found, other, *worse = (
            m.perplexity(text, context="stream").value for m in (mixture, fixed, *near)
        )
        assert np.log(found) < 0.6 * np.log(other)
        assert min(worse) > found


def test_a_component_with_weight_zero_stays_out(models):
    mixture = AdaptiveMixture(models, [0, 1, 1]).fit_weights(VALID)
    assert mixture.weights["order-1"] == 0
    alone = AdaptiveMixture(models, [0, 1, 0], adaptation=3)
    assert alone.score("a0 b1") == pytest.approx(models["order-4"].score("a0 b1"))


def test_a_word_that_no_component_can_predict_says_nothing_of_them(models, monkeypatch):
    mixture = AdaptiveMixture(models, adaptation=1)
    scores = np.array([[-1.0, -np.inf, -1.0], [-3.0, -np.inf, -1.0], [-np.inf, -np.inf, -1.0]])
    monkeypatch.setattr(mixture, "component_log_probs", lambda ids, offsets: scores)
    found = mixture.score_corpus(np.zeros(3, np.int32), np.array([0, 3]))
    assert np.isneginf(found[1])
    assert found[2] == pytest.approx(-1)


@pytest.mark.parametrize(
    "numbers",
    [{"memory": 1}, {"memory": -0.1}, {"memory": "0.5"}, {"adaptation": float("nan")},
     {"adaptation": True}],
)  # fmt: skip
def test_numbers_out_of_bounds_are_refused_in_a_saved_mixture_too(models, numbers):
    with pytest.raises(ConfigurationError, match=f"{next(iter(numbers))} of an adaptive mixture"):
        AdaptiveMixture(models, **numbers)
    with pytest.raises(ConfigurationError, match=r"a number from 0 to below 1$"):
        AdaptiveMixture(models, memory=1.0)
    found = AdaptiveMixture(models).to_artifact()
    saved = dataclasses.replace(found, config={**found.config, **numbers})
    with pytest.raises(ArtifactError, match="a number from 0"):
        AdaptiveMixture.from_artifact(saved)


def test_numbers_of_numpy_are_taken(models):
    mixture = AdaptiveMixture(models, adaptation=np.int64(1), memory=np.float32(0.5))
    assert (mixture.adaptation, mixture.memory) == (1.0, 0.5)


def test_a_state_of_a_mixture_with_fixed_weights_is_refused(models):
    with pytest.raises(DataError, match="not one of this model"):
        AdaptiveMixture(models).advance(Mixture(models).start(), 1)


def test_a_component_that_did_not_help_can_come_back(parts):
    """A text in which it never predicts better leaves it a share, from which it takes over another text."""
    mixture = AdaptiveMixture(parts[:2]).fit_weights(ONE, context="stream")
    assert 5e-9 < mixture.weights["model-1"] < 1e-7
    mixture.adaptation, mixture.memory = 10.0, 0.9
    last, expected = (m.token_log_probs([" ".join(TWO)])[0][-40:] for m in (mixture, parts[1]))
    np.testing.assert_allclose(last, expected, atol=0.1)
    again = mixture.fit_weights(TWO, context="stream").weights
    assert again == AdaptiveMixture(parts[:2]).fit_weights(TWO, context="stream").weights
