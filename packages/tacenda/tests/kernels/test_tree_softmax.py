"""Words as paths through trees: brute force on small trees, gradients, and what is refused."""

import copy
import itertools
import pickle
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from support.trees import tree_softmax, tree_softmax_step
from tacenda import kernels
from tacenda.errors import KernelError
from tacenda.kernels import trees
from tacenda.kernels.trees import Codes
from tacenda.testing.kernels.samples import run_specification


def tree_softmax_distribution(vectors, codes, q, b):
    return trees.tree_softmax_distribution(vectors, codes, trees.Nodes(q, b))


BACKENDS = ("reference", "cpu")


def random_codes(leaves, words, seed=0):
    """A random tree with so many leaves, dealt out to the words so that each has at least one."""
    rng = np.random.default_rng(seed)
    paths = [()]
    nodes = itertools.count()
    while len(paths) < leaves:
        path = paths.pop(int(rng.integers(len(paths))))
        node = next(nodes)
        paths += [(*path, (node, 1)), (*path, (node, -1))]
    rng.shuffle(paths)
    owners = np.concatenate([np.arange(words), rng.integers(0, words, leaves - words)])
    order = np.argsort(owners, kind="stable")
    paths = [paths[i] for i in order]
    word_codes = np.searchsorted(owners[order], np.arange(words + 1))
    steps = [step for path in paths for step in path]
    code_steps = np.cumsum([0, *map(len, paths)])
    return Codes(
        word_codes,
        code_steps,
        [n for n, _ in steps] or np.empty(0, int),
        [s for _, s in steps] or np.empty(0, int),
    )


def problem(codes, tokens=7, width=5, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    r = rng.standard_normal((tokens, width)).astype(dtype)
    q = rng.standard_normal((codes.n_nodes, width)).astype(dtype)
    b = rng.standard_normal(codes.n_nodes).astype(dtype)
    return r, rng.integers(0, codes.n_words, tokens).astype(np.int32), q, b


def take_step(backend, codes, given, grad, sums, threads=1):
    """Take a step on copies of the nodes from sums of one size; return its results and all tables."""
    r, w, q, b = given
    tables = q.copy(), b.copy(), np.full_like(b, sums), np.full_like(b, sums)
    with kernels.use(backend):
        found = tree_softmax_step(r, w, codes, *tables[:2], grad, *tables[2:], 0.1, threads)
    return (*found, *tables)


SHAPES = [(1, 1), (2, 1), (2, 2), (3, 2), (9, 4), (40, 17)]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("leaves", "words"), SHAPES)
@pytest.mark.parametrize("width", [1, 15, 17, 64])
def test_the_probabilities_of_all_words_sum_to_one(backend, leaves, words, width):
    codes = random_codes(leaves, words)
    dtype = np.float64 if backend == "reference" else np.float32
    r, _, q, b = problem(codes, 3, width, dtype=dtype)
    with kernels.use(backend):
        pairs = tree_softmax(np.repeat(r, words, 0), np.tile(np.arange(words), 3), codes, q, b)
        whole = tree_softmax_distribution(r, codes, q, b)
    tolerance = 1e-12 if dtype == np.float64 else 2e-6
    np.testing.assert_allclose(np.exp(whole.astype(np.float64)).sum(axis=1), 1, tolerance)
    np.testing.assert_allclose(pairs.reshape(3, words), whole, 10 * tolerance, 10 * tolerance)


def test_a_tree_of_three_leaves_written_out():
    codes = Codes([0, 1, 3], [0, 1, 3, 5], [0, 0, 1, 0, 1], [1, -1, 1, -1, -1])
    r, q, b = np.array([[2.0]]), np.array([[0.5], [-1.0]]), np.array([0.1, 0.2])
    left = 1 / (1 + np.exp(-1.1))
    whole = run_specification(tree_softmax_distribution, r, codes, q, b)[0]
    pairs = run_specification(tree_softmax, np.repeat(r, 2, 0), [0, 1], codes, q, b)
    np.testing.assert_allclose(whole, np.log([left, 1 - left]), 1e-13)
    np.testing.assert_allclose(pairs, np.log([left, 1 - left]), 1e-13)


@pytest.mark.parametrize(("leaves", "words"), SHAPES)
@pytest.mark.parametrize("width", [1, 16, 17])
def test_the_gradient_is_that_of_autograd(leaves, words, width):
    codes = random_codes(leaves, words)
    r, w, q, b = problem(codes, width=width)
    grad = np.random.default_rng(1).standard_normal(len(w))
    # A step whose size does not depend on the gradient: sums so large that no gradient changes them.
    tables, rate = (q.copy(), b.copy()), 1e8
    sums = np.full_like(b, rate**2), np.full_like(b, rate**2)
    result = run_specification(tree_softmax_step, r, w, codes, *tables, grad, *sums, rate)

    R, Q, B = (torch.from_numpy(each).requires_grad_() for each in (r, q, b))
    loss = (R.sum() + Q.sum() + B.sum()) * 0
    for t, word in enumerate(w):
        of_codes = []
        for c in range(codes.word_codes[word], codes.word_codes[word + 1]):
            steps = slice(codes.code_steps[c], codes.code_steps[c + 1])
            nodes = torch.from_numpy(codes.nodes[steps].astype(np.int64))
            x = Q[nodes] @ R[t] + B[nodes]
            signs = torch.from_numpy(codes.signs[steps].astype(np.float64))
            of_codes.append(torch.nn.functional.logsigmoid(signs * x).sum())
        loss = loss + grad[t] * torch.logsumexp(torch.stack(of_codes), 0)
    loss.backward()
    np.testing.assert_allclose(result.vectors, R.grad, 1e-10, 1e-12)
    np.testing.assert_allclose(q - tables[0], Q.grad, 1e-10, 1e-12)
    np.testing.assert_allclose(b - tables[1], B.grad, 1e-10, 1e-12)


