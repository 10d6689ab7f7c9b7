"""``njit`` with this project's choices: nogil, single-threaded, cached, IEEE arithmetic.

Import this only from modules that are imported when needed (``cpu.py`` files): it imports numba.

Compiled code is cached next to the source if that folder can be written and otherwise in the user's cache folder
(``NUMBA_CACHE_DIR`` overrides both). If neither can be written, as in a read-only container without a home, numba
refuses to define a cached function; here the function is then compiled in every process, with one warning.

numba itself reuses compiled code until the file of the function changes, although the code of functions of other files
is compiled into it. Here the code is reused until any source of the function's package or of ``tacenda.kernels``
changes. Damaged files, as after a power cut or on a full disk, are treated as missing and overwritten.

Compiling takes seconds, so a line announces it where progress is shown. numba reports an event when it compiles, so
calls of compiled functions cost nothing more.
"""

import hashlib
import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from tacenda import plugins
from tacenda.errors import KernelError, describe, warn
from tacenda.progress import announce

try:
    import numba
    from numba.core import caching, entrypoints, event
    from numba.core.compiler_lock import global_compiler_lock
except Exception as error:  # such as for NUMBA_NUM_THREADS=0, or a numpy that it does not know
    raise KernelError(
        f"numba, which compiles the kernels, cannot be imported ({describe(error)}): check its installation and the "
        "environment variables NUMBA_*"
    ) from error
if numba.config.DISABLE_JIT:
    raise KernelError("NUMBA_DISABLE_JIT is set, but kernels must be compiled: unset it")

_Function = TypeVar("_Function", bound=Callable[..., Any])

_is_cached: dict[Callable[..., Any], bool] = {}
"""For every function given to `njit`, whether its compiled code is cached for other processes."""


class _Notice(event.Listener):
    """A listener that announces, once in a process, that functions of ours are being compiled."""

    is_announced = False

    def on_start(self, started: Any) -> None:
        is_cached = _is_cached.get(started.data["dispatcher"].py_func)
        if is_cached is None or self.is_announced:
            return
        self.is_announced = True
        announce("compiling kernels" + " (once, for this and later runs)" * is_cached)

    def on_end(self, ended: Any) -> None:
        return None


event.register("numba:compile", _Notice())

# numba searches all installed entry points for its extensions before it first compiles; one of their files that cannot
# be read would fail that compilation. A search here fails separately, and numba does not repeat it.
try:
    entrypoints.init_all()
except Exception:
    plugins.available()  # warns of the distribution, unless it did so before


if hasattr(os, "register_at_fork"):
    # A child has none of its parent's threads, and would wait for ever for a thread that was compiling.
    os.register_at_fork(
        before=global_compiler_lock.acquire,
        after_in_parent=global_compiler_lock.release,
        after_in_child=global_compiler_lock.release,
    )


class _Files(caching.IndexDataCacheFile):
    """The cache files of a function, its code and an index, with a checksum at the end, which numba does not read."""

    @contextmanager
    def _open_for_write(self, path: str) -> Iterator[io.BytesIO]:
        with super()._open_for_write(path) as file:
            yield (written := io.BytesIO())
            file.write(written.getvalue() + hashlib.sha256(written.getvalue()).digest())

    def _load_index(self) -> dict[Any, str]:
        index: dict[Any, str] = super()._load_index() if _is_whole(self._index_path) else {}
        return index

    def _load_data(self, name: str) -> Any:
        if not _is_whole(self._data_path(name)):
            raise FileNotFoundError(name)
        return super()._load_data(name)

    def save(self, key: Any, data: Any) -> None:
        try:
            super().save(key, data)
        except OSError:  # the disk is full, or the folder cannot be written any more
            _warn_of_no_cache()


def _is_whole(path: str) -> bool:
    """Tell whether a file is readable and ends in its checksum."""
    try:
        data = Path(path).read_bytes()
    except OSError:
        return False
    return hashlib.sha256(data[:-32]).digest() == data[-32:]


def _warn_of_no_cache() -> None:
    """Warn, once in a process, that compiled code cannot be cached."""
    warn(
        "compiled kernels cannot be cached, so each process compiles them again: "
        "set NUMBA_CACHE_DIR to a folder that can be written",
        RuntimeWarning,
        once=(_Files, "cache"),
    )


@cache
def _hash_sources(package: str) -> str:
    """Return a hash of all Python files of an imported package; without a folder, a hash of nothing."""
    digest = hashlib.sha256()
    for folder in getattr(sys.modules.get(package), "__path__", ()):
        for file in sorted(Path(folder).rglob("*.py")):
            digest.update(file.relative_to(folder).as_posix().encode() + b"\0")
            digest.update(file.read_bytes() + b"\0")
    return digest.hexdigest()


def _use_own_files(dispatcher: Any, target: Callable[..., Any]) -> None:
    """Cache code in `_Files`, which are stale when any source that may have been compiled into it has changed."""
    kernels = "tacenda.kernels"
    packages = {kernels}
    if not target.__module__.startswith(kernels):
        packages.add(target.__module__.partition(".")[0])
    # numba has no public API for this: the index file of a function has a stamp, and is ignored if that differs
    own = dispatcher._cache
    stamp = own._impl.locator.get_source_stamp(), *map(_hash_sources, sorted(packages))
    own._cache_file = _Files(own.cache_path, own._impl.filename_base, stamp)


def njit(
    function: _Function | None = None, *, fastmath: bool | set[str] = False, inline: bool = False
) -> Any:
    """Compile ``function`` without Python objects, releasing the GIL while it runs.

    Use as ``@njit`` or ``@njit(...)``.

    Parameters
    ----------
    function
        The function to compile; None when options are given.
    fastmath
        False keeps IEEE semantics. A set of LLVM flags (``{"contract", "reassoc"}``) permits FMA
        and reordered sums where the operation's tolerance allows; True also assumes that no NaN
        or infinity occurs, which hides them.
    inline
        Inline at every call site, before type inference.
    """

    def decorate(target: _Function) -> Any:
        options: dict[str, Any] = {"nogil": True, "fastmath": fastmath, "error_model": "numpy"}
        options["inline"] = "always" if inline else "never"
        _is_cached[target] = True
        try:
            compiled = numba.njit(cache=True, **options)(target)
        except RuntimeError as error:
            if "cannot cache" not in str(error):
                raise
            _warn_of_no_cache()
            _is_cached[target] = False
            return numba.njit(cache=False, **options)(target)
        _use_own_files(compiled, target)
        return compiled

    return decorate if function is None else decorate(function)


# -- checks of the arguments of all operations, see `tacenda.kernels.operation` -------------------------


@njit
def within(ids, lowest, n):
    """Return whether all ids are from ``lowest`` to ``n - 1``."""
    outside = False  # no early return, so that the loop is compiled to vectors
    for k in range(len(ids)):
        outside |= (ids[k] < lowest) | (ids[k] >= n)
    return not outside


@njit
def cuts(offsets, n):
    """Return whether offsets ascend from 0 to ``n``."""
    if len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != n:
        return False
    falls = False
    for k in range(1, len(offsets)):
        falls |= offsets[k] < offsets[k - 1]
    return not falls
