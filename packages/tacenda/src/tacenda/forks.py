"""Repairs for forked children: they have none of their parent's threads, and locks that a thread held stay locked."""

import ctypes
import functools
import os
import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakSet

if sys.version_info >= (3, 12) or TYPE_CHECKING:
    from functools import cached_property
else:

    class cached_property(functools.cached_property):  # noqa: N801 - the name it has in functools
        """The cached property of Python 3.12: that of 3.11 holds a lock, for all objects of a class, as it computes."""

        def __init__(self, compute: Any) -> None:
            super().__init__(compute)
            self.lock = nullcontext()


__all__ = ["cached_property", "renew_in_children"]


class _OwnerOfLocks(Protocol):
    """An object that can replace its locks by new ones."""

    def renew(self) -> None: ...


_owners: "WeakSet[_OwnerOfLocks]" = WeakSet()


def renew_in_children(owner: _OwnerOfLocks) -> None:
    """Call ``owner.renew()`` in every child that is forked during the life of ``owner``."""
    _owners.add(owner)


def _renew_owners() -> None:
    for owner in list(_owners):
        owner.renew()


def _renew_blis() -> None:
    """Renew the locks and the memory of BLIS, which thinc uses for products on a CPU; NumPy's BLAS renews its own."""
    blis: Any = sys.modules.get("blis.cy")
    if blis is not None:
        try:
            library = ctypes.CDLL(blis.__file__)
            initialize, renew = library.bli_init, library.bli_memsys_init
        except (OSError, AttributeError):  # a version of BLIS without these functions
            return
        # does nothing if BLIS is initialized, as renewing requires
        initialize()
        renew()


def _stop_torch_threads() -> None:
    """Let torch work in one thread: with more, it would wait forever for those that only the parent has."""
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_stop_torch_threads)
    os.register_at_fork(after_in_child=_renew_owners)
    os.register_at_fork(after_in_child=_renew_blis)
