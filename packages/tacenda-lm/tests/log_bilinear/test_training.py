"""Steps of training: how far they go."""

from dataclasses import replace

import numpy as np
import pytest

from tacenda.corpus import Corpus
from tacenda_lm import HLBL, build_tree
from tacenda_lm.log_bilinear import hlbl
from tacenda_lm.log_bilinear.hlbl import HLBLSettings, HLBLTrainer, Parameters
from tacenda_lm.streams import Stream

RATES = (0.5, 0.9, 0.99)


@pytest.fixture
def trainer():
    rng = np.random.default_rng(0)
    corpus = Corpus.from_sentences([[f"w{i}" for i in rng.integers(0, 20, 12)] for _ in range(50)])
    counts = corpus.type_counts
    tree = build_tree("random", len(counts))
    advanced = {"tail_rates": RATES}
    settings = HLBLSettings(width=24, context=3, dropout=0.0, advanced=advanced)
    parameters = Parameters.draw(settings, len(counts), tree.biases(counts), rng)
    return HLBLTrainer(settings, parameters, tree, Stream.of_corpus(corpus, True), None)


def test_the_weights_of_a_tail_move_less_the_longer_it_is(trainer):
    """The first step of AdaGrad is the learning rate for every row; a long tail would throw predictions about."""
    before = {name: table.copy() for name, table in trainer.tables.items()}
    trainer.step((np.array([1, 257]),), 0.1)
    for name, expected in (("positions", [0.1] * 3), ("tails", 0.1 * np.sqrt(1 - np.array(RATES)))):
        change = trainer.tables[name] - before[name]
        np.testing.assert_allclose(np.sqrt((change**2).mean(axis=1)), expected, 1e-2)


def test_columns_that_dropout_leaves_out_do_not_move(trainer, monkeypatch):
    """Predictions are sums of words times diagonal weights, so a column left out has no gradient anywhere."""
    kept = np.ones(24, np.float32)
    kept[[3, 11]] = 0
    monkeypatch.setattr(hlbl, "draw_dropout_mask", lambda shape, *_: np.tile(kept, (shape[0], 1)))
    trainer.settings = replace(trainer.settings, dropout=0.5)
    before = {name: trainer.tables[name].copy() for name in ("words", "positions", "bias")}
    trainer.step((np.array([1, 257]),), 0.1)
    for name, table in before.items():
        moved = (trainer.tables[name] != table).reshape(-1, 24).any(axis=0)
        np.testing.assert_array_equal(moved, kept == 1, name)


def test_a_fit_has_the_epochs_that_were_planned():
    text = [["a", "b", "c"], ["b", "c", "a", "a"]] * 8
    small = {"width": 4, "copies": 1}
    model = HLBL(**small).fit(text)
    assert model.settings.epochs is None
    assert model.fitted_on["training"]["epochs"] == 1 + 56 // (7 * 5) == 2
    assert HLBL(**small, epochs=3).fit(text).fitted_on["training"]["epochs"] == 3
