import io
import json
import os
import pickle
import signal
import threading

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp

from tacenda.errors import ConfigurationError, FittingError, TacendaError
from tacenda.fitting import (
    ArrayBatches,
    Callback,
    Cosine,
    DivergenceError,
    FitRun,
    FitSettings,
    History,
    StepResult,
    Sweeps,
    Trainer,
    fit,
)


class Walk(Trainer):
    """Its parameter counts the steps; its criterion follows a script."""

    def __init__(self, values=(), losses=None):
        self.x = np.zeros(())
        self.learned = {"x": self.x}
        self.values, self.losses = list(values), losses

    def step(self, batch, learning_rate):
        self.x += 1
        loss = 1.0 if self.losses is None else self.losses[int(self.x) - 1]
        return loss, 2

    def evaluate(self):
        return self.values.pop(0) if self.values else None


class Steps(Sweeps):
    """Several steps an epoch."""

    def __init__(self, per_epoch):
        super().__init__()
        self.per_epoch = per_epoch

    def n_batches(self, epoch):
        return self.per_epoch

    def batches(self, epoch, skip=0):
        return iter(range(skip, self.per_epoch))


def settings(**changes):
    return FitSettings(**({"epochs": 6, "learning_rate": 0.1} | changes))


def test_softmax_regression_reaches_the_optimum_that_bfgs_finds(models):
    X, y = models.clusters(200)
    model = models.SoftmaxRegression(dev=(X, y), dropout=0.0, decay=0.0)
    source = ArrayBatches(X, y, batch_size=100)
    history = fit(model, source, settings(epochs=300, learning_rate=Cosine(0.3, epochs=300)))

    def objective(w):
        scores = X @ w[:15].reshape(5, 3) + w[15:]
        return float((logsumexp(scores, axis=1) - scores[np.arange(len(y)), y]).mean())

    assert history.best.value == pytest.approx(minimize(objective, np.zeros(18)).fun, abs=1e-4)


def test_the_same_seed_gives_the_same_bits_and_another_does_not(models):
    def weights(seed):
        model = models.SoftmaxRegression(dev=models.clusters(50, seed=1))
        fit(model, ArrayBatches(*models.clusters(), batch_size=32, seed=seed), settings(epochs=2))
        return model.weights["W"].tobytes()

    assert weights(1) == weights(1)
    assert weights(1) != weights(2)


@pytest.mark.parametrize(("restore_best", "kept"), [(True, 2), (False, 4)])
def test_early_stopping_leaves_the_best_parameters_unless_told_otherwise(restore_best, kept):
    model = Walk([5.0, 3.0, 4.0, 3.5, 9.0])
    history = fit(model, Sweeps(), settings(patience=2, restore_best=restore_best))
    assert (history.stopped, history.steps) == ("patience", 4)
    assert history.best == (2, 2, 3.0)
    assert model.x == kept


def test_evaluation_every_few_epochs_and_a_last_one_at_the_end():
    model = Walk([3.0, 2.0, 1.0])
    history = fit(model, Sweeps(), settings(epochs=5, evaluate_every=2))
    assert [e.step for e in history.evaluations] == [2, 4, 5]


def test_losses_are_means_per_unit_over_each_epoch():
    losses = [1.0, 3.0, 5.0, 7.0]
    history = fit(Walk(losses=losses), Steps(2), settings(epochs=2))
    assert history.epoch_losses == [1.0, 3.0]
    assert history.epochs == 2
    assert history.stopped == "epochs"


@pytest.mark.parametrize("every", [1, 3, 100])
def test_late_conversion_of_losses_changes_nothing(every):
    losses = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
    history = fit(Walk(losses=losses), Steps(3), settings(epochs=2, check_losses_every=every))
    assert history == fit(Walk(losses=losses), Steps(3), settings(epochs=2))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("every", [1, 10])
def test_a_loss_that_is_not_finite_ends_the_fit_and_keeps_the_best(bad, every):
    model = Walk([3.0, 2.0, 2.5], losses=[1.0] * 7 + [bad, 1.0])
    with pytest.raises(DivergenceError, match=r"step 8; .* lower learning rate than 0.1") as caught:
        fit(model, Steps(2), settings(check_losses_every=every))
    assert isinstance(caught.value, TacendaError)
    assert caught.value.step == 8
    assert caught.value.history.stopped == "diverged"
    assert model.x == 4


