"""The registry: what is installed under the entry-point groups ``tacit.<kind>``, loaded one at a time.

Discovery is ``importlib.metadata``, in the manner of xarray's backend plugins. Listing imports nothing;
a plugin that fails to load is *broken* (its cause kept) or *unavailable* (sound, but not usable here) and
disturbs no other; a name that two distributions claim is an error only when it is asked for.
"""

from __future__ import annotations

import difflib
import importlib.metadata
import logging
import re
import threading
from dataclasses import dataclass, field
from typing import Any

from tacit.errors import PluginError, PluginLoadError, PluginUnavailableError

__all__ = [
    "API_VERSION",
    "KINDS",
    "PluginRecord",
    "PluginUnavailable",
    "available",
    "get",
    "refresh",
    "register",
    "unregister",
]

#: What a plugin can be; its entry-point group is ``tacit.<kind>``.
KINDS = ("kernels", "embedders", "language_models", "recommenders", "commands")

#: The version of the contract between the core and its plugins. An object may say which one it was
#: written for in an integer attribute ``api_version``; one that says nothing speaks version 1.
API_VERSION = 1

RUNTIME = "<runtime>"

PluginUnavailable = PluginUnavailableError
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class PluginRecord:
    """One plugin as `available` lists it."""

    kind: str
    name: str
    distribution: str
    version: str
    #: "not loaded", "loaded", "broken" or "unavailable"
    status: str
    #: why it is broken or unavailable
    cause: BaseException | None
    #: ``module:attribute`` of the entry point, or a description of an object registered by hand
    target: str


@dataclass(frozen=True)
class _Entry:
    """A claim on a name: an installed entry point, or an object registered in this process."""

    kind: str
    name: str
    distribution: str
    version: str
    target: str
    load: Any = field(compare=False, repr=False)


@dataclass
class _Outcome:
    value: Any = None
    status: str = "loaded"
    cause: BaseException | None = None


_lock = threading.Lock()
_registered: dict[tuple[str, str, str], _Entry] = {}
_installed: tuple[_Entry, ...] | None = None
_outcomes: dict[_Entry, _Outcome] = {}


def available(kind: str | None = None) -> list[PluginRecord]:
    """List the plugins of one kind, or of all, by name; nothing is imported.

    Raises `PluginError` for a kind that does not exist.
    """
    kinds = KINDS if kind is None else (_checked_kind(kind),)
    entries = [entry for entry in _entries() if entry.kind in kinds]
    entries.sort(key=lambda e: (KINDS.index(e.kind), e.name, e.distribution, e.target))
    return [_record(entry) for entry in entries]


def get(kind: str, name: str, *, distribution: str | None = None) -> Any:
    """Load one plugin and return the object its entry point names.

    Raises
    ------
    PluginError
        The kind or name is unknown, or the name is claimed more than once.
    PluginLoadError
        The plugin cannot be imported or was written for another `API_VERSION`; ``__cause__`` says why.
    PluginUnavailableError
        The plugin says it cannot work here.

    """
    claims = [e for e in _entries() if e.kind == _checked_kind(kind) and e.name == name]
    if distribution is not None:
        wanted = _canonical(distribution)
        matching = [e for e in claims if _canonical(e.distribution) == wanted]
    else:
        matching = claims
    if not matching:
        raise PluginError(_unknown(kind, name, distribution, claims))
    if len(matching) > 1:
        raise PluginError(_ambiguous(kind, name, matching))
    return _load(matching[0])


def register(kind: str, name: str, obj: Any, *, distribution: str = RUNTIME) -> None:
    """Add an object to the registry of this process, for a test or a notebook.

    Registering the same kind, name and distribution again replaces the earlier object. Raises
    `PluginError` for an unknown kind, an empty name, or a claim that an installed distribution makes itself.
    """
    _checked_kind(kind)
    if not name or not isinstance(name, str):
        raise PluginError(f"a plugin needs a name, not {name!r}")
    target = f"{getattr(obj, '__module__', '?')}:{getattr(obj, '__qualname__', type(obj).__name__)}"
    key = (kind, name, _canonical(distribution))
    if any((e.kind, e.name, _canonical(e.distribution)) == key for e in _scan()):
        raise PluginError(
            f"{distribution} already installs {name!r} under tacit.{kind}: "
            "register under another name or distribution"
        )
    entry = _Entry(kind, name, distribution, "", target, lambda: obj)
    with _lock:
        old = _registered.get(key)
        if old is not None:
            _outcomes.pop(old, None)
        _registered[key] = entry


def unregister(kind: str, name: str, *, distribution: str = RUNTIME) -> None:
    """Take back a `register`; raises `PluginError` if there was none."""
    key = (_checked_kind(kind), name, _canonical(distribution))
    with _lock:
        entry = _registered.pop(key, None)
        if entry is not None:
            _outcomes.pop(entry, None)
    if entry is None:
        raise PluginError(f"{name!r} of {distribution} was not registered under {kind}")


