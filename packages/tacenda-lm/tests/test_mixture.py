"""Mixtures against sums written out, and weights against a search."""

import dataclasses
import itertools
import json
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import tacenda
from tacenda import artifact
from tacenda.errors import (
    ArtifactError,
    ConfigurationError,
    CorpusError,
    NotFittedError,
    TacendaWarning,
)
from tacenda.testing.models import sample_sentences
from tacenda_lm import LBL, KneserNey, Mixture
from tacenda_lm.mixture.weights import fit_weights
from tacenda_lm.sequences import encode_sentences

TEXT, VALID = sample_sentences(), sample_sentences(80, seed=3)
#: Log-probabilities of three components, for some tokens.
ROWS = st.lists(st.tuples(*[st.floats(-20, 0)] * 3), min_size=1, max_size=30)


@pytest.fixture(scope="module")
def models():
    return {f"order-{n}": KneserNey(order=n).fit(TEXT) for n in (1, 2, 4)}


def test_probabilities_are_weighted_sums(models):
    mixture = Mixture(models, {"order-4": 2, "order-1": 1, "order-2": 1})
    assert mixture.weights == {"order-1": 0.25, "order-2": 0.25, "order-4": 0.5}
    for context in ("", "a0 b1", "never c2"):
        expected = sum(
            weight * models[name].next_word(context) for name, weight in mixture.weights.items()
        )
        np.testing.assert_allclose(mixture.next_word(context), expected, rtol=1e-9)
    scores = mixture.component_scores(["a0 b1 never", ""])
    assert [len(each["order-2"]) for each in scores] == [4, 1]
    total = np.log(sum(w * np.exp(scores[0][name]) for name, w in mixture.weights.items()))
    np.testing.assert_allclose(mixture.token_log_probs(["a0 b1 never"])[0], total)


def test_repr_says_the_models_the_weights_and_whether_it_is_fitted():
    one, two = KneserNey(order=1), KneserNey(order=2)
    mixture = Mixture({"one": one, "two": two}, [1, 3])
    said = "<Mixture({{'one': {!r}, 'two': {!r}}}, weights=[0.25, 0.75]), {}>"
    assert repr(mixture) == said.format(one, two, "not fitted")
    mixture.fit(TEXT)
    assert repr(mixture) == said.format(one, two, "fitted")


def test_repr_neither_raises_nor_warns_nor_changes_a_component():
    """Of components that were fitted again, even to other words."""
    one, two = KneserNey(order=1).fit(TEXT), KneserNey(order=2).fit(TEXT)
    inner = Mixture({"one": one, "two": two}).fit_weights(VALID)
    outer = Mixture([inner])
    two.fit([["x"]])
    told = inner.fitted_on
    with warnings.catch_warnings(action="error"):
        assert repr(inner) in repr(outer)
    assert inner.fitted_on is told
    with pytest.warns(TacendaWarning), pytest.raises(CorpusError, match="not have the words"):
        outer.score("a0")


def test_a_weight_of_zero_takes_a_component_out(models):
    mixture = Mixture(models, [0, 1, 0])
    assert mixture.score("a0 b1") == pytest.approx(models["order-2"].score("a0 b1"))
    assert mixture.check_normalized() < 1e-5


def test_fitted_weights_are_the_best(models):
    """No mixture on a fine grid gives the held-out text a lower perplexity."""
    mixture = Mixture(models).fit_weights(VALID)
    found = mixture.perplexity(VALID)
    assert sum(mixture.weights.values()) == pytest.approx(1)
    grid = np.linspace(0, 1, 21)
    others = [
        Mixture(models, [x, y, max(0, 1 - x - y)]).perplexity(VALID)
        for x, y in itertools.product(grid, grid)
        if x + y <= 1
    ]
    assert found <= min(others) + 1e-9
    assert mixture.fitted_on["weights_n_tokens"] == found.n_tokens


@settings(max_examples=50)
@given(ROWS, st.floats(0.01, 50), st.tuples(*[st.just(0.0) | st.floats(0.1, 1)] * 3).filter(any))
def test_no_other_weights_are_better(rows, scale, before):
    """At the optimum mean_t p_k / p is 1 for every component with weight, and at most 1 without."""
    scores, before = np.array(rows).T * scale, np.array(before)
    weights = fit_weights(scores, before)
    assert weights.sum() == pytest.approx(1)
    assert not weights[before == 0].any()
    np.testing.assert_array_equal(weights, fit_weights(scores, (before > 0) * 1.0))
    likely = np.exp(scores[before > 0] - scores[before > 0].max(axis=0))
    ratios = (likely / (weights[before > 0] @ likely)).mean(axis=1)
    assert ratios.max() < 1 + 1e-10
    np.testing.assert_allclose(weights[before > 0] * (1 - ratios), 0, atol=1e-10)


