"""HLBL: training that can be cut, repeated and stopped; streams; what is refused."""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import tacenda
from tacenda.corpus import Corpus
from tacenda.errors import ArtifactError, ConfigurationError, FittingError
from tacenda.fitting import Callback
from tacenda_lm import HLBL, KneserNey, Mixture, training
from tacenda_lm.log_bilinear.hlbl import HLBLSettings, HLBLTrainer

ADVANCED = {"bootstrap_width": 8, "piece_words": 16}
SMALL = {"width": 12, "context": 2, "epochs": 3, "copies": 2, "advanced": ADVANCED}


def text(n=150, seed=0):
    """Every word says much of the next one."""
    rng = np.random.default_rng(seed)
    sentences = []
    for _ in range(n):
        word, sentence = int(rng.integers(12)), []
        for _ in range(int(rng.integers(1, 9))):
            sentence.append(f"w{word}")
            word = (word * 5 + int(rng.integers(3))) % 12
        sentences.append(sentence)
    return sentences


@pytest.fixture(scope="module")
def model():
    return HLBL(**SMALL).fit(text(), valid=text(30, 1))


def same(a, b):
    return all((x == b.arrays()[name]).all() for name, x in a.arrays().items())


def test_it_learns_what_follows_what(model):
    unigram = KneserNey(order=1).fit(text())
    assert model.perplexity(text(30, 2), context="stream") < 0.8 * unigram.perplexity(text(30, 2))


def test_the_number_of_threads_changes_nothing(model):
    assert same(HLBL(**SMALL, threads=3).fit(text(), valid=text(30, 1)), model)


def test_another_seed_is_another_model(model):
    assert not np.array_equal(
        HLBL(**SMALL, seed=1).fit(text()).parameters.bias, model.parameters.bias
    )


def test_nan_in_training_keeps_the_best_model(monkeypatch):
    step = HLBLTrainer.step

    def diverges(self, batch, rate):
        if self.current.words.shape[1] == SMALL["width"] and self.steps > 25:
            self.current.words[:] = np.nan
        return step(self, batch, rate)

    monkeypatch.setattr(HLBLTrainer, "step", diverges)
    with pytest.warns(RuntimeWarning, match="kept"):
        model = HLBL(**SMALL).fit(text(), valid=text(30, 1))
    assert np.isfinite(model.parameters.words).all()
    assert model.perplexity(text(30, 2)) < 20


def test_a_rate_that_is_far_too_high_from_the_start_is_an_error(monkeypatch):
    def diverges(self, batch, rate):
        return float("nan"), 1.0

    monkeypatch.setattr(HLBLTrainer, "step", diverges)
    with pytest.raises(FittingError, match="learning rate"):
        HLBL(**SMALL).fit(text())


def test_a_stream_is_measured_in_its_context(model):
    held_out = text(40, 3)
    vocabulary, end = model.vocabulary, model.vocabulary.boundary_id
    ids = [i for s in held_out for i in [*vocabulary.encode(s).tolist(), end]]
    scores = model.score_corpus(np.array(ids), np.array([0, len(ids)]))
    found = model.perplexity(held_out, context="stream")
    assert found == pytest.approx(np.exp(-scores.mean()), rel=1e-6)
    assert found != model.perplexity(held_out)
    assert found.context == "stream"
    assert "stream" in found.protocol
    assert model.figures[0]["context"] == "stream"


def test_without_context_across_sentences_both_measures_agree():
    model = HLBL(**SMALL, across_sentences=False).fit(text())
    held_out = text(40, 3)
    assert model.perplexity(held_out, context="stream") == pytest.approx(
        model.perplexity(held_out), rel=1e-5
    )
    assert model.own_context == "sentence"


def test_a_mixture_fits_its_weights_on_the_stream(model):
    ngrams = KneserNey(order=2).fit(Corpus.from_sentences(text(), vocabulary=model.vocabulary))
    mixture = Mixture([model, ngrams]).fit_weights(text(30, 1))
    found = mixture.perplexity(text(30, 1), context="stream")
    for each in (model, ngrams):
        assert found <= each.perplexity(text(30, 1), context="stream") + 1e-6
    assert mixture.own_context == "stream"


def test_the_perplexity_of_an_unknown_context_is_refused(model):
    with pytest.raises(ConfigurationError, match="document"):
        model.perplexity(text(3), context="document")


@pytest.mark.parametrize(
    "wrong",
    [
        {"width": 0},
        {"context": -1},
        {"context": 2.0},
        {"tree": "huffman"},
        {"copies": 0},
        {"dropout": 1.0},
        {"learning_rate": float("nan")},
        {"across_sentences": 1},
        {"epochs": True},
        {"no_such": 1},
    ],
)
def test_settings_out_of_range_are_refused(wrong):
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        HLBL(**wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {"tail_rates": [1.0]},
        {"tail_rates": [0.5, "x"]},
        {"tail_rates": 0.5},
        {"overlap": 0.5},
        {"batch_pieces": 0},
        {"no_such": 1},
    ],
)
def test_advanced_settings_out_of_range_are_refused(wrong):
    with pytest.raises(ConfigurationError, match=f"HLBL.*{next(iter(wrong))}"):
        HLBL(advanced=wrong)


