"""``njit`` with this project's choices: nogil, single-threaded, cached, IEEE arithmetic.

Import this only from modules that are loaded at need (``cpu.py`` files): it imports numba.

Compiled code is kept beside the source when that folder can be written and otherwise in the user's
cache folder (``NUMBA_CACHE_DIR`` overrides both). numba refuses to define a cached function where
neither can be written, as in a read-only container without a home; here the function is then
compiled anew in every process, and one warning says so.

Compiling takes seconds, so where progress is shown a line says when it begins; numba tells us then,
and only then, so that calls of compiled functions cost nothing more.
"""

import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import numba
from numba.core import event

from tacenda.progress import announce

_Function = TypeVar("_Function", bound=Callable[..., Any])

_is_kept: dict[Callable[..., Any], bool] = {}
"""Every function given to `njit`: whether its compiled code is kept for other processes."""


class _Notice(event.Listener):
    """Says, once in a process, that functions of ours are being compiled."""

    said = False

    def on_start(self, event: Any) -> None:
        kept = _is_kept.get(event.data["dispatcher"].py_func)
        if kept is not None and not self.said:
            self.said = True
            announce("compiling kernels" + (" (once, for this and later runs)" if kept else ""))

    def on_end(self, event: Any) -> None:
        return None


event.register("numba:compile", _Notice())


def njit(
    function: _Function | None = None,
    *,
    fastmath: bool | set[str] = False,
    inline: bool = False,
    boundscheck: bool = False,
) -> Any:
    """Compile ``function`` without Python objects, releasing the GIL while it runs.

    Use as ``@njit`` or ``@njit(...)``.

    Parameters
    ----------
    function
        What to compile; left out when options are given.
    fastmath
        False keeps IEEE semantics. A set of LLVM flags (``{"contract", "reassoc"}``) permits FMA
        and reordered sums where the operation's tolerance allows; True also assumes that no NaN
        or infinity occurs, which hides them.
    inline
        Inline at every call site, before type inference.
    boundscheck
        Check every index (slow): for debugging.
    """

    def decorate(target: _Function) -> Any:
        options: dict[str, Any] = {
            "nogil": True,
            "parallel": False,
            "fastmath": fastmath,
            "boundscheck": boundscheck,
            "error_model": "numpy",
        }
        if inline:
            options["inline"] = "always"
        _is_kept[target] = True
        try:
            return numba.njit(cache=True, **options)(target)
        except RuntimeError as error:
            if "cannot cache" not in str(error):
                raise
            warnings.warn(
                "compiled kernels cannot be cached, so each process compiles them anew: "
                "set NUMBA_CACHE_DIR to a folder that can be written",
                RuntimeWarning,
                stacklevel=2,
            )
            _is_kept[target] = False
            return numba.njit(cache=False, **options)(target)

    return decorate if function is None else decorate(function)
