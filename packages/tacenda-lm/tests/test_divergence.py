"""Fits whose learning rate is far too high: what is said of them, and what is left."""

import warnings

import numpy as np
import pytest

from tacenda.errors import FittingError
from tacenda_lm import FRBM, LBL
from tacenda_lm.training import perplexity_of


def text(n=150, seed=0):
    """Sentences in which a word says much of the next."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(n):
        word = int(rng.integers(12))
        found.append([f"w{word * 5**i % 12}" for i in range(int(rng.integers(1, 9)))])
    return found


@pytest.mark.parametrize(
    "model",
    [FRBM(features=4, hidden=5, epochs=3, learning_rate=1e4),
     LBL(width=4, epochs=3, learning_rate=100.0)],
    ids=["frbm", "lbl"],
)  # fmt: skip
def test_a_held_out_text_that_becomes_hopeless_in_the_first_epoch_is_one_error(model):
    """There is no model to keep but the untrained one, and numpy has nothing to say."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "hidden_sums runs on the slow reference kernel")
        with pytest.raises(
            FittingError, match=r"^the evaluation is inf .*first epoch.*no model to keep"
        ):
            model.fit(text(), text(30, 1))
    assert not model.is_fitted


def test_a_fit_that_becomes_hopeless_later_keeps_the_best_model(monkeypatch):
    from tacenda_lm.log_bilinear.lbl import LBLTrainer

    step = LBLTrainer.step

    def explodes(self, batch, rate):
        result = step(self, batch, rate)
        if self.steps == 41:
            for table in self.tables.values():
                table *= 1000
        return result

    small = {"width": 4, "batch_words": 32, "learning_rate": 0.05}
    expected = LBL(**small, epochs=1).fit(text(), text(30, 1))
    monkeypatch.setattr(LBLTrainer, "step", explodes)
    with pytest.warns(RuntimeWarning, match="the best model so far is kept"):
        model = LBL(**small, epochs=3).fit(text(), text(30, 1))
    assert model.perplexity(text(30, 1)) < 2 * expected.perplexity(text(30, 1))


@pytest.mark.parametrize(
    ("nats", "perplexity"),
    [(0.0, 1.0), (2.5, np.exp(2.5)), (1e4, np.inf), (np.inf, np.inf), (np.nan, np.nan)],
)
def test_a_perplexity_is_infinite_where_it_would_overflow(nats, perplexity):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_equal(perplexity_of(nats), perplexity)
