"""``nlp.pipe(n_process=2)`` on a pipeline that has been used before: no hang, the same scores.

A thread pool that is warm when a process forks hangs its child for ever, so the kernels are warmed
first.
"""

import multiprocessing

import pytest

TEXTS = ["the cat saw a dog", "", "a bird ate the mouse .", "the dog  chased \n the zebra"] * 10


@pytest.fixture(params=["fork", "spawn"])
def method(request):
    if request.param not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this platform does not {request.param}")
    before = multiprocessing.get_start_method(allow_none=True)
    multiprocessing.set_start_method(request.param, force=True)
    yield request.param
    multiprocessing.set_start_method(before, force=True)


def scores(doc):
    return [(t._.across_surprisal, t._.across_lm_oov) for t in doc], doc._.across_lm_logprob


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_two_processes_give_the_same_scores(pipeline, no_child_left, method):
    nlp = pipeline(prefix="across_")
    warm = list(nlp.pipe(TEXTS))
    parallel = list(nlp.pipe(TEXTS, n_process=2, batch_size=8))
    assert [doc.text for doc in parallel] == TEXTS
    assert list(map(scores, parallel)) == list(map(scores, warm))


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_stream_in_two_processes_is_refused(pipeline, no_child_left, method):
    nlp = pipeline(context="stream")
    next(iter(nlp.pipe(TEXTS)))
    with pytest.raises(ValueError, match=r"context = 'stream'.*n_process = 1"):
        list(nlp.pipe(TEXTS, n_process=2, batch_size=8))
