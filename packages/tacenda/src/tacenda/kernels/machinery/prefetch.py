"""Ask for a cache line before it is needed, in compiled loops that gather rows of a large table.

A row that is not in the cache costs some hundred nanoseconds, more than the work on it; asked for
while the row before it is worked on, it costs next to nothing. A hint: it changes no result and
faults on no address. Import this only from ``cpu.py`` files: it imports numba.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from tacenda.kernels.machinery.compiled import njit

LINE = 64  # bytes

_BYTE, _FLAG = ir.IntType(8).as_pointer(), ir.IntType(32)


@intrinsic
def _prefetch_line(typing_context: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [_BYTE, _FLAG, _FLAG, _FLAG])
        hint = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        read, everywhere, data = (ir.Constant(_FLAG, n) for n in (0, 3, 1))
        builder.call(hint, [builder.inttoptr(args[0], _BYTE), read, everywhere, data])
        return context.get_dummy_value()

    return types.void(types.uintp), generate


@njit
def prefetch(address, size):  # type: ignore[no-untyped-def]
    """Ask for ``size`` bytes from ``address`` (``array.ctypes.data`` plus an offset) on."""
    for line in range(0, size, LINE):
        _prefetch_line(address + line)
