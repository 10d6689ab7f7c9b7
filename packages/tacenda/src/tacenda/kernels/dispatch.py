"""The choice of the backend that runs an operation: the best installed one that serves the device.

    with kernels.use("reference"):      # in this thread or task only
        ...
    TACENDA_KERNELS=cpu tacenda ...     # for a process; "mine,cpu" tries two in order

A backend is a module, or any object, that has

    kind = "kernels"
    priority = 10                       # higher is tried first: reference 0, cpu 50, torch 90, triton 100
    devices = {"cpu"}                   # optional; "cuda" and "cpu:0" get torch tensors
    api_version = 1                     # optional, `tacenda.plugins.API_VERSION` of the release it was written for

and a function for each operation that it runs, with the operation's name, which takes all arguments by position, as
checked by the public function. Backends come from the ``tacenda.kernels`` entry points or from
``tacenda.plugins.register("kernels", ...)``. A backend that cannot be loaded, or whose operation cannot be imported, is
skipped, and the reason stored; an operation that raises `UnsupportedShape` passes the call to the next backend. The
last one is ``reference``, the bodies of the operations: unless it was chosen by name it warns, once for each operation
and reason.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

from tacenda import plugins
from tacenda.errors import KernelError, PluginError, PluginUnavailableError, describe, warn

API_VERSION = plugins.API_VERSION
ENVIRONMENT = "TACENDA_KERNELS"
REFERENCE = "reference"
#: The device of torch tensors in the memory of the host; "cpu" has NumPy arrays there.
HOST_TENSORS = "cpu:0"
FAMILIES = (
    "counts", "sequences", "contexts", "trees", "hidden_markov", "ratings", "boltzmann", "shared",
)  # fmt: skip

Operation = Callable[..., Any]

#: Every operation that `tacenda.kernels.operation` has defined -> its public function.
OPERATIONS: dict[str, Operation] = {}


class UnsupportedShape(KernelError):  # noqa: N818 - it passes a call on, and is rarely seen as an error
    """Raised by a backend's operation, before any work, for shapes or dtypes it does not serve.

    Also raised by a public operation that all its backends decline.
    """


class Backend(SimpleNamespace):
    """A backend made of functions: ``Backend(priority=10, my_operation=my_function)``."""

    kind = "kernels"
    api_version = API_VERSION
    priority: float = 1
    devices = frozenset({"cpu"})


_Choice = tuple[str, ...]


class _Registered(NamedTuple):
    """A backend, or the reason why it does not load."""

    name: str
    distribution: str
    backend: Any = None
    fault: str = ""


chosen: ContextVar[_Choice] = ContextVar("tacenda_kernels_chosen", default=())
_warned: set[tuple[str, str]] = set()
# To search the registry costs as much as to run a kernel over a sentence, so the result is stored, by operation, kind
# of device, choice and generation of the registry. The environment is read before a search only.
_REMEMBERED = 256
resolved: dict[tuple[str, str, _Choice, int], tuple[Operation, Operation]] = {}


@contextmanager
def use(name: str) -> Iterator[None]:
    """Run the operations called in this context on the named backend only.

    Parameters
    ----------
    name
        A backend, or several separated by commas, tried in that order; ``name@distribution`` where
        two distributions offer the same name. Anything without a name raises `KernelError`; an unknown
        or ambiguous name, or an operation the named backends do not offer, when an operation is called.
    """
    names = _split_names(name) if isinstance(name, str) else ()
    if not names:
        raise KernelError(
            f"kernels.use({name!r:.80}) chooses no backend: give a name, or several separated by commas"
        )
    token = chosen.set(names)
    try:
        yield
    finally:
        chosen.reset(token)


def operations() -> dict[str, list[str]]:
    """Return every operation -> the names of the backends that offer it and load, best first.

    Operations are in the order of their modules' names, whichever was imported first.
    """
    define_operations()
    loaded = [each for each in _load_backends() if not each.fault]
    defined = sorted(OPERATIONS, key=lambda name: OPERATIONS[name].__module__)
    names = [*defined, *(name for each in loaded for name in functions_of(each.backend))]

    def is_offered(operation: str, backend: Any) -> bool:
        try:
            return offers(backend, operation)
        except Exception:  # of a backend that imports its operations when it is asked for them
            return False

    return {
        operation: [each.name for each in loaded if is_offered(operation, each.backend)]
        for operation in dict.fromkeys(names)
    }


def define_operations() -> None:
    """Import the modules of all of Tacenda's operations, which are otherwise imported when needed."""
    for family in FAMILIES:
        import_module(f"tacenda.kernels.{family}")


