"""Kernels: one folder per operation, one dispatcher that picks the best backend installed.

Every folder ``tacenda/kernels/<operation>/`` holds ``naive.py`` (the specification: a plain loop
in float64), fast paths such as ``cpu.py``, and a public function in ``__init__.py`` that states
shapes, units, errors and source. This package imports neither numba nor torch; the operation that
needs them does, when it is first called.
"""

from tacenda.kernels.dispatch import (
    API_VERSION,
    Backend,
    UnsupportedShape,
    operations,
    resolve,
    use,
)

__all__ = ["API_VERSION", "Backend", "UnsupportedShape", "operations", "resolve", "use"]
