"""The network: its gradients against autograd, its states and probabilities against plain loops."""

import numpy as np
import pytest
import torch

from support.gradients import dense
from tacenda_lm.recurrent import model, network
from tacenda_lm.recurrent.model import RecurrentLMSettings, RecurrentTrainer, ReduceOnPlateau
from tacenda_lm.recurrent.network import Network, predict, run, score_targets
from tacenda_lm.streams import Stream

TYPES, WIDTH, END = 7, 3, 2


def drawn(seed=0, dtype=np.float64, types=TYPES, width=WIDTH):
    rng = np.random.default_rng(seed)
    shapes = ((width, width), (types, width), (1, width), (types, width + 1))
    return Network(*(rng.standard_normal(shape).astype(dtype) for shape in shapes))


def sigma(z):
    return 1 / (1 + np.exp(-z)) - 0.5


def loop(p, words, h):
    """The states before each word and after the last, one word after another."""
    found = [h]
    for word in words:
        found.append(sigma(p.transitions @ found[-1] + p.inputs[word] + p.offsets[0]))
    return np.array(found)


def probabilities(p, h):
    scores = p.outputs[:, :-1] @ h + p.outputs[:, -1]
    return np.exp(scores) / np.exp(scores).sum()


@pytest.mark.parametrize("cells", [1, 30, 1 << 20])
def test_the_output_is_a_softmax_over_all_words(cells, monkeypatch):
    """In blocks of any size; the probabilities of a row sum to one."""
    monkeypatch.setattr(network, "SCORES_PER_BLOCK", cells)
    p, rng = drawn(), np.random.default_rng(1)
    states, targets = rng.random((9, WIDTH)), rng.integers(0, TYPES, 9)
    expected = np.log([probabilities(p, h) for h in states])
    np.testing.assert_allclose(predict(p, states), expected, 1e-12)
    log_probs, nothing = score_targets(p, states, targets)
    np.testing.assert_allclose(log_probs, expected[np.arange(9), targets], 1e-12)
    assert nothing.shape == (0, WIDTH)


def test_huge_scores_are_normalized_too():
    p = drawn(dtype=np.float32)
    p.outputs[...] *= 1e15
    states, targets = np.full((3, WIDTH), 0.5, np.float32), np.array([0, 3, 6])
    rows = predict(p, states)
    np.testing.assert_allclose(np.exp(rows).sum(axis=1), 1, 1e-6)
    assert (score_targets(p, states, targets)[0] <= 0).all()


@pytest.mark.parametrize("lengths", [[4], [0, 5, 0, 1, 3], [2, 2, 2], []])
def test_sequences_side_by_side_have_the_states_of_each_alone(lengths):
    p, rng = drawn(), np.random.default_rng(1)
    ids = rng.integers(0, TYPES, sum(lengths))
    offsets = np.cumsum([0, *lengths])
    first = rng.random((len(lengths), WIDTH)) - 0.5
    found, last = run(p, ids, offsets, first)
    for i, h in enumerate(first):
        expected = loop(p, ids[offsets[i] : offsets[i + 1]], h)
        np.testing.assert_allclose(found[offsets[i] : offsets[i + 1]], expected[:-1], 1e-12)
        np.testing.assert_allclose(last[i], expected[-1], 1e-12)


def trainer_of(p, text, h, **settings):
    """A trainer in float64 whose streams are at ``h``."""
    made = RecurrentTrainer(
        RecurrentLMSettings(width=WIDTH, streams=len(h), **settings),
        p, Stream.of(text, np.array([0, len(text)]), END, True), None, ReduceOnPlateau(1.0),
    )  # fmt: skip
    made._h[...] = h
    return made


def by_autograd(p, text, places, h, across, kept):
    """The loss of a window and its gradients, and the states at its end."""
    leaves = Network(*(torch.from_numpy(part.copy()).requires_grad_() for part in p))
    state, loss = torch.from_numpy(h), 0.0
    for t, row in enumerate(places):
        words, targets = text[row], text[(row + 1) % len(text)]
        restarts = torch.from_numpy(words == END)[:, None] & (not across)
        state = torch.where(restarts, torch.zeros_like(state), state)
        z = state @ leaves.transitions.T + leaves.offsets
        state = torch.sigmoid(z + leaves.inputs[words]) - 0.5
        scores = (state * torch.from_numpy(kept[t])) @ leaves.outputs[:, :-1].T
        scores = scores + leaves.outputs[:, -1]
        rows = torch.arange(len(row))
        loss = loss - torch.log_softmax(scores, 1)[rows, torch.from_numpy(targets)].sum()
    loss.backward()
    return loss.item(), leaves, state.detach().numpy()


@pytest.mark.parametrize("cells", [20, 1 << 20])
@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize("across", [True, False])
def test_the_gradients_of_a_window_are_those_of_autograd(across, dropout, cells, monkeypatch):
    monkeypatch.setattr(network, "SCORES_PER_BLOCK", cells)
    rng = np.random.default_rng(3)
    p, text, h = drawn(), rng.integers(0, TYPES, 11), rng.random((2, WIDTH))
    places = (np.arange(6)[:, None] + [0, 5]) % 11
    assert (text[places] == END).any()
    kept = np.ones((6, 2, WIDTH))
    if dropout:
        kept = (rng.random((6, 2, WIDTH)) < 0.6) / 0.6
        monkeypatch.setattr(model, "draw_dropout_mask", lambda *arguments: kept)
    trainer = trainer_of(p, text, h, across_sentences=across, dropout=dropout)
    loss, gradients = trainer.gradients(places, rng)
    expected, leaves, last = by_autograd(p, text, places, h, across, kept)
    assert loss == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(trainer._h, last, 1e-12)
    for name, leaf in leaves._asdict().items():
        found = dense(leaf.shape, *gradients[name])
        np.testing.assert_allclose(found, leaf.grad, 1e-9, 1e-12, err_msg=name)


def test_a_step_descends_the_gradient_averaged_over_the_streams_and_clipped(monkeypatch):
    rng = np.random.default_rng(3)
    text, h = rng.integers(0, TYPES, 11), rng.random((2, WIDTH))
    places = np.arange(4)[:, None] + [0, 5]
    for clip in (1e9, 0.01):
        p = drawn()
        monkeypatch.setattr(model, "_MAX_GRADIENT_NORM", clip)
        trainer = trainer_of(p, text, h)
        before, (_, gradients) = drawn(), trainer.gradients(places, rng)
        full = {name: dense(p._asdict()[name].shape, *gradients[name]) / 2 for name in gradients}
        norm = np.sqrt(sum((part**2).sum() for part in full.values()))
        trainer._h = h.copy()
        trainer.step((places, False), 0.3)
        for name, part in p._asdict().items():
            moved = getattr(before, name) - part
            np.testing.assert_allclose(moved, 0.3 * min(1, clip / norm) * full[name], 1e-7, 1e-12)
