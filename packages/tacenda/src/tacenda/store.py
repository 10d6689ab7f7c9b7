"""Files and folders that change in one step: a kill at any moment leaves the old content or the new.

Models, checkpoints, cached corpora and fetched datasets are all stored in the same way:

1. New content is written to a `temporary` folder, next to its final place.
2. `commit` writes it to the disk (fsync) and renames it (``os.replace``), the manifest last.
3. `sweep` removes files that the manifest no longer names and the folders of killed writers.

A writer holds a lock on its temporary folder, which the system releases if the process dies, so `sweep` can tell
folders in use from abandoned ones. `locked` excludes other writers. Permissions follow the umask, as for other files.
"""

from __future__ import annotations

import errno
import hashlib
import os
import platform
import re
import shutil
import time
import uuid
from collections.abc import Callable, Container, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from tacenda.errors import DataError, TacendaError
from tacenda.reading import NO_WAIT

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


_PREFIX = ".tacenda-"
_OWNER: Final = ".tacenda-owner"
_TEMPORARY = re.compile(r"\.tacenda-[0-9a-f]{32}")
#: On systems without locks, older temporary folders are treated as abandoned.
_ABANDONED_SECONDS = 24 * 3600.0


@contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[bool]:
    """Hold the lock of an existing file or folder; yield False on a system without such locks.

    Raises BlockingIOError if another holds the lock and ``wait`` is False.
    """
    if fcntl is None:
        yield False
        return
    handle, holder = os.open(path, os.O_RDONLY | NO_WAIT), os.getpid()
    try:
        yield _lock(handle, wait)
    finally:
        if os.getpid() == holder:
            # released explicitly, because a child forked meanwhile holds the lock too
            with suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_UN)
        os.close(handle)


def _lock(handle: int, wait: bool) -> bool:
    """Lock an open file or folder; return False if its file system has no locks."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:  # some network file systems
        return False
    return True


@contextmanager
def claim(folder: Path) -> Iterator[None]:
    """Reserve an existing folder for this process; until the end, a file in it names the process.

    Raises BlockingIOError, whose ``strerror`` names the owner, if the folder is reserved for another process, and
    OSError if the file cannot be written. On a system without locks, no process is excluded.
    """
    if fcntl is None:
        yield
        return
    path, holder = folder / _OWNER, os.getpid()
    handle = _sign(path)
    try:
        yield
    finally:
        if os.getpid() == holder:
            remove(path)
        os.close(handle)


def _sign(path: Path) -> int:
    """Lock the file that names the owner of a folder, write this process into it, and return its handle."""
    while True:
        with ExitStack() as undo:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | NO_WAIT, 0o666)
            undo.callback(os.close, handle)
            try:
                _lock(handle, wait=False)
            except BlockingIOError:
                owner = os.pread(handle, 200, 0).decode(errors="replace")
                raise BlockingIOError(errno.EAGAIN, owner or "another process") from None
            with suppress(FileNotFoundError):  # the previous owner may have removed it just now
                if os.path.samestat(os.fstat(handle), path.lstat()):
                    undo.callback(remove, path)
                    os.ftruncate(handle, 0)
                    os.write(handle, f"process {os.getpid()} on {platform.node()}".encode())
                    undo.pop_all()
                    return handle


@contextmanager
def new_folder(folder: Path, prefix: str = _PREFIX) -> Iterator[Path]:
    """Create and yield a folder inside ``folder`` that `sweep` does not remove during the context."""
    while True:
        path = folder / f"{prefix}{uuid.uuid4().hex}"
        with ExitStack() as stack:
            with ExitStack() as undo:
                undo.callback(remove, path)  # should a signal interrupt what follows
                path.mkdir()
                try:
                    stack.enter_context(locked(path))
                except FileNotFoundError:
                    continue  # another writer removed it before it was locked
                if not path.exists():
                    continue
                undo.pop_all()
            yield path
            return


@contextmanager
def temporary(folder: Path) -> Iterator[Path]:
    """Create and yield a folder inside ``folder`` that is removed at the end with its contents."""
    with new_folder(folder) as path, ExitStack() as stack:
        for _ in range(2):  # should a signal interrupt the first removal
            stack.callback(remove, path)
        yield path


def commit(source: Path, target: Path) -> None:
    """Write a file or folder in a `temporary` folder to the disk and rename it to ``target`` in one step.

    An existing file is replaced; a folder must be empty or absent. If it raises OSError, ``target`` is unchanged.
    """
    if source.is_file():
        with suppress(OSError):  # not every file system has permissions
            # Some libraries write with mode 0600; the folder around the file was made as the umask says.
            source.chmod(source.parent.stat().st_mode & 0o666)
    sync(source)
    source.replace(target)
    _sync_one(target.parent)


@contextmanager
def writing(
    what: object, error: type[TacendaError] = DataError, advice: str = ""
) -> Iterator[None]:
    """Raise ``error`` for an OSError while ``what`` is written, and for text with half of a surrogate pair."""
    try:
        yield
    except OSError as cause:
        raise error(f"cannot write {what}: {cause.strerror or cause}{advice}") from cause
    except UnicodeEncodeError as cause:
        half = ascii(cause.object[cause.start])
        raise error(
            f"cannot write {what}: it would hold {half}, half of a surrogate pair"
        ) from cause


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary name; the file that is written there replaces ``path`` at the end.

    If ``path`` is a link, the file that it leads to is replaced. Raises DataError as `writing` does, and for a device
    or a pipe.
    """
    with writing(path):
        target = Path(os.path.realpath(path))
        if target.exists() and not (target.is_file() or target.is_dir()):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        with temporary(target.parent) as scratch:
            yield scratch / target.name
            commit(scratch / target.name, target)


