"""Fitting from text to vectors: likelihood, added text, determinism, and what is refused."""

from copy import copy
from unittest.mock import Mock

import numpy as np
import pytest

import tacenda
from tacenda import store
from tacenda.corpus import Corpus
from tacenda.datasets import synthetic_text
from tacenda.errors import (
    ArtifactError,
    ConfigurationError,
    CorpusError,
    DataError,
    NotFittedError,
)
from tacenda_embeddings import LDS, LaggedCounts
from tacenda_embeddings.lds import em, smoother
from tacenda_embeddings.lds.em import run_e_step
from tacenda_embeddings.lds.moments import SparseMoments
from tacenda_embeddings.settings import LDS_OUTPUTS

SETTINGS = {"n_states": 6, "subspace_iterations": 15, "full_iterations": 3}


@pytest.fixture(scope="module")
def sentences():
    return [list(s.words) for s in synthetic_text.generate(900, seed=1)]


@pytest.fixture(scope="module")
def corpus(sentences):
    return Corpus.from_sentences(sentences, max_vocabulary=200)


@pytest.fixture(scope="module")
def counts(corpus):
    return LaggedCounts.from_corpus(corpus, 7)


@pytest.fixture(scope="module")
def model(counts):
    return LDS(**SETTINGS).fit(counts)


def count(sentences, vocabulary=None):
    return LaggedCounts.from_corpus(Corpus.from_sentences(sentences, vocabulary=vocabulary), 7)


def gains(model):
    return [step.likelihood_gain for step in model.history]


def test_em_raises_the_likelihood_over_no_dynamics(model):
    found = gains(model)
    assert [step.stage for step in model.history] == 15 * ["subspace"] + 3 * ["full"] + ["final"]
    assert np.diff(found).min() > -1e-3
    assert found[-1] > found[0] > 0
    assert model.likelihood_gain == found[-1]
    assert model.figures[0]["value"] == found[-1]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"subspace_iterations": 0},
        {"advanced": {"noise": "diagonal"}},
        {"advanced": {"start": "random"}},
    ],
)
def test_the_progress_bar_ends_at_its_total(counts, monkeypatch, settings):
    bars = []

    def track(*_, total, **__):
        bars.append(Mock(total=total))
        return bars[-1]

    monkeypatch.setattr(em, "track", track)
    few = {"n_states": 6, "subspace_iterations": 2, "full_iterations": 1}
    LDS(**few | settings).fit(counts).partial_fit(counts, 1)
    assert [bar.update.call_count for bar in bars] == [bar.total for bar in bars]


def test_the_likelihood_gain_is_found_whatever_else_is_measured(model):
    other = copy(model)
    other.figures = [{"measure": "accuracy", "value": 0.9}, *model.figures]
    assert other.likelihood_gain == model.likelihood_gain
    other.figures = other.figures[:1]
    with pytest.raises(ArtifactError, match="without its likelihood gain"):
        _ = other.likelihood_gain


def test_a_corpus_is_counted_and_fitted(corpus, counts, model):
    again = LDS(**SETTINGS).fit(corpus)
    assert gains(again) == gains(model)
    sizes = {"n_tokens": counts.n_tokens, "n_types": len(corpus.vocabulary)}
    assert again.fitted_on == {**sizes, "max_vocabulary": 200}


def test_identification_starts_above_no_dynamics_and_above_chance(counts):
    start = {"n_states": 6, "subspace_iterations": 0, "full_iterations": 0}
    subspace = LDS(**start).fit(counts).likelihood_gain
    chance = LDS(**start, advanced={"start": "random"}).fit(counts).likelihood_gain
    assert subspace > 0
    assert subspace > chance


@pytest.mark.parametrize("noise", ["full", "diagonal", "spherical"])
def test_every_noise_fits_and_the_full_one_best(noise, counts, model):
    found = LDS(**{**SETTINGS, "full_iterations": 5}, advanced={"noise": noise}).fit(counts)
    assert found.likelihood_gain > 0
    assert found.likelihood_gain <= model.likelihood_gain + 0.1
    assert all(np.isfinite(array).all() for array in found.transform([["a", "b"], []]))


def test_unwhitened_identification_is_another_start_and_a_worse_one(counts):
    start = {"n_states": 6, "subspace_iterations": 0, "full_iterations": 0}
    found = LDS(**start, advanced={"whiten": False}).fit(counts)
    assert np.abs(found.learned.mean @ found.learned.parameters.C).max() < 1e-5
    assert found.likelihood_gain < LDS(**start).fit(counts).likelihood_gain


