"""Run by test_triton.py in a process of its own: widths around those of tiles, and rows beyond 2^31 numbers.

Empty inputs and single rows are among the samples of the kit, which the other files of this folder run.
"""

import numpy as np
import pytest
import torch

from tacenda.kernels import boltzmann, contexts, ratings, sequences, shared, trees
from tacenda.kernels import hidden_markov as hmm
from tacenda.kernels.hidden_markov import triton as of_models
from tacenda.testing.kernels.samples import random_counts, run_specification

TOLERANCE = 2e-5
WIDTH = 512
FAR = (1 << 31) // WIDTH + 3  # rows of a table whose last numbers are beyond 2^31
#: Three words, the last with two codes.
CODES = trees.Codes(
    [0, 1, 2, 4], [0, 1, 3, 6, 9], [0, 0, 1, 0, 1, 2, 0, 1, 2], [1, -1, 1, -1, -1, 1, -1, -1, -1]
)


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def context_of(n, width):
    rates = np.linspace(0.5, 0.9, n, dtype=np.float32)
    return contexts.Context(normal(n, width), normal(width), rates, normal(n, width, seed=1))


def machine_of(hidden, tied):
    weights = normal(3, hidden) if tied else normal(3, 5, hidden)
    scores = np.linspace(-1, 1, 5, dtype=np.float32)
    return boltzmann.Machine(weights, normal(3, 5), normal(hidden), normal(3, hidden), scores)


#: Sequences of 4 words and of 1, and two spans.
TEXT = contexts.Spans(
    np.array([0, 1, 2, 1, 0], np.int32), np.array([0, 4, 5]), np.array([0, 3]), np.array([3, 6])
)
PAIRS = np.array([0, 2, -1]), np.array([1, -1, 0])


def problems(width):
    """Each operation that has a width, with the arguments of a small call, and the places of those that it changes."""
    r, nodes = normal(4, width), trees.Nodes(normal(3, width, seed=1), normal(3))
    words, slopes = np.array([0, 2, 1, 2]), np.linspace(-1, 1, 4, dtype=np.float32)
    sums = trees.NodeSums(np.full(3, 0.5, np.float32), np.full(3, 0.5, np.float32))
    yield trees.tree_softmax, (r, words, CODES, nodes), ()
    yield trees.tree_softmax_step, (r, words, CODES, nodes, slopes, sums, 0.1, 1), (3, 5)
    context, table = context_of(2, width), normal(3, width, seed=2)
    yield contexts.context_sum, (table, TEXT, context), ()
    found = run_specification(contexts.context_sum, table, TEXT, context)
    given = table, TEXT, context, found.before, np.cos(found.vectors)
    yield contexts.context_sum_backward, given, ()
    x, y, b = normal(5, width), normal(7, width, seed=1) / np.float32(width**0.5), normal(7)
    yield hmm.streaming_logsumexp, (x, y, b), ()
    yield hmm.streaming_logsumexp_backward, (x, y, b, normal(5) + 9, normal(5)), ()
    states, cuts = normal(2, 3, width) / np.float32(width**0.5), np.array([0, 3, 7])
    yield hmm.class_softmax, (y, b, states, cuts), ()
    yield hmm.class_softmax_backward, (y, b, states, cuts, *np.abs(normal(2, 7, 3))), ()
    vectors = hmm.Vectors(states, normal(2, 3, width, seed=5), normal(2, 3))
    chosen = np.array([0, 1]), np.array([1, 1])
    yield hmm.block_softmax, (vectors, *chosen, np.abs(normal(2, 3)), None), ()
    counts = np.abs(normal(2, 2, 3, 3))
    yield hmm.block_softmax_backward, (vectors, *chosen, *counts, np.abs(normal(2, 3)) + 1), ()
    k = min(width, 100)  # the interpreter is slow
    blocks = [np.abs(normal(*shape)) / np.float32(k) for shape in ((2, k, k), (3, k), (1, k))]
    observed = hmm.Sequences(
        np.array([0, 1, 1]), np.array([0, 2, 1]), np.array([0]), np.array([0, 3])
    )
    yield hmm.hmm_block, (*blocks, observed), ()
    modes = sequences.Modes(np.linspace(-0.9, 0.9, width, dtype=np.float32), normal(1, 2) / 4)
    tokens = np.array([0, 1, 1, 0]), np.array([0, 3, 4])
    kept = np.zeros((4, width + 3), np.float32)
    yield sequences.modal_scan, (modes, normal(2, width + 2), *tokens, None, False, kept, 1), (6,)
    yield shared.sparse_product, (*random_counts(3, 4, 0.6, np.float32, 0), normal(4, width)), ()
    rows = np.array([2, 0], np.int32)
    yield shared.adagrad, (normal(3, width), np.ones(3, np.float32), rows, r[:2], 0.1, 1), (0, 1)
    tables = normal(3, width), normal(2, width, seed=1), normal(3), normal(2)
    yield ratings.rating_scores, (*PAIRS, *tables, 3.5), ()
    ones, own = np.ones(3, np.float32), np.array([0, 3, 20])
    ids = np.arange(20, dtype=np.int32) % 2
    visits = ratings.Visits(own, ids, (1 + ids).astype(np.float32), np.array([2, 0]))
    side = ratings.Side(tables[0] / 9, tables[2], 0.1 * ones, 0.1 * ones, ones)
    others = ratings.Others(tables[1] / 9, tables[3], ones[:2])
    yield ratings.rating_visits, (visits, side, others, 3.5, (0.02, 0.03), 7, None), (1,)
    for tied in (False, True):
        machine = machine_of(width, tied)
        hidden = np.random.default_rng(0).random((3, width), np.float32)
        given = machine.weights, machine.visible_biases, hidden, machine.scores, normal(3)
        yield boltzmann.boltzmann_expectations, (*PAIRS, *given), ()