def test_divergence_in_a_process_pool_comes_back_whole():
    error = DivergenceError("training loss", np.inf, 3, 0.1)
    error.history = History(steps=3)
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 (our own bytes)
    assert str(copy) == str(error)
    assert (copy.step, copy.history) == (3, error.history)


class Overflowing(Walk):
    """Its parameters are infinite after a step, before a loss says so."""

    def __init__(self, step, **options):
        super().__init__(**options)
        self.last = step

    def step(self, batch, learning_rate):
        if not np.isfinite(self.x):
            return np.nan, 2
        found = super().step(batch, learning_rate)
        if self.x == self.last:
            self.x[...] = np.inf
        return found


@pytest.mark.parametrize(
    ("make", "per_epoch", "message", "kept"),
    [
        (lambda: Walk(losses=[1.0] * 4 + [np.nan]), 2, "step 5", 4),
        (lambda: Walk(losses=[1.0, np.nan]), 5, "step 2", 0),
        (lambda: Walk([2.0, np.nan]), 1, "evaluation is nan at step 2", 1),
        (lambda: Overflowing(4, losses=[1.0] * 4), 2, "the best parameters before it are kept", 2),
    ],
    ids=["the last whole epoch", "the start", "the best evaluation", "the last that were finite"],
)
def test_divergence_goes_back_to(make, per_epoch, message, kept):
    model = make()
    with pytest.raises(DivergenceError, match=message):
        fit(model, Steps(per_epoch), settings())
    assert model.x == kept


@pytest.mark.parametrize(
    ("make", "per_epoch", "message"),
    [
        (lambda: Walk(losses=[1.0, np.nan]), 5, "first epoch, so there is no model to keep"),
        (
            lambda: Overflowing(2, losses=[1.0] * 2),
            2,
            "step 3, and no epoch left usable parameters, so there is no model to keep",
        ),
    ],
    ids=["after no epoch", "of parameters that were finite at the start alone"],
)
def test_a_divergence_that_leaves_no_model_is_raised_in_any_case(make, per_epoch, message):
    model = make()
    with pytest.raises(DivergenceError, match=message) as caught:
        fit(model, Steps(per_epoch), settings(on_divergence="return"))
    assert caught.value.history.stopped == "diverged"
    assert model.x == 0


@pytest.mark.parametrize("on_divergence", ["raise", "return"])
def test_a_divergence_is_raised_where_no_earlier_parameters_were_kept(on_divergence):
    model = Walk([3.0, 2.0, 2.5], losses=[1.0] * 3 + [np.nan])
    with pytest.raises(DivergenceError, match="step 4; the parameters before it were not kept"):
        fit(model, Sweeps(), settings(on_divergence=on_divergence, restore_best=False))
    assert model.x == 4


def test_a_gradient_norm_that_is_not_finite_is_left_out_of_the_mean():
    norms = iter([1.0, np.inf, 3.0, None, np.nan, 3.0, 4.0, 3.0, 4.0, 3.5])

    class Normed(Walk):
        def step(self, batch, learning_rate):
            return StepResult(1.0, 1, next(norms))

    history = fit(Normed(), Steps(5), settings(epochs=2))
    json.dumps(history.as_dict(), allow_nan=False)
    assert (history.epoch_losses, history.gradient_norms) == ([1.0, 1.0], [2.0, 3.5])


def test_a_divergence_may_end_the_fit_with_a_warning():
    model = Walk([3.0, 2.0, 2.5], losses=[1.0] * 7 + [np.nan, 1.0])
    with pytest.warns(RuntimeWarning, match="the best model so far is kept: .* step 8"):
        history = fit(model, Steps(2), settings(on_divergence="return"))
    assert (history.stopped, history.epochs) == ("diverged", 3)
    assert model.x == 4


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("changes", [{}, {"epochs": 1, "evaluate_every": 0}], ids=str)
def test_an_evaluation_that_is_not_finite_after_the_first_epoch_leaves_nothing_to_keep(
    bad, changes
):
    model = Walk([bad, 2.0])
    with pytest.raises(DivergenceError, match="first epoch, so there is no model") as caught:
        fit(model, Steps(2), settings(on_divergence="return", **changes))
    assert (caught.value.what, caught.value.step) == ("evaluation", 2)
    assert caught.value.history.stopped == "diverged"


