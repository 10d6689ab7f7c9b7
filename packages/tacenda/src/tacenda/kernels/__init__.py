"""Kernels: the operations worth accelerating, and the dispatcher that picks the best backend installed for each.

The families ``sequences``, ``trees``, ``hidden_markov`` and ``ratings`` have the operations of one kind of model each,
``shared`` those of several. In a family, ``__init__.py`` has the operations: functions whose annotations say what
arguments are checked for, and whose bodies are the specification, plain loops in float64. ``cpu.py``, ``torch.py`` and
``triton.py`` have the fast functions of the same names. ``machinery`` has what they are built from.

This package imports neither numba nor torch. The operation that needs them does, when it is first called.
"""

from tacenda.kernels.dispatch import (
    API_VERSION,
    Backend,
    UnsupportedShape,
    operations,
    resolve,
    use,
)
from tacenda.kernels.operation import operation

__all__ = [
    "API_VERSION",
    "Backend",
    "UnsupportedShape",
    "operation",
    "operations",
    "resolve",
    "use",
]
