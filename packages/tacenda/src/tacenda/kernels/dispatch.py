"""Which backend runs an operation: the best one installed that serves the device.

    with kernels.use("reference"):      # in this thread or task only
        ...
    TACENDA_KERNELS=cpu tacenda ...     # for a process; "mine,cpu" tries two in order

Backends come from the ``tacenda.kernels`` entry points or ``tacenda.plugins.register("kernels", ...)`` and are tried
from the highest priority down. A backend that cannot be loaded, or whose operation cannot be imported, is skipped and
the reason kept; one that raises `UnsupportedShape` hands the call to the next. ``reference`` is the last resort and
never a silent one: unless it was asked for by name it warns, once for each operation and reason.
"""

import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, ClassVar

from tacenda import plugins
from tacenda.errors import KernelError, PluginError, PluginUnavailableError, describe

API_VERSION = plugins.API_VERSION
ENVIRONMENT = "TACENDA_KERNELS"
REFERENCE = "reference"

Operation = Callable[..., Any]


class UnsupportedShape(KernelError):  # noqa: N818 - it is a hand-over, rarely seen as an error
    """Raised by a backend's operation, before any work, for shapes or dtypes it does not serve."""


@dataclass(frozen=True)
class Backend:
    """A set of operations; what a ``tacenda.kernels`` entry point names.

    Parameters
    ----------
    name
        The name users select it by; the same as the entry point's.
    api_version
        `tacenda.plugins.API_VERSION` of the release it was written for; checked on load.
    priority
        Higher is tried first. ``reference`` 0, ``cpu`` 50, ``torch`` 90, ``triton`` 100.
    operations
        Operation name -> callable, or ``"module:function"`` imported at first use. The names may be those of Tacenda
        (``lagged_counts`` ...; same arguments and results) or new ones. The public function of an operation checks the
        arguments and hands them on by position, all of them, with arrays in the dtypes it documents.
    devices
        Device types served: ``"cpu"`` (numpy arrays), ``"cuda"`` (torch tensors) ...
    """

    kind: ClassVar[str] = "kernels"

    name: str
    api_version: int
    priority: int
    operations: Mapping[str, str | Operation]
    devices: frozenset[str] = field(default_factory=lambda: frozenset({"cpu"}))

    def __post_init__(self) -> None:
        """Refuse what would fail only when the dispatcher compares backends or calls an operation."""
        if not isinstance(self.name, str) or not self.name:
            raise KernelError(f"a kernel backend is named by a text, not {self.name!r}")
        if not isinstance(self.priority, int | float) or self.priority != self.priority:
            raise KernelError(
                f"the priority of the kernel backend {self.name} is a number, not {self.priority!r}"
            )
        if isinstance(self.devices, str):
            raise KernelError(
                f"the devices of the kernel backend {self.name} are a set of names, not {self.devices!r}"
            )
        sound = isinstance(self.operations, Mapping)
        if not sound or not all(
            isinstance(o, str) or callable(o) for o in self.operations.values()
        ):
            raise KernelError(
                f"the operations of the kernel backend {self.name} are a mapping from their names to "
                'functions or "module:function"'
            )


_Choice = tuple[str, ...]
_Owned = tuple[Backend, str]
_chosen: ContextVar[_Choice] = ContextVar("tacenda_kernels_chosen", default=())
_warned: set[tuple[str, str]] = set()
# Looking through the registry costs as much as running a kernel over a sentence, so what was found is kept.
_REMEMBERED = 256
_resolved: dict[tuple[str, str, _Choice, int], Operation] = {}


@contextmanager
def use(name: str) -> Iterator[None]:
    """Run the operations called in this context on the named backend only.

    Parameters
    ----------
    name
        A backend, or several separated by commas, tried in that order; ``name@distribution`` where
        two distributions offer the same name. An unknown or ambiguous name, or an operation the
        named backends do not offer, raises `KernelError` when an operation is called.
    """
    token = _chosen.set(_names(name))
    try:
        yield
    finally:
        _chosen.reset(token)


def operations() -> dict[str, list[str]]:
    """Every operation that a backend offers -> the names of the backends that offer it and load, best first."""
    offered: dict[str, list[str]] = {}
    loaded, _ = _load_backends()
    for backend, _ in loaded:
        for operation in backend.operations:
            offered.setdefault(operation, []).append(backend.name)
    return offered


def resolve(operation: str, device: str = "cpu") -> Operation:
    """Find the callable that runs ``operation`` on ``device`` ("cpu", "cuda", "cuda:1" ...).

    The callable tries the backends that fit in order, going on to the next at `UnsupportedShape`.

    Raises
    ------
    KernelError
        No backend fits; the message names every one that was skipped, and why.
    """
    wanted = _chosen.get() or _names(os.environ.get(ENVIRONMENT, ""))
    key = (operation, device, wanted, plugins.generation())
    found = _resolved.get(key)
    if found is None:
        found = _resolve(operation, device.partition(":")[0], wanted)
        if len(_resolved) >= _REMEMBERED:
            _resolved.clear()
        _resolved[key] = found
    return found