def test_an_evaluation_that_is_not_finite_later_keeps_the_last_whole_epoch():
    model = Walk([np.inf])
    with pytest.warns(RuntimeWarning, match="is kept: the evaluation is inf at step 4"):
        fit(model, Steps(2), settings(on_divergence="return", evaluate_every=2))
    assert model.x == 2


def test_an_error_of_the_model_leaves_the_best_parameters():
    class Failing(Walk):
        def step(self, batch, learning_rate):
            if self.x == 3:
                raise MemoryError
            return super().step(batch, learning_rate)

    model = Failing([2.0, 1.0, 3.0])
    with pytest.raises(MemoryError):
        fit(model, Sweeps(), settings())
    assert model.x == 2


@pytest.mark.parametrize("as_bool", [bool, np.bool_])
def test_callbacks_see_everything_and_may_end_the_fit(as_bool):
    seen = []

    class Watcher(Callback):
        def on_step(self, run):
            seen.append(("step", run.step, run.learning_rate))

        def on_evaluation(self, run, evaluation):
            seen.append(("evaluation", evaluation.value))

        def on_epoch_end(self, run):
            seen.append(("epoch", run.epoch))
            return as_bool(run.epoch == 2)

    run = FitRun(callbacks=iter([Watcher()]))
    history = fit(Walk([3.0, 2.0, 1.0]), Sweeps(), settings(), run)
    first = [("step", 1, 0.1), ("evaluation", 3.0), ("epoch", 1)]
    assert seen == [*first, ("step", 2, 0.1), ("evaluation", 2.0), ("epoch", 2)]
    assert history.stopped == "callback"


class Interrupting(Walk):
    def step(self, batch, learning_rate):
        if self.x == 5:
            os.kill(os.getpid(), signal.SIGINT)
        return super().step(batch, learning_rate)


