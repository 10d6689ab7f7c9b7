"""What a fitted LDS consists of, and its form as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tacenda.artifact import require
from tacenda.errors import ArtifactError
from tacenda.vocabulary import Vocabulary
from tacenda_embeddings.lds.config import LDSConfig
from tacenda_embeddings.lds.linear_algebra import Matrix, spectral_radius
from tacenda_embeddings.lds.noise import DiagonalNoise, FullNoise, Noise
from tacenda_embeddings.lds.steady_state import Parameters
from tacenda_embeddings.lds.two_sided import TwoSided, two_sided

Float64 = npt.NDArray[np.float64]

_MATRICES = ("forward", "backward", "left_end", "right_end", "filter")


class FittedState:
    """Vocabulary, parameters and inference matrices of a fitted model; nothing changes after construction.

    Attributes
    ----------
    vocabulary
        The word types.
    parameters
        A, C, Q and the noise, in whitened coordinates; C float32.
    Xi
        (states, states), second moment of the smoothed means.
    scale
        (vocabulary,), the diagonal of the whitening W.
    mean
        (vocabulary,), m = mu^{1/2}.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        parameters: Parameters,
        Xi: Matrix,
        scale: Float64,
        mean: Float64,
        inference: TwoSided | None = None,
    ) -> None:
        self.vocabulary = vocabulary
        self.parameters = parameters
        self.Xi = Xi
        self.scale = scale
        self.mean = mean
        if inference is not None:
            self.inference = inference

    @classmethod
    def of(
        cls,
        vocabulary: Vocabulary,
        parameters: Parameters,
        Xi: Matrix,
        scale: Float64,
        mean: Float64,
    ) -> FittedState:
        """The state after fitting: C is kept in float32, as it will be saved."""
        C = np.ascontiguousarray(parameters.C, np.float32)
        return cls(vocabulary, parameters._replace(C=C), Xi, scale, mean)

    @cached_property
    def inference(self) -> TwoSided:
        """Matrices of the two-sided smoother in whitened output coordinates; the table is float32."""
        found = two_sided(self.parameters, self.scale, self.mean, self.Xi)
        return found._replace(table=np.ascontiguousarray(found.table, np.float32))

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All of it as arrays, by name."""
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
        config: LDSConfig,
        vocabulary: Vocabulary,
        arrays: Mapping[str, npt.NDArray[Any]],
    ) -> FittedState:
        """The state an artefact holds.

        Raises
        ------
        ArtifactError
            An array is missing, of another shape or dtype, not finite, or the recursion it
            describes is not stable.
        """
        dims = {"states": config.n_states, "vocabulary": len(vocabulary)}

        def square(name: str) -> Float64:
            return require(
                arrays, name, shape=("states", "states"), dtype=np.float64, finite=True, dims=dims
            )

        def per_word(name: str) -> Float64:
            return require(
                arrays, name, shape=("vocabulary",), dtype=np.float64, finite=True, dims=dims
            )

        def table(name: str) -> npt.NDArray[np.float32]:
            return require(
                arrays,
                name,
                shape=("vocabulary", "states"),
                dtype=np.float32,
                finite=True,
                dims=dims,
            )

        mean = per_word("mean")
        noise: Noise
        if config.noise == "full":
            noise = FullNoise(square("noise.N"))
        else:
            noise = DiagonalNoise(per_word("noise.d"), mean, config.noise == "spherical")
        parameters = Parameters(square("A"), table("C"), square("Q"), noise)
        matrices = {name: square(name) for name in _MATRICES}
        for name, matrix in (
            ("A", parameters.A),
            ("forward", matrices["forward"]),
            ("backward", matrices["backward"]),
        ):
            if spectral_radius(matrix) >= 1.0:
                raise ArtifactError(
                    f"the recursion {name!r} is not stable (an eigenvalue of 1 or more): the file is damaged"
                )
        scale = per_word("scale")
        if not (scale > 0).all():
            raise ArtifactError("the array 'scale' is not positive: the file is damaged")
        inference = TwoSided(table=table("table"), **matrices)
        return cls(vocabulary, parameters, square("Xi"), scale, mean, inference)