def resolve(operation: str, device: str = "cpu") -> Operation:
    """Find the function that runs ``operation`` on ``device`` ("cpu", "cuda", "cuda:1" ...).

    The function tries the fitting backends in order, until one does not raise `UnsupportedShape`; if all do, it raises
    that. Raises KernelError if no backend fits; the message names every one that was skipped, and why.
    """
    kind = device if device == HOST_TENSORS else device.partition(":")[0]
    found = resolved.get((operation, kind, chosen.get(), plugins.generation))
    best, try_others = found or choose(operation, kind)

    @wraps(best)
    def run(*args: Any) -> Any:
        try:
            return best(*args)
        except UnsupportedShape as declined:
            return try_others(declined, *args)

    return run


def choose(operation: str, kind: str = "cpu") -> tuple[Operation, Operation]:
    """Return the best function for an operation, and one that tries the others when the best declines.

    The second takes the `UnsupportedShape` of the first, and then the arguments.
    """
    wanted = chosen.get() or _split_names(os.environ.get(ENVIRONMENT, ""))
    if operation not in OPERATIONS:
        define_operations()
    key = operation, kind, chosen.get(), plugins.generation
    registered = _load_backends()
    fitting, skipped = _find_fitting(_select(registered, wanted), operation, kind)
    unloaded = [each.fault for each in registered if each.fault]
    if not fitting and kind == HOST_TENSORS:
        raise KernelError(
            f"no kernel backend runs {operation!r} on torch tensors of the CPU: give NumPy arrays, tensor.numpy()"
        )
    if not fitting:
        raise KernelError(_explain(operation, kind, wanted, skipped + unloaded))
    (best, run), *others = fitting
    # the reference chosen by name needs no warning
    if best == REFERENCE and not wanted:
        _warn_of_reference(operation, skipped, unloaded)

    def try_others(declined: UnsupportedShape, *args: Any) -> Any:
        reasons = [*skipped, f"{best}: {declined}"]
        for name, function in others:
            if name == REFERENCE and not wanted:
                _warn_of_reference(operation, reasons, unloaded)
            try:
                return function(*args)
            except UnsupportedShape as error:
                reasons.append(f"{name}: {error}")
        raise UnsupportedShape(_explain(operation, kind, wanted, reasons + unloaded)) from declined

    if len(resolved) >= _REMEMBERED:
        resolved.clear()
    resolved[key] = run, try_others
    return run, try_others


def _explain(operation: str, kind: str, wanted: _Choice, reasons: list[str]) -> str:
    """Return a sentence on an operation that no backend runs: why, and what to do."""
    on = f"{kind} ({'; '.join(reasons)})" if reasons else kind
    if not wanted:
        return f"no kernel backend runs {operation!r} on {on}: see `tacenda plugins kernels`"
    others, _ = _find_fitting(_select(_load_backends(), ()), operation, kind)
    names = [name for name, _ in others if name not in wanted]
    advice = f"add one that does, of {', '.join(names)}" if names else "no installed one does"
    return f"no kernel backend that {_name_choice(wanted)} chooses runs {operation!r} on {on}: {advice}"


def _find_fitting(
    backends: list[_Registered], operation: str, kind: str
) -> tuple[list[tuple[str, Operation]], list[str]]:
    """Return the functions for an operation, in order, and a reason for each backend that has one but cannot run it."""
    fitting: list[tuple[str, Operation]] = []
    skipped: list[str] = []
    for name, _, backend, _ in backends:
        try:
            if not offers(backend, operation):
                continue
            if kind not in _devices_of(backend):
                skipped.append(f"{name} does not serve {kind}")
                continue
            fitting.append((name, getattr(backend, operation)))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a broken operation must not disturb the others
            reason = describe(error.__cause__ or error)
            skipped.append(f"{name} cannot be imported ({reason})")
    return fitting, skipped


