"""Repairs for forked children: they have none of their parent's threads, and locks that a thread held stay locked."""

import ctypes
import os
import sys
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakSet

if sys.version_info >= (3, 12) or TYPE_CHECKING:
    from functools import cached_property
else:

    class cached_property:  # noqa: N801 - the name it has in functools
        """As in Python 3.12: the one of 3.11 holds a lock, for all objects of a class, while it computes."""

        def __init__(self, compute: Any) -> None:
            self.compute, self.__doc__ = compute, compute.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self.name = name

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            found = instance.__dict__[self.name] = self.compute(instance)
            return found


__all__ = ["cached_property", "renew_in_children"]


class _Locked(Protocol):
    def renew(self) -> None: ...


_locked: "WeakSet[_Locked]" = WeakSet()


def renew_in_children(owner: _Locked) -> None:
    """Have ``owner.renew()`` called in every child that is forked as long as ``owner`` is there."""
    _locked.add(owner)


def _renew() -> None:
    for owner in list(_locked):
        owner.renew()


def _renew_blis() -> None:
    """Renew the locks and the memory of BLIS, with which thinc multiplies on a CPU; NumPy's BLAS renews its own."""
    blis: Any = sys.modules.get("blis.cy")
    if blis is not None:
        try:
            library = ctypes.CDLL(blis.__file__)
            initialize, renew = library.bli_init, library.bli_memsys_init
        except (OSError, AttributeError):  # another version of BLIS
            return
        initialize()  # unless it is initialized, which the other requires
        renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
    os.register_at_fork(after_in_child=_renew_blis)