CASES = [
    pytest.param(function, arguments, changed, id=f"{function.__name__}-{width}")
    for width in (1, 63, 100, 500, WIDTH)
    for function, arguments, changed in problems(width)
]


@pytest.mark.parametrize(("function", "arguments", "changed"), CASES)
def test_any_width(device, function, arguments, changed):
    device.check(function, *arguments, changed=changed)


# -- beyond 2^31 numbers -----------------------------------------------------------------------------


def zeros(device, *shape):
    """Zeros; in the memory of the host they are pages that nobody has touched."""
    if device.name == "cpu":
        return torch.from_numpy(np.zeros(shape, np.float32))
    if torch.cuda.get_device_properties(device.name).total_memory < 64e9:
        pytest.skip("needs 64 GB on the device")
    return torch.zeros(shape, device=device.name)


def far_table(device, rows, n=FAR):
    """A table of zeros but for its last rows, ``n`` in all."""
    table = zeros(device, n, *rows.shape[1:])
    table[-len(rows) :] = torch.from_numpy(rows)
    return table


def far_vector(device, values, others=1.0, n=FAR):
    found = torch.full((n,), others, device=device.name)
    found[-len(values) :] = torch.from_numpy(values)
    return found


LAST = np.arange(FAR - 3, FAR)


@pytest.fixture
def only_the_end(device, monkeypatch):
    """Where kernels are interpreted, of long grids only the last program runs, and of long loops the last rounds.

    On a device everything runs; what the rest adds is zero, or is not looked at.
    """
    if device.name != "cpu":
        return
    from triton.runtime import interpreter

    def end_of(*given):
        found = range(*given)
        return found[-2:] if len(given) > 1 and len(found) > 10_000 else found

    def last_of(n, *rest):
        return range(n - 1, n) if not rest and n > 1000 else range(n, *rest)

    monkeypatch.setattr(interpreter, "range", last_of, raising=False)
    monkeypatch.setattr(of_models, "range", end_of, raising=False)
    monkeypatch.setattr(torch, "zeros_like", lambda like: zeros(device, *like.shape))


def test_scores_of_far_rows(device):
    rows, items = normal(3, WIDTH), normal(3, WIDTH, seed=1)
    biases = normal(3), normal(3)
    pairs = np.array([2, 0, 1]), np.array([0, 1, 2])
    expected = device.reference(ratings.rating_scores, *pairs, rows, items, *biases, 3.5)
    given = far_table(device, rows), *device.tensors((items,))
    biases = far_vector(device, biases[0]), *device.tensors(biases[1:])
    found = ratings.rating_scores(LAST[pairs[0]], pairs[1], *given, *biases, 3.5)
    device.assert_like(found, expected, TOLERANCE)