def _name_choice(wanted: _Choice) -> str:
    """Return what the user wrote to choose backends."""
    names = ",".join(wanted)
    return f"kernels.use({names!r})" if chosen.get() else f"{ENVIRONMENT}={names}"


def _split_names(text: str) -> _Choice:
    """Return the names in a list separated by commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def offers(backend: Any, operation: str) -> bool:
    """Tell whether a backend has a function for an operation; imported public functions do not count.

    A method ``offers`` of the backend is asked instead of an attribute that its ``__getattr__`` would import.
    """
    if callable(answer := getattr(type(backend), "offers", None)):
        return bool(answer(backend, operation))
    function = getattr(backend, operation, None)
    return callable(function) and not hasattr(function, "specification")


def functions_of(backend: Any) -> list[str]:
    """Return the names of the functions of a backend; for a module, of the public ones that it defines."""
    if hasattr(type(backend), "offers"):
        return []
    names = vars(backend) if hasattr(backend, "__dict__") else dir(backend)
    listed = getattr(backend, "__all__", None) or [n for n in names if n[0] != "_"]
    found = {name: getattr(backend, name, None) for name in listed}
    home = backend.__name__ if isinstance(backend, ModuleType) else None
    return [
        name
        for name, function in found.items()
        if callable(function)
        and not isinstance(function, type)
        and not hasattr(function, "specification")
        and (home is None or function.__module__ == home)
    ]


def _load_backends() -> list[_Registered]:
    """Return the backends, those that load best first."""
    found: list[_Registered] = []
    for record in plugins.available("kernels"):
        name, owner, backend, fault = record.name, record.distribution, None, ""
        try:
            backend = plugins.get("kernels", name, distribution=owner)
            check_attributes(name, backend)
        except (PluginError, KernelError) as error:  # a broken backend must not disturb the others
            fault = f"{name} of {owner} does not load ({describe(error.__cause__ or error)})"
            if record.status == "not loaded" and not isinstance(error, PluginUnavailableError):
                warn(f"the kernel backend {fault}", RuntimeWarning)
        found.append(_Registered(name, owner, backend, fault))
    return sorted(found, key=lambda each: 0 if each.fault else -each.backend.priority)


def check_attributes(name: str, backend: Any) -> None:
    """Raise KernelError for a bad priority or bad devices."""
    priority = getattr(backend, "priority", None)
    if not isinstance(priority, int | float) or priority != priority:
        raise KernelError(
            f"the priority of the kernel backend {name} is a number, not {priority!r}"
        )
    devices = _devices_of(backend)
    if isinstance(devices, str):
        raise KernelError(
            f"the devices of the kernel backend {name} are a set of names, not {devices!r}"
        )


def _devices_of(backend: Any) -> Any:
    """Return the devices of a backend, by default the CPU alone."""
    devices = getattr(backend, "devices", None)
    return Backend.devices if devices is None else devices


def _select(registered: list[_Registered], wanted: _Choice) -> list[_Registered]:
    """Return the backends wanted, in the order wanted, or all that load."""
    loaded = [each for each in registered if not each.fault]
    if not wanted:
        return loaded
    selected = []
    for choice in wanted:
        name, _, owner = choice.partition("@")
        named = [each for each in loaded if each.name == name and owner in ("", each.distribution)]
        if not named:
            known = ", ".join(each.name for each in loaded)
            why = "; ".join(each.fault for each in registered if each.fault and each.name == name)
            raise KernelError(
                f"no kernel backend {choice!r} is ready here"
                f"{f' ({why})' if why else ''}, as {_name_choice(wanted)} asks for: choose from {known}"
            )
        if len(named) > 1:
            owners = " and ".join(each.distribution for each in named)
            raise KernelError(
                f"the kernel backend {name!r} is offered by {owners}: say which, as {name}@{named[0].distribution}"
            )
        selected += named
    return selected


def _warn_of_reference(operation: str, reasons: list[str], unloaded: list[str]) -> None:
    """Warn, once for each reason, that the slow specification runs."""
    why = "; ".join(reasons) or "no other backend that loads offers it"
    if unloaded:
        why += f" ({'; '.join(unloaded)})"
    if (operation, why) not in _warned:
        _warned.add((operation, why))
        warn(f"{operation} runs on the slow reference kernel: {why}", RuntimeWarning)
