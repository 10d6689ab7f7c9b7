"""Names that are imported, and loops that are compiled, at their first use, so that importing a package is cheap."""

from __future__ import annotations

import sys
from functools import cache, wraps
from importlib import import_module

# type checkers take it for true; to import typing would be most of the cost of ``import tacenda``
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TypeVar

    _Loop = TypeVar("_Loop", bound=Callable[..., Any])


def attach(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package, whose ``__name__`` is given.

    ``homes`` has names, separated by spaces, by the relative module that defines them: ``{".lds.model": "LDS"}``.
    Modules of the package itself are under ``"."``.
    """
    home_of = {name: home for home, names in homes.items() for name in names.split()}

    def get_attribute(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if home_of[name] == ".":
            return import_module(f"{package}.{name}")
        value = getattr(import_module(home_of[name], package), name)
        setattr(sys.modules[package], name, value)
        return value

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *home_of})

    return get_attribute, list_names


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
