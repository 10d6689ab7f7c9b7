"""Paths that a user gives, regular files, numbers that others wrote, and strict JSON within bounds."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final, NoReturn

from tacenda.errors import TacendaError

#: The flag of files that are opened without waiting; not every system has it.
NO_WAIT: Final = getattr(os, "O_NONBLOCK", 0)
LARGEST_JSON = 32 << 20
"""The largest manifest that is read, in bytes."""
DEEPEST_JSON = 100
"""The deepest nesting of values in a manifest."""
_MAX_BITS = 10_000  # of an integer: Python reads no decimal of more than 4,300 digits


def path_of(path: object, error: type[TacendaError]) -> Path:
    """Return a path that a user gave.

    Raises ``error`` if it cannot be the name of a file or folder, or if a folder of the path does not let this user in.
    """
    if path == "" or not isinstance(path, str | os.PathLike):  # Path("") is the current folder
        raise error(f"{path!r:.80} names no file or folder; give a string or a pathlib.Path")
    try:
        checked = Path(path)
        # the dot, which a Path would drop, asks for access to the contents of a folder
        os.lstat(os.path.join(checked, "."))  # noqa: PTH118
    except (TypeError, ValueError):  # NUL, a lone surrogate, bytes
        raise error(f"{str(path)!r:.200} cannot name a file or folder") from None
    except OSError as problem:
        if problem.errno == errno.ENAMETOOLONG:
            raise error(f"there is no file {str(path)!r:.80}: its name is too long") from problem
        if problem.errno in (errno.EACCES, errno.EPERM):
            raise error(
                f"there is no access to {str(path)!r:.200} for this user: choose another place, or ask for permission"
            ) from problem
    return checked


def open_regular(path: Path) -> BinaryIO:
    """Open a file, or the file that a link leads to, for reading.

    Raises OSError, for a socket too, and ValueError for a folder, a device and a pipe.
    """
    # without waiting for a writer of a pipe; not every system has these flags
    handle = os.open(path, os.O_RDONLY | NO_WAIT | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise ValueError("it is not a file")
    return os.fdopen(handle, "rb")


def whole_number(digits: str) -> int | None:
    """Return the number below 2**63 that a string of ASCII digits means, and None for any other string.

    ``int`` accepts other digits too, and raises ValueError for more than 4,300 of them.
    """
    if not (digits.isascii() and digits.isdigit()) or len(digits.lstrip("0")) > 19:
        return None
    number = int(digits.lstrip("0") or "0")
    return number if number < 1 << 63 else None


def read_json(path: Path) -> Any:
    """Read the JSON value in a file. Raises OSError and, as `parse_json` does, ValueError."""
    with open_regular(path) as file:
        data = file.read(LARGEST_JSON + 1)
    if len(data) > LARGEST_JSON:
        raise ValueError(f"it is too large: more than {LARGEST_JSON} bytes are not read")
    return parse_json(data)


def parse_json(data: bytes) -> Any:
    """Parse a JSON value. Raises ValueError if it is not valid.

    NaN, infinite numbers, repeated keys, and values nested too deep to be written again are refused too.
    """
    try:
        document = json.loads(
            data, object_pairs_hook=_refuse_repeated_keys, parse_constant=_refuse_constant
        )
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    level: list[Any] = [document]
    for _ in range(DEEPEST_JSON):
        if float("inf") in level or -float("inf") in level:  # as 1e999 is read
            raise ValueError("a number is too large")
        level = [
            inner
            for value in level
            if isinstance(value, dict | list)
            for inner in (value.values() if isinstance(value, dict) else value)
        ]
    if level:
        raise ValueError(f"it is nested more than {DEEPEST_JSON} deep")
    return document


def copy_json(value: Any, where: str, depth: int = 2) -> Any:
    """Copy a value as JSON gives it back: tuples become lists, scalars of NumPy numbers of Python.

    ``where`` is the name of the value in messages, and ``depth`` is how deep it is nested in a manifest. Raises
    ValueError for anything that would not come back unchanged: NaN and infinities, keys that are not text, integers of
    more than 10,000 bits, text that UTF-8 cannot encode, values nested too deep, and objects.
    """
    if depth > DEEPEST_JSON:
        raise ValueError(f"{where:.80} is nested more than {DEEPEST_JSON} deep: flatten it")
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise ValueError(f"{where} has the key {key!r}: keys must be text")
            copy_json(key, f"a key of {where}")
        return {key: copy_json(item, f"{where}.{key}", depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [copy_json(item, f"{where}[{i}]", depth + 1) for i, item in enumerate(value)]
    if getattr(value, "shape", None) == ():  # a scalar of NumPy
        value = value.item()
    if isinstance(value, float) and not -float("inf") < value < float("inf"):
        raise ValueError(f"{where} is {value!r}, which JSON cannot hold: use None or a text")
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError(
                f"{where} is {value!a:.80}, which UTF-8 cannot encode: use other text"
            ) from None
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        raise ValueError(f"{where} is an integer of {value.bit_length():,} bits: use a text")
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise ValueError(f"{where} is of type {type(value).__name__}: only JSON values can be saved")


def _refuse_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a dict of the pairs. Raises ValueError for a key that appears twice."""
    document = dict(pairs)
    if len(document) != len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the key {twice!r:.80} appears twice")
    return document


def _refuse_constant(text: str) -> NoReturn:
    """Raise ValueError for NaN and infinity, which Python's parser accepts."""
    raise ValueError(f"{text} is not JSON")
