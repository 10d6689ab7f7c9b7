"""Gradients in float64: against autograd, and against sums over every word and every state of the hidden units."""

import numpy as np
import pytest
import torch

from tacenda_lm import TemporalFRBM
from tacenda_lm.boltzmann import model
from tacenda_lm.boltzmann.contrast import (
    Negative,
    compute_gradients,
    contrast,
    contrast_by_mean_field,
)
from tacenda_lm.boltzmann.machine import (
    compute_inputs,
    look_up_features,
    pack_word_inputs,
    sigmoid,
)
from tacenda_lm.boltzmann.model import TemporalTrainer
from tacenda_lm.streams import Stream


def whole_expectation(p, words, inputs, targets, drawn, rng):
    """Every word, with its probability: what `draw_by_prediction` draws from."""
    scores = np.logaddexp(0, inputs[:, None] + words.inputs[None]).sum(2) + p.biases[:, 0]
    log_z = np.logaddexp.reduce(scores, axis=1, keepdims=True)
    n, types = scores.shape
    loss = -float((scores - log_z)[np.arange(n), targets].sum())
    return Negative(np.tile(np.arange(types), (n, 1)), np.exp(scores - log_z), loss)


def by_torch(leaves, words, present, targets, earlier=None):
    """log P(w_n | context), with b_t as a torch expression."""
    x = leaves.words[torch.from_numpy(words)] * torch.from_numpy(present)[..., None]
    inputs = torch.einsum("tif,ifh->th", x, leaves.contexts) + leaves.hidden_biases[:, 0]
    if earlier is not None:
        inputs = inputs + earlier @ leaves.transitions.T
    a = leaves.words @ leaves.outputs
    scores = torch.nn.functional.softplus(inputs[:, None] + a[None]).sum(2) + leaves.biases[:, 0]
    chosen = torch.from_numpy(targets)
    log_probs = torch.log_softmax(scores, 1)[torch.arange(len(chosen)), chosen]
    return log_probs, torch.sigmoid(inputs + a[chosen])


def leaves_of(p):
    return p.map(lambda table: torch.from_numpy(table.copy()).requires_grad_())


def check(found, leaves, skip=()):
    for name, leaf in leaves.items():
        if name in found:
            np.testing.assert_allclose(found[name], leaf.grad, rtol=1e-9, atol=1e-11, err_msg=name)
        else:
            assert not len(leaf) or name in skip


@pytest.mark.parametrize("temporal", [False, True])
def test_the_gradient_of_the_likelihood_is_that_of_autograd(oracles, temporal):
    p = oracles.machine(temporal=temporal)
    batch = oracles.contexts(p, 7)
    earlier = np.random.default_rng(5).random((7, p.hidden)) if temporal else None
    features = look_up_features(p, batch)
    inputs = compute_inputs(p, features, earlier)
    negative = whole_expectation(p, pack_word_inputs(p), inputs, batch.targets, 0, None)
    difference = contrast(p, inputs, batch.targets, negative)
    found = compute_gradients(p, batch, features, earlier, difference, difference.inputs)
    leaves = leaves_of(p)
    of_torch = None if earlier is None else torch.from_numpy(earlier)
    expected = by_torch(leaves, batch.words, batch.present, batch.targets, of_torch)[0].sum()
    assert -negative.loss == pytest.approx(expected.item(), rel=1e-12)
    expected.backward()
    check(found, leaves)


