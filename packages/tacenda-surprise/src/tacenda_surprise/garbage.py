"""No garbage collection while many objects are made that all stay."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collection() -> Iterator[None]:
    """Hold back the cyclic garbage collector, which would walk through all of Surprise's tuples again and
    again while a list of predictions grows: three quarters of the time of ``test``. What is there at the end
    counts as old, for the same reason: freezing and unfreezing moves it there without a look at it.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            if gc.get_freeze_count() == 0:  # else somebody wants objects to stay frozen
                gc.freeze()
                gc.unfreeze()
            gc.enable()