@pytest.mark.parametrize("noise", [1e-4, 0.02, 0.05, 1])
@pytest.mark.parametrize("before", [(0.5, 0.5), (0.9, 0.1)])
def test_weights_of_two_models_that_hardly_differ_are_those_of_bisection(noise, before):
    rng = np.random.default_rng(3)
    scores = rng.normal(-5, 2, 4000) + noise * rng.normal(size=(2, 4000))
    excess = np.expm1(
        scores[0] - scores[1]
    )  # the derivative by the weight is mean_t e_t / (1 + weight e_t)
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        rises = (excess / (1 + middle * excess)).mean() > 0
        low, high = (middle, high) if rises else (low, middle)
    np.testing.assert_allclose(fit_weights(scores, np.array(before)), [low, 1 - low], atol=1e-6)


def test_weights_of_many_models_are_those_of_a_general_optimizer():
    scores = np.random.default_rng(0).normal(-4, 1, (6, 500)) - 0.1 * np.arange(6)[:, None]
    found = minimize(
        lambda weights: -np.log(weights @ np.exp(scores)).mean(),
        np.full(6, 1 / 6),
        bounds=[(0, 1)] * 6,
        constraints={"type": "eq", "fun": lambda weights: weights.sum() - 1},
        options={"ftol": 1e-14, "maxiter": 500},
    )
    np.testing.assert_allclose(fit_weights(scores), found.x, atol=1e-5)


def test_a_component_whose_probabilities_underflow_does_not_spoil_the_weights():
    """Whatever the scale, the best of two is found: only a component that predicts a token can explain it."""
    far = np.array([[-800.0, -1.0], [-2.0, -1.0]])
    np.testing.assert_array_equal(fit_weights(far, np.array([1.0, 0.0])), [1, 0])
    np.testing.assert_array_equal(fit_weights(far[::-1], np.array([0.0, 1.0])), [0, 1])
    np.testing.assert_allclose(fit_weights(far - 5000), fit_weights(far), atol=1e-12)
    disjoint = np.array([[-1.0, -np.inf, -2e5, -2e5], [-np.inf, -1e5, -1e5, -1e5]])
    np.testing.assert_allclose(fit_weights(disjoint), [0.25, 0.75])
    np.testing.assert_allclose(fit_weights(disjoint, np.array([1e-300, 1])), [0.25, 0.75])


@pytest.mark.parametrize("bad", [-np.inf, np.nan])
def test_a_token_that_no_component_with_weight_predicts_is_refused(bad):
    scores = np.array([[-1.0, -2.0, bad], [-1.0, -2.0, -3.0]])
    with pytest.raises(CorpusError, match="can predict token 3 of the 3"):
        fit_weights(scores, np.array([1.0, 0.0]))
    np.testing.assert_allclose(fit_weights(scores), [0, 1], atol=1e-12)
    scores[1, 2] = bad
    with pytest.raises(CorpusError, match="can predict token 3 of the 3"):
        fit_weights(scores)


def test_a_text_that_no_component_with_weight_predicts_leaves_the_weights_alone(
    models, monkeypatch
):
    mixture = Mixture(models, [1, 2, 0])
    for name in ("order-1", "order-2"):
        monkeypatch.setattr(
            models[name], "score_corpus", lambda ids, offsets: np.full(len(ids), -np.inf)
        )
    with pytest.raises(CorpusError, match="add a component that can"):
        mixture.fit_weights(VALID)
    assert list(mixture.weights.values()) == [1 / 3, 2 / 3, 0]


@pytest.mark.parametrize("scale", [1.0, 1e308 / 4, 1e-300])
def test_weights_of_any_size_are_divided_by_their_sum(models, scale):
    weights = Mixture(models, [scale, 4 * scale, 3 * scale]).weights
    assert list(weights.values()) == [0.125, 0.5, 0.375]


def test_the_same_words_in_another_order_are_the_same_words(models):
    """Word ids follow counts, so models of two texts number the same words differently."""
    other = KneserNey(order=2).fit([*TEXT[100:], *TEXT[:100], *TEXT[:30] * 3])
    first = models["order-2"]
    assert other.vocabulary.words != first.vocabulary.words
    mixture = Mixture([first, other], [1, 3])
    for sentence in ("a0 b1 c2", "never a0"):
        both = [np.exp(m.token_log_probs([sentence])[0]) for m in (first, other)]
        expected = np.log(0.25 * both[0] + 0.75 * both[1])
        np.testing.assert_allclose(mixture.token_log_probs([sentence])[0], expected, rtol=1e-9)
        one_by_one = mixture.full_scores(sentence, bos=False)
        assert len(list(one_by_one)) == len(sentence.split()) + 1
    words = first.vocabulary.words
    swap = [other.vocabulary.id_of(word) for word in words]
    expected = 0.25 * first.next_word("a0") + 0.75 * other.next_word("a0")[swap]
    np.testing.assert_allclose(mixture.next_word("a0"), expected)


