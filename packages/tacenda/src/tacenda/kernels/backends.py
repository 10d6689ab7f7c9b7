"""The backends that ship with Tacenda, named by its ``tacenda.kernels`` entry points.

An operation of the family ``hidden_markov`` is a function in ``hidden_markov/__init__.py``, whose body ``reference``
runs; ``cpu.py``, ``torch.py`` and ``triton.py`` in the same folder have fast functions of the same name. These files
are imported when an operation is first called, so that loading a backend costs nothing and a broken file affects only
its own operations.
"""

import re
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tacenda.errors import PluginUnavailableError
from tacenda.kernels.dispatch import API_VERSION, FAMILIES, OPERATIONS, define_operations


class ModuleBackend:
    """A backend of the modules of one name, such as ``cpu``, in all families."""

    kind = "kernels"
    api_version = API_VERSION

    def __init__(self, file: str, priority: int, device: str) -> None:
        self.file, self.priority, self.devices = file, priority, {device}

    def offers(self, operation: str) -> bool:
        """Tell whether this backend has a function of this name, without importing its file, which may need torch."""
        if operation not in OPERATIONS:
            define_operations()
        public = OPERATIONS.get(operation)
        if public is None or self.file == "reference":
            return public is not None
        return operation in _list_functions(public.__module__, self.file)

    def __getattr__(self, operation: str) -> Any:
        """Return the function of an operation. Raises AttributeError if this backend has none."""
        if operation.startswith("_") or not self.offers(operation):
            raise AttributeError(operation)
        public: Any = OPERATIONS[operation]
        if self.file == "reference":
            return public.specification
        return getattr(import_module(f"{public.__module__}.{self.file}"), operation)


@cache
def _list_functions(family: str, file: str) -> frozenset[str]:
    """Return the names of the functions that a file of one of Tacenda's families defines.

    The source is searched: to import the file would need torch or numba, and to parse it would take longer.
    """
    if family.removeprefix("tacenda.kernels.") not in FAMILIES:
        return frozenset()
    path = Path(str(import_module(family).__file__)).with_name(f"{file}.py")
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return frozenset(re.findall(r"^def (\w+)\(", text, re.MULTILINE))


reference = ModuleBackend("reference", 0, "cpu")
"""The specifications, including operations registered by plugins: slow, readable, float64."""

cpu = ModuleBackend("cpu", 50, "cpu")
"""numba for irregular loops and BLAS for products; without the GIL, on one thread unless an argument asks for more."""

CUDA_BACKENDS = {
    "torch": ModuleBackend("torch", 90, "cuda"),
    "triton": ModuleBackend("triton", 100, "cuda"),
}
"""By name: operations are plain torch if that comes near the limits of the device, and Triton otherwise. The names are
attributes of this module only if their packages are installed."""


def __getattr__(name: str) -> Any:
    """Return ``torch`` or ``triton``. Raises PluginUnavailableError, for the registry, if a package is missing."""
    if name not in CUDA_BACKENDS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    missing = [package for package in dict.fromkeys(("torch", name)) if find_spec(package) is None]
    if missing:
        raise PluginUnavailableError(
            f"the {name} kernels need {' and '.join(missing)}: install tacenda[gpu]"
        )
    return CUDA_BACKENDS[name]
