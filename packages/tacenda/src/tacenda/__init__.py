"""Tacenda: probabilistic latent-variable models as plugins for the tools people already use.

The names below are imported when they are first used, so that ``import tacenda`` costs nothing.
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # type checkers take it for true; to import typing would be most of the cost
if TYPE_CHECKING:
    from typing import Any

    from tacenda import artifact, datasets, kernels, plugins
    from tacenda.corpus import Corpus
    from tacenda.estimator import load
    from tacenda.ratings import Ratings
    from tacenda.vocabulary import Vocabulary

__version__ = "0.1.0"

__all__ = ["Corpus", "Ratings", "Vocabulary", "artifact", "datasets", "kernels", "load", "plugins"]

_MODULES = frozenset({"artifact", "datasets", "kernels", "plugins"})
_OBJECTS = {
    "Corpus": "tacenda.corpus",
    "Ratings": "tacenda.ratings",
    "Vocabulary": "tacenda.vocabulary",
    "load": "tacenda.estimator",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"tacenda.{name}")
    if name not in _OBJECTS:
        raise AttributeError(f"module 'tacenda' has no attribute {name!r}")
    value = getattr(importlib.import_module(_OBJECTS[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
