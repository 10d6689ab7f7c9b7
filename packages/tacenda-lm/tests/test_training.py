"""What training promises of every model: that it learns, can be killed anywhere, and what becomes of wild rates."""

import pickle
import warnings

import numpy as np
import pytest
import torch

from support.texts import text
from tacenda import Corpus
from tacenda.errors import CorpusError, FittingError
from tacenda.fitting.checkpoint import CheckpointFolder
from tacenda_lm import (
    FRBM,
    HLBL,
    HMM,
    LBL,
    VLHMM,
    KneserNey,
    RecurrentLM,
    StateSpaceLM,
    TemporalFRBM,
)
from tacenda_lm.boltzmann.model import BoltzmannTrainer, TemporalTrainer
from tacenda_lm.hidden_markov.hmm import BaumWelch
from tacenda_lm.hidden_markov.training import Trainer
from tacenda_lm.log_bilinear.hlbl import HLBLTrainer
from tacenda_lm.log_bilinear.lbl import LBLTrainer
from tacenda_lm.recurrent.model import RecurrentTrainer
from tacenda_lm.state_space.model import GradientTrainer, RulesTrainer
from tacenda_lm.training import compute_perplexity

TREE = {"width": 12, "context": 2, "epochs": 3, "copies": 2}
FLAT = {"width": 8, "context": 2, "epochs": 4, "batch_words": 32}
HIDDEN = {"n_classes": 5, "states_per_class": 4, "width": 8, "batch_words": 100, "epochs": 4}
MACHINE = {"features": 8, "hidden": 12, "epochs": 6, "batch_words": 32}
TEMPORAL = {**MACHINE, "epochs": 5, "frbm_epochs": 2, "piece_words": 4}
DIVERGENCE = {"learning": "divergence", "learning_rate": 0.2}
MEAN_FIELD = {**DIVERGENCE, "learning": "mean_field"}
STREAMS = {"width": 8, "streams": 4, "window_words": 5, "epochs": 3}
SPACE = {"order": 3, "internal": 4, "features": 5, "epochs": 3, "advanced": {"streams": 8}}
RUNS = {**SPACE, "advanced": {"streams": 8, "joint_order": 3, "joint_width": 4}}
RULES = {
    "order": 2, "internal": 3, "features": 4, "training": "rules", "inference": "map", "epochs": 4,
    "learning_rate": 0.3,
    "advanced": {"biases": False, "variance": 0.1, "streams": 16, "piece": 2, "last_piece": 10},
}  # fmt: skip

#: A model, and how much less its perplexity is than that of unigrams.
LEARN = [
    (VLHMM, HIDDEN, 0.8),
    (HLBL, TREE, 0.8),
    (LBL, FLAT, 0.85),
    (LBL, {**FLAT, "advanced": {"context_matrices": "full", "tied": False}}, 0.85),
    (LBL, {**FLAT, "loss": "nce", "epochs": 12, "advanced": {"noise_words": 60}}, 0.85),
    *((RecurrentLM, {**STREAMS, "epochs": 12, "across_sentences": x}, 0.85) for x in (True, False)),
    *((FRBM, {**MACHINE, "epochs": 8, **how}, 0.9) for how in ({}, DIVERGENCE, MEAN_FIELD)),
    *((TemporalFRBM, {**TEMPORAL, "epochs": 8, **how}, 0.9) for how in ({}, DIVERGENCE, MEAN_FIELD)),
    *((StateSpaceLM, {**how, "epochs": 12}, 0.85) for how in (SPACE, RUNS, RULES)),
    (StateSpaceLM, {**SPACE, "inference": "map", "epochs": 12}, 0.85),
    # order 1: the last token is known by what it made of the state, and by nothing else
    (StateSpaceLM, {"order": 1, "internal": 12, "epochs": 12, "dropout": 0.0}, 0.85),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "options", "share"), LEARN)
def test_it_learns_what_follows_what(kind, options, share):
    train = text(300 if kind is StateSpaceLM else 150)
    model = kind(**options).fit(train, valid=None if kind is StateSpaceLM else text(30, 1))
    unigram = KneserNey(order=1).fit(train).perplexity(text(30, 2))
    assert model.perplexity(text(30, 2), context=model.own_context) < share * unigram