def test_a_component_that_is_fitted_again_has_its_new_words():
    first = KneserNey(order=2).fit([["a", "b"], ["a"]])
    second = KneserNey(order=2).fit([["a", "b"], ["a"]])
    mixture = Mixture({"first": first, "second": second})
    assert np.isfinite(mixture.score("a b"))
    second.fit([["b", "a"], ["b"]])
    assert second.vocabulary.words != first.vocabulary.words
    expected = Mixture([first, second])
    assert mixture.score("a b") == expected.score("a b")
    second.fit([["x"]])
    with pytest.raises(CorpusError, match="'second' does not have the words"):
        mixture.score("a b")


def test_distributions_are_mixed_whatever_the_blocks_of_the_components(models, monkeypatch):
    from tacenda_lm import distributions
    from tacenda_lm.mixture import fixed

    ids, offsets = encode_sentences(VALID[:10], models["order-1"].vocabulary, eos=True)
    whole = [np.concatenate(list(m.distributions(ids, offsets))) for m in models.values()]
    mixed = Mixture(models, [1, 2, 3])
    expected = np.log(sum(w * np.exp(x) for w, x in zip((1 / 6, 2 / 6, 3 / 6), whole, strict=True)))
    monkeypatch.setattr(
        distributions, "_LOG_PROBS_PER_BLOCK", 7 * len(models["order-1"].vocabulary)
    )
    for size in (1, 3, 7, 1000):
        monkeypatch.setattr(fixed, "rows_of_block", lambda n_types, size=size: size)
        blocks = list(mixed.distributions(ids, offsets))
        assert {len(block) for block in blocks[:-1]} <= {size}
        np.testing.assert_allclose(np.concatenate(blocks), expected, rtol=1e-9)


def test_components_save_their_progress_each_in_its_folder(tmp_path):
    def made():
        return Mixture({"kn": KneserNey(order=2), "a": LBL(width=4), "b": LBL(width=6, epochs=2)})

    sentences = [["a", "b"], ["b", "c", "a"]] * 20
    whole = made().fit(sentences)
    made().fit(sentences, checkpoints=tmp_path)
    assert {folder.name for folder in tmp_path.iterdir()} == {"a", "b"}
    again = made().fit(sentences, checkpoints=tmp_path, resume=True)
    assert again.score("a b c") == whole.score("a b c")
    with pytest.raises(ConfigurationError, match="cannot save the progress"):
        Mixture([KneserNey(order=2)]).fit(sentences, checkpoints=tmp_path)


@pytest.mark.parametrize(
    ("weights", "message"),
    [([1], "as many weights"), ([1, -1, 1], "not negative"), ([0, 0, 0], "all zero"),
     ([1, float("nan"), 1], "not negative"), ({"order-1": 1}, "the weights are for"),
     ({1: 1}, "the weights are for"), (0.5, "not 0.5"), (np.array(0.5), "as many weights"),
     ("121", "not '121'"), (b"121", "as many weights"), ({1, 2, 3}, "as many weights"),
     (["1", "2", "1"], "as many weights"), ([[1], [2], [1]], "as many weights"),
     ([1, 10**400, 1], "as many weights"), ([True, 1, 1], "as many weights"),
     ([1, 1j, 1], "as many weights"),
     ({"order-1": "x", "order-2": 1, "order-4": 1}, "not .'x', 1, 1.")],
)  # fmt: skip
def test_weights_that_do_not_fit_are_refused(models, weights, message):
    with pytest.raises(ConfigurationError, match=message):
        Mixture(models, weights)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ((), "needs models"),
        ((None,), "needs models"),
        (([object()],), "language models"),
        ((KneserNey(),), "not a KneserNey: give a list"),
        (("ab",), "a str is not one"),
    ],
)
def test_a_mixture_of_nothing_or_of_other_things_is_refused(wrong, message):
    with pytest.raises(ConfigurationError, match=message):
        Mixture(*wrong)


def test_weights_cannot_be_fitted_to_nothing_or_to_components_that_are_not_fitted(models):
    with pytest.raises(NotFittedError):
        Mixture([KneserNey()]).fit_weights([["a"]])
    with pytest.raises(CorpusError, match="no tokens"):
        Mixture(models).fit_weights([[]])


