"""Kernels: the operations worth accelerating, and the dispatcher that picks the best backend installed for each.

The families ``counts``, ``sequences``, ``contexts``, ``trees``, ``hidden_markov``, ``ratings`` and ``boltzmann`` have
related operations each, ``shared`` those of several kinds of models. The ``__init__.py`` of a family defines the
operations: functions whose annotations declare the checks of their arguments, and whose bodies are the specification,
plain loops in float64. ``cpu.py``, ``torch.py`` and ``triton.py`` have the fast functions of the same names, built from
``machinery``.

This package imports neither numba nor torch: an operation that needs them imports them when it is first called.
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
    "API_VERSION", "Backend", "UnsupportedShape", "operation", "operations", "resolve", "use",
]  # fmt: skip
