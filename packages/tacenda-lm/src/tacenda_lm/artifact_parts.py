"""`Part`: arrays in a saved language model that belong to no class of models, and a fact that says they are there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Self

from tacenda.arrays import Arrays
from tacenda.artifact.folder import Artifact


class Part(Arrays):
    """Base of the parts: ``part_name`` names the fact in ``fitted_on`` and begins the names of the arrays."""

    part_name: ClassVar[str]

    def put_into(self, artifact: Artifact) -> Artifact:
        """Return the artifact of a model with this part in it."""
        return replace(
            artifact,
            arrays={**artifact.arrays, **self.to_arrays(f"{self.part_name}.")},
            fitted_on={**artifact.fitted_on, self.part_name: self.describe()},
        )

    @classmethod
    def take_from(cls, artifact: Artifact) -> tuple[Self | None, Artifact]:
        """Return the part in the artifact of a model, if it has one, and the artifact without it.

        Raises ArtifactError where it is damaged.
        """
        name, about = cls.part_name, artifact.fitted_on.get(cls.part_name)
        if about is None:
            return None, artifact
        arrays = {k: a for k, a in artifact.arrays.items() if not k.startswith(f"{name}.")}
        facts = {k: fact for k, fact in artifact.fitted_on.items() if k != name}
        found = cls.from_arrays(artifact.arrays, f"{name}.", **cls.read_fact(about))
        return found, replace(artifact, arrays=arrays, fitted_on=facts)

    def describe(self) -> dict[str, Any]:
        """Return the fact: what a reader of the metadata may want to know of the part."""
        return {}

    @classmethod
    def read_fact(cls, about: Any) -> dict[str, Any]:
        """Return the fields that are no arrays, as `describe` wrote them. Raises ArtifactError."""
        return {}