def test_visits_to_far_rows(device):
    rows, others = normal(3, WIDTH) / 9, normal(2, WIDTH, seed=1) / 9
    ids, ones = np.array([0, 1, 1, 0], np.int32), np.ones(3, np.float32)
    values, offsets, own = (ids + 1).astype(np.float32), np.array([0, 1, 4]), np.array([2, 0])
    items = ratings.Others(others, normal(2), ones[:2])
    side = ratings.Side(rows.copy(), normal(3), ones / 9, ones / 9, ones)
    rest = 3.5, (0.02, 0.03), 7, None
    visits = ratings.Visits(offsets, ids, values, own)
    expected = device.reference(ratings.rating_visits, visits, side, items, *rest)
    # the ratings at which a row begins are drawn by its number
    numbers = [far_vector(device, part) for part in (normal(3), ones / 9, ones / 9, ones)]
    far = ratings.Side(far_table(device, rows), *numbers)
    found = ratings.rating_visits(
        device.tensors(visits._replace(rows=LAST[own])), far, *device.tensors((items,)), *rest
    )
    assert torch.isfinite(found.factors[-3:]).all()
    device.assert_like(found.factors[-2], torch.from_numpy(rows[1]), 0)  # nobody's visit
    one = np.array([1])  # a row of one rating begins with it, whatever is drawn
    alone = ratings.Visits(np.array([0, 1]), ids[:1], values[:1], one)
    expected = device.reference(ratings.rating_visits, alone, side, items, *rest)
    found = ratings.rating_visits(
        device.tensors(alone._replace(rows=LAST[one])), far, *device.tensors((items,)), *rest
    )
    device.assert_like(found.factors[-2], expected.factors[1], TOLERANCE)


def test_steps_on_far_rows(device):
    rows, gradient = normal(3, WIDTH), normal(3, WIDTH, seed=1)
    expected = rows.copy(), np.ones(3, np.float32)
    device.reference(shared.adagrad, *expected, np.array([2, 0, 1]), gradient, 0.1)
    found = far_table(device, rows), far_vector(device, np.ones(3, np.float32))
    shared.adagrad(*found, LAST[[2, 0, 1]], device.tensors(gradient), 0.1)
    device.assert_like((found[0][-3:], found[1][-3:]), expected, TOLERANCE)


def test_products_with_far_rows(device):
    rows = normal(3, WIDTH)
    counts = np.array([0, 2, 3]), np.array([0, 2, 1]), normal(3)
    expected = device.reference(shared.sparse_product, *counts, rows)
    there = counts[0], LAST[counts[1]].astype(np.int32), counts[2]
    found = shared.sparse_product(*there, far_table(device, rows))
    device.assert_like(found, expected, TOLERANCE)


def test_contexts_of_far_words(device):
    rows, context = normal(3, WIDTH), context_of(2, WIDTH)
    expected = device.reference(contexts.context_sum, rows, TEXT, context)
    text = TEXT._replace(ids=LAST[TEXT.ids].astype(np.int32))
    found = contexts.context_sum(far_table(device, rows), text, device.tensors(context))
    device.assert_like(found, expected, TOLERANCE)
    grad = normal(6, WIDTH, seed=4)
    expected = device.reference(
        contexts.context_sum_backward, rows, TEXT, context, expected.before, grad
    )
    found = contexts.context_sum_backward(
        far_table(device, rows), text, device.tensors(context), found.before, device.tensors(grad)
    )
    device.assert_like(found[1:], expected[1:], TOLERANCE)
    assert (found.words.cpu().numpy() == LAST[expected.words]).all()


def test_far_nodes_of_trees(device):
    rows, r, words = normal(3, WIDTH), normal(4, WIDTH, seed=1), np.array([0, 2, 1, 2])
    nodes, slopes = trees.Nodes(rows.copy(), normal(3)), np.linspace(-1, 1, 4, dtype=np.float32)
    sums = trees.NodeSums(np.full(3, 0.5, np.float32), np.full(3, 0.5, np.float32))
    far = trees.Nodes(far_table(device, rows), far_vector(device, nodes.biases))
    there = trees.NodeSums(far_vector(device, sums.vectors), far_vector(device, sums.biases))
    expected = device.reference(
        trees.tree_softmax_step, r, words, CODES, nodes, slopes, sums, 0.1, 1
    )
    codes = trees.Codes(
        CODES.word_codes, CODES.code_steps, LAST[CODES.nodes].astype(np.int32), CODES.signs
    )
    found = trees.tree_softmax_step(
        *device.tensors((r, words)), codes, far, device.tensors(slopes), there, 0.1, 1
    )
    device.assert_like(found, expected, TOLERANCE)
    device.assert_like((far.vectors[-3:], far.biases[-3:]), nodes, TOLERANCE)


