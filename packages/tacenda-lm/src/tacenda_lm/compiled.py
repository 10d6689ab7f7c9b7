"""`compiled`: loops of models that are compiled when they are first called, since importing numba takes long."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any, TypeVar

_Loop = TypeVar("_Loop", bound=Callable[..., Any])


def compiled(loop: _Loop) -> _Loop:
    """Return a function that runs ``loop`` as compiled code, in which sums may be in another order."""

    @cache
    def compile_loop() -> Callable[..., Any]:
        from tacenda.kernels.machinery.compiled import njit

        function: Callable[..., Any] = njit(loop, fastmath={"contract", "reassoc"})
        return function

    @wraps(loop)
    def call(*arguments: Any) -> Any:
        return compile_loop()(*arguments)

    return call  # type: ignore[return-value]