def refresh() -> None:
    """Forget what was found and loaded, so that a plugin installed or mended meanwhile is seen."""
    global _installed, _outcomes
    with _lock:
        _installed = None
        _outcomes = {}


def _entries() -> list[_Entry]:
    installed = _scan()
    with _lock:
        return [*installed, *_registered.values()]


def _scan() -> tuple[_Entry, ...]:
    """The installed entry points, read once; unreadable metadata of one distribution hide no other."""
    global _installed
    with _lock:
        if _installed is not None:
            return _installed
    found: dict[_Entry, None] = {}  # ordered, and drops the second sighting of an editable install
    seen: set[str] = set()
    for dist in importlib.metadata.distributions():
        try:
            name = dist.metadata["Name"]
            if not name or _canonical(name) in seen:
                continue  # the first on sys.path is the one that imports
            seen.add(_canonical(name))
            for point in dist.entry_points:
                kind = point.group.removeprefix("tacit.")
                if kind in KINDS and point.group == f"tacit.{kind}":
                    entry = _Entry(kind, point.name, name, dist.version, point.value, point.load)
                    found.setdefault(entry)
        except Exception as error:  # foreign metadata may fail in any way
            logger.warning("skipped a distribution with unreadable metadata: %r", error)
    with _lock:
        _installed = tuple(found)
        return _installed


def _load(entry: _Entry) -> Any:
    with _lock:
        outcomes = _outcomes
        outcome = outcomes.get(entry)
    if outcome is None:
        # Not under the lock: an import that itself asks the registry would deadlock against another
        # thread's. Loading twice is harmless, and the first to finish is kept.
        fresh = _attempt(entry)
        with _lock:
            outcome = outcomes.setdefault(entry, fresh)
    if outcome.status == "loaded":
        return outcome.value
    who = f"the {entry.kind} plugin {entry.name!r} of {entry.distribution} {entry.version}".rstrip()
    why = describe(outcome.cause)
    if outcome.status == "unavailable":
        raise PluginUnavailableError(f"{who} cannot be used here: {why}") from outcome.cause
    raise PluginLoadError(f"{who} cannot be loaded ({entry.target}): {why}") from outcome.cause


def _attempt(entry: _Entry) -> _Outcome:
    try:
        value = entry.load()
        version = getattr(value, "api_version", 1)
        if version != API_VERSION or not isinstance(version, int) or isinstance(version, bool):
            raise PluginLoadError(_version_remedy(entry, version))
    except PluginUnavailableError as error:
        return _Outcome(status="unavailable", cause=error)
    except (Exception, SystemExit) as error:  # a plugin that calls sys.exit() is merely broken
        return _Outcome(status="broken", cause=error)
    return _Outcome(value)


def describe(cause: BaseException | None) -> str:
    """An exception in one line, as messages and ``tacit plugins`` show it."""
    text = " ".join(str(cause).split())
    if isinstance(cause, PluginError):
        return text
    return f"{type(cause).__name__}: {text}" if text else type(cause).__name__


def _version_remedy(entry: _Entry, version: object) -> str:
    if isinstance(version, int) and version > API_VERSION:
        remedy = "upgrade tacit-core"
    else:
        remedy = f"upgrade {entry.distribution}"
    return f"it has api_version {version!r} and this core speaks {API_VERSION}: {remedy}"


def _record(entry: _Entry) -> PluginRecord:
    with _lock:
        outcome = _outcomes.get(entry) or _Outcome(status="not loaded")
    shared = (entry.kind, entry.name, entry.distribution, entry.version)
    return PluginRecord(*shared, outcome.status, outcome.cause, entry.target)


def _unknown(kind: str, name: str, distribution: str | None, claims: list[_Entry]) -> str:
    if claims:
        owners = ", ".join(sorted({e.distribution for e in claims}))
        return f"{distribution} offers no {name!r} under tacit.{kind}; it is offered by {owners}"
    names = sorted({e.name for e in _entries() if e.kind == kind})
    listed = "installed are " + ", ".join(names) if names else "none of that kind is installed"
    close = difflib.get_close_matches(name, names, n=1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    source = f" of {distribution}" if distribution else ""
    return f"no plugin {name!r}{source} under tacit.{kind}: {listed}{hint}"


def _ambiguous(kind: str, name: str, claims: list[_Entry]) -> str:
    owners = " and ".join(f"{e.distribution} ({e.target})" for e in claims)
    if len({_canonical(e.distribution) for e in claims}) > 1:
        remedy = f"choose one with distribution={claims[0].distribution!r}, or uninstall one"
    else:
        remedy = "its metadata must name it once"
    return f"{name!r} under tacit.{kind} is claimed by {owners}: {remedy}"


def _checked_kind(kind: str) -> str:
    if kind not in KINDS:
        raise PluginError(f"there is no kind of plugin {kind!r}; the kinds are {', '.join(KINDS)}")
    return kind


def _canonical(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()
