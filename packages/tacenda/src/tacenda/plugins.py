"""The registry of plugins, which are installed under the entry-point groups ``tacenda.<kind>``.

Plugins are found through ``importlib.metadata``. Listing them imports nothing. A plugin that fails to load is *broken*,
and the registry keeps the cause; one that is sound but cannot work on this machine is *unavailable*. Neither disturbs
any other plugin. A name that two distributions claim is an error only when somebody asks for it.

Any metadata on the path may be damaged. ``importlib.metadata`` gives up on a whole ``entry_points.txt`` at the first
line it cannot read, and its ``entry_points()`` on all distributions, so the files are read line by line here: sound
lines of a damaged file count, and each damaged distribution causes one warning.
"""

from __future__ import annotations

import difflib
import importlib.metadata
import logging
import os
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from email.parser import HeaderParser
from functools import cache
from importlib.metadata import Distribution, EntryPoint
from pathlib import Path
from typing import Any, NamedTuple

from tacenda.errors import (
    ConfigurationError,
    PluginError,
    PluginLoadError,
    PluginUnavailableError,
    TacendaError,
    describe,
)
from tacenda.forks import cached_property

#: The kinds of plugins; the entry-point group of a kind is ``tacenda.<kind>``.
KINDS = ("kernels", "embedders", "language_models", "recommenders", "datasets", "commands")

#: The package of Tacenda's that has plugins of a kind, if the core has none.
HOMES = {
    "embedders": "tacenda-embeddings",
    "language_models": "tacenda-lm",
    "recommenders": "tacenda-surprise",
}

#: Descriptions of the plugins of those kinds whose plugins are not classes.
_OBJECTS = {
    "kernels": "a module or an object whose kind is 'kernels'",
    "datasets": "a tacenda.datasets.DatasetSpec or a list of them",
    "commands": "a typer.Typer",
}

#: The groups ``tacenda.<name>`` that are read: the kinds, and ``models``, of folders (`tacenda.artifact.by_name`).
GROUPS = (*KINDS, "models")

#: The version of the contract between the core and its plugins. The integer attribute ``api_version`` of an object
#: says for which version it was written; without the attribute, that is version 1.
API_VERSION = 1

#: The distribution of an object that `register` adds without naming one.
RUNTIME = "<runtime>"

_FILE = "entry_points.txt"
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class PluginRecord:
    """One plugin: its claim on a name, and what became of loading it.

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

    @cached_property
    def key(self) -> tuple[str, str, str]:
        """Return kind, name and distribution, which stay the same however the last is spelled."""
        return self.kind, self.name, canonical(self.distribution)


class _Installed(NamedTuple):
    records: list[PluginRecord]  # of all groups
    faults: list[str]


#: A number that changes whenever `get` may return another object: a key for caches.
generation = 0

_lock = threading.RLock()
_registered: dict[tuple[str, str, str], tuple[PluginRecord, Any]] = {}
_outcomes: dict[PluginRecord, tuple[PluginRecord, Any]] = {}


def _renew_lock() -> None:
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    # a child has none of its parent's threads, and would wait for ever for one that was reading what is installed
    os.register_at_fork(after_in_child=_renew_lock)


@cache
def canonical(distribution: str) -> str:
    """Return the name of a distribution in the form in which the packaging standards compare names."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def version_of(distribution: str) -> str:
    """Return the version of an installed distribution; "" if it is not installed or its metadata have no version."""
    try:
        return importlib.metadata.version(distribution) or ""
    except (importlib.metadata.PackageNotFoundError, KeyError, ValueError):
        return ""


def available(kind: str | None = None) -> list[PluginRecord]:
    """List the plugins of one kind, or of all kinds, without importing any."""
    if kind is not None and kind not in KINDS:
        raise _unknown_kind(kind)
    kinds = KINDS if kind is None else (kind,)
    found = [_outcomes.get(r, (r,))[0] for r in records() if r.kind in kinds]
    return sorted(found, key=lambda r: (KINDS.index(r.kind), r.name, r.distribution, r.target))


