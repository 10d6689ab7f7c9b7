"""Fits that end by their text: the plan, or as soon as the model learns it by heart."""

import numpy as np
import pytest

from tacenda import Corpus
from tacenda_lm import HLBL, VLHMM

MODELS = {
    "hlbl": lambda **advanced: HLBL(
        width=16, copies=1, dropout=0.0, epochs=24, patience=24,
        advanced={"bootstrap_width": 4, "bootstrap_epochs": 1, **advanced},
    ),
    "vlhmm": lambda **advanced: VLHMM(
        n_classes=8, states_per_class=4, width=8, state_dropout=0.0, batch_words=256, epochs=24,
        patience=24, learning_rate=0.3, advanced={"averaging": 0.0, **advanced},
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def texts():
    """Random words: whatever is learned of the first text beyond the counts is wrong of the second."""
    rng = np.random.default_rng(0)
    words = [[f"w{word}" for word in rng.zipf(1.4, 8) if word < 60] for _ in range(160)]
    train = Corpus.from_sentences(words[:100])
    return train, Corpus.from_sentences(words[100:], vocabulary=train.vocabulary)


@pytest.mark.parametrize("name", MODELS)
def test_a_fit_ends_soon_after_it_has_settled_and_keeps_its_best(texts, name):
    train, valid = texts
    found = {share: MODELS[name](annealing=share).fit(train, valid) for share in (0, 0.5)}
    planned, annealed = (found[share].fitted_on["training"] for share in (0, 0.5))
    values = [value for _, _, value in planned["evaluations"]]
    settled = next(i for i in range(1, 24) if values[i] >= min(values[:i])) + 1
    assert planned["epochs"] == 24
    assert annealed["epochs"] == settled + max(1, round(settled / 2)) < 24
    assert annealed["evaluations"][:settled] == planned["evaluations"][:settled]
    rates = annealed["learning_rates"]
    assert rates[:settled] == planned["learning_rates"][:settled]
    assert rates[-1] < planned["learning_rates"][settled] / 2
    best = min(value for _, _, value in annealed["evaluations"])
    assert annealed["best"][2] == best <= min(values[:settled])
    figure = found[0.5].figures[0]["value"]
    assert figure == pytest.approx(best, rel=1e-3)


@pytest.mark.parametrize("name", MODELS)
def test_without_held_out_text_a_fit_keeps_to_the_plan(texts, name):
    train, _ = texts
    one, two = (MODELS[name](annealing=share).fit(train) for share in (0, 0.5))
    np.testing.assert_array_equal(one.score_batch(train), two.score_batch(train))
    assert two.fitted_on["training"]["epochs"] == 24