@pytest.fixture
def ctrl_c():
    """Ctrl-C as in a terminal: a process started in the background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize(
    ("values", "steps", "best"),
    [
        ([1.0] * 6, 10, 6),  # the first evaluation after resuming is the best
        ([2.5] * 6, 6, 2),  # and here it is the second in a row that is not
    ],
)
def test_ctrl_c_ends_the_step_saves_a_checkpoint_and_raises(values, steps, best, tmp_path):
    model = Interrupting([2.0, 3.0])
    where = FitRun(tmp_path, every_steps=100)
    with pytest.raises(KeyboardInterrupt, match="after step 6"):
        fit(model, Steps(2), settings(patience=2), where)
    assert model.x == 2  # the best
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    resumed = Interrupting(values)
    history = fit(resumed, Steps(2), settings(patience=2), where)
    assert (history.steps, history.stopped, resumed.x) == (steps, "patience", best)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_saves_a_checkpoint_though_its_message_cannot_be_written(tmp_path, monkeypatch):
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr("sys.stderr", closed)
    with pytest.raises(KeyboardInterrupt, match="after step 6"):
        fit(Interrupting(), Steps(2), settings(), FitRun(tmp_path, every_steps=100))
    assert (tmp_path / "checkpoint.json").exists()


class Pressing(Walk):
    """Ctrl-C comes once, at a moment of the epoch of a step; the criterion depends on the step alone."""

    def __init__(self, moment=None, **options):
        super().__init__([3.0, 1.0, 2.0, 4.0, 5.0, 6.0], **options)
        self.moment = moment

    def press(self, moment):
        if self.moment == (moment, self.x):
            self.moment = None
            os.kill(os.getpid(), signal.SIGINT)

    def step(self, batch, learning_rate):
        found = super().step(batch, learning_rate)
        self.press("step")
        return found

    def evaluate(self):
        self.press("evaluation")
        return self.values[int(self.x) - 1]

    def state(self):
        self.press("save")
        return super().state()


class EndAfterThree(Callback):
    def on_epoch_end(self, run):
        run.model.press("callback")
        return run.epoch == 3


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize(
    ("moment", "changes", "callbacks"),
    [
        (("evaluation", 4), {}, ()),
        (("save", 4), {}, ()),
        (("evaluation", 6), {}, ()),  # of the last epoch
        (("save", 6), {}, ()),
        (("evaluation", 4), {"patience": 2}, ()),  # which ends the fit
        (("save", 4), {"patience": 2}, ()),  # the last one
        (("callback", 3), {}, (EndAfterThree,)),
        (("evaluation", 6), {"evaluate_every": 0}, ()),  # the final one
        (("evaluation", 6), {"evaluate_every": 4}, ()),
    ],
    ids=str,
)
def test_ctrl_c_after_the_last_step_of_an_epoch_is_raised_before_another_step(
    moment, changes, callbacks, tmp_path
):
    callbacks = tuple(make() for make in callbacks)
    model, run = Pressing(moment), FitRun(tmp_path, callbacks=callbacks)
    with pytest.raises(KeyboardInterrupt, match=f"after step {moment[1]}; see "):
        fit(model, Sweeps(), settings(**changes), run)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    resumed, straight = Pressing(), Pressing()
    history = fit(resumed, Sweeps(), settings(**changes), run)
    whole = fit(straight, Sweeps(), settings(**changes), FitRun(callbacks=callbacks))
    assert (history, resumed.x) == (whole, straight.x)
    assert model.x == straight.x  # the best, which is not after the moment


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_before_a_divergence_that_ends_the_fit_with_a_warning_is_raised():
    model = Pressing(("step", 4), losses=[1.0] * 3 + [np.nan])
    with (
        pytest.warns(RuntimeWarning, match="is kept: .* step 4"),
        pytest.raises(KeyboardInterrupt, match="after step 4"),
    ):
        fit(model, Sweeps(), settings(on_divergence="return"))
    assert model.x == 2


def test_a_fit_in_a_thread_leaves_signals_alone():
    results = []
    thread = threading.Thread(target=lambda: results.append(fit(Walk(), Sweeps(), settings())))
    thread.start()
    thread.join()
    assert results[0].steps == 6


def test_history_survives_json():
    history = fit(Walk([1 / 3, 0.1]), Sweeps(), settings(epochs=2))
    assert History.from_dict(json.loads(json.dumps(history.as_dict()))) == history
    assert history.figure("perplexity")["best"] == 0.1


@pytest.mark.parametrize(
    "change",
    [{"epoch_losses": [10**400]}, {"learning_rates": [0.1, 0.1]}, {"gradient_norms": []}],
)
def test_a_history_that_cannot_be_is_refused(change):
    saved = fit(Walk([1 / 3]), Sweeps(), settings(epochs=1)).as_dict()
    assert History.from_dict(saved).as_dict() == saved
    with pytest.raises(ValueError, match=r"too large|of 1 epochs"):
        History.from_dict(saved | change)


@pytest.mark.parametrize(
    "changes",
    [
        {"epochs": -1},
        {"learning_rate": np.nan},
        {"learning_rate": -1.0},
        {"patience": 0},
        {"evaluate_every": -1},
        {"on_divergence": "ignore"},
        {"check_losses_every": 0},
        {"epochs": "3"},
        {"epochs": 2.5},
        {"epochs": None},
        {"learning_rate": "fast"},
        {"patience": 2, "evaluate_every": 0},
    ],
)
def test_settings_out_of_range_are_refused(changes):
    with pytest.raises(ConfigurationError):
        settings(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"every_steps": 0}, {"every_steps": 1.5}, {"every_steps": "1"}, {"every_seconds": -1}, {"every_seconds": "1"},
        *({"resume": unknown} for unknown in (0, 1, None, "no", "Auto", np.False_)),
        *({"callbacks": these} for these in (None, Callback(), print, [print], [Callback], [Callback(), None])),
    ],
)  # fmt: skip
def test_a_run_with_a_value_that_means_nothing_is_refused(changes):
    with pytest.raises(
        ConfigurationError, match=f"{next(iter(changes))} is .*; (give|use|it must be) "
    ):
        FitRun(**changes)


def test_patience_without_held_out_data_is_refused():
    with pytest.raises(ConfigurationError, match="nothing to evaluate on"):
        fit(Walk(), Sweeps(), settings(patience=1))


def test_an_epoch_without_batches_is_refused():
    class Empty(Sweeps):
        def batches(self, epoch, skip=0):
            return iter(())

    with pytest.raises(FittingError, match="no batches"):
        fit(Walk(), Empty(), settings())