@pytest.mark.parametrize("across", [True, False])
def test_the_gradient_through_time_is_that_of_autograd(oracles, across, monkeypatch):
    """Over pieces of several stretches, with sentences that begin within them, from hidden units that are carried."""
    monkeypatch.setattr(model, "draw_by_prediction", whole_expectation)
    p = oracles.machine(temporal=True)
    text = np.array([1, 3, 0, 2, 5, 4, 0, 1, 1, 2, 4, 0, 3, 5, 0, 2, 2, 0], np.int32)
    stream = Stream.of(text, np.array([0, len(text)]), 0, across)
    settings = TemporalFRBM(features=3, hidden=4, batch_words=20, piece_words=5).settings
    trainer, taken = TemporalTrainer(settings, p, stream, None), []
    monkeypatch.setattr(trainer, "climb", lambda *given: taken.append(given))
    n = -(-len(stream.ids) // 10)
    trainer.source.parts, trainer.source.steps = n, 10
    trainer.carried = np.random.default_rng(0).random((n, 4))
    carried = torch.from_numpy(trainer.carried.copy())
    loss = trainer.step((5, 10), 0.1).loss
    [(found, tokens, _)] = taken

    leaves, firsts, total, counted = leaves_of(p), stream.firsts, 0, 0
    for s, begin in enumerate(range(0, len(stream.ids), 10)):
        hidden = carried[s]
        for t in range(begin + 5, min(begin + 10, len(stream.ids))):
            if firsts[t]:
                hidden = torch.zeros(4, dtype=torch.float64)
                continue
            start = stream.offsets[:-1][stream.offsets[:-1] <= t][-1]
            places = t - np.arange(1, 3)
            words, present = stream.ids[np.maximum(places, 0)][None], (places >= start)[None]
            one = by_torch(leaves, words, present, stream.ids[t : t + 1].astype(int), hidden[None])
            total, hidden, counted = total + one[0].sum(), one[1][0], counted + 1
    assert (tokens, -loss) == (counted, pytest.approx(total.item(), rel=1e-12))
    total.backward()
    check(found, leaves)


def flat(found):
    return np.concatenate(
        [found.words.ravel(), found.outputs.ravel(), found.biases.ravel(), found.inputs.sum(axis=0)]
    )


def each_context(oracles, p):
    """The words of each context, the word that follows, and the inputs of the hidden units."""
    batch = oracles.contexts(p)
    inputs = compute_inputs(p, look_up_features(p, batch), None)
    for t in range(len(batch.targets)):
        yield oracles.context_of(batch, t), batch.targets[t : t + 1], inputs[t : t + 1]


def test_expectations_under_the_model_are_those_of_all_words_and_hidden_states(oracles):
    """Eq 3.7 itself: E_D - E_M, enumerated."""
    p = oracles.machine()
    for words, own, inputs in each_context(oracles, p):
        negative = whole_expectation(p, pack_word_inputs(p), inputs, own, 0, None)
        expected = sum(
            q * oracles.statistics(p, own[0], h, words)
            for q, h in zip(oracles.given_word(p, own[0], words), oracles.states(p), strict=True)
        )
        for w, row in enumerate(oracles.joint(p, words)):
            expected = expected - sum(
                q * oracles.statistics(p, w, h, words)
                for q, h in zip(row, oracles.states(p), strict=True)
            )
        np.testing.assert_allclose(flat(contrast(p, inputs, own, negative)), expected, atol=1e-12)


def test_the_expectation_of_contrastive_divergence_is_that_of_all_its_samples(oracles):
    """h given the word, a word given h, and the statistics of h given that word: every sample with its probability."""
    p = oracles.machine(hidden=3)
    for words, own, inputs in each_context(oracles, p):
        reached = np.zeros(len(p.words))
        for q, h in zip(oracles.given_word(p, own[0], words), oracles.states(p), strict=True):
            reached += q * oracles.given_hidden(p, h, words)
        expected = 0
        for h, q in zip(oracles.states(p), oracles.given_word(p, own[0], words), strict=True):
            expected = expected + q * oracles.statistics(p, own[0], h, words)
        for w, r in enumerate(reached):
            for h, q in zip(oracles.states(p), oracles.given_word(p, w, words), strict=True):
                expected = expected - r * q * oracles.statistics(p, w, h, words)
        negative = Negative(np.arange(len(p.words))[None], reached[None], 0.0)
        found = contrast(p, inputs, own, negative)
        np.testing.assert_allclose(flat(found), expected, atol=1e-12)


class Chosen:
    """Uniform numbers that put the hidden units into the states that are asked for."""

    def __init__(self, h):
        self.h = h

    def random(self, shape, dtype=None):
        return np.broadcast_to(1 - self.h, shape)  # 0 turns a unit on, 1 leaves it off


def test_mean_field_updates_are_those_of_section_3_1_2_in_every_state_of_the_hidden_units(oracles):
    p = oracles.machine(hidden=3)
    for words, own, inputs in each_context(oracles, p):
        for h in oracles.states(p):
            v = oracles.given_hidden(p, h, words)
            r = v @ p.words
            hidden = sigmoid(inputs[0] + r @ p.outputs)
            present = sigmoid(inputs[0] + p.words[own[0]] @ p.outputs)
            one = np.eye(len(p.words))[own[0]]
            rows = np.outer(one, present @ p.outputs.T) - np.outer(v, hidden @ p.outputs.T)
            outputs = np.outer(p.words[own[0]], present) - np.outer(r, hidden)
            expected = np.concatenate([rows.ravel(), outputs.ravel(), one - v, present - hidden])
            found, loss = contrast_by_mean_field(p, inputs, own, 1, Chosen(h))
            np.testing.assert_allclose(flat(found), expected, atol=1e-12)
            assert loss == pytest.approx(-np.log(v[own[0]]), rel=1e-9)


def test_a_batch_without_any_context_has_a_gradient(oracles):
    p = oracles.machine()
    batch = oracles.contexts(p)
    batch = batch._replace(present=np.zeros_like(batch.present))
    features = look_up_features(p, batch)
    inputs = compute_inputs(p, features, None)
    np.testing.assert_allclose(inputs, np.tile(p.hidden_biases[:, 0], (5, 1)))
    negative = Negative(np.zeros((5, 1), int), np.ones((5, 1)), 0.0)
    difference = contrast(p, inputs, batch.targets, negative)
    found = compute_gradients(p, batch, features, None, difference, difference.inputs)
    assert not found["contexts"].any()
    np.testing.assert_allclose(found["words"], difference.words)
