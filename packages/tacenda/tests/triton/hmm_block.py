"""Run by test_triton.py in a process of its own: the interpreter is chosen when triton is imported."""

import functools
import itertools

import numpy as np
import pytest
import torch

from support import hidden_markov
from tacenda.errors import KernelError
from tacenda.kernels import UnsupportedShape
from tacenda.kernels.hidden_markov import Sequences, hmm_block, hmm_block_backward, triton
from tacenda.testing.kernels import SAMPLES

TOLERANCE = {np.float32: 1e-5, np.float64: 1e-12}
problem = functools.partial(hidden_markov.problem, dtype=np.float32)


def assert_agree(device, arguments, tolerance=1e-5):
    """Both passes with the specification; the backward pass starts from the specification's forward pass."""
    found, expected = device.check(hmm_block, *arguments, tolerance=tolerance)
    back, _ = device.check(hmm_block_backward, *arguments, expected, tolerance=tolerance)
    return found, back


SHORT = [case for case in SAMPLES["hmm_block"]() if len(case[1][3].words) < 60]


@pytest.mark.parametrize("case", SHORT, ids=lambda case: case[0])
def test_agrees_with_the_specification_on_awkward_shapes(device, case):
    assert_agree(device, case[1])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [5, 64, 130])
def test_agrees_where_a_block_is_one_tile_and_where_it_is_several(device, k, dtype):
    arguments = problem((3, 0, 1, 9), k, dtype=dtype)
    assert triton._choose_tiles(130, torch.ones(1))["TILES"] > 1
    assert_agree(device, arguments, TOLERANCE[dtype])


@pytest.mark.parametrize("blocks", [1, 40])
def test_one_pair_for_all_tokens_and_every_pair_new(device, blocks):
    *tables, observed = problem((7, 0, 1, 12, 3), 9, blocks)
    if blocks > 1:
        observed = observed._replace(pairs=np.arange(len(observed.words)))
    _, back = assert_agree(device, (*tables, observed))
    if blocks > 1:  # those that lead to no token have no counts, exactly
        assert not back.blocks[23:].any()


def test_a_block_that_leads_nowhere_has_no_counts_whatever_is_in_it(device):
    A, o, s, observed = problem((4,))
    A[3] = np.nan
    observed = observed._replace(pairs=np.array([3, 0, 1, 0]))  # the first token is reached by none
    _, back = assert_agree(device, (A, o, s, observed))
    assert not back.blocks[3].any()


def test_subnormal_probabilities_are_no_infinities(device):
    A, o, s, observed = problem((4,), 2)
    o[:] = 1e-40, 3e-40
    assert_agree(device, (A, o, s, observed), 1e-3)


def test_a_sequence_among_longer_and_shorter_ones_is_as_alone(device):
    """What stands beside a sequence, or would be padding, takes no part in it."""
    A, o, s, observed = problem((2, 11, 0, 5), 6)
    together = hmm_block(*device.tensors((A, o, s)), observed)
    back = hmm_block_backward(*device.tensors((A, o, s)), observed, together)
    sums = [torch.zeros_like(part) for part in back[:3]]
    for n, (begin, end) in enumerate(itertools.pairwise(observed.offsets)):
        part = slice(begin, end)
        one = Sequences(
            observed.pairs[part], observed.words[part], observed.first[n : n + 1], [0, end - begin]
        )
        alone = hmm_block(*device.tensors((A, o, s)), one)
        assert torch.equal(alone.log_probs, together.log_probs[part])
        assert torch.equal(alone.states, together.states[part])
        counts = hmm_block_backward(*device.tensors((A, o, s)), one, alone)
        assert torch.equal(counts.posteriors, back.posteriors[part])
        for total, own in zip(sums, counts[:3], strict=True):
            total += own
    for total, whole in zip(sums, back[:3], strict=True):
        np.testing.assert_allclose(total.cpu(), whole.cpu(), atol=1e-6)


def test_the_probabilities_of_all_texts_of_a_length_sum_to_one(device):
    A, o, s, _ = problem((0,), 5, 1, 3, dtype=np.float64)
    texts = np.array(list(itertools.product(range(3), repeat=3)))
    observed = Sequences(
        np.zeros(texts.size, int), texts.ravel(), np.zeros(27, int), np.arange(28) * 3
    )
    found = hmm_block(*device.tensors((A, o, s)), observed)
    assert found.log_probs.view(27, 3).sum(1).exp().sum().item() == pytest.approx(1, abs=1e-12)


def test_counts_add_up_to_the_tokens(device):
    A, o, s, observed = device.tensors(problem((9, 1, 10)))
    counts = hmm_block_backward(A, o, s, observed, hmm_block(A, o, s, observed))
    np.testing.assert_allclose(counts.posteriors.sum(1).cpu(), 1, atol=1e-5)
    for part, expected in zip(counts, (17, 20, 3), strict=False):
        assert part.sum().item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("impossible", [0, 2, 5])
def test_what_cannot_happen_is_minus_infinity_and_no_number_is_lost(device, impossible):
    A, o, s, observed = problem((6, 3))
    o[observed.words[impossible]] = 0
    with np.errstate(divide="ignore"):
        found, back = assert_agree(device, (A, o, s, observed))
    assert torch.isneginf(found.log_probs[impossible:6]).all()
    assert not found.states[impossible:6].any()
    assert all(part.isfinite().all() for part in back)


def test_nan_is_seen_in_the_scores(device):
    A, o, s, observed = problem((5,))
    A[observed.pairs[2], 0, 0] = np.nan
    found = hmm_block(*device.tensors((A, o, s)), observed)
    assert torch.isnan(found.log_probs[2:]).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pairs": np.array([9] * 5)}, "pairs run from"),
        ({"words": np.array([-1] * 5)}, "words run from"),
        ({"offsets": np.array([0, 4])}, "offsets must ascend"),
        ({"first": np.array([7])}, "first run from"),
        ({"words": np.zeros(5)}, "words must be integers"),
    ],
)
def test_ids_that_do_not_fit_are_refused(device, change, message):
    *tables, observed = device.tensors(problem((5,)))
    with pytest.raises(KernelError, match=message):
        hmm_block(*tables, observed._replace(**change))


def test_tables_that_do_not_fit_are_refused(device):
    A, o, s, observed = device.tensors(problem((5,)))
    for arguments, message in (
        ((A[:, 1:], o, s), r"blocks must be .*, not float32 \(4, 2, 3\)"),
        ((A, o.double(), s), "emissions must be float32"),
        ((A.half(), o, s), "float32 or float64"),
        ((A, o, s.cpu().numpy()), "starts is a ndarray"),
        ((A, o.to("meta"), s), "move one of them"),
    ):
        with pytest.raises(KernelError, match=message):
            hmm_block(*arguments, observed)


def test_more_states_than_a_program_holds_are_left_to_others(device):
    arguments = torch.ones(0, 9000, 9000), torch.ones(1, 9000), torch.ones(1, 9000)
    with pytest.raises(UnsupportedShape, match="8192 states"):
        hmm_block(*(part.to(device.name) for part in arguments), Sequences([0], [0], [0], [0, 1]))


def test_ids_may_lie_on_the_device(device):
    A, o, s, observed = device.tensors(problem((5,)))
    there = Sequences(*(torch.as_tensor(part, device=device.name) for part in observed))
    found = [hmm_block(A, o, s, ids).log_probs for ids in (observed, there)]
    assert torch.equal(*found)
