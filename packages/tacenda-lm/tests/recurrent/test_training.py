"""Training: how a text is cut, how the learning rate falls, and a fit that is killed."""

import numpy as np
import pytest

from support.texts import text
from tacenda import Corpus
from tacenda.errors import FittingError
from tacenda.fitting import Position
from tacenda.fitting.trainer import pack
from tacenda_lm import KneserNey, RecurrentLM
from tacenda_lm.recurrent import model as of_model
from tacenda_lm.recurrent.model import (
    FallingAfter,
    RecurrentLMSettings,
    RecurrentTrainer,
    ReduceOnPlateau,
)
from tacenda_lm.streams import RingWindows, Stream

SMALL = {"width": 8, "streams": 4, "window_words": 5, "epochs": 3}


@pytest.mark.parametrize(
    ("n", "streams", "window"), [(103, 4, 7), (5, 20, 3), (1, 1, 1), (64, 8, 8)]
)
def test_an_epoch_reads_every_word_in_order_and_starts_elsewhere_next_time(n, streams, window):
    source = RingWindows(np.arange(n, dtype=np.int32), streams, window, seed=0)
    for epoch in (0, 1):
        batches = list(source.batches(epoch))
        assert len(batches) == source.n_batches(epoch)
        assert [first for _, first in batches] == [True] + [False] * (len(batches) - 1)
        places = np.concatenate([rows for rows, _ in batches])  # (words of a stream, streams)
        np.testing.assert_array_equal(np.diff(places, axis=0) % n, 1 % n)
        seen = np.bincount(places.ravel(), minlength=n)
        assert seen.min() >= 1
        assert places.size < n + streams
        skipped = list(source.batches(epoch, skip=1))
        for (rows, first), (same, also) in zip(batches[1:], skipped, strict=True):
            np.testing.assert_array_equal(rows, same)
            assert first == also
    cuts = {int(next(source.batches(epoch))[0][0, 0]) for epoch in range(8)}
    assert n == 1 or len(cuts) > 1


def test_streams_and_windows_identify_a_source():
    words = np.arange(50, dtype=np.int32)
    prints = {
        RingWindows(words, *options).fingerprint()
        for options in ((4, 5, 0), (5, 5, 0), (4, 6, 0), (4, 5, 1))
    }
    assert len(prints) == 4


def test_the_rate_falls_from_the_first_epoch_that_gains_too_little_until_the_next():
    schedule = ReduceOnPlateau(1.0, factor=0.5, least_gain=0.01)
    found = []
    for nats in (6.0, 5.0, 4.97, 4.5, 4.4, 4.39):
        schedule.observe(nats)
        found.append((schedule.at(Position(0, 0, 0.0)), schedule.settled))
    assert found == [(1, False), (1, False), (0.5, False), (0.25, False), (0.125, False), (0.0625, True)]  # fmt: skip


@pytest.mark.parametrize("nats", [7.0, np.nan])
def test_a_worse_epoch_gains_too_little(nats):
    schedule = ReduceOnPlateau(1.0, factor=0.5, least_gain=0.0)
    schedule.observe(6.0)
    schedule.observe(nats)
    assert schedule.at(Position(0, 0, 0.0)) == 0.5
    schedule.observe(6.0)  # no worse than the best
    assert not schedule.settled


def test_without_held_out_text_the_rate_is_constant_and_then_falls():
    schedule = FallingAfter(2.0, factor=0.5, epochs=3)
    assert [schedule.at(Position(0, epoch, 0.0)) for epoch in range(6)] == [2, 2, 2, 1, 0.5, 0.25]
    model = RecurrentLM(**{**SMALL, "epochs": 5}).fit(text())
    assert model.fitted_on["training"]["learning_rates"] == [1, 1, 1, 0.5, 0.25]


def test_training_ends_when_the_schedule_says_so(monkeypatch):
    monkeypatch.setattr(of_model, "_MIN_GAIN", 0.2)
    model = RecurrentLM(**{**SMALL, "epochs": 40})
    training = model.fit(text(), valid=text(30, 1)).fitted_on["training"]
    assert training["stopped"] == "callback"
    assert training["epochs"] == 3  # any gain after nothing, then too little twice
    assert training["learning_rates"] == [1, 1, 0.5]


def test_it_begins_with_the_frequencies_of_the_words(monkeypatch):
    """So that no start is worse than a unigram model by more than its random numbers."""
    monkeypatch.setattr(of_model, "_INITIAL_SCALE", 0.0)
    model = RecurrentLM(**{**SMALL, "epochs": 0}).fit(text())
    unigram = KneserNey(order=1).fit(text())
    assert model.perplexity(text(30, 2)).value == pytest.approx(
        unigram.perplexity(text(30, 2)).value, rel=0.02
    )
    np.testing.assert_array_equal(model.parameters.biases, model.network.outputs[:, -1:])


