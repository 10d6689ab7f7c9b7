"""What the machines predict, against sums over all states of the hidden units and a filter of plain loops."""

import numpy as np
import pytest

from tacenda_lm.boltzmann.machine import _TOKENS_PER_BLOCK, BoltzmannPredictor
from tacenda_lm.streams import Stream

END = 0


def by_hand(oracles, p, words):
    """log P(w_t | w_1 ... w_{t-1}) of all words at every position, and the hidden units after the last (eq 3.14)."""
    rows, hidden = [], np.zeros(p.hidden)
    for t in range(len(words) + 1):
        before = [END, *words[:t]][::-1][: len(p.contexts)]
        table = oracles.joint(p, before, hidden if len(p.transitions) else None)
        rows.append(np.log(table.sum(axis=1)))
        if t < len(words):
            given = table[words[t]] / table[words[t]].sum()
            hidden = given @ np.array(oracles.states(p))
    return np.array(rows), hidden


@pytest.mark.parametrize("temporal", [False, True])
@pytest.mark.parametrize("context", [1, 2, 4])
def test_hidden_units_are_summed_out_and_carried_along(oracles, temporal, context):
    p = oracles.machine(temporal=temporal, context=context)
    words = np.random.default_rng(2).integers(0, 6, 9).astype(np.int32)
    expected, hidden = by_hand(oracles, p, words)
    model = BoltzmannPredictor(oracles.single(p), END)
    state, found = model.start(), []
    for word in words.tolist():
        found.append(model.rows(model.vectors([state]))[0])
        state = model.after(state, word)
    found.append(model.rows(model.vectors([state]))[0])
    np.testing.assert_allclose(found, expected, atol=2e-5)
    stream = Stream.of(words, np.array([0, len(words)]), END, True)
    np.testing.assert_allclose(
        np.concatenate(list(model.distributions(stream))), expected[:-1], atol=2e-5
    )
    np.testing.assert_allclose(model.score(stream), expected[np.arange(9), words], atol=2e-5)
    scores, after = model.score_from(model.start(), words)
    np.testing.assert_allclose(scores, model.score(stream), atol=1e-5)
    if temporal:
        np.testing.assert_allclose(np.frombuffer(after.value[1], np.float32), hidden, atol=1e-5)
    assert after.value[0] == state.value[0]


@pytest.mark.parametrize("temporal", [False, True])
def test_sequences_of_all_lengths_side_by_side_are_as_each_alone(oracles, temporal):
    """Also where one is longer than what is read at a time."""
    p = oracles.single(oracles.machine(temporal=temporal))
    model, rng = BoltzmannPredictor(p, END), np.random.default_rng(3)
    lengths = [3, 0, 1, 2 * _TOKENS_PER_BLOCK + 17, 7, _TOKENS_PER_BLOCK - 11, 1, 40]
    parts = [rng.integers(0, 6, n).astype(np.int32) for n in lengths]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    together = model.score(Stream.of(np.concatenate(parts), offsets, END, True))
    alone = [model.score(Stream.of(part, np.array([0, len(part)]), END, True)) for part in parts]
    np.testing.assert_allclose(together, np.concatenate(alone), atol=1e-4)
    state, step = model.start(), []
    for word in parts[4].tolist():
        step.append(model.pick(model.vectors([state]), np.array([word]))[0])
        state = model.after(state, word)
    np.testing.assert_allclose(alone[4], step, atol=1e-5)


def test_a_word_long_ago_changes_what_the_temporal_model_predicts_and_only_that(oracles):
    for temporal in (False, True):
        model = BoltzmannPredictor(oracles.single(oracles.machine(temporal=temporal)), END)
        states_after = []
        for first in (1, 2):
            state = model.start()
            for word in (first, 3, 4):
                state = model.after(state, word)
            states_after.append(state)
        rows = model.rows(model.vectors(states_after))
        assert (np.abs(rows[0] - rows[1]).max() > 1e-3) == temporal
