"""Kernels: the operations worth accelerating, and the dispatcher that picks the best backend installed for each.

The wings ``dynamics``, ``log_bilinear``, ``hidden_markov`` and ``ratings`` have the operations of one family of models
each, and ``shared`` has those of several. An operation is a folder: ``__init__.py`` has its public function, which
states shapes, units, errors and source and checks the arguments; ``naive.py`` is the specification, a plain loop in
float64; ``cpu.py`` and ``triton.py`` are fast. ``machinery`` has what they are built from.

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

__all__ = ["API_VERSION", "Backend", "UnsupportedShape", "operations", "resolve", "use"]
