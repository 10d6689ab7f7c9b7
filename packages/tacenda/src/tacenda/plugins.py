"""The registry of plugins, which are installed under the entry-point groups ``tacenda.<kind>``.

Plugins are found through ``importlib.metadata``, as xarray finds its backends. Listing them imports nothing. A plugin
that fails to load is *broken*, and the registry keeps the cause; one that is sound but cannot work on this machine is
*unavailable*. Neither disturbs any other plugin. A name that two distributions claim is an error only when somebody
asks for it.
"""

from __future__ import annotations

import difflib
import importlib
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tacenda.errors import (
    ConfigurationError,
    PluginError,
    PluginLoadError,
    PluginUnavailableError,
    describe,
)
from tacenda.installed import Entry, Installed, canonical, find

#: What a plugin can be; its entry-point group is ``tacenda.<kind>``.
KINDS = ("kernels", "embedders", "language_models", "recommenders", "datasets", "commands")

#: What the entry-point groups of the form ``tacenda.<name>`` that are read are called: the kinds, and ``models``, whose
#: entries are folders of saved models (`tacenda.artifact.by_name`).
GROUPS = (*KINDS, "models")

#: The version of the contract between the core and its plugins. The integer attribute ``api_version`` of an object
#: says for which version it was written; without the attribute, that is version 1.
API_VERSION = 1

#: What an entry of a kind must be. All but the commands say it themselves, in an attribute ``kind``.
_EXPECTED = {
    **dict.fromkeys(KINDS, "a class whose attribute kind is {kind!r}"),
    "kernels": "a tacenda.kernels.Backend",
    "datasets": "a tacenda.datasets.DatasetSpec or a list of them",
    "commands": "a typer.Typer",
}

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
class _Outcome:
    status: str = "not loaded"
    cause: BaseException | None = None
    value: Any = None

    @classmethod
    def before_loading(cls, entry: Entry) -> _Outcome:
        """What the metadata alone show."""
        return cls("broken", PluginLoadError(entry.damage)) if entry.damage else cls()


_lock = threading.Lock()
_generation = 0
_installed: Installed | None = None
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
        found = [
            (entry, _outcomes.get(entry) or _Outcome.before_loading(entry)) for entry in entries
        ]
    return [
        PluginRecord(e.kind, e.name, e.distribution, e.version, o.status, o.cause, e.target)
        for e, o in found
    ]


def unread() -> list[tuple[str, str]]:
    """Return the distributions that have entry points in groups which nothing reads, each with one of the groups."""
    groups = [f"tacenda.{kind}" for kind in GROUPS]
    return [(owner, group) for owner, group in _scan().others if group not in groups]


def unreadable() -> tuple[str, ...]:
    """Return the names of the distributions whose entry points cannot all be read, so that plugins may be missing."""
    return _scan().unreadable


def get(kind: str, name: str, *, distribution: str | None = None) -> Any:
    """Load one plugin and return the object its entry point names.

    ``name`` may be ``NAME@DISTRIBUTION``, for a name that several distributions claim.

    Raises
    ------
    PluginError
        The kind or the name is unknown, or the name is claimed more than once.
    PluginLoadError
        The plugin cannot be imported, is not what its kind asks for, has damaged metadata, or was written for
        another `API_VERSION`. ``__cause__`` says why; the plugin stays broken until `refresh`.
    PluginUnavailableError
        The plugin says that it cannot work on this machine.
    """
    _checked_kind(kind)
    if distribution is None and "@" in name:
        name, _, distribution = name.rpartition("@")
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
    if any(installed.key == entry.key for installed in _scan().entries):
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
    installed = _scan().entries
    with _lock:
        return [*installed, *_registered.values()]


