"""Threads that share work: when an error of one is raised."""

import threading

import pytest

from tacenda.kernels.machinery.threads import over_ranges


def test_an_error_is_raised_only_when_the_other_threads_have_ended():
    all_began, others, ended = threading.Barrier(3), threading.Semaphore(1), []
    gone = threading.Event()  # set by nobody: the other thread works for a while

    def work(first, last):
        all_began.wait(60)
        if threading.current_thread() is not threading.main_thread():
            if others.acquire(blocking=False):
                raise ValueError("of a thread")
            gone.wait(0.3)
        ended.append(first)

    with pytest.raises(ValueError, match="of a thread"):
        over_ranges(work, [(0, 1), (1, 2), (2, 3)], 3)
    assert len(ended) == 2


def test_ranges_that_no_thread_has_begun_are_left_out_after_an_error():
    both_began, done = threading.Barrier(2), []

    def work(first, last):
        if first < 2:
            both_began.wait(60)
            if threading.current_thread() is threading.main_thread():
                raise KeyboardInterrupt
            threading.Event().wait(0.3)
        done.append(first)

    with pytest.raises(KeyboardInterrupt):
        over_ranges(work, [(n, n + 1) for n in range(50)], 2)
    assert len(done) == 1
