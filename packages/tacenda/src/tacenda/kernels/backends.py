"""The backends that ship with Tacenda, named by its ``tacenda.kernels`` entry points.

An operation of the family ``hidden_markov`` is a function in ``hidden_markov/__init__.py``, whose body ``reference``
runs; the functions of that name in ``cpu.py``, ``torch.py`` and ``triton.py`` beside it are the fast
ones. They are imported when they are first called, so that loading a backend costs nothing and one broken file leaves
the others alone.
"""

import re
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tacenda.errors import PluginUnavailableError
from tacenda.kernels.dispatch import API_VERSION, FAMILIES, OPERATIONS, Operation


class Files:
    """The backend made of all files of one name."""

    kind = "kernels"
    api_version = API_VERSION

    def __init__(self, file: str, priority: int, device: str) -> None:
        self.file, self.priority, self.devices = file, priority, {device}

    def offers(self, operation: str) -> bool:
        """Tell whether there is a function of this name, without importing its file, which may need torch."""
        public = OPERATIONS.get(operation)
        if public is None or self.file == "reference":
            return public is not None
        return operation in _functions(public.__module__, self.file)

    def __getattr__(self, operation: str) -> Operation:
        """Return the function of an operation, if this backend has it."""
        if not self.offers(operation):
            raise AttributeError(operation)
        public: Any = OPERATIONS[operation]
        if self.file == "reference":
            function: Operation = public.specification
            return function
        function = getattr(import_module(f"{public.__module__}.{self.file}"), operation)
        return function


@cache
def _functions(family: str, file: str) -> frozenset[str]:
    """Return the names of the functions in a file of a family of Tacenda's, by its source."""
    if family.removeprefix("tacenda.kernels.") not in FAMILIES:
        return frozenset()
    path = Path(str(import_module(family).__file__)).with_name(f"{file}.py")
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return frozenset(re.findall(r"^def (\w+)\(", text, re.MULTILINE))


reference = Files("reference", 0, "cpu")
"""The specifications themselves, those of others too: slow, readable, float64."""

cpu = Files("cpu", 50, "cpu")
"""numba where the work is an irregular loop, BLAS where it is a product; on one thread unless told, without the GIL."""

OF_CUDA = {"torch": Files("torch", 90, "cuda"), "triton": Files("triton", 100, "cuda")}
"""By name: an operation is plain torch where that is near what the device can do, else Triton. A backend
whose packages are missing is here too, though `plugins` has it as unavailable."""


def __getattr__(name: str) -> Any:
    """Give out ``torch`` and ``triton`` only where their packages are, so that the registry can say why not."""
    if name not in OF_CUDA:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    missing = [package for package in dict.fromkeys(("torch", name)) if find_spec(package) is None]
    if missing:
        raise PluginUnavailableError(
            f"the {name} kernels need {' and '.join(missing)}: install tacenda[gpu]"
        )
    return OF_CUDA[name]
