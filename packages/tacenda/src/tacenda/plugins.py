"""The registry of plugins, which are installed under the entry-point groups ``tacenda.<kind>``.

Plugins are found through ``importlib.metadata``, as xarray finds its backends. Listing them imports nothing. A plugin
that fails to load is *broken*, and the registry keeps the cause; one that is sound but cannot work on this machine is
*unavailable*. Neither disturbs any other plugin. A name that two distributions claim is an error only when somebody
asks for it.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.metadata
import logging
import re
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from tacenda.errors import (
    ConfigurationError,
    PluginError,
    PluginLoadError,
    PluginUnavailableError,
    describe,
)

logger = logging.getLogger(__name__)

#: What a plugin can be; its entry-point group is ``tacenda.<kind>``.
KINDS = ("kernels", "embedders", "language_models", "recommenders", "datasets", "commands")

#: The version of the contract between the core and its plugins. The integer attribute ``api_version`` of an object
#: says for which version it was written; without the attribute, that is version 1.
API_VERSION = 1

#: The distribution of an object that `register` adds without naming one.
RUNTIME = "<runtime>"


@dataclass(frozen=True)
class PluginRecord:
    """What is known about one plugin.

    ``status`` is "not loaded", "loaded", "broken" or "unavailable"; ``cause`` is the exception behind the last two.
    ``target`` is the ``module:attribute`` of its entry point.
    """

    kind: str
    name: str
    distribution: str
    version: str
    status: str
    cause: BaseException | None
    target: str


@dataclass(frozen=True)
class Entry:
    """A claim on a name: an installed entry point, or an object registered in this process."""

    kind: str
    name: str
    distribution: str
    version: str
    target: str
    load: Callable[[], Any] = field(compare=False, repr=False)

    @property
    def key(self) -> tuple[str, str, str]:
        """Return kind, name and distribution, which stay the same however the last is spelled."""
        return self.kind, self.name, canonical(self.distribution)


@dataclass(frozen=True)
class _Outcome:
    status: str = "not loaded"
    cause: BaseException | None = None
    value: Any = None


_lock = threading.Lock()
_generation = 0
_installed: tuple[Entry, ...] | None = None
_registered: dict[tuple[str, str, str], Entry] = {}
_outcomes: dict[Entry, _Outcome] = {}


def generation() -> int:
    """Return a number that changes whenever `get` may return another object: a key for caches."""
    return _generation


def available(kind: str | None = None) -> list[PluginRecord]:
    """List the plugins of one kind, or of all kinds, without importing any."""
    kinds = KINDS if kind is None else (_checked_kind(kind),)
    entries = [entry for entry in _entries() if entry.kind in kinds]
    entries.sort(key=lambda e: (KINDS.index(e.kind), e.name, e.distribution, e.target))
    with _lock:
        found = [(entry, _outcomes.get(entry, _Outcome())) for entry in entries]
    return [
        PluginRecord(e.kind, e.name, e.distribution, e.version, o.status, o.cause, e.target)
        for e, o in found
    ]


def get(kind: str, name: str, *, distribution: str | None = None) -> Any:
    """Load one plugin and return the object its entry point names.

    Raises
    ------
    PluginError
        The kind or the name is unknown, or the name is claimed more than once.
    PluginLoadError
        The plugin cannot be imported, or was written for another `API_VERSION`. ``__cause__`` says why; the plugin
        stays broken until `refresh`.
    PluginUnavailableError
        The plugin says that it cannot work on this machine.
    """
    _checked_kind(kind)
    claims = [entry for entry in _entries() if (entry.kind, entry.name) == (kind, name)]
    wanted = canonical(distribution or "")
    matching = [entry for entry in claims if wanted in ("", entry.key[2])]
    if not matching:
        raise PluginError(_unknown(kind, name, distribution, claims))
    if len(matching) > 1:
        raise PluginError(_ambiguous(kind, name, matching))
    return _load(matching[0])


def make(
    kind: str,
    name: str,
    options: Mapping[str, Any] | None = None,
    *,
    distribution: str | None = None,
) -> Any:
    """Make an unfitted model of a registered class with these options.

    Raises
    ------
    PluginError
        As in `get`.
    ConfigurationError
        The class does not have such an option, or its value is out of bounds.
    """
    model_class = get(kind, name, distribution=distribution)
    chosen = dict(options or {})
    try:
        return model_class(**chosen)
    except TypeError as error:  # of a class without `tacenda.settings.Settings`
        raise ConfigurationError(
            f"{model_class.__name__} cannot be made with the options "
            f"{', '.join(chosen) or '(none)'}: {error}"
        ) from error


def register(kind: str, name: str, obj: Any, *, distribution: str = RUNTIME) -> None:
    """Add an object to the registry of this process, for a test or a notebook.

    Registering the same name again replaces the object.

    Raises
    ------
    PluginError
        The kind is unknown, the name is empty, or the distribution installs that name itself.
    """
    target = f"{getattr(obj, '__module__', '?')}:{getattr(obj, '__qualname__', type(obj).__name__)}"
    entry = Entry(_checked_kind(kind), name, distribution, "", target, lambda: obj)
    if not name:
        raise PluginError("a plugin needs a name")
    if any(installed.key == entry.key for installed in _scan()):
        raise PluginError(
            f"{distribution} already installs {name!r} under tacenda.{kind}: "
            "register it under another name or distribution"
        )
    global _generation
    with _lock:
        _outcomes.pop(entry, None)
        _registered[entry.key] = entry
        _generation += 1


def unregister(kind: str, name: str, *, distribution: str = RUNTIME) -> None:
    """Remove an object that `register` added. Raises PluginError if there is none."""
    global _generation
    with _lock:
        _generation += 1
        entry = _registered.pop((_checked_kind(kind), name, canonical(distribution)), None)
        if entry is None:
            raise PluginError(f"{name!r} of {distribution} is not registered under tacenda.{kind}")
        _outcomes.pop(entry, None)


def refresh() -> None:
    """Forget all plugins found and loaded, so that one installed or repaired in the meantime is seen."""
    global _installed, _outcomes, _generation
    importlib.invalidate_caches()
    with _lock:
        _generation += 1
        _installed = None
        _outcomes = {}


def _entries() -> list[Entry]:
    installed = _scan()
    with _lock:
        return [*installed, *_registered.values()]


def _scan() -> tuple[Entry, ...]:
    """Return the installed entry points, which are read only once."""
    global _installed
    with _lock:
        if _installed is not None:
            return _installed
    found = installed_entries(KINDS)
    with _lock:
        _installed = found
        return _installed


def installed_entries(kinds: Collection[str]) -> tuple[Entry, ...]:
    """Return the entry points of these kinds; a distribution whose metadata are unreadable is skipped."""
    found: dict[Entry, None] = {}
    seen: set[str] = set()
    for dist in importlib.metadata.distributions():
        try:
            name = dist.metadata["Name"]
            if not name or canonical(name) in seen:
                continue  # an editable install may be seen twice: what is first on sys.path counts
            for point in dist.entry_points:
                kind = point.group.removeprefix("tacenda.")
                if kind in kinds and point.group != kind:
                    entry = Entry(kind, point.name, name, dist.version, point.value, point.load)
                    found[entry] = None
            seen.add(canonical(name))
        except Exception as error:  # foreign metadata may fail in any way
            logger.warning("skipped a distribution with unreadable metadata: %r", error)
    return tuple(found)


def canonical(distribution: str) -> str:
    """Return the name of a distribution in the form in which the packaging standards compare names."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def _load(entry: Entry) -> Any:
    with _lock:
        outcomes = _outcomes
        outcome = outcomes.get(entry)
    if outcome is None:
        # The lock is not held here: an import that itself asks the registry would deadlock with that of another
        # thread. Loading twice is harmless; the result of whichever finishes first is kept.
        fresh = _attempt(entry)
        with _lock:
            outcome = outcomes.setdefault(entry, fresh)
    if outcome.status == "loaded":
        return outcome.value
    who = f"the plugin {entry.name!r} ({entry.kind}) of {entry.distribution} {entry.version}"
    what, why = f"{who.rstrip()} cannot be", describe(outcome.cause)
    if outcome.status == "unavailable":
        raise PluginUnavailableError(f"{what} used here: {why}") from outcome.cause
    raise PluginLoadError(f"{what} loaded from {entry.target}: {why}") from outcome.cause


