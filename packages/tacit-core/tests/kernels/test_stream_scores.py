"""A text scored in one pass: as by the two operations, wherever it is cut."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit import kernels
from tacit.errors import KernelError
from tacit.kernels.context_sum import Context
from tacit.kernels.stream_scores import scores
from tacit.kernels.tree_softmax import Codes

BACKENDS = ("reference", "cpu")
#: Four words; the last has two codes.
CODES = Codes(
    [0, 1, 2, 3, 5], [0, 2, 4, 7, 10, 12], [0, 1, 0, 1, 0, 2, 3, 0, 2, 3, 0, 2],
    [1, 1, 1, -1, -1, 1, 1, -1, 1, -1, -1, -1],
)  # fmt: skip


def problem(lengths, n, tails, width, seed=0):
    rng = np.random.default_rng(seed)

    def normal(*shape):
        return rng.standard_normal(shape).astype(np.float32)

    context = Context(
        normal(n, width), normal(width), np.linspace(0.5, 0.9, tails, dtype=np.float32), normal(tails, width)
    )  # fmt: skip
    ids = rng.integers(0, 4, sum(lengths)).astype(np.int32)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return normal(4, width), ids, offsets, context, CODES, normal(4, width), normal(4)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(0, 6), max_size=5), st.integers(0, 4), st.integers(0, 3), st.integers(1, 18),
    st.booleans(), st.data(),
)  # fmt: skip
def test_both_backends_agree_wherever_the_text_is_entered(lengths, n, tails, width, own, data):
    arguments = problem(lengths, n, tails, width)
    first = data.draw(st.integers(0, sum(lengths)))
    far = np.tanh(arguments[0]) if own else None
    results = []
    for backend in BACKENDS:
        with kernels.use(backend):
            results.append(scores(*arguments, first, far=far))
    for actual, expected in zip(*results, strict=True):
        assert actual.dtype == expected.dtype
        np.testing.assert_allclose(actual, expected, 2e-4, 2e-4)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("cut", [0, 1, 5, 17, 30])
def test_a_text_scored_in_two_parts_has_the_scores_of_the_whole(backend, cut):
    n = 3
    table, ids, _, *rest = problem([30], n, 2, 9)
    with kernels.use(backend):
        whole = scores(table, ids, [0, 30], *rest)
        one = scores(table, ids[:cut], [0, cut], *rest)
        low = max(0, cut - n)
        two = scores(table, ids[low:], [0, 30 - low], *rest, cut - low, one.tails)
    np.testing.assert_allclose(
        np.concatenate([one.log_probs, two.log_probs]), whole.log_probs, 1e-5
    )
    np.testing.assert_allclose(two.tails, whole.tails, 1e-5)


@pytest.mark.parametrize(
    "change", [{"first": 4}, {"first": -1}, {"tails": np.zeros((1, 9))}, {"far": np.zeros((4, 8))}]
)
def test_arguments_that_do_not_fit_are_refused(change):
    arguments = problem([3], 2, 2, 9)
    scores(*arguments)
    with pytest.raises(KernelError):
        scores(*arguments, **change)
