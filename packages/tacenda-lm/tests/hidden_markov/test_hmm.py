"""HMM: EM never loses, and is a fit like others."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from tacenda import Corpus
from tacenda.errors import FittingError
from tacenda.fitting.checkpoint import CheckpointFolder
from tacenda_lm import HMM
from tacenda_lm.hidden_markov import hmm


def text(n=120, seed=0):
    """Two kinds of words in turn."""
    rng = np.random.default_rng(seed)
    words = ("ab", "cde")
    return [
        [str(rng.choice(list(words[t % 2]))) for t in range(int(rng.integers(1, 12)))]
        for _ in range(n)
    ]


def test_every_pass_makes_the_text_more_probable(monkeypatch):
    monkeypatch.setattr(hmm, "_SMOOTHING", 0.0)
    history = HMM(n_states=4, epochs=15).fit(text()).fitted_on["training"]
    losses = history["epoch_losses"]
    assert all(after <= before + 1e-4 for before, after in pairwise(losses))
    assert losses[-1] < losses[0] - 0.2


def test_it_finds_the_two_kinds():
    model = HMM(n_states=3, epochs=40).fit(text(400))
    path = model.viterbi(["a", "c", "b", "e"], eos=False)
    assert path[0] == path[2] != path[1] == path[3]


def test_states_are_those_of_the_tokens_that_are_scored():
    """A model of a text that was split at ASCII whitespace takes a no-break space as part of a word."""
    lines = ["a\u00a0b c", "c a\u00a0b"] * 3
    model = HMM(n_states=2, epochs=1).fit(Corpus.from_text(lines, tokenizer="ascii_whitespace"))
    assert len(list(model.full_scores(lines[0]))) == 3
    assert len(model.posterior(lines[0]).classes) == len(model.viterbi(lines[0])) == 3


@pytest.mark.parametrize("name", ["transitions", "emissions", "starts"])
def test_a_checkpoint_of_what_are_no_distributions_is_refused(name, tmp_path):
    HMM(n_states=3, epochs=2).fit(text(), checkpoints=tmp_path)
    saved = CheckpointFolder(tmp_path).read()
    state = {**saved.state, name: saved.state[name] * np.float32(1.1)}
    CheckpointFolder(tmp_path).write(replace(saved, state=state), 1)
    with pytest.raises(FittingError, match=f"'{name}' does not hold probabilities"):
        HMM(n_states=3, epochs=2).fit(text(), checkpoints=tmp_path)