def faults() -> list[str]:
    """Return a sentence for each distribution whose entry points are unreadable, or in a group that nothing reads."""
    with _lock:
        return list(_read_all().faults)


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
    if kind not in KINDS:
        raise _unknown_kind(kind)
    if distribution is None and isinstance(name, str) and "@" in name:
        name, _, distribution = name.rpartition("@")
    claims = [record for record in records() if (record.kind, record.name) == (kind, name)]
    wanted = canonical(distribution or "")
    matching = [record for record in claims if wanted in ("", record.key[2])]
    if len(matching) != 1:
        raise _explain_claims(kind, name, distribution, matching or claims)
    claim = matching[0]
    outcomes = _outcomes
    # The lock is not held while loading: an import that itself asks the registry would deadlock with that of another
    # thread. Loading twice is harmless; the result of whichever finishes first is kept.
    record, value = outcomes.get(claim) or outcomes.setdefault(claim, _load(claim))
    if record.cause is None:
        return value
    who = f"the plugin {name!r} ({kind}) of {record.distribution} {record.version}".rstrip()
    why = describe(record.cause)
    if record.status == "unavailable":
        raise PluginUnavailableError(f"{who} cannot be used here: {why}") from record.cause
    raise PluginLoadError(f"{who} cannot be loaded from {record.target}: {why}") from record.cause


def _explain_claims(
    kind: str, name: str, distribution: str | None, claims: list[PluginRecord]
) -> PluginError:
    """Return the error for a name that is claimed several times, only by other distributions, or not at all."""
    if distribution and claims and claims[0].key[2] != canonical(distribution):
        owners = ", ".join(sorted({record.distribution for record in claims}))
        return PluginError(
            f"{distribution} installs no {name!r} under tacenda.{kind}, but {owners} does"
        )
    if claims:
        claims.sort(key=lambda record: (record.distribution, record.target))
        owners = " and ".join(f"{each.distribution} ({each.target})" for each in claims)
        first, last = claims[0], claims[-1]
        advice = f"choose one, as in {name}@{first.distribution}, or uninstall one"
        if first.key == last.key:
            advice = f"{first.distribution} must give each a name of its own"
        return PluginError(f"{name!r} under tacenda.{kind} is claimed by {owners}: {advice}")
    names = sorted({record.name for record in available(kind)})
    listed = f"installed are {', '.join(names)}" if names else say_none(kind)
    source = f" of {distribution}" if distribution else ""
    close = difflib.get_close_matches(str(name), names, n=1)
    # faults such as the group of this very plugin, misspelled
    rest = "; ".join([listed, *(f"did you mean {each!r}?" for each in close), *faults()])
    return PluginError(f"there is no plugin {name!r}{source} under tacenda.{kind}: {rest}")


def make(
    kind: str,
    name: str,
    options: Mapping[str, Any] | None = None,
    *,
    distribution: str | None = None,
) -> Any:
    """Make an unfitted model of a registered class with these options; for errors of the plugin see `get`.

    Raises ConfigurationError if the kind has no classes, or the class no such option, or its value is out of bounds.
    """
    if kind in _OBJECTS:
        raise ConfigurationError(
            f"plugins under tacenda.{kind} are used as they are: take one with plugins.get({kind!r}, {name!r})"
        )
    model_class = get(kind, name, distribution=distribution)
    options = {} if options is None else options
    if not isinstance(options, Mapping) or not all(isinstance(name, str) for name in options):
        raise ConfigurationError(
            f"options must be a mapping of names to values, not {options!r:.80}"
        )
    try:
        return model_class(**options)
    except TypeError as error:  # of a class without `tacenda.settings.Settings`
        raise ConfigurationError(
            f"{model_class.__name__} cannot be made with the options {', '.join(options) or '(none)'}: {error}"
        ) from error


def register(kind: str, name: str, obj: Any, *, distribution: str = RUNTIME) -> None:
    """Add an object to the registry of this process, for a test or a notebook, or replace an existing one.

    An object that is installed under this name already stays as it is; then `unregister` has nothing to remove, and
    raises.

    Raises PluginError if the kind is unknown, the name is empty or has an @, or another object is installed under it:
    by ``distribution`` or, without one, from the same module and attribute, as that of a class that was defined again.
    """
    global generation
    target = f"{getattr(obj, '__module__', '?')}:{getattr(obj, '__qualname__', type(obj).__name__)}"
    record = PluginRecord(kind, name, distribution, "", "not loaded", None, target)
    if kind not in KINDS:
        raise _unknown_kind(kind)
    # NAME@DISTRIBUTION is how `get` tells two apart
    if not isinstance(name, str) or not name or "@" in name:
        raise PluginError(f"a plugin needs a name without @, not {name!r}")
    for claim in records():
        is_same = claim.key == record.key
        if (claim.kind, claim.name) != (kind, name) or is_registered(claim):
            continue
        if not is_same and distribution != RUNTIME:
            continue
        found, value = _load(claim)  # again, as the module may have been reloaded since
        if value is obj:
            with _lock:
                _outcomes[claim] = found, value
                generation += 1
            return
        if is_same or claim.target == target:
            advice = "leave out register to use that one"
            if found.cause is not None:
                advice = f"that one cannot be loaded ({describe(found.cause)}), so repair it"
            raise PluginError(
                f"{found.distribution} installs another {name!r} under tacenda.{kind}, from {found.target}: "
                f"{advice}, or uninstall it to try yours"
            )
    with _lock:
        _outcomes.pop(record, None)
        _registered[record.key] = record, obj
        generation += 1