def test_a_rounded_model_with_another_output_is_saved_rounded(model, tmp_path):
    small = model.rounded("int8").with_output("own")
    small.save(tmp_path / "small")
    assert tacenda.load(tmp_path / "small").precision == "int8"
    model.with_output("own").save(tmp_path / "large")
    sizes = [store.size_of(tmp_path / name) for name in ("small", "large")]
    assert sizes[0] < 0.6 * sizes[1]


def test_fitted_parameters_are_a_model_of_text(model):
    """D is positive semi-definite and C leaves the mean out, after EM in float32 too."""
    A, C, Q, noise = model.learned.parameters
    assert C.dtype == np.float32
    C = C.astype(np.float64)
    assert np.linalg.eigvalsh(C @ noise.N @ C.T).max() <= 1 + 1e-5
    assert np.linalg.eigvalsh(Q).min() > 0
    np.testing.assert_allclose(model.learned.mean @ C, 0, atol=1e-5)
    assert np.abs(np.linalg.eigvals(A)).max() < 1


def test_statistics_from_counts_are_those_of_smoothing_the_text(corpus, counts, model, oracles):
    """The E-step on sparse float32 counts against a Fourier smoother of the one-hot ring."""
    ids = np.concatenate(list(corpus.stream(10**6)))
    V, state = len(corpus.vocabulary), model.learned
    A, C, Q, noise = state.parameters
    m = np.sqrt(np.bincount(ids, minlength=V) / len(ids))  # no pseudo-counts: the text itself
    keep = m > 0
    C = (C - np.outer(m, m @ C)).astype(np.float64)
    # leave enough noise for the text's own variances
    C *= np.sqrt(0.9 / np.linalg.eigvalsh(C @ noise.N @ C.T).max())
    parameters = state.parameters._replace(C=C)
    found = run_e_step(parameters, SparseMoments(counts, 0.0), 7)
    w = np.eye(V)[ids][:, keep] / m[keep] - m[keep]
    D = np.eye(keep.sum()) - np.outer(m[keep], m[keep]) - C[keep] @ noise.N @ C[keep].T
    exact = oracles.ring_statistics(oracles.System(A, C[keep], Q, D, noise.N, m[keep]), w)
    for name in ("S_xx", "S_10", "Xi", "Pi"):
        x, y = getattr(found, name), getattr(exact, name)
        assert np.linalg.norm(x - y) / np.linalg.norm(y) < 2e-3, name
    x, y = found.S_xw[:, keep], exact.S_xw
    assert np.linalg.norm(x - y) / np.linalg.norm(y) < 2e-3


def test_added_text_reaches_what_all_of_it_gives(sentences, corpus):
    old, new = (count(part, corpus.vocabulary) for part in (sentences[:450], sentences[450:]))
    whole = LDS(**SETTINGS).fit(old + new)
    model = LDS(**SETTINGS).fit(old)
    assert model.partial_fit(old + new, iterations=4) is model
    assert gains(model)[0] > 0.9 * whole.likelihood_gain
    assert np.diff(gains(model)).min() > -1e-3
    assert model.likelihood_gain == pytest.approx(whole.likelihood_gain, abs=0.05)


def test_partial_fit_on_the_same_text_goes_on_where_fitting_ended(counts, model):
    more = LDS(**SETTINGS).fit(counts).partial_fit(counts, iterations=2)
    assert gains(more)[0] == pytest.approx(model.likelihood_gain, abs=1e-4)
    assert more.likelihood_gain > model.likelihood_gain


