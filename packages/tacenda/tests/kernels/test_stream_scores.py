"""A text scored in one pass: as by the two operations, wherever it is cut, with node vectors in 8 bits."""

import copy
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacenda import kernels
from tacenda.errors import KernelError
from tacenda.kernels.log_bilinear import context_sum, tree_softmax
from tacenda.kernels.log_bilinear.context_sum import Context
from tacenda.kernels.log_bilinear.stream_scores import pack, rounded, scores
from tacenda.kernels.log_bilinear.tree_softmax import Codes

BACKENDS = ("reference", "cpu")
#: Four words; the last has two codes.
CODES = Codes(
    [0, 1, 2, 3, 5], [0, 2, 4, 7, 10, 12], [0, 1, 0, 1, 0, 2, 3, 0, 2, 3, 0, 2],
    [1, 1, 1, -1, -1, 1, 1, -1, 1, -1, -1, -1],
)  # fmt: skip


def problem(lengths, n, tails, width, seed=0, own=False, codes=CODES):
    """A model as `pack` takes it, and a text."""
    rng = np.random.default_rng(seed)

    def normal(*shape):
        return rng.standard_normal(shape).astype(np.float32)

    context = Context(
        normal(n, width), normal(width), np.linspace(0.5, 0.9, tails, dtype=np.float32), normal(tails, width)
    )  # fmt: skip
    ids = rng.integers(0, codes.n_words, sum(lengths)).astype(np.int32)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    table = normal(codes.n_words, width)
    far = np.tanh(table) if own else None
    return (
        (table, context, codes, normal(codes.n_nodes, width), normal(codes.n_nodes), far),
        ids,
        offsets,
    )


def deep(depth):
    """One word at the end of a chain, and one at every turn off it."""
    return Codes(
        np.arange(depth + 2), np.cumsum([0, *range(1, depth + 1), depth]),
        np.concatenate([np.arange(i + 1) for i in [*range(depth), depth - 1]]),
        np.concatenate([[*[1] * i, -1] for i in range(depth)] + [[1] * depth]),
    )  # fmt: skip


def many_copies(copies, words):
    """Words in order under as many balanced trees, so that a word has more than 256 turns to number."""
    depth = int(np.log2(words * copies))
    leaf = np.arange(2**depth).reshape(copies, words).T.ravel()
    bits = (leaf[:, None] >> np.arange(depth - 1, -1, -1)) & 1
    above = np.cumsum(2 ** np.arange(depth)) - 1
    prefixes = leaf[:, None] >> np.arange(depth, 0, -1)
    steps = np.arange(len(leaf) + 1) * depth
    return Codes(
        np.arange(words + 1) * copies,
        steps,
        (above - above[0] + prefixes).ravel(),
        (1 - 2 * bits).ravel(),
    )


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(0, 40), max_size=5), st.integers(0, 12), st.integers(0, 3), st.integers(1, 70),
    st.booleans(), st.data(),
)  # fmt: skip
def test_both_backends_agree_wherever_the_text_is_entered(lengths, n, tails, width, own, data):
    model, ids, offsets = problem(lengths, n, tails, width, own=own)
    packed = pack(*model)
    first = data.draw(st.integers(0, sum(lengths)))
    results = []
    for backend in BACKENDS:
        with kernels.use(backend):
            results.append(scores(packed, ids, offsets, first))
    exact, found = results
    assert exact.log_probs.dtype == found.log_probs.dtype
    np.testing.assert_allclose(found.tails, exact.tails, 1e-3, 2e-3)
    most = _most_from_rounded_vectors(model, packed, ids, offsets)[first:]
    assert (np.abs(found.log_probs - exact.log_probs) <= most + 1e-3).all()


def _most_from_rounded_vectors(model, packed, ids, offsets):
    """How far scores may be off as predicted vectors are rounded: half a step times magnitudes of node vectors.

    No log-probability changes by more than the activations of its worst code together.
    """
    table, context, codes, *_, far = model
    span = np.array([0]), np.array([len(ids)])
    with kernels.use("reference"):
        r = context_sum.forward(table, ids, offsets, *span, context, far=far).vectors
    step = 0.5 * np.abs(r).max(axis=1, initial=0) / packed.limit
    magnitudes = np.abs(packed.nodes()[0]).sum(axis=1)
    of_codes = np.array([magnitudes[codes.nodes[a:b]].sum() for a, b in pairwise(codes.code_steps)])
    of_words = np.array([of_codes[a:b].max() for a, b in pairwise(codes.word_codes)])
    return step * of_words[ids]


@pytest.mark.parametrize(
    "codes", [CODES, deep(90), many_copies(16, 64)], ids=["few", "deep", "many"]
)
@pytest.mark.parametrize("width", [1, 16, 31, 64, 208])
def test_scores_differ_from_exact_ones_by_no_more_than_rounding_explains(codes, width):
    """Node vectors by half a step of 1/127 of their largest element, predicted vectors of 1/32767 of theirs."""
    model, ids, offsets = problem([40, 25], 3, 2, width, codes=codes)
    table, context, codes, q, b, _ = model
    with kernels.use("reference"):
        span = np.array([0]), np.array([len(ids)])
        r = context_sum.forward(table, ids, offsets, *span, context).vectors
        exact = tree_softmax.forward(r.astype(np.float64), ids, codes, q, b)
    found = scores(pack(*model), ids, offsets).log_probs
    of_nodes = 0.5005 * np.abs(q).max(axis=1) / 127
    of_vectors = 0.5 * np.abs(r).max(axis=1) / 32767
    # no log-probability changes by more than the activations of its deepest code together, whatever the code
    for t, word in enumerate(ids):
        most = 0.0
        for c in range(codes.word_codes[word], codes.word_codes[word + 1]):
            nodes = codes.nodes[codes.code_steps[c] : codes.code_steps[c + 1]]
            change = of_nodes[nodes] * np.abs(r[t]).sum() + of_vectors[t] * np.abs(q[nodes]).sum(
                axis=1
            )
            most = max(most, change.sum())
        assert abs(found[t] - exact[t]) <= most + 1e-4 * (1 + abs(exact[t]))