def unregister(kind: str, name: str, *, distribution: str = RUNTIME) -> None:
    """Remove an object that `register` added. Raises PluginError if there is none."""
    global generation
    with _lock:
        found = _registered.pop((kind, name, canonical(distribution)), None)
        if found is None:
            raise PluginError(f"{name!r} of {distribution} is not registered under tacenda.{kind}")
        generation += 1
        _outcomes.pop(found[0], None)


def is_registered(record: PluginRecord) -> bool:
    """Tell whether a plugin is one that `register` added in this process."""
    return record.key in _registered


def refresh() -> None:
    """Forget all plugins found and loaded, so that one installed or repaired in the meantime is seen."""
    global _outcomes, generation
    importlib.invalidate_caches()
    with _lock:
        generation += 1
        _read_all.cache_clear()
        _outcomes = {}  # a new dictionary: what is being loaded now goes into the old one


def say_none(kind: str | None) -> str:
    """Say that no plugins of a kind are installed, and which package of Tacenda's has some."""
    home = HOMES.get(kind or "")
    return f"none is installed{f'; the package {home} has some' if home else ''}"


def _unknown_kind(kind: str) -> PluginError:
    return PluginError(f"there is no kind of plugin {kind!r}; the kinds are {', '.join(KINDS)}")


def records() -> list[PluginRecord]:
    """Return what is installed and what was registered. The metadata is read once."""
    with _lock:
        return [*_read_all().records, *(record for record, _ in _registered.values())]


# ---- loading one ----


def _load(claim: PluginRecord) -> tuple[PluginRecord, Any]:
    """Load the object of a claim; return its record with the outcome, and the object."""
    try:
        registered, value = _registered.get(claim.key, (None, None))
        if registered is None:
            value = EntryPoint(claim.name, claim.target, f"tacenda.{claim.kind}").load()
        _check_object(claim, value, registered is None)
    except KeyboardInterrupt:  # it is the user's, who need not try again for long
        raise
    except PluginUnavailableError as error:
        return replace(claim, status="unavailable", cause=error), None
    except BaseException as error:  # such as SystemExit, or the panic of an extension in Rust
        return replace(claim, status="broken", cause=error), None
    return replace(claim, status="loaded"), value


def _check_object(claim: PluginRecord, value: Any, installed: bool) -> None:
    """Raise PluginLoadError unless a plugin's object is of its kind, its API version and its name."""
    version, owner = getattr(value, "api_version", 1), claim.distribution
    if type(version) is not int or version != API_VERSION:
        newer = type(version) is int and version > API_VERSION
        raise PluginLoadError(
            f"its api_version is {version!r} and this tacenda speaks {API_VERSION}: "
            f"upgrade {'tacenda' if newer else owner}"
        )
    kind = claim.kind
    if not _is_of_kind(kind, value):
        shown = value is None or isinstance(value, type)
        found = f"{value!r:.60}" if shown else f"an object of type {type(value).__name__}"
        expected = _OBJECTS.get(kind, f"a class whose attribute kind is {kind!r}")
        raise PluginLoadError(f"it is {found}, not {expected}")
    if kind in ("datasets", "commands"):
        return
    name = getattr(value, "name", claim.name)
    if name != claim.name:
        raise PluginLoadError(
            f"its name is {name!r} and its entry point's {claim.name!r}: give both one name"
        )
    said = getattr(value, "distribution", owner)
    if installed and kind != "kernels" and claim.version and canonical(str(said)) != claim.key[2]:
        raise PluginLoadError(
            f"its distribution is {said!r} and {owner!r} installs it, so that a saved model would not find its "
            f"class: set distribution = {owner!r}"
        )


def _is_of_kind(kind: str, value: Any) -> bool:
    if kind == "commands":
        from typer import Typer

        return isinstance(value, Typer)
    parts = value if kind == "datasets" and isinstance(value, list | tuple) else [value]
    return all(
        isinstance(part, type) == (kind not in _OBJECTS) and getattr(part, "kind", None) == kind
        for part in parts
    )