def test_more_epochs_may_follow(tmp_path, monkeypatch):
    """With held-out text the number of epochs changes nothing before the last one."""
    texts = (text(), text(30, 1))
    monkeypatch.setattr(of_model, "_RATE_DECAY", 0.9)
    monkeypatch.setattr(of_model, "_MIN_GAIN", 0.0)  # never settled
    for epochs in (1, 2, 4):
        model = RecurrentLM(**{**SMALL, "epochs": epochs}).fit(*texts, checkpoints=tmp_path)
    whole = RecurrentLM(**{**SMALL, "epochs": 4}).fit(*texts)
    for name, array in whole.arrays().items():
        np.testing.assert_array_equal(model.arrays()[name], array)


def test_a_wild_rate_is_an_error_or_leaves_finite_numbers_and_warns_of_nothing(
    monkeypatch, recwarn
):
    """Held-out text shows after the first epoch that there is no model; without it nobody knows."""
    monkeypatch.setattr(of_model, "_MAX_GRADIENT_NORM", 1e9)
    monkeypatch.setattr(of_model, "_INITIAL_SCALE", 100.0)
    model = RecurrentLM(**SMALL, learning_rate=9e5)
    with pytest.raises(FittingError, match=r"^the evaluation is inf .*no model to keep"):
        model.fit(text(), valid=text(30, 1))
    model.fit(text())
    assert all(np.isfinite(part).all() for part in model.network)
    assert not list(recwarn)


def test_a_fit_that_diverges_is_ended_with_one_sentence(monkeypatch, recwarn):
    step = RecurrentTrainer.step

    def explodes(self, *arguments):
        with np.errstate(over="ignore"):
            self.network.outputs[...] *= 10
        return step(self, *arguments)

    monkeypatch.setattr(RecurrentTrainer, "step", explodes)
    with pytest.raises(FittingError, match=r"first epoch.*use a lower learning rate"):
        RecurrentLM(**SMALL).fit(text(), valid=text(30, 1))
    assert not list(recwarn)


def trainer_of(averaging):
    settings = RecurrentLMSettings(**SMALL, averaging=averaging)
    corpus, held_out = Corpus.from_sentences(text()), text(30, 1)
    stream = Stream.of_corpus(corpus, across=True)
    valid = Stream.of_corpus(Corpus.from_sentences(held_out, vocabulary=corpus.vocabulary), True)
    network, _ = RecurrentLM(**SMALL)._start_network(corpus, stream.ids[1:])
    return RecurrentTrainer(settings, network, stream, valid, ReduceOnPlateau(1.0))


def test_the_average_follows_the_parameters_as_a_plain_loop_says():
    trainer = trainer_of(0.9)
    source = RingWindows(trainer.ring, 4, 5, 0)
    expected = [table.astype(np.float64) for table in trainer.network]
    batches = [batch for epoch in range(5) for batch in source.batches(epoch)]
    assert len(batches) > 130  # beyond the first hundred steps every tenth counts
    for n, batch in enumerate(batches, start=1):
        trainer.step(batch, 0.5)
        every = 1 if n <= 100 else 10
        if n % every == 0:
            kept = min(0.9**every, n / (n + 10 * every))
            expected = [
                kept * a + (1 - kept) * p for a, p in zip(expected, trainer.network, strict=True)
            ]
    for average, table in zip(trainer.average, expected, strict=True):
        np.testing.assert_allclose(average, table, atol=1e-5)
    assert not np.allclose(trainer.average.outputs, trainer.network.outputs, atol=1e-3)


def test_the_model_is_the_average_and_without_averaging_the_parameters():
    for averaging in (0.9, 0.0):
        trainer = trainer_of(averaging)
        for batch in RingWindows(trainer.ring, 4, 5, 0).batches(0):
            trainer.step(batch, 1.0)
        same = np.array_equal(trainer.average.outputs, trainer.network.outputs)
        assert same == (averaging == 0)
        for name, table in pack(trainer.learned).items():
            np.testing.assert_array_equal(table, getattr(trainer.predictor().network, name))


def test_training_goes_on_from_loaded_averages():
    trainer, other = trainer_of(0.9), trainer_of(0.9)
    for batch in RingWindows(trainer.ring, 4, 5, 0).batches(0):
        trainer.step(batch, 1.0)
    other.load_parameters(pack(trainer.learned))
    for network in (other.network, other.average):
        np.testing.assert_array_equal(network.outputs, trainer.average.outputs)
