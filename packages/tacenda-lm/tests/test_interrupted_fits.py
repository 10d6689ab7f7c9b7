"""A fit that was killed ends in the same model; the checkpoints of another fit are refused."""

import numpy as np
import pytest

from tacenda.errors import FittingError
from tacenda_lm import HLBL, HMM, LBL, VLHMM
from tacenda_lm.hidden_markov.hmm import BaumWelch
from tacenda_lm.log_bilinear.hlbl import HLBLTrainer
from tacenda_lm.log_bilinear.lbl import LBLTrainer

pytest.importorskip("torch")
from tacenda_lm.hidden_markov.training import Trainer

TREE = {"width": 12, "context": 2, "epochs": 3, "copies": 2}
FLAT = {"width": 8, "context": 2, "epochs": 4, "batch_words": 32}
HIDDEN = {"n_classes": 5, "states_per_class": 4, "width": 8, "batch_words": 100, "epochs": 4}
ADVANCED = {"bootstrap_width": 8, "piece_words": 16}
#: What is fitted, its trainer, and the step before which it is killed, in the second epoch of a stage or later.
FITS = {
    "bootstrap": (lambda: HLBL(**TREE, advanced=ADVANCED), HLBLTrainer, 16),
    "hlbl": (lambda: HLBL(**TREE, advanced=ADVANCED), HLBLTrainer, 44),
    "lbl": (lambda: LBL(**FLAT), LBLTrainer, 51),
    "vlhmm": (lambda: VLHMM(**HIDDEN), Trainer, 18),
    "hmm": (lambda: HMM(n_states=3, epochs=6), BaumWelch, 4),
}


class KilledError(Exception):
    pass


def text(n=150, seed=0):
    rng = np.random.default_rng(seed)
    return [[f"w{w}" for w in rng.integers(0, 12, rng.integers(1, 9))] for _ in range(n)]


@pytest.mark.parametrize(("make", "trainer", "last"), FITS.values(), ids=FITS)
def test_a_fit_that_was_killed_goes_on_to_the_same_model(
    make, trainer, last, tmp_path, monkeypatch
):
    step, seen = trainer.step, []

    def killed(self, *arguments):
        seen.append(1)
        if len(seen) == last:
            raise KilledError
        return step(self, *arguments)

    monkeypatch.setattr(trainer, "step", killed)
    with pytest.raises(KilledError):
        make().fit(text(), valid=text(30, 1), checkpoints=tmp_path)
    assert any(tmp_path.rglob("*")), "an epoch was over when it was killed"
    monkeypatch.setattr(trainer, "step", step)
    again = make().fit(text(), valid=text(30, 1), checkpoints=tmp_path, resume=True).arrays()
    for name, array in make().fit(text(), valid=text(30, 1)).arrays().items():
        np.testing.assert_array_equal(again[name], array, err_msg=name)


@pytest.mark.parametrize("make", [FITS["hlbl"][0], FITS["vlhmm"][0]], ids=["hlbl", "vlhmm"])
def test_a_checkpoint_of_another_text_is_refused(make, tmp_path):
    make().fit(text(), checkpoints=tmp_path)
    with pytest.raises(FittingError):
        make().fit(text(seed=5), checkpoints=tmp_path)