# ---- reading the metadata of all distributions ----


@cache
def _read_all() -> _Installed:
    """Read the entry points of all distributions."""
    found: list[PluginRecord] = []
    unread: list[str] = []
    for name, version, text, damage in _find_distributions():
        # a line that is there twice counts once
        for group, point, target in dict.fromkeys(_parse(text, damage)):
            kind = group.removeprefix("tacenda.")
            if kind in GROUPS and kind != group:
                found.append(PluginRecord(kind, point, name, version, "not loaded", None, target))
            elif kind != group:
                unread.append(f"{name}: {_describe_unread(group)}")
        if damage:
            unread.append(f"{name}: its entry points cannot all be read, so plugins may be missing")
            shown = "; ".join(damage[:3])
            # a logged warning cannot be turned into an error that ends the search
            _logger.warning(
                "%s", TacendaError(f"{name} {version} is damaged: {shown}: reinstall or remove it")
            )
    return _Installed(found, list(dict.fromkeys(unread)))


def _find_distributions() -> Iterator[tuple[str, str, str, list[str]]]:
    """Yield name and version of each distribution with plugins, the text of its entry points, and what is damaged.

    Of two with one name, the first on the path counts. METADATA is parsed only of those with entry points of ours, many
    times as fast as parsing it of all; without it, a distribution has the name of its folder, and no plugins.
    """
    seen: set[str] = set()
    others: dict[str, list[Distribution]] = {}  # without plugins, by the names of their folders
    for dist in importlib.metadata.distributions():
        text, damage = _read_entry_points(dist)
        # NAME-VERSION.dist-info, which no public attribute tells
        folder_name, _, folder_version = Path(str(getattr(dist, "_path", "?"))).stem.partition("-")
        # a file that begins with no [group] may be ours too
        if not damage and "tacenda." not in text and text.lstrip()[:1] in ("", "[", "#"):
            others.setdefault(canonical(folder_name), []).append(dist)
            continue
        name, version = _read_headers(dist)
        key = canonical(name)
        if not name:
            damage.append("its METADATA is missing or cannot be read")
            yield folder_name, folder_version, "", damage
        elif key not in seen and not any(_read_headers(each)[0] for each in others.get(key, ())):
            seen.add(key)
            yield name, version, text, damage


def _read_entry_points(dist: Distribution) -> tuple[str, list[str]]:
    """Return the text of the entry points of a distribution, and what is wrong with it."""
    try:
        return dist.read_text(_FILE) or "", []
    except UnicodeDecodeError as error:
        text = error.object.decode(errors="replace")
        return text, [f"{_FILE} is not UTF-8 at byte {error.start}"]
    except Exception as error:  # foreign metadata may fail in any way
        return "", [f"{_FILE} cannot be read ({describe(error)})"]


def _describe_unread(group: str) -> str:
    """Return a clause on a group of entry points that nothing reads."""
    near = difflib.get_close_matches(group.removeprefix("tacenda."), GROUPS, n=1)
    groups = ", ".join(f"tacenda.{each}" for each in near or GROUPS)
    meant = f"is {groups} meant?" if near else f"the groups are {groups}"
    return f"nothing reads its entry points in the group {group}; {meant}"


def _read_headers(dist: Distribution) -> tuple[str, str]:
    """Return name and version of a distribution; the name is "" if they cannot be read."""
    try:
        # ``dist.metadata`` would parse the README below the headers too
        metadata = dist.read_text("METADATA") or dist.read_text("PKG-INFO") or ""
        headers = HeaderParser().parsestr(metadata.partition("\n\n")[0])
        return str(headers["Name"] or ""), str(headers["Version"] or "")
    except Exception:
        return "", ""


def _parse(text: str, damage: list[str]) -> Iterator[tuple[str, str, str]]:
    """Yield group, name and target of each entry point, read as importlib.metadata does, but each line for itself.

    What is wrong with a line is appended to ``damage``.
    """
    group = ""
    for number, line in enumerate(map(str.strip, text.splitlines()), start=1):
        point, _, target = (part.strip() for part in line.partition("="))
        if not line or line.startswith("#"):
            continue
        if line.startswith("[") and line.endswith("]"):
            group = line[1:-1].strip()
        elif not group or not point or not EntryPoint.pattern.match(target):
            damage.append(
                f"line {number} of {_FILE}, {line[:60]!r}, is not NAME = MODULE:OBJECT in a [group]"
            )
        else:
            yield group, point, target
