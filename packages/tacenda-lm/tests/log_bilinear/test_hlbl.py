"""HLBL: training that can be cut, repeated and stopped; streams; what is refused."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from support.texts import text
from tacenda.fitting import Callback
from tacenda_lm import HLBL, training
from tacenda_lm.log_bilinear.tree_building import average_predictions
from tacenda_lm.streams import Stream

SMALL = {"width": 12, "context": 2, "epochs": 3, "copies": 2}


@pytest.fixture(scope="module")
def model():
    return HLBL(**SMALL).fit(text(), valid=text(30, 1))


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


def test_words_are_clustered_by_what_their_contexts_predict_beyond_the_average_context(model):
    assert model.fitted_on["tree"]["codes_per_word"] == 2
    predictor, text_ids = model.learned, [model.vocabulary.encode(s) for s in text(20, 4)]
    ids = np.concatenate([[*each, predictor.boundary] for each in text_ids])
    state, predicted = predictor.start(), []
    for word in ids.tolist():
        predicted.append(predictor.vectors([state])[0])
        state = predictor.after(state, word)
    apart = np.array(predicted) - np.mean(predicted, axis=0)
    found = average_predictions(predictor, Stream.following(ids, [predictor.boundary]))
    for word in range(predictor.n_types):  # five contexts like the average one are counted too
        own = apart[ids == word]
        np.testing.assert_allclose(found[word], own.sum(axis=0) / (len(own) + 5), atol=1e-5)


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 8])
def test_a_sentence_that_begins_a_block_knows_nothing_of_the_one_before(model, rows, monkeypatch):
    monkeypatch.setattr("tacenda_lm.log_bilinear.hlbl._TOKENS_PER_BLOCK", rows)
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 9, 40)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    ids = rng.integers(0, len(model.vocabulary), offsets[-1]).astype(np.int32)
    apart = [model.score_corpus(ids[i:j], np.array([0, j - i])) for i, j in pairwise(offsets)]
    np.testing.assert_allclose(
        model.score_corpus(ids, offsets), np.concatenate(apart), rtol=0, atol=2e-5
    )


def test_the_learning_rate_falls_to_a_tenth(monkeypatch):
    rates = []

    class Watch(Callback):
        def on_step(self, run):
            rates.append(run.learning_rate)

    def fit(trainer, source, loop, run, identity, fit=training.fit):
        return fit(trainer, source, loop, replace(run, callbacks=[Watch()]), identity)

    monkeypatch.setattr(training, "fit", fit)
    HLBL(**SMALL, tree="random").fit(text())
    assert max(rates) == pytest.approx(0.1, rel=0.1)
    assert rates[-1] == pytest.approx(0.01, rel=0.2)
    assert rates[0] < 0.05