@pytest.mark.parametrize(
    "idle",
    [
        {"tree": "random", "advanced": {"bootstrap_width": 8}},
        {"tree": "random", "advanced": {"frequency_power": 0.0}},
        {"tree": "balanced", "advanced": {"overlap": 0.2}},
        {"advanced": {"tail_rates": (), "far_words": True}},
    ],
)
def test_settings_without_effect_are_refused(idle):
    name = list(idle["advanced"])[-1]
    with pytest.raises(ConfigurationError, match=rf"HLBL: advanced\.{name} has no effect"):
        HLBL(**idle)


def test_settings_come_back_from_json():
    settings = HLBLSettings(tree="noisy", advanced={"tail_rates": [0.5, 0.9]})
    assert settings.advanced.tail_rates == (0.5, 0.9)
    assert HLBLSettings.from_dict(json.loads(json.dumps(settings.to_dict()))) == settings


def test_a_tree_of_another_vocabulary_in_an_artefact_is_refused(model):
    other = HLBL(**SMALL).fit([["a", "b", "c"], ["b"]])
    arrays = {**model.arrays(), **other.tree.arrays()}
    with pytest.raises(ArtifactError, match="tree"):
        HLBL.from_arrays(model.config_dict(), arrays)


def test_scores_agree_with_the_distribution_and_with_single_words(model):
    ids = np.concatenate([model.vocabulary.encode(sentence) for sentence in text(20, 4)])
    whole = np.array([0, len(ids)])
    scores = model.score_corpus(ids, whole)
    rows = np.concatenate(list(model.distributions(ids, whole)))
    np.testing.assert_allclose(scores, rows[np.arange(len(ids)), ids], 0, 1e-4)
    state, states = model.start(), []
    for word in ids.tolist():
        states.append(state)
        state = model.advance(state, word)
    np.testing.assert_allclose(model.log_prob(states, ids), scores, 0, 1e-4)


@pytest.mark.parametrize("cut", [0, 1, 7, 40])
def test_a_stream_cut_anywhere_has_the_very_scores_of_the_whole(model, cut):
    ids = np.concatenate([model.vocabulary.encode(sentence) for sentence in text(20, 4)])
    whole = model.score_corpus(ids, np.array([0, len(ids)]))
    first, state = model.score_from(model.start(), ids[:cut])
    second, _ = model.score_from(state, ids[cut:])
    np.testing.assert_array_equal(np.concatenate([first, second]), whole)


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 8])
def test_a_sentence_that_begins_a_block_knows_nothing_of_the_one_before(model, rows, monkeypatch):
    monkeypatch.setattr("tacenda_lm.log_bilinear.hlbl._ROWS", rows)
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 9, 40)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    ids = rng.integers(0, len(model.vocabulary), offsets[-1]).astype(np.int32)
    apart = [model.score_corpus(ids[i:j], np.array([0, j - i])) for i, j in pairwise(offsets)]
    np.testing.assert_allclose(
        model.score_corpus(ids, offsets), np.concatenate(apart), rtol=0, atol=2e-5
    )


def test_a_model_fitted_again_scores_with_its_new_parameters(model):
    again = HLBL(**SMALL).fit(text(seed=7))
    before = again.perplexity(text(30, 2))
    again.fit(text())
    assert again.perplexity(text(30, 2)) != before


def test_progress_is_saved_with_the_model(model, tmp_path):
    model.save(tmp_path / "m")
    loaded = tacenda.load(tmp_path / "m")
    assert loaded.fitted_on["training"]["epochs"] == 3
    assert loaded.fitted_on["tree"]["codes_per_word"] == 2
    assert loaded.tree.statistics(model.vocabulary.counts)._asdict() == pytest.approx(
        model.tree.statistics(model.vocabulary.counts)._asdict()
    )


def test_the_learning_rate_falls_to_a_tenth():
    rates = []

    class Watch(Callback):
        def on_step(self, run):
            rates.append(run.learning_rate)

    original = training.fit
    try:
        training.fit = lambda trainer, source, loop, run, identity: original(
            trainer, source, loop, replace(run, callbacks=[Watch()]), identity
        )
        HLBL(**{**SMALL, "tree": "random", "advanced": {"piece_words": 16}}).fit(text())
    finally:
        training.fit = original
    assert max(rates) == pytest.approx(0.1, rel=0.1)
    assert rates[-1] == pytest.approx(0.01, rel=0.2)
    assert rates[0] < 0.05
