"""What is installed: the entry points of all distributions on the path, any of which may be damaged.

``importlib.metadata`` gives up on a whole ``entry_points.txt`` at the first line it cannot read, and its
``entry_points()`` on all distributions. Here damage stays where it is: sound lines of a damaged file count, a damaged
line of a group of ours is an entry that says what is wrong with it, and each distribution causes at most one warning.
"""

from __future__ import annotations

import importlib.metadata
import logging
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from email.message import Message
from email.parser import HeaderParser
from functools import partial
from importlib.metadata import EntryPoint
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from tacenda.errors import TacendaError, describe

logger = logging.getLogger(__name__)

_FILE = "entry_points.txt"


@dataclass(frozen=True)
class Entry:
    """A claim on a name: an installed entry point, or an object registered in this process.

    ``damage`` says why an installed one cannot be loaded, where the metadata already show that.
    """

    kind: str
    name: str
    distribution: str
    version: str
    target: str
    load: Callable[[], Any] = field(compare=False, repr=False, default=lambda: None)
    damage: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """Return kind, name and distribution, which stay the same however the last is spelled."""
        return self.kind, self.name, canonical(self.distribution)


class Installed(NamedTuple):
    """What was found.

    Attributes
    ----------
    entries
        All claims.
    unreadable
        The distributions whose entry points cannot all be read.
    others
        Distributions, each with a group ``tacenda.<something>`` of theirs that is of no kind.
    """

    entries: tuple[Entry, ...] = ()
    unreadable: tuple[str, ...] = ()
    others: tuple[tuple[str, str], ...] = ()


class _Line(NamedTuple):
    """An entry point, or a line that should be one and is not, for the reason ``damage``."""

    group: str
    name: str
    value: str
    load: Callable[[], Any] = lambda: None
    damage: str = ""


def find(kinds: Collection[str]) -> Installed:
    """Return the entry points in the groups ``tacenda.<kind>``.

    Of several distributions with one name, the first on the path that has its METADATA counts.
    """
    whole: dict[str, list[Entry]] = {}
    torn: dict[str, list[Entry]] = {}
    versions: dict[str, str] = {}
    unreadable = []
    others: dict[tuple[str, str], None] = {}  # a set in order
    for dist in _concerned():
        name, version, nameless = _identity(dist)
        lines, unread = _lines(dist)
        claims = [
            Entry(kind, line.name, name, version, line.value, line.load, line.damage or nameless)
            for line in lines
            if (kind := line.group.removeprefix("tacenda.")) in kinds and kind != line.group
        ]
        for group in {line.group: None for line in lines}:
            kind = group.removeprefix("tacenda.")
            if kind != group and kind not in kinds:
                others[name, group] = None
        found = list(_named_once(claims))
        if unread:
            unreadable.append(name)
        if wrong := list(dict.fromkeys([*unread, *(e.damage for e in found if e.damage)])):
            _warn(f"{name} {version} is damaged: {'; '.join(wrong[:3])}: reinstall or remove it")
        key = canonical(name)
        if nameless:
            torn.setdefault(key, found)
        elif key not in whole:
            whole[key], versions[key] = found, version
        elif found and version != versions[key]:
            _warn(
                f"{name} is installed twice, as {versions[key]} and {version}: the first on the path, "
                f"{versions[key]}, counts; uninstall one"
            )
    entries = chain.from_iterable(({**torn, **whole}).values())
    return Installed(tuple(entries), tuple(unreadable), tuple(others))


def _concerned() -> Iterator[importlib.metadata.Distribution]:
    """Yield, in the order of the path, the distributions that may have entries of ours, and others of their names.

    To look for the word is much faster than to parse the metadata of everything that is installed.
    """
    found = [(_name_of_folder(dist), dist) for dist in importlib.metadata.distributions()]
    named = {name for name, dist in found if _may_have_entries(dist)}
    return (dist for name, dist in found if name in named)


def _may_have_entries(dist: importlib.metadata.Distribution) -> bool:
    if not isinstance(dist, importlib.metadata.PathDistribution):
        return True  # what another finder found need not have its entry points in a file
    try:
        text = (dist.read_text(_FILE) or "").lstrip()
        return "tacenda." in text or text[:1] not in ("", "[", "#")  # it begins with no [group]
    except Exception:  # whatever is wrong with it is found out later
        return True