@settings(max_examples=40)
@given(
    st.integers(1, 30),
    st.integers(0, 20),
    st.integers(0, 12),
    st.integers(1, 40),
    st.integers(0, 9),
)
def test_both_backends_agree(words, more, tokens, width, seed):
    codes = random_codes(words + more, words, seed)
    r, w, q, b = problem(codes, tokens, width, seed, np.float32)
    grad, results = np.linspace(-1, 1, tokens).astype(np.float32), []
    for backend in BACKENDS:
        with kernels.use(backend):
            log_probs = tree_softmax(r, w, codes, q, b)
        results.append((log_probs, *take_step(backend, codes, (r, w, q, b), grad, 1)))
    for a, e in zip(*results, strict=True):
        assert a.dtype == e.dtype
        np.testing.assert_allclose(a, e, 1e-4, 1e-4)


def test_certain_and_hopeless_turns_keep_their_logarithms():
    """Activations of a thousand: a float32 exponential has long become zero."""
    codes = Codes([0, 1, 3], [0, 1, 3, 5], [0, 0, 1, 0, 1], [1, -1, 1, -1, -1])
    r, q = np.float32([[1000.0]]), np.float32([[1.0], [1.0]])
    log_probs = tree_softmax(np.repeat(r, 2, 0), [0, 1], codes, q, np.zeros(2, np.float32))
    np.testing.assert_allclose(log_probs, [0, -1000], atol=1e-6)
    np.testing.assert_allclose(
        tree_softmax_distribution(r, codes, q, np.zeros(2, np.float32)), [[0, -1000]], atol=1e-4
    )


def test_codes_too_deep_for_products_in_float64_are_left_to_the_specification():
    """Two codes of 1500 even turns each."""
    codes = Codes([0, 2], [0, 1500, 3000], [*range(1500)] * 2, [*[1] * 2999, -1])
    q, b, grad = np.zeros((1500, 2), np.float32), np.zeros(1500, np.float32), np.ones(1, np.float32)
    with pytest.warns(RuntimeWarning, match="codes of at most 1000 steps"):
        log_probs = tree_softmax(q[:1], [0], codes, q, b)
    with pytest.warns(RuntimeWarning, match="codes of at most 1000 steps"):
        step = tree_softmax_step(q[:1], [0], codes, q, b, grad, b + 1, b + 1, 0.1)
    np.testing.assert_allclose([log_probs, step.log_probs], -1499 * np.log(2))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_word_with_a_certain_code_among_others_is_certain(backend):
    # three leaves of the first word, the second of which is reached with a probability that is one in float64
    codes = Codes(
        [0, 3, 4], [0, 1, 3, 6, 9], [0, 0, 1, 0, 1, 2, 0, 1, 2], [1, -1, 1, -1, -1, 1, -1, -1, -1]
    )
    r, q = np.ones((1, 1), np.float32), np.full((3, 1), [[-1e4], [1e4], [1e4]], np.float32)
    with kernels.use(backend):
        found = tree_softmax_distribution(r, codes, q, np.zeros(3, np.float32))
    np.testing.assert_array_equal(found, np.array([[0, -2e4]], np.float32))


def test_nan_in_a_vector_shows_in_its_own_probability_alone():
    codes = random_codes(6, 4)
    r, w, q, b = problem(codes, dtype=np.float32)
    r[2, 1] = np.nan
    found = tree_softmax(r, w, codes, q, b)
    assert np.flatnonzero(np.isnan(found)).tolist() == [2]


@pytest.mark.parametrize("width", [1, 19, 100, 208])
def test_a_step_is_that_of_the_reference_and_the_same_for_any_number_of_threads(width):
    codes = random_codes(90, 60)
    r, w, q, b = problem(codes, 300, width, dtype=np.float32)
    grad, results = np.linspace(-1, 0.5, 300).astype(np.float32), []
    for backend, threads in (("reference", 1), ("cpu", 1), ("cpu", 2), ("cpu", 3), ("cpu", 16)):
        results.append(take_step(backend, codes, (r, w, q, b), grad, 1e-3, threads))
        with kernels.use(backend):
            log_probs = tree_softmax(r, w, codes, q, b)
        np.testing.assert_allclose(results[-1][0], log_probs, 1e-6, 1e-6)
    expected, first, *others = results
    for e, a in zip(expected, first, strict=True):
        np.testing.assert_allclose(a, e, 1e-4, 1e-5)
    for other in others:
        for a, e in zip(other, first, strict=True):
            np.testing.assert_array_equal(a, e)