@pytest.mark.parametrize(("kind", "options"), [(HLBL, TREE), (VLHMM, HIDDEN)])
def test_the_seed_decides_and_the_number_of_threads_does_not(kind, options):
    one, same, other = (
        kind(**options, **more).fit(text(), valid=text(30, 1)).arrays()
        for more in ({}, {"threads": 3}, {"seed": 1})
    )
    for name, array in one.items():
        np.testing.assert_array_equal(same[name], array, err_msg=name)
    assert any(not np.array_equal(other[name], array) for name, array in one.items())


#: What is fitted, the trainer of a stage, and the step of it before which it is killed.
FITS = {
    "bootstrap": (HLBL, TREE, HLBLTrainer, 16),
    "hlbl": (HLBL, TREE, HLBLTrainer, 44),
    "lbl": (LBL, FLAT, LBLTrainer, 51),
    "vlhmm": (VLHMM, HIDDEN, Trainer, 18),
    "hmm": (HMM, {"n_states": 3, "epochs": 6}, BaumWelch, 4),
    "frbm": (FRBM, MACHINE, BoltzmannTrainer, 42),
    "frbm by divergence": (FRBM, {**MACHINE, **DIVERGENCE}, BoltzmannTrainer, 42),
    "temporal frbm, first stage": (TemporalFRBM, TEMPORAL, BoltzmannTrainer, 42),
    "temporal frbm": (TemporalFRBM, TEMPORAL, TemporalTrainer, 42),
    "temporal frbm by divergence": (TemporalFRBM, {**TEMPORAL, **DIVERGENCE}, TemporalTrainer, 42),
    "recurrent": (RecurrentLM, {**STREAMS, "dropout": 0.2}, RecurrentTrainer, 60),
    "state space": (StateSpaceLM, RUNS, GradientTrainer, 9),
    "state space by rules": (StateSpaceLM, RULES, RulesTrainer, 35),
}


class KilledError(Exception):
    pass


@pytest.mark.parametrize("middle", [False, True], ids=["after an epoch", "within an epoch"])
@pytest.mark.parametrize(("kind", "options", "trainer", "last"), FITS.values(), ids=FITS)
def test_a_fit_that_was_killed_goes_on_to_the_same_model(
    kind, options, trainer, last, middle, tmp_path, monkeypatch
):
    """From the last checkpoint, which is of the end of an epoch or, with `middle`, of the step before."""
    texts, step, seen = (text(), text(30, 1)), trainer.step, []

    def killed(self, *arguments):
        seen.append(self.steps)
        if len(seen) == last:
            raise KilledError
        return step(self, *arguments)

    def watched(self, *arguments):
        seen.append(self.steps)
        return step(self, *arguments)

    if middle:
        monkeypatch.setattr(CheckpointFolder, "due", lambda self, n: len(seen) == last - 1)
    monkeypatch.setattr(trainer, "step", killed)
    with pytest.raises(KilledError):
        kind(**options).fit(*texts, checkpoints=tmp_path)
    assert any(tmp_path.rglob("*")), "no epoch was over when it was killed"
    monkeypatch.setattr(trainer, "step", watched)
    again = kind(**options).fit(*texts, checkpoints=tmp_path, resume=True)
    if middle:
        assert seen[last] == seen[last - 1], "it began the epoch again"
    whole = kind(**options).fit(*texts)
    for name, array in whole.arrays().items():
        np.testing.assert_array_equal(again.arrays()[name], array, err_msg=name)
    histories = [each.fitted_on["training"] for each in (again, whole)]
    assert len({str({**history, "seconds": 0}) for history in histories}) == 1


def test_a_checkpoint_of_the_rules_that_has_sums_of_adagrad_is_resumed(tmp_path, monkeypatch):
    """Earlier versions saved these sums, which the rules do not use."""
    sums = {"sums/outputs": np.ones(3, np.float32)}
    with monkeypatch.context() as earlier:
        state = RulesTrainer.state
        earlier.setattr(RulesTrainer, "state", lambda self: {**state(self), **sums})
        first = StateSpaceLM(**RULES).fit(text(), checkpoints=tmp_path)
    again = StateSpaceLM(**RULES).fit(text(), checkpoints=tmp_path, resume=True)
    for name, array in first.arrays().items():
        np.testing.assert_array_equal(again.arrays()[name], array, err_msg=name)


