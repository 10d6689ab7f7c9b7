"""``nlp.pipe(n_process=2)`` on a pipeline that has been used before: no hang, the same vectors.

A thread pool that is warm when a process forks hangs its child for ever, so the kernels are warmed first.
"""

import multiprocessing

import numpy as np
import pytest

from support.pipelines import pipeline

TEXTS = ["the cat saw a dog", "", "a bird ate the mouse .", "the dog  chased \n the cat"] * 10


@pytest.fixture
def forking():
    """The registry knows the toy in this process only, so children must inherit it."""
    if "fork" not in multiprocessing.get_all_start_methods():
        pytest.skip("this platform does not fork")
    before = multiprocessing.get_start_method(allow_none=True)
    multiprocessing.set_start_method("fork", force=True)
    yield
    multiprocessing.set_start_method(before, force=True)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("target", ["tensor", "across_processes"])
def test_two_processes_give_the_same_vectors(any_toy, no_child_left, forking, target):
    nlp = pipeline(any_toy, target=target, mode="append")
    warm = list(nlp.pipe(TEXTS))
    parallel = list(nlp.pipe(TEXTS, n_process=2, batch_size=8))
    assert [doc.text for doc in parallel] == TEXTS
    for one, other in zip(warm, parallel, strict=True):
        rows = [doc.tensor if target == "tensor" else doc._.get(target) for doc in (one, other)]
        np.testing.assert_array_equal(*rows)
        assert other._.get(f"{target}_columns") == {"token_embeddings": [0, any_toy.width]}
