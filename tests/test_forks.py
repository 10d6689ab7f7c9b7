"""A process may fork while its threads are at work with any model: the child gets their locks, but not the threads."""

import os
import sys
import threading
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from support.processes import output_of
from tacenda import plugins
from tacenda.forks import cached_property
from tacenda.testing.models import in_forked_process

GOLDEN = Path(__file__).parent / "golden"
sys.path.insert(0, str(GOLDEN))
import golden_uses  # noqa: E402

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform does not fork"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]

AT_WORK = """
import os, signal, sys, threading, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, sys.argv[1])
import golden_uses

if sys.argv[2].startswith("spacy"):  # which imports as it loads, and Python's locks for that do not survive a fork
    import functools, spacy
    spacy.load = functools.cache(spacy.load)

done = threading.Event()

def work(name):
    while not done.is_set():
        golden_uses.predictions(name)

for name in sys.argv[2:]:
    done.clear()
    expected = golden_uses.predictions(name)
    thread = threading.Thread(target=work, args=(name,))
    thread.start()
    for _ in range(2):
        child = os.fork()
        if not child:
            signal.alarm(100)  # what takes so long waits for ever
            os._exit(golden_uses.predictions(name) != expected)
        status = os.waitpid(child, 0)[1]
        if status:
            print(name, status)
    done.set()
    thread.join()
"""

MULTIPLYING = """
import os, signal, threading, warnings
import numpy as np
from blis.py import gemm
import tacenda.forks
warnings.simplefilter("ignore")

left, right = np.ones((10, 96), np.float32), np.ones((96, 96), np.float32)
done = threading.Event()

def work():
    while not done.is_set():
        gemm(left, right)

thread = threading.Thread(target=work)
thread.start()
for turn in range(500):
    child = os.fork()
    if not child:
        signal.alarm(60)
        os._exit(not (gemm(left, right) == 96).all())
    status = os.waitpid(child, 0)[1]
    if status:
        print(turn, status)
        break
done.set()
thread.join()
"""


@pytest.mark.parametrize("kind", sorted({name.partition("-")[0] for name in golden_uses.saved()}))
def test_a_child_predicts_though_a_thread_was_predicting_as_it_was_forked(kind):
    names = [name for name in golden_uses.saved() if name.partition("-")[0] == kind]
    assert output_of("-c", AT_WORK, str(GOLDEN), *names) == ""


@contextmanager
def held_by_a_thread(lock):
    """Hold a lock in another thread, as code at work does, until the event that it yields."""
    held, done = threading.Event(), threading.Event()

    def hold():
        with lock:
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    try:
        yield done
    finally:
        done.set()
        thread.join()


def test_a_child_scores_with_a_vlhmm_whose_blocks_a_thread_was_adding():
    import tacenda

    model = tacenda.load(GOLDEN / "hmm-vlhmm_two_level")
    with held_by_a_thread(model.tables.store._lock):
        found = in_forked_process(lambda: model.perplexity(golden_uses.TEXT).value, 100)
    assert found == model.perplexity(golden_uses.TEXT).value


def test_a_child_lists_the_plugins_that_a_thread_was_reading():
    with held_by_a_thread(plugins._lock):
        found = in_forked_process(lambda: len(plugins.records()), 100)
    assert found == len(plugins.records())


def test_a_child_computes_a_property_that_a_thread_was_computing():
    begun, done = threading.Event(), threading.Event()

    class Slow:
        @cached_property
        def value(self):
            """What takes long."""
            if threading.current_thread() is not threading.main_thread():
                begun.set()
                done.wait()
            return 7

    slow = Slow()
    thread = threading.Thread(target=lambda: slow.value)
    thread.start()
    begun.wait()
    try:
        assert in_forked_process(lambda: slow.value, 100) == 7
    finally:
        done.set()
        thread.join()
    assert slow.value == vars(slow)["value"] == 7


@pytest.mark.skipif(not find_spec("blis"), reason="needs spaCy's BLIS")
def test_children_multiply_with_blis_while_a_thread_does():
    assert output_of("-c", MULTIPLYING) == ""


def test_a_fork_waits_for_what_a_thread_is_compiling():
    """The child compiles with the same compiler, whose state a compilation cut short would leave half changed."""
    from numba.core.compiler_lock import global_compiler_lock

    from tacenda.kernels.machinery.compiled import njit

    @njit
    def add(x, y):
        return x + y

    with held_by_a_thread(global_compiler_lock) as done:
        os.register_at_fork(before=done.set)  # which is called before what was registered earlier
        assert in_forked_process(lambda: add(np.float32(1), 2), 100) == 3
