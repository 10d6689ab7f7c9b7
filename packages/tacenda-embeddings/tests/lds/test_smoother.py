"""Batched float32 inference against the exact smoother, in both forms of its recurrence."""

from dataclasses import replace

import numpy as np
import pytest

from tacenda_embeddings.lds import smoother
from tacenda_embeddings.lds.smoother import Smoother, TwoSided, build_two_sided

LENGTHS = (1, 0, 2, 5, 1, 63, 0, 3, 300, 7)


@pytest.fixture(params=["modal", "dense"])
def form(request, monkeypatch):
    if request.param == "dense":
        monkeypatch.setattr(smoother, "MAXIMUM_CONDITION", 0.0)
    return request.param


class Case:
    """A system with 12 word types and 4 states, its smoother, and packed sentences."""

    def __init__(self, oracles, parameters_of, messages_of, radius=0.9, lengths=LENGTHS):
        rng = np.random.default_rng(3)
        self.system = oracles.random_system(rng, V=12, h=4, radius=radius, strength=0.9)
        self.scale = rng.uniform(1, 3, 12)
        matrices = build_two_sided(parameters_of(self.system), self.scale, self.system.m)
        self.table = matrices.table.astype(np.float32)
        self.smoother = Smoother(replace(matrices, table=self.table))
        self.sentences = [rng.integers(0, 12, n) for n in lengths]
        self.oracles, self.messages_of = oracles, messages_of

    def exact(self, ids):
        w = np.diag(self.scale)[ids] - self.system.m
        return self.oracles.rts_smoother(self.system, w).mean

    def messages(self, sentences, exact_ends=True):
        return self.messages_of(self.smoother, sentences, exact_ends)


@pytest.fixture
def case(form, oracles, parameters_of, messages_of):
    case = Case(oracles, parameters_of, messages_of)
    assert np.array_equal(case.smoother._forward.basis, np.eye(4)) == (form == "dense")
    return case


def assert_close(found, expected, tolerance):
    np.testing.assert_allclose(found, expected, atol=tolerance * np.abs(expected).max(initial=1.0))


def test_own_past_and_future_sum_to_the_exact_smoothed_mean(case):
    for ids, parts in zip(case.sentences, case.messages(case.sentences), strict=True):
        assert parts.own.dtype == parts.past.dtype == parts.future.dtype == np.float32
        if len(ids):
            assert_close(sum(parts), case.exact(ids), 3e-6)


@pytest.mark.parametrize("radius", [0.5, 0.99, 0.999])
def test_ends_are_exact_however_slowly_the_state_fades(
    form, radius, oracles, parameters_of, messages_of
):
    case = Case(oracles, parameters_of, messages_of, radius, lengths=(1, 1, 2, 3, 4, 10, 40, 120))
    for ids, parts in zip(case.sentences, case.messages(case.sentences), strict=True):
        assert_close(sum(parts), case.exact(ids), 3e-6)


def test_sentences_longer_than_are_kept_are_solved_anew(case, monkeypatch):
    monkeypatch.setattr(smoother, "_CACHED_ECHO_LENGTH", 2)
    sentences = [ids for ids in case.sentences if len(ids)]
    for ids, parts in zip(sentences, case.messages(sentences), strict=True):
        assert_close(sum(parts), case.exact(ids), 3e-6)


def test_own_does_not_depend_on_the_context(case):
    for ids, parts in zip(case.sentences, case.messages(case.sentences), strict=True):
        np.testing.assert_array_equal(parts.own, case.table[ids])


@pytest.mark.parametrize("exact_ends", [True, False])
def test_a_sentence_does_not_depend_on_its_batch(case, exact_ends):
    together = case.messages(case.sentences, exact_ends)
    reversed_ = case.messages(case.sentences[::-1], exact_ends)[::-1]
    for ids, parts, other in zip(case.sentences, together, reversed_, strict=True):
        [alone] = case.messages([ids], exact_ends)
        for part, by_itself, elsewhere in zip(parts, alone, other, strict=True):
            assert_close(part, by_itself, 1e-6)
            assert_close(elsewhere, by_itself, 1e-6)


def test_zero_ends_leave_nothing_to_come_in(case):
    for parts in case.messages(case.sentences, exact_ends=False):
        if len(parts.own):
            np.testing.assert_array_equal(parts.past[0], np.zeros(4))
            np.testing.assert_array_equal(parts.future[-1], np.zeros(4))


def test_far_from_the_ends_both_kinds_agree(case):
    ids = case.sentences[8]
    [exact], [zero] = case.messages([ids]), case.messages([ids], exact_ends=False)
    middle = slice(130, 170)
    assert_close(sum(exact)[middle], sum(zero)[middle], 1e-5)
    assert np.abs(sum(exact)[0] - sum(zero)[0]).max() > 1e-2


def test_past_sees_only_earlier_and_future_only_later_words(case):
    """In the middle of a long text, where no end is near."""
    ids = case.sentences[8].copy()
    [before] = case.messages([ids], exact_ends=False)
    ids[150] = (ids[150] + 1) % 12
    [after] = case.messages([ids], exact_ends=False)
    assert_close(after.past[:151], before.past[:151], 1e-6)
    assert_close(after.future[150:], before.future[150:], 1e-6)
    assert np.abs(after.past[151] - before.past[151]).max() > 1e-2
    assert np.abs(after.future[149] - before.future[149]).max() > 1e-2


def test_a_recurrence_without_eigenvectors_runs_densely(rng, messages_of):
    F = np.array([[0.5, 1.0], [0.0, 0.5]])
    table = rng.standard_normal((5, 2)).astype(np.float32)
    ids = rng.integers(0, 5, 9)
    zero = np.zeros((2, 2))
    one = Smoother(TwoSided(table, F, F, zero, zero, zero))
    [(_, past, future)] = messages_of(one, [ids])
    y = z = np.zeros(2)
    for t in range(9):
        np.testing.assert_allclose(past[t], y, atol=1e-5)
        np.testing.assert_allclose(future[8 - t], z, atol=1e-5)
        y, z = F @ (y + table[ids[t]]), F @ (z + table[ids[8 - t]])


def test_nothing_at_all(case):
    assert case.messages([]) == []
    for parts in case.messages([np.empty(0, int)] * 2):
        assert parts.own.shape == parts.past.shape == parts.future.shape == (0, 4)


def test_modal_and_dense_recurrence_agree(oracles, parameters_of, messages_of, monkeypatch):
    modal = Case(oracles, parameters_of, messages_of)
    monkeypatch.setattr(smoother, "MAXIMUM_CONDITION", 0.0)
    dense = Case(oracles, parameters_of, messages_of)
    assert not np.array_equal(modal.smoother._forward.basis, np.eye(4))
    np.testing.assert_array_equal(dense.smoother._forward.basis, np.eye(4))
    for part, other in zip(
        modal.messages(modal.sentences), dense.messages(dense.sentences), strict=True
    ):
        assert_close(sum(part), sum(other), 3e-6)