def test_scans_over_far_words(device):
    rows = normal(3, WIDTH)
    modes = sequences.Modes(np.linspace(-0.9, 0.9, WIDTH, dtype=np.float32), normal(0, 2))
    ids, offsets = np.array([0, 2, 1]), np.array([0, 3])
    expected = device.reference(sequences.modal_scan, modes, rows, ids, offsets)
    found = sequences.modal_scan(device.tensors(modes), far_table(device, rows), LAST[ids], offsets)
    device.assert_like(found.last, expected.last, TOLERANCE)


def test_sums_over_far_columns(device, only_the_end):
    x, y, b, g = normal(5, WIDTH) / 8, normal(3, WIDTH, seed=1) / 8, normal(3), normal(5)
    columns, bias = far_table(device, y), far_vector(device, b, -np.inf)
    expected = device.reference(hmm.streaming_logsumexp, x, y, b)
    rows, norms, slopes = device.tensors((x, expected, g))
    device.assert_like(hmm.streaming_logsumexp(rows, columns, bias), expected, TOLERANCE)
    found = hmm.streaming_logsumexp_backward(rows, columns, bias, norms, slopes)
    expected = device.reference(hmm.streaming_logsumexp_backward, x, y, b, expected, g)
    device.assert_like((found[0], found[1][-3:], found[2][-3:]), expected, TOLERANCE)


def test_sums_of_far_rows(device, only_the_end):
    x, y, b, g = normal(3, WIDTH) / 8, normal(5, WIDTH, seed=1) / 8, normal(5), normal(3)
    rows, (columns, bias) = far_table(device, x), device.tensors((y, b))
    expected = device.reference(hmm.streaming_logsumexp, x, y, b)
    found = hmm.streaming_logsumexp(rows, columns, bias)
    device.assert_like(found[-3:], expected, TOLERANCE)
    norms, slopes = far_vector(device, expected, 0.0), far_vector(device, g, 0.0)
    found = hmm.streaming_logsumexp_backward(rows, columns, bias, norms, slopes)
    expected = device.reference(hmm.streaming_logsumexp_backward, x, y, b, expected, g)
    device.assert_like((found[0][-3:], *found[1:]), expected, TOLERANCE)


BLOCKS = (1 << 31) // WIDTH**2 + 3


def test_passes_over_far_blocks_and_words(device, only_the_end):
    A = np.abs(normal(3, WIDTH, WIDTH)) / WIDTH
    o, s = np.abs(normal(3, WIDTH, seed=1)), np.abs(normal(3, WIDTH, seed=2))
    small = hmm.Sequences(
        np.array([0, 2, 1, 2]), np.array([2, 0, 2, 1]), np.array([2]), np.array([0, 4])
    )
    there = hmm.Sequences(
        BLOCKS - 3 + small.pairs, LAST[small.words], LAST[small.first], small.offsets
    )
    expected = device.reference(hmm.hmm_block, A, o, s, small)
    tables = far_table(device, A, BLOCKS), far_table(device, o), far_table(device, s)
    found = hmm.hmm_block(*tables, there)
    device.assert_like(found, expected, TOLERANCE)
    found = hmm.hmm_block_backward(*tables, there, found)
    expected = device.reference(hmm.hmm_block_backward, A, o, s, small, expected)
    ends = [part[-1:] for part in expected[:3]]
    device.assert_like([part[-1:] for part in found[:3]], ends, TOLERANCE)
    device.assert_like(found.posteriors, expected.posteriors, TOLERANCE)


def far_sequences(n=3):
    """Offsets of sequences of one token each, and of a last one of ``n``: `FAR` tokens."""
    return np.append(np.arange(FAR - n + 1), FAR)


def test_passes_over_far_tokens(device, only_the_end):
    A = np.abs(normal(2, WIDTH, WIDTH)) / WIDTH
    o, s = np.abs(normal(1, WIDTH, seed=1)), np.abs(normal(1, WIDTH, seed=2))
    small = hmm.Sequences(np.array([0, 1, 1]), np.zeros(3, int), np.array([0]), np.array([0, 3]))
    expected = device.reference(hmm.hmm_block, A, o, s, small)
    pairs, words, first = (np.zeros(n, int) for n in (FAR, FAR, FAR - 2))
    pairs[-3:], words[-3:], first[-1] = small.pairs, 1100, 1100
    there = hmm.Sequences(pairs, words, first, far_sequences())
    tables = *device.tensors((A,)), far_table(device, o, 1101), far_table(device, s, 1101)
    found = hmm.hmm_block(*tables, there)
    device.assert_like([part[-3:] for part in found], list(expected), TOLERANCE)
    found = hmm.hmm_block_backward(*tables, there, found)
    expected = device.reference(hmm.hmm_block_backward, A, o, s, small, expected)
    ends = found.blocks, found.emissions[-1:], found.starts[-1:], found.posteriors[-3:]
    device.assert_like(ends, expected, TOLERANCE)


