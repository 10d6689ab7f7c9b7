"""Parts of a saved language model that belong to no class of models: arrays, and a fact that says they are there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tacenda.arrays import Arrays
from tacenda.artifact.folder import Artifact


def add_part(artifact: Artifact, name: str, part: Arrays, about: dict[str, Any]) -> Artifact:
    """Return an artifact with the arrays of a part, and with what there is to say of it in ``fitted_on``."""
    return replace(
        artifact,
        arrays={**artifact.arrays, **part.to_arrays(f"{name}.")},
        fitted_on={**artifact.fitted_on, name: about},
    )


def pop_part(artifact: Artifact, name: str) -> tuple[Any, Artifact]:
    """Return what is said of a part, None if it is not there, and the artifact without it."""
    arrays = {k: a for k, a in artifact.arrays.items() if not k.startswith(f"{name}.")}
    facts = {k: fact for k, fact in artifact.fitted_on.items() if k != name}
    return artifact.fitted_on.get(name), replace(artifact, arrays=arrays, fitted_on=facts)