def _scan() -> Installed:
    """Return the installed entry points, which are read only once."""
    global _installed
    with _lock:
        if _installed is not None:
            return _installed
        begun = _generation
    found = find(KINDS)
    with _lock:
        if _generation == begun:  # else `refresh` was called meanwhile
            _installed = found
        return found


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
    if entry.damage:
        return _Outcome.before_loading(entry)
    try:
        value = entry.load()
        fault = (
            _other_version(value, entry.distribution)
            or _other_type(value, entry.kind)
            or _other_name(value, entry)
        )
        if fault:
            raise PluginLoadError(fault)
    except KeyboardInterrupt:  # it is the user's, who need not try again for long
        raise
    except PluginUnavailableError as error:
        return _Outcome("unavailable", error)
    except BaseException as error:  # such as SystemExit, or the panic of an extension in Rust
        return _Outcome("broken", error)
    return _Outcome("loaded", None, value)


def _other_version(value: Any, distribution: str) -> str:
    """What is wrong with the ``api_version`` of a plugin's object; "" if nothing is."""
    version = getattr(value, "api_version", 1)
    if type(version) is int and version == API_VERSION:
        return ""
    newer = type(version) is int and version > API_VERSION
    remedy = f"upgrade {'tacenda' if newer else distribution}"
    return f"its api_version is {version!r} and this tacenda speaks {API_VERSION}: {remedy}"


def _other_type(value: Any, kind: str) -> str:
    """Why a plugin's object is not of its kind; "" if it is."""
    if kind == "commands":
        from typer import Typer

        sound = isinstance(value, Typer)
    else:
        parts = value if kind == "datasets" and isinstance(value, list | tuple) else [value]
        sound = all(
            isinstance(part, type) == (kind not in ("kernels", "datasets"))
            and getattr(part, "kind", None) == kind
            for part in parts
        )
    if sound:
        return ""
    found = f"{value!r:.60}" if value is None or isinstance(value, type) else ""
    found = found or f"an object of type {type(value).__name__}"
    return f"it is {found}, not {_EXPECTED[kind].format(kind=kind)}"


def _other_name(value: Any, entry: Entry) -> str:
    """Why a plugin's object would not be found by the name that it gives itself; "" if it would."""
    if entry.kind in ("datasets", "commands"):
        return ""
    name = getattr(value, "name", entry.name)
    if name != entry.name:
        return f"its name is {name!r} and its entry point's {entry.name!r}: give both one name"
    if entry.kind == "kernels" or entry.distribution == RUNTIME or not entry.version:
        return ""  # a backend has no distribution, and what is registered by hand need not say it
    owner = getattr(value, "distribution", entry.distribution)
    if isinstance(owner, str) and canonical(owner) == canonical(entry.distribution):
        return ""
    return (
        f"its distribution is {owner!r} and {entry.distribution!r} installs it, so that a saved model "
        f"would not find its class: set distribution = {entry.distribution!r}"
    )


def _unknown(kind: str, name: str, distribution: str | None, claims: list[Entry]) -> str:
    if claims:
        owners = ", ".join(sorted({entry.distribution for entry in claims}))
        return f"{distribution} installs no {name!r} under tacenda.{kind}, but {owners} does"
    names = sorted({record.name for record in available(kind)})
    listed = f"installed are {', '.join(names)}" if names else "none is installed"
    close = difflib.get_close_matches(name, names, n=1)
    source = f" of {distribution}" if distribution else ""
    hint = f"; did you mean {close[0]!r}?" if close else ""
    torn = unreadable()
    hint += f"; the entry points of {', '.join(torn)} cannot all be read" if torn else ""
    return f"there is no plugin {name!r}{source} under tacenda.{kind}: {listed}{hint}"


def _ambiguous(kind: str, name: str, claims: list[Entry]) -> str:
    claims = sorted(claims, key=lambda entry: (entry.distribution, entry.target))
    owners = " and ".join(f"{entry.distribution} ({entry.target})" for entry in claims)
    remedy = f"choose one, as in {name}@{claims[0].distribution}, or uninstall one"
    if len({entry.key for entry in claims}) == 1:
        remedy = "its metadata must name it once"
    return f"{name!r} under tacenda.{kind} is claimed by {owners}: {remedy}"


def _checked_kind(kind: str) -> str:
    if kind not in KINDS:
        raise PluginError(f"there is no kind of plugin {kind!r}; the kinds are {', '.join(KINDS)}")
    return kind