def _name_of_folder(dist: importlib.metadata.Distribution) -> str:
    """NAME of a folder NAME-VERSION.dist-info, which no public attribute tells, as `canonical` has it."""
    return canonical(Path(str(getattr(dist, "_path", ""))).stem.partition("-")[0])


def _warn(message: str) -> None:
    """Log a warning, which, unlike one of `warnings`, cannot be turned into an error that ends the search."""
    logger.warning("%s", TacendaError(message))


def canonical(distribution: str) -> str:
    """Return the name of a distribution in the form in which the packaging standards compare names."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def _identity(dist: importlib.metadata.Distribution) -> tuple[str, str, str]:
    """Name, version, and what is wrong with the METADATA that should hold them ("" for nothing)."""
    damage = "its METADATA is missing or names nothing"
    try:
        headers = _headers(dist)
        if headers.get("Name"):
            return str(headers.get("Name")), str(headers.get("Version") or ""), ""
    except Exception as error:  # foreign metadata may fail in any way
        damage = f"its METADATA cannot be read ({describe(error)})"
    # The folder is called NAME-VERSION.dist-info. No public attribute tells it.
    folder = Path(str(getattr(dist, "_path", ""))).stem
    name, _, version = folder.partition("-")
    return name or "a distribution without a name", version, damage


def _headers(dist: importlib.metadata.Distribution) -> Message:
    """The headers of METADATA; ``dist.metadata`` would parse the README below them too, many times as long."""
    text = dist.read_text("METADATA") or dist.read_text("PKG-INFO") or dist.read_text("") or ""
    return HeaderParser().parsestr(text.partition("\n\n")[0])


def _lines(dist: importlib.metadata.Distribution) -> tuple[list[_Line], list[str]]:
    """The entry points of a distribution, and why some of them cannot be read."""
    failure = []
    try:
        points = list(dist.entry_points)
        if points:
            return [_line(p.group, p.name, p.value, p.load) for p in points], []
    except Exception as error:  # what importlib.metadata raises differs between versions of Python
        failure = [describe(error)]
    try:
        lines = list(_parsed(dist.read_text(_FILE) or ""))
    except UnicodeDecodeError as error:
        lines = list(_parsed(error.object.decode(errors="replace")))
        return lines, [f"{_FILE} is not UTF-8 at byte {error.start}"]
    except Exception as error:
        return [], [f"{_FILE} cannot be read ({describe(error)})"]
    return lines, [line.damage for line in lines if line.damage] or failure


def _parsed(text: str) -> Iterator[_Line]:
    """Read the file as importlib.metadata does, but each line for itself."""
    group = ""
    for number, line in enumerate(map(str.strip, text.splitlines()), start=1):
        if not line or line.startswith("#"):
            continue
        if line.startswith("[") and line.endswith("]"):
            group = line[1:-1].strip()
            continue
        name, equals, value = (part.strip() for part in line.partition("="))
        place = f"line {number} of {_FILE}, {line[:60]!r}"
        if not group:
            yield _Line(group, name, value, damage=f"{place}, stands before the first [group]")
        elif not equals:
            yield _Line(group, name, _FILE, damage=f"{place}, is not NAME = MODULE:OBJECT")
        else:
            yield _line(group, name, value, partial(_load, name, value, group))


def _load(name: str, value: str, group: str) -> Any:
    return EntryPoint(
        name, value, group
    ).load()  # in some versions of Python the first may raise too


def _line(group: str, name: str, value: str, load: Callable[[], Any]) -> _Line:
    """An entry point; one without a name, or whose object cannot be found by its path, is damaged."""
    sound = name and EntryPoint.pattern.match(value)
    damage = "" if sound else f"'{name} = {value[:60]}' in {_FILE} is not NAME = MODULE:OBJECT"
    return _Line(group, name or "?", value, load, damage)


def _named_once(entries: list[Entry]) -> Iterator[Entry]:
    """Yield the entries of a distribution; a name that it claims for two objects is one damaged entry."""
    claims: dict[tuple[str, str], dict[str, Entry]] = {}
    for entry in entries:
        claims.setdefault((entry.kind, entry.name), {})[entry.target] = entry
    for (kind, name), by_target in claims.items():
        entry, *others = by_target.values()
        if not others:
            yield entry
            continue
        targets = " and ".join(by_target)
        damage = f"it claims {name!r} for {targets}: its metadata must name it once"
        yield Entry(kind, name, entry.distribution, entry.version, targets, damage=damage)
