"""Training: that it learns, goes on after it was killed, and walks a text as it says."""

from dataclasses import replace

import numpy as np
import pytest

from support.texts import text
from tacenda import Corpus
from tacenda.errors import ConfigurationError, CorpusError, NotFittedError
from tacenda.fitting import StepResult
from tacenda_lm import FRBM, KneserNey, TemporalFRBM
from tacenda_lm.boltzmann import model
from tacenda_lm.boltzmann.model import BoltzmannTrainer, TemporalTrainer, draw_parameters
from tacenda_lm.streams import Stream

SMALL = {"features": 8, "hidden": 12, "epochs": 6, "batch_words": 32}
TEMPORAL = {**SMALL, "epochs": 5, "frbm_epochs": 2, "piece_words": 4}
DIVERGENCE = {"learning": "divergence", "learning_rate": 0.2}
MEAN_FIELD = {**DIVERGENCE, "learning": "mean_field"}


def echoes(n=500, seed=0):
    """Sentences whose last word is their first, five words later."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(n):
        first = f"first{rng.integers(4)}"
        found.append([first, *(f"w{i}" for i in rng.integers(0, 3, 4)), first])
    return found


@pytest.mark.parametrize("n", [55, 155])
@pytest.mark.parametrize("kind", [FRBM, TemporalFRBM])
def test_defaults_beat_a_unigram_model_on_a_small_text(kind, n):
    """Some 300 and some 850 tokens: with steps of a thousand words an epoch would be one step."""
    corpus = Corpus.from_sentences(text(n))
    unigram = KneserNey(order=1).fit(corpus)
    found = kind().fit(corpus).perplexity(text(40, 1), context="stream")
    assert found < unigram.perplexity(text(40, 1), context="stream")


@pytest.mark.parametrize(
    ("n", "steps", "size"), [(160, 16, 10), (16_000, 16, 1000), (40_500, 41, 1000)]
)
@pytest.mark.parametrize("kind", [FRBM, TemporalFRBM])
def test_an_epoch_of_a_small_text_has_sixteen_steps_and_others_are_as_asked(
    kind, n, steps, size, monkeypatch
):
    seen, trainer = [], BoltzmannTrainer if kind is FRBM else TemporalTrainer

    def step(self, batch, learning_rate):
        if kind is FRBM:
            seen.append(len(batch[0]))
        else:
            seen.append((self.source.positions(batch) >= 0).sum())
        self.draw()
        return StepResult(0.0, 1.0)

    monkeypatch.setattr(trainer, "step", step)
    options = {} if kind is FRBM else {"frbm_epochs": 0}
    kind(epochs=1, features=2, hidden=2, **options).fit([["a"] * (n - 1)])
    # the parts hold the `</s>` before the text too, which may take a step of its own
    assert (len(seen) - steps in (0, 1), seen[0]) == (True, size)


@pytest.mark.parametrize("how", [{}, DIVERGENCE, MEAN_FIELD])
@pytest.mark.parametrize(
    ("sentences", "options"),
    [
        (["the cat sat on the mat ."], {}),
        (["the cat sat on the mat .", "the dog sat on the log ."], {}),
        (["yes", "no"] * 30, {"across_sentences": False}),
    ],
)
def test_a_step_in_which_every_word_only_opens_a_sequence_learns_nothing(how, sentences, options):
    """With pieces of one word: nothing moves, and nothing is counted."""
    lines = [line.split() for line in sentences]
    options = {**options, **how, "piece_words": 1, "frbm_epochs": 0, "features": 3, "hidden": 4}
    model = TemporalFRBM(**options, epochs=2).fit(lines)
    for name, array in model.arrays().items():
        assert array.dtype.kind != "f" or np.isfinite(array).all(), name
    corpus = Corpus.from_sentences(lines)
    parameters = draw_parameters(model.settings, corpus)
    parameters = replace(parameters, transitions=np.zeros((4, 4), np.float32))
    stream = Stream.of_corpus(corpus, model.settings.across_sentences)
    trainer = TemporalTrainer(model.settings, parameters, stream, None)
    opening = np.flatnonzero(stream.firsts)[None]
    trainer.source.positions = lambda batch: opening
    trainer.carried = np.ones((opening.size, 4), np.float32)
    before = {name: table.copy() for name, table in trainer.tables.items()}
    result = trainer.step((0, 1), 0.1)
    assert (result.loss, result.units) == (0, 0)
    assert not trainer.carried.any()
    for name, table in trainer.tables.items():
        np.testing.assert_array_equal(table, before[name])


def test_the_temporal_model_remembers_what_the_plain_one_does_not_see():
    held_out = echoes(60, 2)
    options = {"features": 10, "hidden": 20, "batch_words": 64, "learning_rate": 0.15}
    plain = FRBM(epochs=12, **options).fit(echoes())
    temporal = TemporalFRBM(frbm_epochs=2, epochs=14, piece_words=8, **options).fit(echoes())
    worst, best = (m.perplexity(held_out, context="stream") for m in (plain, temporal))
    assert best < 0.9 * worst


def test_a_temporal_model_that_has_not_learned_yet_is_the_machine_it_begins_with():
    plain = FRBM(**SMALL).fit(text())
    begun = TemporalFRBM.starting_from(plain, epochs=0).fit(text())
    ids, offsets = np.array([1, 2, 3, 0, 4]), np.array([0, 5])
    np.testing.assert_array_equal(
        begun.score_corpus(ids, offsets), plain.score_corpus(ids, offsets)
    )
    assert not begun.parameters.transitions.any()


def test_training_can_begin_with_a_machine_that_was_trained_before(tmp_path):
    """As it does by itself; what was given is left as it is."""
    plain = FRBM(**{**SMALL, "epochs": TEMPORAL["frbm_epochs"]}).fit(text())
    before = {name: array.copy() for name, array in plain.arrays().items()}
    alone = TemporalFRBM(**TEMPORAL).fit(text())
    options = {"epochs": TEMPORAL["epochs"], "piece_words": TEMPORAL["piece_words"]}
    given = TemporalFRBM.starting_from(plain, **options).fit(text())
    for name, array in alone.arrays().items():
        np.testing.assert_array_equal(array, given.arrays()[name])
    for name, array in before.items():
        np.testing.assert_array_equal(array, plain.arrays()[name])


def test_a_loaded_model_is_not_fitted_again_without_the_machine_it_began_with(tmp_path):
    plain = FRBM(**SMALL).fit(text())
    begun = TemporalFRBM.starting_from(plain, epochs=0).fit(text())
    assert begun.fitted_on["begin"] == plain.parameters.fingerprint()
    assert begun.fit(text()).fitted_on["begin"] == plain.parameters.fingerprint()
    begun.save(tmp_path / "begun")
    loaded = TemporalFRBM.load(tmp_path / "begun")
    with pytest.raises(ConfigurationError, match="is not saved with the model"):
        loaded.fit(text())
    np.testing.assert_array_equal(loaded.parameters.words, plain.parameters.words)
    assert "begin" not in TemporalFRBM.from_settings(begun.settings).fit(text()).fitted_on


def test_a_machine_that_cannot_be_begun_with_is_refused():
    plain = FRBM(**SMALL).fit(text())
    with pytest.raises(ConfigurationError, match="hidden is 12 in the FRBM"):
        TemporalFRBM.starting_from(plain, hidden=7)
    with pytest.raises(NotFittedError, match="FRBM"):
        TemporalFRBM.starting_from(FRBM())
    remembers = TemporalFRBM(**{**TEMPORAL, "epochs": 1, "frbm_epochs": 0}).fit(text())
    for other in (remembers, TemporalFRBM(), KneserNey(), None):
        said = f"begins with a fitted FRBM, not with {type(other).__name__}: give"
        with pytest.raises(ConfigurationError, match=said):
            TemporalFRBM.starting_from(other)
    with pytest.raises(CorpusError, match="vocabulary"):
        TemporalFRBM.starting_from(plain).fit([["another", "text"]] * 30)


@pytest.mark.parametrize("n", [1, 2, 39, 40, 41, 997])
@pytest.mark.parametrize(("batch", "piece"), [(1, 1), (40, 1), (40, 7), (1000, 10)])
def test_pieces_hold_every_word_once_and_in_order(n, batch, piece):
    stream = Stream(np.zeros(n, np.int32), np.array([0, n]))
    settings = TemporalFRBM(batch_words=batch, piece_words=piece, features=2, hidden=2).settings
    parameters = draw_parameters(settings, Corpus.from_sentences([["a"]]))
    source = TemporalTrainer(settings, parameters, stream, None).source
    seen = [[] for _ in range(source.parts)]
    firsts = list(source.batches(0))
    assert len(firsts) == source.n_batches(0)
    assert list(source.batches(0, skip=1)) == firsts[1:]
    for first in firsts:
        places = source.positions(first)
        inside = places >= 0
        assert len(places) <= piece
        assert inside.sum() <= batch
        for own, column, there in zip(seen, places.T, inside.T, strict=True):
            own += column[there].tolist()
    assert [place for own in seen for place in own] == list(range(n))
    assert all(own == sorted(own) for own in seen)


def test_weight_decay_shrinks_weights_and_the_features_of_words_of_the_step_alone(monkeypatch):
    monkeypatch.setattr(model, "_FEATURE_DECAY", 0.1)
    monkeypatch.setattr(model, "_WEIGHT_DECAY", 0.2)
    settings, corpus = FRBM(**SMALL).settings, Corpus.from_sentences(text())
    parameters = draw_parameters(settings, corpus)
    trainer = BoltzmannTrainer(settings, parameters, Stream.of_corpus(corpus, True), None)
    moved = {}
    trainer.move = lambda name, rows, slope, rate: moved.update({name: slope})
    nothing = {name: np.zeros_like(table) for name, table in trainer.tables.items()}
    nothing["words"][3] = 1
    trainer.climb(nothing, 10, 0.1)
    np.testing.assert_allclose(moved["outputs"], 10 * 0.2 * parameters.outputs, rtol=1e-6)
    np.testing.assert_allclose(moved["words"][3], 10 * 0.1 * parameters.words[3] - 1, rtol=1e-6)
    others = np.delete(moved["words"], 3, axis=0)
    assert not any(array.any() for array in (others, moved["hidden_biases"], moved["biases"]))