def test_it_is_saved_with_its_components(models, tmp_path):
    mixture = Mixture(models).fit_weights(VALID)
    mixture.save(tmp_path / "mixture")
    assert set(artifact.read(tmp_path / "mixture").nested) == set(models)
    again = tacenda.load(tmp_path / "mixture")
    assert list(again.components) == list(models)
    assert again.weights == mixture.weights


def test_a_mixture_whose_parts_do_not_fit_is_refused(models, tmp_path):
    found = Mixture(models).to_artifact()
    for change in (
        {"arrays": {"weights": np.array([0.5, 0.6, 0.1])}},
        {"arrays": {"weights": np.array([1.5, -0.5, 0.0])}},
        {"config": {"components": ["order-1", "order-2", "other"]}},
        {"nested": {}},
        {"nested": {**found.nested, "order-1": KneserNey(order=1).fit([["x"]]).to_artifact()}},
    ):
        with pytest.raises(ArtifactError):
            Mixture.from_artifact(dataclasses.replace(found, **change))
    assert json.dumps(found.config)


def test_weights_are_not_fitted_in_a_context_there_is_not(models):
    mixture = Mixture(models)
    with pytest.raises(ConfigurationError, match="paragraph"):
        mixture.fit_weights(VALID, context="paragraph")
    assert set(mixture.weights.values()) == {1 / 3}


def test_weights_do_not_outlive_the_components_in_silence(tmp_path):
    """The weights were fitted to what the components were."""
    first, second = KneserNey(order=1).fit(TEXT), KneserNey(order=2).fit(TEXT)
    mixture = Mixture({"one": first, "two": second}).fit_weights(VALID)
    outer = Mixture([mixture]).fit_weights(VALID)
    fixed = Mixture([first, second], [1, 3])
    for each in (mixture, outer, fixed):
        each.save(tmp_path / "same")
        with warnings.catch_warnings(action="error"):
            each.score("a0 b1")
            Mixture.load(tmp_path / "same").score("a0 b1")
    second.fit(TEXT[:50] + VALID)
    first.fit(TEXT[:50] + VALID)
    for each, names in ((mixture, "'one', 'two'"), (outer, "'model-0'")):
        with pytest.warns(TacendaWarning, match=rf"fitted again \({names}\): call fit_weights"):
            each.score("a0 b1")
        with warnings.catch_warnings(action="error"):
            each.score("a0 b1")
            fixed.score("a0 b1")
    with pytest.raises(TypeError):
        mixture.components["one"] = second
    other = Mixture([KneserNey(order=1)]).fit(TEXT, VALID).fit(TEXT[:50] + VALID)
    with pytest.warns(TacendaWarning, match="fitted again"):
        other.score("a0 b1")
    mixture.fit_weights(VALID).save(tmp_path / "again")
    with warnings.catch_warnings(action="error"):
        Mixture.load(tmp_path / "again").score("a0 b1")


def test_every_component_that_was_fitted_again_is_known_also_after_saving(tmp_path):
    def list_refitted(mixture):
        saved = mixture.to_artifact().fitted_on.get("refitted_since_weights", [])
        assert mixture.card["fitted_on"].get("refitted_since_weights", []) == saved
        return saved

    mixture = Mixture({name: KneserNey(order=1).fit(TEXT) for name in "abc"}).fit_weights(VALID)
    facts = mixture.fitted_on
    assert list_refitted(mixture) == []
    for name, refitted in (("b", ["b"]), ("a", ["a", "b"])):
        mixture.components[name].fit(TEXT)
        mixture.score("a0 b1")
        assert list_refitted(mixture) == refitted
    with pytest.raises(CorpusError):
        mixture.fit_weights([["<s>"]])
    assert mixture.fitted_on is facts  # a query changes nothing
    mixture.save(tmp_path / "mixture")
    again = Mixture.load(tmp_path / "mixture")
    again.components["c"].fit(TEXT)
    with pytest.warns(TacendaWarning, match=r"fitted again \('a', 'b', 'c'\)"):
        again.score("a0 b1")
    assert list_refitted(again) == ["a", "b", "c"]
    again = Mixture.load(tmp_path / "mixture")
    with warnings.catch_warnings(action="error"):
        assert list_refitted(again.fit_weights(VALID)) == []
        again.score("a0 b1")


def test_a_note_in_the_facts_of_a_component_is_no_fit():
    component = KneserNey(order=1).fit(TEXT)
    mixture = Mixture([component]).fit_weights(VALID)
    component.fitted_on = {**component.fitted_on, "note": "x"}
    with warnings.catch_warnings(action="error"):
        mixture.score("a0 b1")


def test_a_mixture_of_fitted_models_is_fitted(models):
    assert Mixture([Mixture(models)]).is_fitted
    assert not Mixture([*models.values(), KneserNey()]).is_fitted
