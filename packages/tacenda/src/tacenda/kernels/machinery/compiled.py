"""``njit`` with this project's choices: nogil, single-threaded, cached, IEEE arithmetic.

Import this only from modules that are loaded at need (``cpu.py`` files): it imports numba.

Compiled code is kept beside the source when that folder can be written and otherwise in the user's
cache folder (``NUMBA_CACHE_DIR`` overrides both). numba refuses to define a cached function where
neither can be written, as in a read-only container without a home; here the function is then
compiled again in every process, and one warning says so.

numba itself takes compiled code for fresh as long as the file of the function is what it was, though
the code of functions of other files is compiled into it. Here it is fresh as long as all sources of
the function's package and of ``tacenda.kernels`` are what they were; stale code is overwritten. Damaged
files, as a power cut or a full disk leaves them, count as missing and are overwritten too.

Compiling takes seconds, so where progress is shown a line says when it begins; numba tells us then,
and only then, so that calls of compiled functions cost nothing more.
"""

import hashlib
import io
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from tacenda import plugins
from tacenda.errors import KernelError, describe
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

# numba looks for its extensions before it first compiles, through all entry points that are installed; one file of
# them that cannot be read would fail that compilation. Asked for here, the search fails apart, and is not repeated.
try:
    entrypoints.init_all()
except Exception:
    plugins.available()  # warns of the distribution, unless it did so before


if hasattr(os, "register_at_fork"):
    # A child has none of its parent's threads, and would wait for ever for one that was compiling.
    os.register_at_fork(
        before=global_compiler_lock.acquire,
        after_in_parent=global_compiler_lock.release,
        after_in_child=global_compiler_lock.release,
    )


class _Files(caching.IndexDataCacheFile):
    """A function's code in the cache, and the index of it: files that end in a checksum, which numba does not read."""

    @contextmanager
    def _open_for_write(self, path: str) -> Iterator[io.BytesIO]:
        with super()._open_for_write(path) as file:
            yield (written := io.BytesIO())
            file.write(written.getvalue() + hashlib.sha256(written.getvalue()).digest())

    def _load_index(self) -> dict[Any, str]:
        found: dict[Any, str] = super()._load_index() if _is_whole(self._index_path) else {}
        return found

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
    """Tell whether a file can be read and ends in its checksum."""
    try:
        data = Path(path).read_bytes()
    except OSError:
        return False
    return hashlib.sha256(data[:-32]).digest() == data[-32:]


def _warn_of_no_cache() -> None:
    warnings.warn(
        "compiled kernels cannot be cached, so each process compiles them again: "
        "set NUMBA_CACHE_DIR to a folder that can be written",
        RuntimeWarning,
        stacklevel=3,
    )


@cache
def _sources(package: str) -> str:
    """A hash of all Python files of a package that is being imported; of nothing where it has no folder."""
    found = hashlib.sha256()
    for folder in getattr(sys.modules.get(package), "__path__", ()):
        for file in sorted(Path(folder).rglob("*.py")):
            found.update(file.relative_to(folder).as_posix().encode() + b"\0")
            found.update(file.read_bytes() + b"\0")
    return found.hexdigest()


def _use_own_files(dispatcher: Any, target: Callable[..., Any]) -> None:
    """Keep code in `_Files`, which are stale when any source that may have been compiled into it has changed."""
    of_kernels = "tacenda.kernels"
    packages = {of_kernels}
    if not target.__module__.startswith(of_kernels):
        packages.add(target.__module__.partition(".")[0])
    # numba has no public API for this: the index file of a function keeps a stamp, and is ignored where it differs
    kept = dispatcher._cache
    stamp = kept._impl.locator.get_source_stamp(), *map(_sources, sorted(packages))
    kept._cache_file = _Files(kept.cache_path, kept._impl.filename_base, stamp)


def njit(
    function: _Function | None = None, *, fastmath: bool | set[str] = False, inline: bool = False
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
    """

    def decorate(target: _Function) -> Any:
        options: dict[str, Any] = {
            "nogil": True,
            "parallel": False,
            "fastmath": fastmath,
            "error_model": "numpy",
        }
        if inline:
            options["inline"] = "always"
        _is_kept[target] = True
        try:
            compiled = numba.njit(cache=True, **options)(target)
        except RuntimeError as error:
            if "cannot cache" not in str(error):
                raise
            _warn_of_no_cache()
            _is_kept[target] = False
            return numba.njit(cache=False, **options)(target)
        _use_own_files(compiled, target)
        return compiled

    return decorate if function is None else decorate(function)


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
