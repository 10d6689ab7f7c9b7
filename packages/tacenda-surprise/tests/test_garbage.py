"""Holding back the garbage collector changes nothing but time."""

import gc
import weakref

import pytest

from tacenda_surprise.algorithm import no_collection


class Cycle:
    def __init__(self):
        self.me = self


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_as_it_was(enabled):
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        with no_collection():
            assert not gc.isenabled()
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if before else gc.disable)()


def test_garbage_made_meanwhile_is_still_collected():
    with no_collection():
        gone = weakref.ref(Cycle())
    gc.collect()
    assert gone() is None


def test_what_somebody_froze_stays_frozen():
    gc.collect()
    gc.freeze()
    try:
        with no_collection():
            pass
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
