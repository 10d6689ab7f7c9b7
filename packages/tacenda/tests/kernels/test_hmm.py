"""Forward-backward against the sum over all paths, its gradient against autograd, and the softmaxes it starts from."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from support.hidden_markov import problem, stochastic
from tacenda import kernels
from tacenda.errors import KernelError
from tacenda.kernels.hidden_markov import (
    Classed,
    FeatureModel,
    Sequences,
    Vectors,
    block_softmax,
    block_softmax_backward,
    class_softmax,
    class_softmax_backward,
    hmm_block,
    hmm_block_backward,
    hmm_features,
    hmm_features_backward,
    streaming_logsumexp,
    streaming_logsumexp_backward,
)

BACKENDS = ("reference", "cpu")


@pytest.fixture(params=BACKENDS, autouse=True)
def backend(request):
    with kernels.use(request.param):
        yield request.param


def all_paths(A, o, s, observed, n):
    """p(x) of one sequence by the definition."""
    begin, end = observed.offsets[n : n + 2]
    total = 0.0
    for path in itertools.product(range(o.shape[1]), repeat=int(end - begin)):
        p = s[observed.first[n], path[0]] if path else 1.0
        for t, z in enumerate(path, begin):
            p *= o[observed.words[t], z]
            if t > begin:
                p *= A[observed.pairs[t], z, path[t - begin - 1]]
        total += p
    return total


@pytest.mark.parametrize("lengths", [(0,), (1,), (4, 0, 1, 5), (2, 2)])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_scores_multiply_to_the_sum_over_all_paths(lengths, k):
    A, o, s, observed = problem(lengths, k)
    found = hmm_block(A, o, s, observed)
    for n, (begin, end) in enumerate(itertools.pairwise(observed.offsets)):
        expected = all_paths(A, o, s, observed, n)
        assert np.exp(found.log_probs[begin:end].sum()) == pytest.approx(expected, rel=1e-12)


def by_autograd(A, o, s, observed):
    """The log-likelihood in logarithms of the probabilities, recorded through time."""
    logs = [torch.from_numpy(np.log(table)).requires_grad_() for table in (A, o, s)]
    A, o, s = (table.exp() for table in logs)
    total = torch.zeros((), dtype=torch.float64)
    for n, (begin, end) in enumerate(itertools.pairwise(observed.offsets.tolist())):
        state = s[observed.first[n]]
        for t in range(begin, end):
            state = (state if t == begin else A[observed.pairs[t]] @ state) * o[observed.words[t]]
        if end > begin:
            total = total + state.sum().log()
    total.backward()
    return total.item(), [table.grad.numpy() for table in logs]


@pytest.mark.parametrize("k", [1, 4, 17])
def test_expected_counts_are_the_gradient_in_the_logarithms(k):
    """A batch in which every pair is new, and one in which all are the same."""
    for blocks in (1, 40):
        A, o, s, observed = problem((7, 0, 1, 12, 3), k, blocks)
        if blocks > 1:
            observed = observed._replace(pairs=np.arange(len(observed.words)))
        found = hmm_block(A, o, s, observed)
        counts = hmm_block_backward(A, o, s, observed, found)
        total, gradients = by_autograd(A, o, s, observed)
        assert found.log_probs.sum() == pytest.approx(total, rel=1e-12)
        for name, expected in zip(("blocks", "emissions", "starts"), gradients, strict=True):
            np.testing.assert_allclose(getattr(counts, name), expected, rtol=0, atol=1e-10)


def test_counts_add_up_to_the_tokens():
    A, o, s, observed = problem((9, 1, 30))
    counts = hmm_block_backward(A, o, s, observed, hmm_block(A, o, s, observed))
    np.testing.assert_allclose(counts.posteriors.sum(axis=1), 1)
    assert counts.emissions.sum() == pytest.approx(40)
    assert counts.blocks.sum() == pytest.approx(37)
    assert counts.starts.sum() == pytest.approx(3)


@settings(max_examples=30)
@given(st.integers(1, 9), st.integers(0, 8), st.integers(0, 2**32 - 1))
def test_a_sequence_cut_in_two_is_scored_as_in_one(k, cut, seed):
    A, o, s, observed = problem((8,), k, seed=seed)
    whole = hmm_block(A, o, s, observed)
    if not 0 < cut < 8:
        return
    pairs, words, first, _ = observed
    head = hmm_block(A, o, s, Sequences(pairs[:cut], words[:cut], first, [0, cut]))
    starts = (A[pairs[cut]] @ head.states[-1])[None]
    tail = hmm_block(A, o, starts, Sequences(pairs[cut:], words[cut:], [0], [0, 8 - cut]))
    np.testing.assert_allclose(np.append(head.log_probs, tail.log_probs), whole.log_probs)
    np.testing.assert_allclose(tail.states[-1], whole.states[-1])


def test_what_cannot_happen_is_minus_infinity_and_no_number_is_lost():
    A, o, s, observed = problem((6, 3))
    o[observed.words[2]] = 0
    found = hmm_block(A, o, s, observed)
    assert np.isneginf(found.log_probs[2])
    counts = hmm_block_backward(A, o, s, observed, found)
    for array in counts:
        assert np.isfinite(array).all()


@pytest.mark.parametrize("o", [1e-40, [[1e-40, 3e-40]]])
def test_subnormal_probabilities_are_no_infinities(o):
    A, _, s, observed = problem((4,), 2, dtype=np.float32)
    o = np.full((6, 2), o, np.float32)
    found = hmm_block(A, o, s, observed)
    expected = hmm_block(*(table.astype(np.float64) for table in (A, o, s)), observed)
    np.testing.assert_allclose(found.log_probs, expected.log_probs, rtol=1e-5)
    np.testing.assert_allclose(found.states, expected.states, rtol=1e-3)
    counts = hmm_block_backward(A, o, s, observed, found)
    np.testing.assert_allclose(counts.posteriors.sum(axis=1), 1, rtol=1e-3)
    x = np.full((1, 2, 1), np.sqrt(0.5), np.float32)  # all probabilities of states are 1/2
    model = FeatureModel(x, x, o, np.full((1, 2), 0.5, np.float32))
    classed = Classed(np.zeros(4, np.int64), observed.words, observed.offsets)
    found = hmm_features(model, classed)
    np.testing.assert_allclose(found.log_probs, np.log(o[0].mean(dtype=np.float64)), rtol=1e-5)
    counts = hmm_features_backward(model, classed, found)
    np.testing.assert_allclose(counts.starts.sum(), 1, rtol=1e-3)


def test_nan_is_seen_in_the_scores():
    A, o, s, observed = problem((5,), dtype=np.float32)
    A[observed.pairs[2], 0, 0] = np.nan
    assert np.isnan(hmm_block(A, o, s, observed).log_probs[2:]).all()


def test_threads_change_nothing():
    A, o, s, observed = problem((30, 0, 7, 41, 1), 16, dtype=np.float32)
    one, two = (hmm_block(A, o, s, observed, threads=n) for n in (1, 3))
    np.testing.assert_array_equal(one.log_probs, two.log_probs)
    backs = [hmm_block_backward(A, o, s, observed, one, threads=n) for n in (1, 3)]
    for first, second in zip(*backs, strict=True):
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize(
    "change",
    [
        {"pairs": np.array([9] * 5)},
        {"words": np.array([-1] * 5)},
        {"offsets": np.array([0, 4])},
        {"first": np.array([7])},
        {"words": np.zeros(5)},
    ],
)
def test_what_does_not_fit_is_refused(change):
    A, o, s, observed = problem((5,))
    with pytest.raises(KernelError):
        hmm_block(A, o, s, observed._replace(**change))


# -- features --------------------------------------------------------------------------------------


def feature_problem(classes, k, width, lengths, seed=0):
    rng = np.random.default_rng(seed)
    x, y = (rng.random((classes, k, width)) + 0.01 for _ in range(2))
    x /= (x @ y.sum((0, 1)))[:, :, None]
    offsets = np.cumsum([0, *lengths])
    n = int(offsets[-1])
    model = FeatureModel(x, y, stochastic(rng, 6, k), rng.random((classes, k)))
    return model, Classed(rng.integers(0, classes, n), rng.integers(0, 6, n), offsets)


def as_blocks(model, observed):
    """The same with the blocks of the transition matrix."""
    M = len(model.left)
    blocks = np.einsum("bjf,aif->abji", model.reached, model.left).reshape(
        M * M, *[model.left.shape[1]] * 2
    )
    pairs = np.zeros(len(observed.words), np.int64)
    pairs[1:] = observed.classes[:-1] * M + observed.classes[1:]
    first = [observed.classes[b] if e > b else 0 for b, e in itertools.pairwise(observed.offsets)]
    return (
        blocks,
        model.emissions,
        model.starts,
        Sequences(pairs, observed.words, first, observed.offsets),
    )


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 6, 3), (3, 4, 9)])
def test_features_give_what_their_blocks_give(shape):
    model, observed = feature_problem(*shape, (5, 0, 1, 9))
    arguments = as_blocks(model, observed)
    found, expected = hmm_features(model, observed), hmm_block(*arguments)
    np.testing.assert_allclose(found.log_probs, expected.log_probs)
    back = hmm_features_backward(model, observed, found)
    counts = hmm_block_backward(*arguments, expected)
    np.testing.assert_allclose(back.emissions, counts.emissions)
    np.testing.assert_allclose(back.starts, counts.starts)


def test_gradients_of_features_are_those_of_autograd():
    model, observed = feature_problem(3, 4, 5, (6, 1, 8))
    x, y = (torch.from_numpy(table).requires_grad_() for table in model[:2])
    o, s, (classes, words, offsets) = *map(torch.from_numpy, model[2:]), observed
    total = torch.zeros((), dtype=torch.float64)
    for begin, end in itertools.pairwise(offsets.tolist()):
        state = s[classes[begin]] * o[words[begin]]
        for t in range(begin + 1, end):
            state = (y[classes[t]] @ (x[classes[t - 1]].T @ state)) * o[words[t]]
        total = total + state.sum().log()
    total.backward()
    back = hmm_features_backward(model, observed, hmm_features(model, observed))
    np.testing.assert_allclose(back.left, x.grad.numpy(), rtol=0, atol=1e-10)
    np.testing.assert_allclose(back.reached, y.grad.numpy(), rtol=0, atol=1e-10)


# -- softmaxes -------------------------------------------------------------------------------------


def vectors(classes, k, width, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    shapes = (classes, k, width), (classes, k, width), (classes, k)
    return Vectors(*(rng.standard_normal(shape).astype(dtype) for shape in shapes))


@pytest.mark.parametrize("two_levels", [True, False])
def test_blocks_and_their_gradients_are_those_of_autograd(two_levels):
    M, k = 3, 5
    made_of = vectors(M, k, 4)
    sources, targets = np.array([0, 0, 2, 2, 2]), np.array([1, 1, 0, 1, 2])
    rng = np.random.default_rng(1)
    w = rng.random((5, k)) if two_levels else None
    counts = rng.random((5, k, k))
    x, y, b = (torch.from_numpy(array).requires_grad_() for array in made_of)
    scores = torch.einsum("ujd,uid->uji", y[targets], x[sources]) + b[targets][:, :, None]
    if two_levels:
        norms = None
        logs = torch.log_softmax(scores, 1) + torch.from_numpy(np.log(w))[:, None]
    else:
        flat = x.reshape(-1, 4) @ y.reshape(-1, 4).T + b.ravel()
        norms = torch.logsumexp(flat, 1).view(M, k)
        logs = scores - norms.detach()[sources][:, None]
        norms = norms.detach().numpy()
    (logs * torch.from_numpy(counts)).sum().backward()
    blocks = block_softmax(made_of, sources, targets, w, norms)
    np.testing.assert_allclose(blocks, logs.detach().exp().numpy())
    found = block_softmax_backward(made_of, sources, targets, blocks, counts, w)
    for name, tensor in (("left", x), ("reached", y), ("bias", b)):
        np.testing.assert_allclose(getattr(found, name), tensor.grad.numpy(), rtol=0, atol=1e-10)
    np.testing.assert_allclose(found.departures, counts.sum(axis=1))


@settings(max_examples=25)
@given(st.integers(1, 40), st.floats(0.1, 60), st.integers(0, 2**32 - 1))
def test_float32_blocks_have_columns_that_sum_to_the_weights(k, scale, seed):
    made_of = vectors(2, k, 6, seed, np.float32)
    made_of = made_of._replace(left=made_of.left * np.float32(scale))
    weights = np.full((4, k), 0.25, np.float32)
    pairs = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    blocks = block_softmax(made_of, *pairs, weights)
    assert np.isfinite(blocks).all()
    np.testing.assert_allclose(blocks.sum(axis=1), 0.25, rtol=1e-5)


@pytest.mark.parametrize("name", ["left", "reached", "bias"])
def test_nan_in_a_vector_is_seen_in_its_blocks(name):
    """A diverging fit must not look healthy."""
    made_of = vectors(2, 5, 3, dtype=np.float32)
    getattr(made_of, name)[1] = np.nan
    norms = np.ones((2, 5), np.float32)
    for how in ({"weights": norms[:1]}, {"norms": norms}):
        assert np.isnan(block_softmax(made_of, [1], [1], **how)).all()
    words = np.ones((3, 2), np.float32)
    words[1] = np.nan
    found = class_softmax(words, words[:, 0] * 0, np.ones((1, 4, 2), np.float32), [0, 3])
    assert np.isnan(found).all()
    assert np.isnan(streaming_logsumexp(words, words[:1], words[:1, 0])[1])


@pytest.mark.parametrize("k", [5, 9, 13])
def test_results_do_not_depend_on_where_arrays_lie(k):
    """Sums that a compiler may reorder must be reordered alike in every call."""
    *tables, observed = problem((9, 0, 1, 3, 5, 1, 2, 9, 13), k, 1, 30, dtype=np.float32)
    expected = hmm_block(*tables, observed)
    counts = hmm_block_backward(*tables, observed, expected)
    rng, others = np.random.default_rng(0), []
    for _ in range(200):
        others = [*others[::2], *(np.empty(n, np.uint8) for n in rng.integers(1, 400, 9))]
        copies = [table.copy() for table in tables]
        found = hmm_block(*copies, observed)
        np.testing.assert_array_equal(found.log_probs, expected.log_probs)
        for array, same in zip(hmm_block_backward(*copies, observed, found), counts, strict=True):
            np.testing.assert_array_equal(array, same)


def test_pairs_out_of_order_are_refused():
    with pytest.raises(KernelError, match="sorted"):
        block_softmax(vectors(2, 2, 2), [1, 0], [0, 0], np.ones((2, 2)))


def test_words_of_a_class_sum_to_one_and_gradients_are_those_of_autograd():
    rng = np.random.default_rng(0)
    offsets = np.array([0, 0, 1, 7])  # no word, one word, six
    words, bias, states = (rng.standard_normal(shape) for shape in ((7, 4), (7,), (3, 5, 4)))
    found = class_softmax(words, bias, states, offsets)
    np.testing.assert_allclose(found[:1], 1)
    np.testing.assert_allclose(found[1:].sum(axis=0), 1)
    counts = rng.random(found.shape)
    y, b, x = (torch.from_numpy(array).requires_grad_() for array in (words, bias, states))
    total = torch.zeros((), dtype=torch.float64)
    for c, (begin, end) in enumerate(itertools.pairwise(offsets.tolist())):
        logs = torch.log_softmax(y[begin:end] @ x[c].T + b[begin:end, None], 0)
        total = total + (logs * torch.from_numpy(counts[begin:end])).sum()
    total.backward()
    gradients = class_softmax_backward(words, bias, states, offsets, found, counts)
    for name, tensor in (("words", y), ("bias", b), ("states", x)):
        np.testing.assert_allclose(
            getattr(gradients, name), tensor.grad.numpy(), rtol=0, atol=1e-10
        )


@pytest.mark.parametrize("share", [None, 0.0, 0.7, 1.0])
@pytest.mark.parametrize("shape", [(1, 1, 1), (7, 5, 3), (520, 1100, 4)])
def test_the_streaming_sum_is_that_of_the_whole_matrix(shape, share):
    rows, columns, width = shape
    rng = np.random.default_rng(0)
    x, y, b = (rng.standard_normal(size) for size in ((rows, width), (columns, width), (columns,)))
    tensors = [torch.from_numpy(array).requires_grad_() for array in (x, y, b)]
    scores = tensors[0] @ tensors[1].T + tensors[2]
    expected = torch.logsumexp(scores, 1)
    kept = None if share is None else np.full((int(share * rows), columns), np.nan)
    found = streaming_logsumexp(x, y, b, kept)
    np.testing.assert_allclose(found, expected.detach().numpy(), rtol=0, atol=1e-12)
    if kept is not None:
        softmax = scores.detach().softmax(1).numpy()[: len(kept)]
        np.testing.assert_allclose(kept, softmax, rtol=0, atol=1e-12)
    g = rng.standard_normal(rows)
    (expected * torch.from_numpy(g)).sum().backward()
    gradients = streaming_logsumexp_backward(x, y, b, found, g, kept)
    for gradient, tensor in zip(gradients, tensors, strict=True):
        np.testing.assert_allclose(gradient, tensor.grad.numpy(), rtol=0, atol=1e-10)


def test_kept_sums_are_as_right_in_float32_and_where_columns_are_left_out():
    rng = np.random.default_rng(1)
    x, y, b = (2 * rng.standard_normal(size) for size in ((70, 9), (90, 9), (90,)))
    b[::3] = -np.inf
    g = rng.standard_normal(70)
    kept = np.empty((50, 90), np.float32)
    small = [array.astype(np.float32) for array in (x, y, b, g)]
    exact = [array.astype(np.float64) for array in small]
    with kernels.use("reference"):
        expected = streaming_logsumexp(*exact[:3])
        slopes = streaming_logsumexp_backward(*exact[:3], expected, exact[3])
    found = streaming_logsumexp(*small[:3], kept)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    for gradient, slope in zip(
        streaming_logsumexp_backward(*small[:3], found, small[3], kept), slopes, strict=True
    ):
        np.testing.assert_allclose(gradient, slope, rtol=0, atol=2e-5 * np.abs(slope).max())


def test_rows_without_a_column_are_kept_as_nothing_and_move_nothing():
    kept = np.empty((2, 3), np.float32)
    ones = np.ones((3, 2), np.float32)
    given = ones, ones, np.full(3, -np.inf, np.float32)
    found = streaming_logsumexp(*given, kept)
    gradients = streaming_logsumexp_backward(*given, found, ones[:, 0], kept)
    assert np.isneginf(found).all()
    assert not kept.any()
    assert not any(gradient.any() for gradient in gradients)


@pytest.mark.parametrize("kept", [np.empty((4, 3)), np.empty((2, 2)), np.empty((3, 2)).T])
def test_a_place_that_does_not_fit_is_refused(kept):
    ones = np.ones((3, 2))
    with pytest.raises(KernelError, match="kept"):
        streaming_logsumexp(ones, ones, ones[:, 0], kept)