def test_rounding_twice_changes_nothing():
    rng = np.random.default_rng(0)
    q = rng.standard_normal((500, 33)).astype(np.float32) * np.exp(rng.uniform(-60, 60, (500, 1)))
    q = np.float32(np.concatenate([q, np.zeros((1, 33)), np.full((1, 33), 1e-38)]))
    once = rounded(q)
    np.testing.assert_array_equal(rounded(once), once)
    assert (np.abs(once - q) <= 0.5005 * np.abs(q).max(axis=1, keepdims=True) / 127 + 1e-30).all()
    packed = pack(q[:4], Context(q[:0], q[0], q[:0, 0], q[:0]), CODES, once[:4], np.arange(4.0))
    np.testing.assert_array_equal(packed.nodes()[0], once[:4])
    np.testing.assert_array_equal(packed.nodes()[1], np.arange(4))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("cut", [0, 1, 5, 17, 30, 51])
def test_a_text_scored_in_two_parts_has_the_scores_of_the_whole(backend, cut):
    n = 3
    model, ids, _ = problem([60], n, 2, 9)
    packed = pack(*model)
    with kernels.use(backend):
        whole = scores(packed, ids, [0, 60])
        one = scores(packed, ids[:cut], [0, cut])
        low = max(0, cut - n)
        before = one.tails.copy()
        two = scores(packed, ids[low:], [0, 60 - low], cut - low, one.tails)
    np.testing.assert_array_equal(one.tails, before)
    parts = np.concatenate([one.log_probs, two.log_probs])
    if backend == "cpu":
        np.testing.assert_array_equal(parts, whole.log_probs)
        np.testing.assert_array_equal(two.tails, whole.tails)
    np.testing.assert_allclose(parts, whole.log_probs, 1e-5)
    np.testing.assert_allclose(two.tails, whole.tails, 1e-5)


def test_hopeless_words_keep_their_logarithms():
    """Turns of probability exp(-900): products of float32 have long become zero."""
    model, *_ = problem([30], 0, 0, 1, codes=deep(3))
    bias = np.float32([900])
    context = Context(model[1].weights, bias, model[1].rates, model[1].tail_weights)
    model = (model[0], context, model[2], np.ones((3, 1), np.float32), np.zeros(3, np.float32))
    found = scores(pack(*model), np.arange(4), [0, 4]).log_probs
    np.testing.assert_allclose(found, [-900, -900, -900, 0], 1e-4, 1e-4)


def test_what_is_not_finite_shows_in_its_own_scores_alone():
    model, ids, offsets = problem([30], 2, 0, 20)
    ids[:] = 0
    ids[[7, 20]] = 1
    for bad in (np.nan, np.inf):
        model[0][1, 3] = bad
        found = scores(pack(*model), ids, offsets).log_probs
        assert np.flatnonzero(np.isnan(found)).tolist() == [8, 9, 21, 22]
    model[0][1, 3] = 0
    model[3][2, 5] = np.nan
    of_word = [
        2 in CODES.nodes[slice(*CODES.code_steps[CODES.word_codes[w : w + 2]])] for w in (0, 3)
    ]
    ids[11] = 3
    found = scores(pack(*model), ids, offsets).log_probs
    assert of_word == [False, True]
    assert np.flatnonzero(np.isnan(found)).tolist() == [11]


def test_a_copy_of_a_packed_model_gives_the_same_scores():
    model, ids, offsets = problem([50], 4, 2, 48)
    packed = pack(*model)
    np.testing.assert_array_equal(
        scores(copy.deepcopy(packed), ids, offsets).log_probs,
        scores(packed, ids, offsets).log_probs,
    )


def test_wide_vectors_do_not_overflow():
    model, ids, offsets = problem([3], 1, 0, 3000)
    model[1].weights[:] = 0
    context = Context(
        model[1].weights, np.ones(3000, np.float32), model[1].rates, model[1].tail_weights
    )
    model = (
        model[0],
        context,
        model[2],
        np.full((4, 3000), 1e-3, np.float32),
        np.zeros(4, np.float32),
    )
    with kernels.use("reference"):
        expected = scores(pack(*model), ids, offsets).log_probs
    np.testing.assert_allclose(scores(pack(*model), ids, offsets).log_probs, expected, 1e-4)


@pytest.mark.parametrize(
    "change",
    [
        {"first": 4},
        {"first": -1},
        {"tails": np.zeros((1, 9))},
        {"ids": [0, 1, 4]},
        {"ids": [0, -1, 2]},
        {"ids": [0.0, 1.0, 2.0]},
        {"offsets": [0, 2]},
    ],
)
def test_arguments_that_do_not_fit_are_refused(change):
    model, ids, offsets = problem([3], 2, 2, 9)
    fit = {"packed": pack(*model), "ids": ids, "offsets": offsets}
    scores(**fit)
    with pytest.raises(KernelError):
        scores(**{**fit, **change})


@pytest.mark.parametrize("change", [(3, np.zeros((4, 8))), (4, np.zeros(3)), (5, np.zeros((4, 8)))])
def test_a_model_that_does_not_fit_together_is_refused(change):
    model, *_ = problem([3], 2, 2, 9)
    place, array = change
    with pytest.raises(KernelError):
        pack(*model[:place], array, *model[place + 1 :])