def test_what_a_state_says_of_a_word_goes_with_the_frequency_of_the_word(counts, sentences, corpus):
    """C x is in units of sqrt(mu): sqrt(mu) C x / mu, by what factor the word gains, stays."""
    more = counts + count(sentences[:200], corpus.vocabulary).scaled(3.0)
    model = LDS(**SETTINGS).fit(counts)
    before = model.learned
    after = model.partial_fit(more, iterations=0).learned
    gained = (before.scale / after.scale)[:, None]
    assert gained.max() > 1.1
    expected = before.parameters.C * gained
    expected -= np.outer(after.mean, after.mean @ expected)
    np.testing.assert_allclose(after.parameters.C, expected, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("noise", ["full", "diagonal"])
def test_partial_fit_survives_words_that_become_rare(noise, sentences, corpus):
    """Twenty times as much text of a third of the words: variances change a hundredfold."""
    known = corpus.vocabulary.id_of
    other = [[w for w in s if known(w) % 3 == 0] for s in sentences[:300]]
    old = count(sentences[300:], corpus.vocabulary)
    new = count([s for s in other if s], corpus.vocabulary)
    model = LDS(**SETTINGS, kappa=2.0, advanced={"noise": noise}).fit(old)
    model.partial_fit(old + new.scaled(20.0), 3)
    assert model.likelihood_gain > max(0.0, gains(model)[0])


def test_forgotten_counts_serve_too(counts):
    """Scaling all counts and kappa scales nothing of the model."""
    one = LDS(**SETTINGS, kappa=4.0).fit(counts)
    half = LDS(**SETTINGS, kappa=2.0).fit(counts.scaled(0.5))
    assert half.likelihood_gain == pytest.approx(one.likelihood_gain, abs=1e-3)


def test_types_that_never_occur_need_no_pseudo_counts(corpus, counts):
    model = LDS(**SETTINGS, kappa=0.0).fit(counts)
    assert (corpus.vocabulary.counts == 0).sum() <= 1
    empty = count([list("abcdefg"), ["b", "a"]] * 20)
    assert (empty.unigram == 0).any()  # nothing was unknown
    unused = LDS(n_states=2, kappa=0.0).fit(empty)
    for found in (model, unused):
        [vectors] = found.transform([["never", "seen", "a"]])
        assert np.isfinite(vectors).all()


def test_one_seed_gives_one_model_and_threads_do_not_matter(counts, model, sentences):
    for threads in (1, 2):
        again = LDS(**SETTINGS, threads=threads).fit(counts)
        found, expected = (each.transform(sentences[:5]) for each in (again, model))
        for x, y in zip(found, expected, strict=True):
            np.testing.assert_array_equal(x, y)
    other = LDS(**SETTINGS, seed=1).fit(counts)
    assert other.likelihood_gain != model.likelihood_gain
    assert other.likelihood_gain == pytest.approx(model.likelihood_gain, rel=0.2)


def test_a_sentence_of_a_hundred_thousand_tokens(model, sentences):
    words = [word for sentence in sentences for word in sentence]
    long = (words * (100_000 // len(words) + 1))[:100_000]
    [alone] = model.transform([long])
    assert alone.shape == (100_000, model.width)
    assert np.isfinite(alone).all()
    [_, among] = model.transform([sentences[0], long])
    np.testing.assert_allclose(among, alone, atol=1e-5)
    [start] = model.transform([long[:400]])
    np.testing.assert_allclose(alone[:200], start[:200], atol=1e-4)


@pytest.mark.parametrize("output", LDS_OUTPUTS)
def test_packed_sequences_give_the_same_in_views_of_one_array(model, sentences, output):
    ids = [model.vocabulary.encode(sentence) for sentence in [*sentences[:200], []]]
    offsets = np.cumsum([0, *map(len, ids)])
    expected = np.concatenate(model.transform_ids(ids, output=output))
    out = np.empty_like(expected)
    views = np.split(out, offsets[1:-1])
    model.transform_into(np.concatenate(ids), offsets, views, output=output)
    np.testing.assert_array_equal(out, expected)


def test_groups_and_blocks_do_not_show(model, sentences, monkeypatch):
    ids = [model.vocabulary.encode(sentence) for sentence in sentences[:60]]
    expected = model.transform_ids(ids)
    monkeypatch.setattr(smoother, "_GROUP_TOKENS", 50)
    monkeypatch.setattr(smoother, "_CPU_BLOCK", (3, 17))
    for x, y in zip(model.transform_ids(ids), expected, strict=True):
        np.testing.assert_allclose(x, y, atol=1e-5)


def test_inference_is_found_after_fitting_and_found_anew_after_more_text(counts, sentences):
    model = LDS(**SETTINGS).fit(counts)
    before = np.concatenate(model.transform(sentences[:3]))
    model.partial_fit(counts, 2)
    assert not np.array_equal(before, np.concatenate(model.transform(sentences[:3])))


class TestRefused:
    def test_ids_of_no_word(self, model):
        for ids in ([0, len(model.vocabulary)], [-1]):
            with pytest.raises(DataError, match="there is no word id"):
                model.transform_ids([np.array(ids)])

    @pytest.mark.parametrize("ids", [np.arange(3), [1, 2], 7, ["ab"], [np.ones((1, 1), int), [1]]])
    def test_ids_that_are_no_list_of_sentences(self, model, ids):
        with pytest.raises(DataError, match="give a list of sentences, an array of ids each"):
            model.transform_ids(ids)

    @pytest.mark.parametrize("ids", [[1.7], [np.nan], ["a"]])
    def test_ids_that_are_no_integers(self, model, ids):
        rows = np.zeros((1, 6), np.float32)
        for call in (model.transform_ids, lambda them: model.transform_extended(them, rows)):
            with pytest.raises(DataError, match="word ids must be integers"):
                call([np.array([1, 2]), ids, []])

    def test_packed_sequences_that_do_not_fit(self, model):
        ids = np.zeros(4, int)
        for offsets in ([0, 3], [1, 4], [0, 5, 4], [0, 2**63 - 1, -2, 4], [], [[0, 4]]):
            with pytest.raises(DataError, match="offsets"):
                model.transform_into(ids, np.array(offsets, int), [])
        place = np.empty((4, model.width), np.float32)
        with pytest.raises(DataError, match="no word id"):
            model.transform_into(ids - 1, np.array([0, 4]), [place])
        wrong = place[:3], np.tile(place, (2, 1)), place[:, 1:], place[0]
        for places in ([], [place, place], *wrong, *([array] for array in wrong)):
            with pytest.raises(DataError, match="arrays must be one for each of 1 sequences"):
                model.transform_into(ids, np.array([0, 4]), places)
        others = [np.zeros_like(place, kind) for kind in ("int64", "float64")]
        for other, kind in zip(
            [*others, place.tolist()], ("int64", "float64", "list"), strict=True
        ):
            for places in (other, [other]):
                with pytest.raises(DataError, match=f"into float32 arrays, not {kind}"):
                    model.transform_into(ids, np.array([0, 4]), places)

    def test_another_vocabulary(self, counts, model):
        other = Corpus.from_sentences([["other", "words", "here"]] * 20)
        with pytest.raises(CorpusError, match="vocabulary of the added text"):
            model.partial_fit(other)

    def test_too_few_words(self):
        corpus = Corpus.from_sentences([["a", "b"], ["c"]] * 10)
        with pytest.raises(CorpusError, match="needs more than 7 word types and the text has 4"):
            LDS(n_states=6).fit(corpus)

    def test_the_fewest_words_that_will_do(self):
        rng = np.random.default_rng(0)
        sentences = [[f"w{i}" for i in rng.integers(0, 4, n)] for n in rng.integers(1, 9, 200)]
        model = LDS(n_states=3).fit(Corpus.from_sentences(sentences))
        assert all(np.isfinite(array).all() for array in model.transform(sentences[:5]))

    def test_too_few_lags(self, corpus):
        with pytest.raises(CorpusError, match="hold 3 lags and an LDS needs 7"):
            LDS(**SETTINGS).fit(LaggedCounts.from_corpus(corpus, 3))

    def test_a_text_that_repeats_forever(self):
        """Its states would not fade: a sentence says so, or a model comes out that works."""
        corpus = Corpus.from_sentences([list("abcdefgh") * 300])
        for settings in ({"kappa": 0.0}, {}):
            try:
                model = LDS(n_states=4, **settings).fit(corpus)
            except CorpusError as error:
                assert "no stable LDS of 4 states" in str(error)  # noqa: PT017
                assert "\n" not in str(error)  # noqa: PT017
            else:
                assert np.isfinite(model.transform([["a", "b"]])[0]).all()

    def test_an_unfitted_model(self, counts):
        model = LDS()
        assert model.width == 600
        for act in (
            lambda: model.transform([["a"]]),
            lambda: model.vocabulary,
            lambda: model.likelihood_gain,
            model.transition_pairs,
            lambda: model.partial_fit(counts),
        ):
            with pytest.raises(NotFittedError, match="not fitted"):
                act()

    def test_an_unknown_output(self, model):
        for call in (model.with_output, lambda output: model.transform([["a"]], output=output)):
            with pytest.raises(ConfigurationError, match="output must be one of own_context"):
                call("best")
        for output in ("", ["mean"]):
            with pytest.raises(ConfigurationError, match="output must be one of own_context"):
                model.transform([["a"]], output=output)

    def test_numbers_that_are_negative_or_not_whole(self, counts, model):
        for call in (
            lambda: model.partial_fit(counts, iterations=-1),
            lambda: model.partial_fit(counts, iterations=1.5),
            lambda: model.transition_pairs(n_pairs=-1),
            lambda: model.transition_pairs(n_words=-1),
            lambda: model.transition_pairs(n_words=1.5),
            lambda: model.transition_pairs(min_count=-1),
        ):
            with pytest.raises(ConfigurationError, match=r"is (-1|1\.5); it must be a whole"):
                call()