def write_file(path: Path, data: bytes) -> None:
    """Write a file that appears, or is replaced, in one step; a link is replaced by the file."""
    with temporary(path.parent) as scratch:
        (scratch / path.name).write_bytes(data)
        commit(scratch / path.name, path)


def sweep(
    folder: Path, keep: Container[str], is_ours: Callable[[str], object], *, alone: bool = True
) -> None:
    """Remove the files and folders of earlier and killed writers from a folder, as far as that is permitted.

    The names in ``keep``, those in the manifest, stay, and so do names for which ``is_ours`` is false, except for
    `temporary` folders. A folder whose lock is held stays, however old. ``alone`` means that no other writer can be
    between putting a file in place and naming it in the manifest; if it is False, only old files are removed.
    """
    for path in list(folder.iterdir()):
        if path.name in keep or not (is_ours(path.name) or is_temporary(path.name)):
            continue
        with suppress(OSError):  # another writer may remove it at the same time
            if not _is_in_use(path) and (alone or _is_old(path)):
                remove(path)


def size_of(folder: Path) -> int:
    """Return the size of all files in a folder and its subfolders, in bytes."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def sha256_of(path: Path) -> str:
    """Return the sha256 of a file in hexadecimal; the file is read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_temporary(name: str) -> bool:
    """Tell whether a name is one of those that `temporary` gives."""
    return bool(_TEMPORARY.fullmatch(name))


def remove(path: Path) -> None:
    """Remove a file, a link or a whole folder if it can be removed."""
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _is_in_use(path: Path) -> bool:
    """Tell whether a writer holds the lock of a folder; on a system without locks, whether it is young."""
    if not path.is_dir() or path.is_symlink():
        return False
    try:
        with locked(path, wait=False) as has_lock:
            return not has_lock and not _is_old(path)
    except BlockingIOError:
        return True


def _is_old(path: Path) -> bool:
    """Tell whether a file or folder is old enough to count as abandoned."""
    return time.time() - path.lstat().st_mtime > _ABANDONED_SECONDS


def sync(path: Path) -> None:
    """Write a file, or a folder with all its contents, to the disk."""
    if path.is_dir():
        for part in sorted(path.rglob("*")):
            _sync_one(part)
    _sync_one(path)


def _sync_one(path: Path) -> None:
    """Write a file, or a folder's list of names, to the disk."""
    if path.is_dir():
        with suppress(OSError):  # not every system can do this for a folder
            handle = os.open(path, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
        return
    with path.open("r+b") as file:
        os.fsync(file.fileno())