def _resolve(operation: str, kind: str, wanted: _Choice) -> Operation:
    """The one backend's function that fits, or a function that tries several in order."""
    loaded, unloaded = _load_backends()
    skipped: list[str] = []
    fitting = []
    for backend in _select(loaded, unloaded, wanted):
        if operation not in backend.operations:
            continue
        if kind not in backend.devices:
            skipped.append(f"{backend.name} does not serve {kind}")
            continue
        try:
            fitting.append((backend.name, imported(backend.operations[operation])))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a broken operation must not disturb the others
            skipped.append(
                f"{backend.name} cannot be imported ({describe(error.__cause__ or error)})"
            )
    if not fitting:
        raise _nothing_left(operation, kind, wanted, skipped + unloaded)
    asked_for = bool(wanted)  # what was chosen by name needs no warning
    if len(fitting) == 1 and (fitting[0][0] != REFERENCE or asked_for):
        return fitting[0][1]

    def run(*args: Any, **kwargs: Any) -> Any:
        """Call the first function that does not decline. Raises KernelError if all do."""
        reasons = list(skipped)
        for name, function in fitting:
            if name == REFERENCE and not asked_for:
                _warn_of_reference(operation, reasons, unloaded)
            try:
                return function(*args, **kwargs)
            except UnsupportedShape as error:
                reasons.append(f"{name}: {error}")
                last = error
        raise _nothing_left(operation, kind, wanted, reasons + unloaded) from last

    return run


def _names(text: str) -> _Choice:
    """The names in a list separated by commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _load_backends() -> tuple[list[_Owned], list[str]]:
    """The backends that load, with their distributions, best first, and a sentence for each that does not."""
    loaded: list[_Owned] = []
    skipped: list[str] = []
    for record in plugins.available("kernels"):
        try:
            backend = plugins.get("kernels", record.name, distribution=record.distribution)
            loaded.append((backend, record.distribution))
        except PluginError as error:  # a broken backend must not disturb the others
            reason = f"{record.name} of {record.distribution} does not load ({describe(error.__cause__ or error)})"
            skipped.append(reason)
            if record.status == "not loaded" and not isinstance(error, PluginUnavailableError):
                warnings.warn(f"the kernel backend {reason}", RuntimeWarning, stacklevel=4)
    loaded.sort(key=lambda owned: -owned[0].priority)
    return loaded, skipped


def _select(loaded: list[_Owned], unloaded: list[str], wanted: _Choice) -> list[Backend]:
    """The backends wanted, in the order wanted, or all of them."""
    if not wanted:
        return [backend for backend, _ in loaded]
    selected = []
    for choice in wanted:
        name, _, owner = choice.partition("@")
        named = [(b, d) for b, d in loaded if b.name == name and owner in ("", d)]
        if not named:
            known = ", ".join(backend.name for backend, _ in loaded)
            why = "; ".join(reason for reason in unloaded if reason.startswith(f"{name} "))
            raise KernelError(
                f"no kernel backend {choice!r} is ready here"
                f"{f' ({why})' if why else ''}: choose from {known}"
            )
        if len(named) > 1:
            owners = " and ".join(distribution for _, distribution in named)
            raise KernelError(
                f"the kernel backend {name!r} is offered by {owners}: "
                f"say which, as {name}@{named[0][1]}"
            )
        selected.append(named[0][0])
    return selected


def imported(target: str | Operation) -> Operation:
    """Return the operation itself, where a backend only names it.

    Raises KernelError, or what the import raises.
    """
    if not isinstance(target, str):
        return target
    module, _, attribute = target.partition(":")
    operation: Operation = getattr(import_module(module), attribute)
    if not callable(operation):
        raise KernelError(f"{target} is a {type(operation).__name__}, not a function")
    return operation


def _nothing_left(operation: str, kind: str, wanted: _Choice, skipped: list[str]) -> KernelError:
    """The error for an operation that no backend runs, with the reason of each that was asked."""
    asked = f" among {', '.join(wanted)}" if wanted else ""
    reasons = f" ({'; '.join(skipped)})" if skipped else ""
    return KernelError(
        f"no kernel backend{asked} runs {operation!r} on {kind}{reasons}: "
        "see `tacenda plugins`, or choose another with tacenda.kernels.use or TACENDA_KERNELS"
    )


def _warn_of_reference(operation: str, reasons: list[str], unloaded: list[str]) -> None:
    """Warn, once for each reason, that the slow specification runs."""
    why = "; ".join(reasons) or "no other backend that loads offers it"
    if unloaded:
        why += f" ({'; '.join(unloaded)})"
    if (operation, why) not in _warned:
        _warned.add((operation, why))
        warnings.warn(
            f"{operation} runs on the slow reference kernel: {why}", RuntimeWarning, stacklevel=3
        )
