"""Caches: their probabilities against plain loops, in one go and in parts, and what they refuse."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacenda import Corpus
from tacenda.corpus.text import as_corpus
from tacenda.errors import ArtifactError, ConfigurationError, NotFittedError
from tacenda_lm import HLBL, KneserNey, Mixture, NeuralCache, RecurrentLM, UnigramCache
from tacenda_lm import cache as neural
from tacenda_lm.cache import sum_matching_weights, sum_recent_weights
from tacenda_lm.line_sketch import find_lines

HLBL_SMALL = {"width": 6, "context": 2, "copies": 1, "epochs": 1}
RECURRENT_SMALL = {"width": 5, "epochs": 1, "streams": 2, "window_words": 4}


def text(n=60, seed=0):
    rng = np.random.default_rng(seed)
    return [[f"w{w}" for w in rng.integers(0, 9, rng.integers(1, 9))] for _ in range(n)]


def corpus():
    return Corpus.from_sentences(text())


@pytest.fixture(scope="module")
def hlbl():
    return HLBL(**HLBL_SMALL).fit(corpus())


def frequencies(vocabulary):
    return (vocabulary.counts + 1) / (vocabulary.counts + 1).sum()


def by_hand(cache, words):
    """The distribution after some words, as the equation of `UnigramCache` has it."""
    s = cache.settings
    masses = s.prior_words * frequencies(cache.vocabulary)
    total = s.prior_words
    for age, word in enumerate(reversed(words[-s.window :])):
        masses[word] += s.decay**age
        total += s.decay**age
    return masses / total


def by_hand_neural(cache, words):
    """The distribution after some words, as the equation of `NeuralCache` has it."""
    s, model = cache.settings, cache.model
    states = [model.start()]
    for word in words:
        states.append(model.advance(states[-1], word))
    r = model.state_vectors(states).astype(float)
    common = np.argsort(-cache.vocabulary.counts, kind="stable")[:500].tolist()
    contexts = [model.advance(model.start(), word) for word in common]
    some = model.state_vectors(contexts).astype(float)
    mean_distance = np.mean([((a - b) ** 2).sum() for a in some for b in some])
    masses = s.prior_words * frequencies(cache.vocabulary)
    total = s.prior_words
    for i in range(max(0, len(words) - s.window), len(words)):
        distance = ((r[-1] - r[i]) ** 2).sum() / mean_distance
        k = s.decay ** (len(words) - 1 - i) * np.exp(-s.sharpness * distance)
        masses[words[i]] += k
        total += k
    return masses / total


UNIGRAM = [
    {"window": 7, "decay": 0.8, "prior_words": 2.0},
    {"window": 3, "decay": 1.0, "prior_words": 0.1},
    {"window": 1000, "decay": 0.999},
]
NEURAL = [
    {"window": 7, "sharpness": 3.0, "prior_words": 0.5},
    {"window": 4, "sharpness": 30.0, "decay": 0.7, "prior_words": 0.01},
    {"window": 1000, "sharpness": 0.0},
]


def check(cache, expected_of):
    rng = np.random.default_rng(1)
    words = rng.integers(0, len(cache.vocabulary), 25).tolist()
    state, found = cache.start(), []
    for t, word in enumerate(words):
        row = np.exp(cache.log_probs([state])[0])
        np.testing.assert_allclose(row, expected_of(cache, words[:t]), rtol=1e-4)
        assert row.sum() == pytest.approx(1, abs=1e-9)
        found.append(np.log(row[word]))
        state = cache.advance(state, word)
    ids = np.array(words, np.int32)
    np.testing.assert_allclose(cache.score_corpus(ids, np.array([0, 25])), found, atol=1e-4)
    first, middle = cache.score_from(cache.start(), ids[:11])
    second, last = cache.score_from(middle, ids[11:])
    np.testing.assert_allclose(np.concatenate([first, second]), found, atol=1e-4)
    np.testing.assert_allclose(cache.log_probs([last]), cache.log_probs([state]), atol=1e-5)


@pytest.mark.parametrize("options", UNIGRAM, ids=str)
def test_a_unigram_cache_is_what_its_equation_says(options):
    check(UnigramCache(**options).fit(corpus()), by_hand)


@pytest.mark.parametrize("model", [HLBL(**HLBL_SMALL), RecurrentLM(**RECURRENT_SMALL)], ids=str)
@pytest.mark.parametrize("options", NEURAL, ids=str)
def test_a_neural_cache_is_what_its_equation_says(options, model, monkeypatch):
    monkeypatch.setattr(neural, "_ROWS_PER_BLOCK", 4)
    monkeypatch.setattr(neural, "_WORDS_PER_BLOCK", 10)
    check(NeuralCache.over(model.fit(corpus()), **options), by_hand_neural)


@pytest.mark.parametrize("across", [True, False])
def test_vectors_of_a_text_are_those_of_its_states(across):
    """For both models that have them, whose contexts may end with the sentence."""
    ids = np.array([1, 3, 0, 0, 4, 2, 0, 5], np.int32)
    ids[ids == 0] = corpus().vocabulary.boundary_id
    for model in (
        HLBL(**HLBL_SMALL, across_sentences=across),
        RecurrentLM(**RECURRENT_SMALL, across_sentences=across),
    ):
        state, expected = model.fit(corpus()).start(), []
        for word in ids.tolist():
            expected.append(model.state_vectors([state])[0])
            state = model.advance(state, word)
        first, middle = model.vectors_from(model.start(), ids[:3])
        second, last = model.vectors_from(middle, ids[3:])
        np.testing.assert_allclose(np.concatenate([first, second]), expected, rtol=0, atol=1e-5)
        np.testing.assert_allclose(model.log_probs([last]), model.log_probs([state]), atol=1e-4)
        nothing, same = model.vectors_from(middle, ids[:0])
        assert len(nothing) == 0
        assert same == middle


@settings(max_examples=60)
@given(
    st.lists(st.lists(st.integers(0, 4), max_size=12), max_size=5),
    st.lists(st.floats(0, 2), min_size=1, max_size=15),
)
def test_recent_words_weigh_what_a_loop_says(sequences, weights):
    ids = np.array([word for sequence in sequences for word in sequence], np.int32)
    offsets = np.cumsum([0, *map(len, sequences)])
    expected = [
        sum(w for w, past in zip(weights, reversed(sequence[:t]), strict=False) if past == word)
        for sequence in sequences
        for t, word in enumerate(sequence)
    ]
    np.testing.assert_allclose(
        sum_recent_weights(ids, offsets, np.array(weights)), expected, atol=1e-12
    )


@pytest.mark.parametrize("window", [1, 3, 50])
@pytest.mark.parametrize("first", [0, 2, 7])
def test_entries_alike_weigh_what_a_loop_says(first, window):
    rng = np.random.default_rng(0)
    words = rng.integers(0, 3, first + 9).astype(np.int32)
    weights = rng.random((9, first + 9), np.float32)
    hits, totals = sum_matching_weights(weights, words, first, window)
    for r in range(9):
        places = range(max(0, first + r - window), first + r)
        assert totals[r] == pytest.approx(sum(weights[r, i] for i in places), rel=1e-6)
        right = sum(weights[r, i] for i in places if words[i] == words[first + r])
        assert hits[r] == pytest.approx(right, rel=1e-6)


def test_a_text_that_repeats_itself_gains_by_a_cache(hlbl):
    topics = np.random.default_rng(0).integers(0, 8, 40)
    sentences = [[f"w{topic}", f"w{topic + 1}"] * 4 for topic in topics for _ in range(6)]
    ngrams = KneserNey(order=1).fit(corpus())
    unigram = UnigramCache(window=20, prior_words=1.0).fit(corpus())
    for cache in (unigram, NeuralCache.over(hlbl, window=20)):
        both = Mixture({"kn": ngrams, "cache": cache}).fit_weights(sentences)
        alone = ngrams.perplexity(sentences)
        assert both.perplexity(sentences, context="stream") < 0.7 * alone
        assert both.own_context == "stream"


def test_a_neural_cache_over_a_fitted_model_needs_no_fit_and_leaves_it_alone(hlbl, tmp_path):
    cache = NeuralCache.over(hlbl, window=20)
    assert cache.model is hlbl
    assert cache.is_fitted
    cache.save(tmp_path / "cache")
    again = NeuralCache.load(tmp_path / "cache")
    sentence = "w1 w2 w3 w1 w2"
    np.testing.assert_array_equal(again.surprisal(sentence), cache.surprisal(sentence))
    np.testing.assert_array_equal(again.model.surprisal(sentence), hlbl.surprisal(sentence))


def test_a_cache_follows_a_model_that_is_fitted_again_on_the_same_corpus():
    """The vocabulary stays the same object, and the vectors, whose distances are measured, do not."""
    text = corpus()
    model = HLBL(**HLBL_SMALL).fit(text)
    cache = NeuralCache.over(model)
    before = cache.surprisal("w1 w2 w1")
    model.fit(as_corpus([*(["w1", "w2", "w1"] for _ in range(40))], text.vocabulary))
    assert model.vocabulary is text.vocabulary
    np.testing.assert_array_equal(
        cache.surprisal("w1 w2 w1"), NeuralCache.over(model).surprisal("w1 w2 w1")
    )
    assert not np.array_equal(cache.surprisal("w1 w2 w1"), before)


def test_a_cache_has_the_facts_of_the_last_fit_of_its_model(tmp_path):
    """Also if the model was not fitted when the cache was made, and of a cache that was fitted before."""
    model = HLBL(**HLBL_SMALL)
    over, own = NeuralCache.over(model), NeuralCache(hlbl=HLBL_SMALL)
    with pytest.raises(NotFittedError, match="this NeuralCache is not fitted"):
        over.surprisal("w1")
    assert (over.is_fitted, over.fitted_on) == (False, {})
    own.fit(corpus(), valid=text(5, seed=1))
    assert [figure["text"] for figure in own.figures] == ["validation text"]
    for words in (text(), [["one", "two", "three"]] * 5):
        for cache, inner in ((over, model), (own, own.model)):
            inner.fit(words)
            assert cache.figures == []
            assert cache.is_fitted
            assert cache.fitted_on == inner.fitted_on
            inner.fit(words[:4])  # and what is saved adapts without another call
            cache.save(tmp_path / "cache")
            assert NeuralCache.load(tmp_path / "cache").fitted_on == inner.fitted_on
            line = np.zeros(1, np.int32), np.array([0, 1])
            assert find_lines(cache, *line) == find_lines(inner, *line)


def test_a_cache_keeps_its_figures_when_a_note_is_added_to_the_facts_of_its_model(hlbl):
    cache = NeuralCache.over(hlbl)
    cache.record(text(5, seed=1), "other text")
    facts = hlbl.fitted_on
    hlbl.fitted_on = {**facts, "note": "x"}
    assert [figure["text"] for figure in cache.figures] == ["other text"]
    hlbl.fitted_on = facts


def test_a_fit_of_a_neural_cache_is_that_of_its_model(tmp_path):
    cache = NeuralCache(hlbl=HLBL_SMALL).fit(corpus(), checkpoints=tmp_path)
    model = HLBL(**HLBL_SMALL).fit(corpus())
    for name, array in model.arrays().items():
        np.testing.assert_array_equal(cache.model.arrays()[name], array)
    assert any(tmp_path.rglob("*"))


def test_marks_that_are_kept_are_those_of_its_model():
    marked, marks = "a b </s> c\nb c\n" * 3, "keep"
    model = RecurrentLM(**RECURRENT_SMALL).fit(marked, marks=marks)
    cache = NeuralCache.over(RecurrentLM(**RECURRENT_SMALL)).fit(marked, marks=marks)
    mixture = Mixture([NeuralCache.over(RecurrentLM(**RECURRENT_SMALL))]).fit(marked, marks=marks)
    expected = NeuralCache.over(model).surprisal("a b c")
    for found in (cache, mixture):
        assert found.fitted_on["n_sentences"] == model.fitted_on["n_sentences"]
        np.testing.assert_allclose(found.surprisal("a b c"), expected, rtol=1e-12)
    own = NeuralCache(hlbl=HLBL_SMALL).fit(marked, marks=marks)
    assert own.fitted_on["n_sentences"] == model.fitted_on["n_sentences"]


def test_a_cache_says_the_settings_of_the_model_that_it_fitted_and_of_no_other(hlbl, tmp_path):
    own = NeuralCache(hlbl=HLBL_SMALL).fit(corpus())
    over = NeuralCache.over(hlbl, window=20)
    for cache, names in ((own, set(hlbl.config_dict()["settings"])), (over, set())):
        assert set(cache.card["settings"].get("hlbl", ())) == names
        cache.save(tmp_path / "cache")
        again = NeuralCache.load(tmp_path / "cache")
        assert again.card["settings"] == cache.card["settings"]
        assert again.settings.window == cache.settings.window


def test_a_cache_that_was_saved_with_settings_of_a_model_it_does_not_have_is_loaded(hlbl):
    cache = NeuralCache.over(hlbl, window=20)
    earlier = {"settings": cache.settings.to_dict()}
    assert earlier["settings"]["hlbl"]["device"] == "auto"
    again = NeuralCache.from_arrays(earlier, cache.arrays(), nested={"model": hlbl})
    np.testing.assert_array_equal(again.surprisal("w1 w2 w1"), cache.surprisal("w1 w2 w1"))


def test_what_has_no_vectors_is_refused(hlbl, tmp_path):
    ngrams = KneserNey(order=2).fit(corpus())
    with pytest.raises(ConfigurationError, match="a KneserNey has none"):
        NeuralCache.over(ngrams)
    with pytest.raises(ConfigurationError, match="leave out hlbl"):
        NeuralCache.over(hlbl, hlbl={"width": 3})
    cache = NeuralCache.over(hlbl)
    for nested in ({}, {"model": ngrams}):
        with pytest.raises(ArtifactError, match="its model does not fit"):
            NeuralCache.from_arrays(cache.config_dict(), cache.arrays(), nested=nested)


def test_the_command_line_makes_caches_and_mixes_them(printed, refused, write_file, hlbl, tmp_path):
    lines = write_file("text", "\n".join(map(" ".join, text())))
    hlbl.save(tmp_path / "hlbl")
    printed("cache", tmp_path / "hlbl", "-o", tmp_path / "neural", "--set", "window=20")
    assert NeuralCache.load(tmp_path / "neural").settings.window == 20
    printed("fit", "--model", "unigram_cache", "--text", lines, "-o", tmp_path / "c")
    folders = [tmp_path / name for name in ("hlbl", "neural", "c")]
    printed("mix", *folders, "--valid", lines, "-o", tmp_path / "mixed")
    assert "perplexity" in printed("perplexity", tmp_path / "mixed", lines, "--context", "stream")
    for model, *more, said in (
        ("c", "a UnigramCache has none"),
        ("hlbl", "--set", "window=0", "window must be"),
        ("hlbl", "--set", "hlbl.width=3", "takes the vectors of that model: leave out hlbl"),
    ):
        assert said in refused("cache", tmp_path / model, "-o", tmp_path / "x", *more)