def _attempt(entry: Entry) -> _Outcome:
    try:
        value = entry.load()
        version = getattr(value, "api_version", 1)
        if type(version) is not int or version != API_VERSION:
            newer = type(version) is int and version > API_VERSION
            remedy = f"upgrade {'tacenda' if newer else entry.distribution}"
            raise PluginLoadError(
                f"its api_version is {version!r} and this tacenda speaks {API_VERSION}: {remedy}"
            )
    except PluginUnavailableError as error:
        return _Outcome("unavailable", error)
    except (Exception, SystemExit) as error:  # one that calls sys.exit() is merely broken
        return _Outcome("broken", error)
    return _Outcome("loaded", None, value)


def _unknown(kind: str, name: str, distribution: str | None, claims: list[Entry]) -> str:
    if claims:
        owners = ", ".join(sorted({entry.distribution for entry in claims}))
        return f"{distribution} installs no {name!r} under tacenda.{kind}, but {owners} does"
    names = sorted({record.name for record in available(kind)})
    listed = f"installed are {', '.join(names)}" if names else "none is installed"
    close = difflib.get_close_matches(name, names, n=1)
    source = f" of {distribution}" if distribution else ""
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return f"there is no plugin {name!r}{source} under tacenda.{kind}: {listed}{hint}"


def _ambiguous(kind: str, name: str, claims: list[Entry]) -> str:
    claims = sorted(claims, key=lambda entry: (entry.distribution, entry.target))
    owners = " and ".join(f"{entry.distribution} ({entry.target})" for entry in claims)
    remedy = f"choose one, as in distribution={claims[0].distribution!r}, or uninstall one"
    if len({entry.key for entry in claims}) == 1:
        remedy = "its metadata must name it once"
    return f"{name!r} under tacenda.{kind} is claimed by {owners}: {remedy}"


def _checked_kind(kind: str) -> str:
    if kind not in KINDS:
        raise PluginError(f"there is no kind of plugin {kind!r}; the kinds are {', '.join(KINDS)}")
    return kind