def test_a_step_from_hopeless_words_is_finite_and_that_of_the_reference():
    """Turns of probability exp(-200): float32 has long become zero, their gradient is not."""
    codes = random_codes(12, 9)
    r, w, q, b = problem(codes, 40, 6, dtype=np.float32)
    r *= 80
    grad = -np.ones(40, np.float32)
    results = [take_step(backend, codes, (r, w, q, b), grad, 1) for backend in BACKENDS]
    assert results[0][0].min() < -200
    for expected, actual in zip(*results, strict=True):
        np.testing.assert_allclose(actual, expected, 1e-4, 1e-4)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("which", range(4))
def test_a_step_on_what_cannot_be_changed_in_place_is_refused(backend, which):
    codes = random_codes(6, 4)
    r, w, q, b = problem(codes, dtype=np.float32)
    arrays = [q, b, np.ones_like(b), np.ones_like(b)]
    arrays[which] = np.repeat(arrays[which], 2, axis=-1)[..., ::2]
    with kernels.use(backend), pytest.raises(KernelError, match="in place"):
        tree_softmax_step(r, w, codes, *arrays[:2], np.ones(len(w)), *arrays[2:], 0.1)


GOOD = {
    "word_codes": [0, 1, 2], "code_steps": [0, 1, 2], "nodes": [0, 0], "signs": [1, -1],
}  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {"word_codes": [0, 0, 2]},
        {"word_codes": [1, 1, 2]},
        {"word_codes": [0, 1, 3]},
        {"word_codes": [0, 2**63 - 1, -2, 2]},
        {"code_steps": [0, 2**63 - 1, -2, 2], "word_codes": [0, 1, 3]},
        {"code_steps": [0, 2, 1]},
        {"code_steps": [0, 1, 3]},
        {"nodes": [0, -1]},
        {"nodes": [0.0, 0.5]},
        {"nodes": [0, 2**32]},
        {"signs": [1, 0]},
        {"signs": [1, 255]},
        {"signs": [1]},
        {"nodes": [[0], [0, 1]]},
    ],
)
def test_codes_that_do_not_fit_together_are_refused(change):
    Codes(**GOOD)
    with pytest.raises(KernelError):
        Codes(**{**GOOD, **change})


def test_codes_do_not_change_with_the_arrays_they_were_made_of():
    kinds = (np.int64, np.int64, np.int32, np.int8)
    given = [np.array(values, kind) for values, kind in zip(GOOD.values(), kinds, strict=True)]
    codes, before = Codes(*given), [array.tolist() for array in given]
    for array in given:
        array[:] = 99
    assert [array.tolist() for array in codes.arrays] == before
    with pytest.raises(ValueError, match="read-only"):
        codes.nodes[0] = 1
    with pytest.raises(FrozenInstanceError):
        codes.n_words = 3


@pytest.mark.parametrize(
    ("nodes", "signs"),
    [([0, 0], [1, 1]), ([0, 1], [1, -1]), ([0, 0, 1], [1, -1, 1]), ([0, 0, 0], [1, -1, -1])],
)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_distribution_over_what_is_no_tree_is_refused(backend, nodes, signs):
    codes = Codes([0, 1, 2], [0, 1, len(nodes)], nodes, signs)
    with kernels.use(backend), pytest.raises(KernelError, match="tree"):
        tree_softmax_distribution(
            np.zeros((1, 2), np.float32), codes, np.zeros((2, 2)), np.zeros(2)
        )


@pytest.mark.parametrize(
    "change",
    [
        {"words": np.array([4, 0])},
        {"words": np.array([0])},
        {"vectors": np.zeros((2, 4))},
        {"vectors": np.zeros((2, 5), int)},
        {"node_biases": np.zeros(3)},
        {"node_vectors": np.zeros((1, 5)), "node_biases": np.zeros(1)},
    ],
)
def test_arguments_that_do_not_fit_are_refused(change):
    codes = random_codes(6, 4)
    r, _, q, b = problem(codes, 2)
    fit = {"vectors": r, "words": [0, 3], "codes": codes, "node_vectors": q, "node_biases": b}
    run_specification(tree_softmax, **fit)
    with pytest.raises(KernelError):
        tree_softmax(**{**fit, **change})


def test_codes_with_other_arrays_are_checked_too():
    codes = Codes([0, 1, 2], [0, 1, 2], [0, 0], [1, -1])
    with pytest.raises(KernelError, match="name node -3"):
        replace(codes, nodes=[5, -3])
    assert replace(codes, nodes=[4, 4]).n_nodes == 5


@pytest.mark.parametrize("pickled", [True, False])
def test_codes_survive_a_copy(pickled):
    codes = random_codes(6, 4)
    again = pickle.loads(pickle.dumps(codes)) if pickled else copy.deepcopy(codes)  # noqa: S301
    assert isinstance(again, Codes)
    assert again.most == codes.most
    assert all((a == b).all() for a, b in zip(codes.arrays, again.arrays, strict=True))