def test_blocks_of_far_pairs(device, only_the_end):
    classes, width = 1100, 20
    x, y = normal(1, WIDTH, width) / 4, normal(1, WIDTH, width, seed=1) / 4
    small, here = hmm.Vectors(x, y, normal(1, WIDTH)), np.zeros(3, int)
    weights, counts = np.abs(normal(3, WIDTH)) + 1, np.abs(normal(3, WIDTH, WIDTH))
    expected = device.reference(hmm.block_softmax, small, here, here, weights)
    sources = np.sort(np.arange(BLOCKS) % (classes - 1))
    sources[-3:] = classes - 1
    vectors = hmm.Vectors(*(far_table(device, part, classes) for part in small))
    there = vectors, sources, sources
    shares = far_table(device, weights, BLOCKS)
    found = hmm.block_softmax(*there, shares)
    device.assert_like(found[-1], expected[-1], TOLERANCE)
    made = far_table(device, expected, BLOCKS), far_table(device, counts, BLOCKS)
    found = hmm.block_softmax_backward(*there, *made, shares + 1e-9)
    expected = device.reference(
        hmm.block_softmax_backward, small, here, here, expected, counts, weights
    )
    ends = [part[-1:] for part in found[:3]]
    device.assert_like((*ends, found.departures[-3:]), expected, TOLERANCE)


def test_classes_of_far_words(device, only_the_end):
    y, b, x = normal(3, WIDTH) / 8, normal(3), normal(1, 3, WIDTH, seed=1) / 8
    counts = np.abs(normal(3, 3))
    expected = device.reference(hmm.class_softmax, y, b, x, np.array([0, 3]))
    offsets = np.append(np.linspace(0, FAR - 3, 4097).astype(int), FAR)
    there = far_table(device, y), far_vector(device, b), far_table(device, x, 4097), offsets
    found = hmm.class_softmax(*there)
    device.assert_like(found[-3:], expected, TOLERANCE)
    made = far_table(device, expected), far_table(device, counts)
    found = hmm.class_softmax_backward(*there, *made)
    expected = device.reference(
        hmm.class_softmax_backward, y, b, x, np.array([0, 3]), expected, counts
    )
    ends = found.words[-3:], found.bias[-3:], found.states[-1:]
    device.assert_like(ends, expected, TOLERANCE)


def test_scans_over_far_tokens(device, only_the_end):
    table, ids = normal(3, WIDTH), np.array([0, 2, 1])
    modes = sequences.Modes(np.linspace(-0.9, 0.9, WIDTH, dtype=np.float32), normal(0, 2))
    out = np.zeros((3, WIDTH), np.float32)
    expected = device.reference(
        sequences.modal_scan, modes, table, ids, np.array([0, 3]), None, False, out
    )
    there = np.zeros(FAR, int)
    there[-3:] = ids
    starts = zeros(device, FAR - 2, WIDTH)
    found = sequences.modal_scan(
        *device.tensors((modes, table)), there, far_sequences(), starts, False, zeros(device, FAR, WIDTH)
    )  # fmt: skip
    device.assert_like((found.before[-3:], found.last[-1:]), expected, TOLERANCE)


def test_expectations_of_far_units(device):
    hidden, weights = np.random.default_rng(0).random((3, WIDTH), np.float32), normal(3, WIDTH)
    biases, scores, slopes = normal(3, 5), np.linspace(-1, 1, 5, dtype=np.float32), normal(3)
    pairs = np.array([0, 2, -1]), np.array([1, -1, 0])
    expected = device.reference(
        boltzmann.boltzmann_expectations, *pairs, weights, biases, hidden, scores, slopes
    )
    there = LAST[pairs[0]], pairs[1], far_table(device, weights), far_table(device, biases)
    found = boltzmann.boltzmann_expectations(*there, *device.tensors((hidden, scores, slopes)))
    device.assert_like(found, expected, TOLERANCE)


def test_steps_of_adam_on_far_numbers(device, only_the_end):
    parts = [np.abs(normal(1, WIDTH, seed=seed)) for seed in range(4)]
    there = [far_table(device, part) for part in parts]
    shared.adam(*there, 0.1, 1)
    device.reference(shared.adam, *parts, 0.1, 1)
    device.assert_like([part[-1:] for part in there[:3]], parts[:3], TOLERANCE)
