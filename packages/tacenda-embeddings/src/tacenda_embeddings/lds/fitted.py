"""What a fitted LDS consists of, and its form as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from tacenda.artifact import require
from tacenda.errors import ArtifactError
from tacenda.vocabulary import Vocabulary
from tacenda_embeddings.lds.linear_algebra import Matrix, spectral_radius
from tacenda_embeddings.lds.noise import DiagonalNoise, FullNoise, Noise
from tacenda_embeddings.lds.settings import LDSSettings
from tacenda_embeddings.lds.steady_state import Parameters
from tacenda_embeddings.lds.two_sided import TwoSided, two_sided

__all__ = ["FittedLDS"]

Float64 = npt.NDArray[np.float64]

_MATRICES = ("forward", "backward", "left_end", "right_end", "filter")


@dataclass(frozen=True, eq=False)
class FittedLDS:
    """Vocabulary, parameters and inference matrices of a fitted model."""

    vocabulary: Vocabulary
    parameters: Parameters  # in whitened coordinates, C float32 as it will be saved
    Xi: Matrix  # (states, states), second moment of the smoothed means
    scale: Float64  # (vocabulary,), the diagonal of the whitening W
    mean: Float64  # (vocabulary,), m = mu^{1/2}

    @cached_property
    def inference(self) -> TwoSided:
        """The matrices of the two-sided smoother in whitened output coordinates; the table is float32."""
        found = two_sided(self.parameters, self.scale, self.mean, self.Xi)
        return found._replace(table=np.ascontiguousarray(found.table, np.float32))

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return all of it as arrays, by name."""
        A, C, Q, noise = self.parameters
        arrays: dict[str, npt.NDArray[Any]] = {"A": A, "C": C, "Q": Q, "Xi": self.Xi}
        arrays |= {"scale": self.scale, "mean": self.mean, "table": self.inference.table}
        arrays |= {name: getattr(self.inference, name) for name in _MATRICES}
        if isinstance(noise, DiagonalNoise):
            arrays["noise.d"] = noise.d
        elif isinstance(noise, FullNoise):
            arrays["noise.N"] = noise.N
        arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        return arrays | self.vocabulary.arrays()

    @classmethod
    def from_arrays(
        cls,
        settings: LDSSettings,
        vocabulary: Vocabulary,
        arrays: Mapping[str, npt.NDArray[Any]],
    ) -> Self:
        """Return the state that an artefact holds.

        Raises
        ------
        ArtifactError
            An array is missing, of another shape or dtype, not finite, or the recursion it
            describes is not stable.
        """
        dims = {"states": settings.n_states, "vocabulary": len(vocabulary)}

        def array(name: str, *shape: str, dtype: npt.DTypeLike = np.float64) -> npt.NDArray[Any]:
            return require(arrays, name, shape=shape, dtype=dtype, finite=True, dims=dims)

        def square(name: str) -> Float64:
            return array(name, "states", "states")

        def table(name: str) -> npt.NDArray[np.float32]:
            return array(name, "vocabulary", "states", dtype=np.float32)

        mean = array("mean", "vocabulary")
        noise: Noise
        if settings.advanced.noise == "full":
            noise = FullNoise(square("noise.N"))
        else:
            spherical = settings.advanced.noise == "spherical"
            noise = DiagonalNoise(array("noise.d", "vocabulary"), mean, spherical)
        parameters = Parameters(square("A"), table("C"), square("Q"), noise)
        matrices = {name: square(name) for name in _MATRICES}
        recursions = {"A": parameters.A} | {name: matrices[name] for name in _MATRICES[:2]}
        for name, matrix in recursions.items():
            if spectral_radius(matrix) >= 1.0:
                raise ArtifactError(
                    f"the recursion {name!r} is not stable (an eigenvalue of 1 or more): the file is damaged"
                )
        scale = array("scale", "vocabulary")
        if not (scale > 0).all():
            raise ArtifactError("the array 'scale' is not positive: the file is damaged")
        fitted = cls(vocabulary, parameters, square("Xi"), scale, mean)
        # take the place of what the cached property would compute
        fitted.__dict__["inference"] = TwoSided(table=table("table"), **matrices)
        return fitted