@pytest.mark.parametrize(("kind", "options"), [(HLBL, TREE), (VLHMM, HIDDEN)])
def test_a_checkpoint_of_another_text_is_refused(kind, options, tmp_path):
    kind(**options).fit(text(), checkpoints=tmp_path)
    with pytest.raises(FittingError):
        kind(**options).fit(text(seed=5), checkpoints=tmp_path)


def spoil_trees(trainer):
    if trainer.current.words.shape[1] == TREE["width"]:  # not those of the bootstrap
        trainer.current.words[:] = np.nan


def spoil_states(trainer):
    with torch.no_grad():
        trainer.network.states.fill_(torch.nan)


def spoil_tables(trainer):
    for table in trainer.tables.values():
        table *= 1000


@pytest.mark.parametrize(
    ("kind", "options", "trainer", "spoil", "after"),
    [
        (HLBL, TREE, HLBLTrainer, spoil_trees, 25),
        (VLHMM, HIDDEN, Trainer, spoil_states, 25),
        (VLHMM, {**HIDDEN, "transitions": "flat"}, Trainer, spoil_states, 25),
        (VLHMM, {**HIDDEN, "transitions": "features"}, Trainer, spoil_states, 25),
        (LBL, {**FLAT, "learning_rate": 0.05}, LBLTrainer, spoil_tables, 40),
    ],
)
def test_a_fit_that_becomes_hopeless_later_keeps_the_best_model(
    kind, options, trainer, spoil, after, monkeypatch
):
    step = trainer.step

    def diverges(self, batch, rate):
        if self.steps > after:
            spoil(self)
        return step(self, batch, rate)

    monkeypatch.setattr(trainer, "step", diverges)
    with pytest.warns(RuntimeWarning, match="the best model so far is kept"):
        model = kind(**options).fit(text(), valid=text(30, 1))
    assert model.perplexity(text(30, 2)) < 20


@pytest.mark.parametrize(
    "model",
    [FRBM(features=4, hidden=5, epochs=3, learning_rate=1e4),
     LBL(width=4, epochs=3, learning_rate=100.0)],
    ids=["frbm", "lbl"],
)  # fmt: skip
def test_a_held_out_text_that_becomes_hopeless_in_the_first_epoch_is_one_error(model):
    """There is no model to keep but the untrained one, and numpy has nothing to say."""
    with warnings.catch_warnings(action="error"):
        warnings.filterwarnings("ignore", "hidden_sums runs on the slow reference kernel")
        with pytest.raises(
            FittingError, match=r"^the evaluation is inf .*first epoch.*no model to keep"
        ):
            model.fit(text(), text(30, 1))
    assert not model.is_fitted


@pytest.mark.parametrize(
    ("nats", "perplexity"),
    [(0.0, 1.0), (2.5, np.exp(2.5)), (1e4, np.inf), (np.inf, np.inf), (np.nan, np.inf)],
)
def test_a_perplexity_is_infinite_where_training_has_diverged(nats, perplexity):
    with warnings.catch_warnings(action="error"):
        np.testing.assert_equal(compute_perplexity(nats), perplexity)


MODELS = {
    "hlbl": HLBL(**TREE),
    "lbl": LBL(**FLAT),
    "vlhmm": VLHMM(**HIDDEN),
    "hmm": HMM(n_states=4, epochs=2),
    "recurrent": RecurrentLM(**STREAMS),
    "state space": StateSpaceLM(**SPACE),
    "frbm": FRBM(**MACHINE),
    "n-grams": KneserNey(),
}


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_texts_without_words_or_of_other_words_are_refused(model):
    for texts in (([],), ([[], []],), (text(), [[], []])):
        with pytest.raises(CorpusError, match="no tokens"):
            model.fit(*texts)
    with pytest.raises(CorpusError, match="vocabulary"):
        model.fit(text(), valid=Corpus.from_sentences([["q", "r"]]))


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_a_model_can_be_pickled_for_another_process(model):
    model.fit(text())
    again = pickle.loads(pickle.dumps(model))  # noqa: S301 - our own
    assert again.perplexity(text(5, 2)) == model.perplexity(text(5, 2))
