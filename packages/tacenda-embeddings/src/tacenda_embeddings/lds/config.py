"""Settings of the LDS embedder."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from tacenda.cores import usable_cores
from tacenda.errors import ConfigurationError

Output = Literal["own_context", "weighted_mean", "own_past_future", "mean", "own", "filtered"]
Ends = Literal["exact", "zero"]
NoiseKind = Literal["full", "diagonal", "spherical"]
Start = Literal["subspace", "random"]

OUTPUTS: tuple[str, ...] = get_args(Output)


@dataclass(frozen=True)
class LDSConfig:
    """Settings of `LDS`; the paper's values stand in brackets where ours differ.

    Attributes
    ----------
    n_states
        h, the dimension of the latent state.
    output
        What ``transform`` returns for a token, see ``tacenda_embeddings.lds.outputs``
        [``"mean"``]: ``own_context`` (2h), ``weighted_mean`` (h), ``own_past_future`` (3h),
        ``mean`` (h), ``own`` (h, static), ``filtered`` (h, sees the past only).
    own_weight
        Weight of the token's own part in ``weighted_mean`` and ``own_past_future`` [1].
    row_norm_power
        Every word's input row is divided by its norm to this power before the recursions,
        since frequent words have tiny rows otherwise [0].
    ends
        ``"exact"`` integrates over the unobserved words outside a sequence; ``"zero"`` is the plain
        steady-state filter, which takes them for average words [``"zero"``].
    kappa
        Pseudo-counts added to every word type [1000, on 10^9 tokens and 200k types]; None takes
        0.3 T / V.
    hankel_blocks
        r of subspace identification; needs lags up to 2 r - 1.
    horizon
        r of the approximate second-order statistics of EM.
    subspace_factor
        EM runs in a subspace of this many times h dimensions first.
    subspace_iterations
        EM iterations in the subspace; tagging accuracy peaks at 20 to 50.
    full_iterations
        EM iterations over the whole vocabulary after that [50].
    maximum_radius
        Limit on the spectral radius of the initial A.
    noise
        ``"full"`` rank, ``"diagonal"`` or ``"spherical"`` observation noise; the latter two are the
        paper's comparison and skip the subspace. Their likelihood gain also counts the direction in
        which whitened words never vary: compare it among them only.
    start
        ``"subspace"`` identification or ``"random"`` (the paper's Figure 2).
    whiten
        Identify the subspace in whitened coordinates; False is the paper's comparison.
    seed
        Of the randomised SVD and of a random start.
    threads
        For counting and the sparse products of fitting; None takes every core this process may
        use. The result does not depend on it.
    """

    n_states: int = 200
    output: Output = "own_past_future"
    own_weight: float = 3.0
    row_norm_power: float = 1.0
    ends: Ends = "exact"
    kappa: float | None = None
    hankel_blocks: int = 4
    horizon: int = 7
    subspace_factor: float = 4.0
    subspace_iterations: int = 20
    full_iterations: int = 2
    maximum_radius: float = 0.995
    noise: NoiseKind = "full"
    start: Start = "subspace"
    whiten: bool = True
    seed: int = 0
    threads: int | None = None

    def __post_init__(self) -> None:
        """Refuse settings out of range: one sentence, naming the setting."""
        for name, low in _LOWEST.items():
            value = getattr(self, name)
            if name in _OPTIONAL and value is None:
                continue
            if name in _WHOLE and type(value) is not int:
                raise ConfigurationError(f"LDS: {name} must be a whole number, not {value!r}")
            if not low <= value < math.inf:
                raise ConfigurationError(f"LDS: {name} must be at least {low}, not {value!r}")
        for name, kind in (
            ("output", Output),
            ("ends", Ends),
            ("noise", NoiseKind),
            ("start", Start),
        ):
            if getattr(self, name) not in get_args(kind):
                listed = ", ".join(get_args(kind))
                raise ConfigurationError(
                    f"LDS: {name} must be one of {listed}, not {getattr(self, name)!r}"
                )
        if not 0 < self.maximum_radius < 1:
            raise ConfigurationError(
                f"LDS: maximum_radius must lie between 0 and 1, not {self.maximum_radius!r}"
            )

    @property
    def n_lags(self) -> int:
        """Lags that must be counted."""
        return max(2 * self.hankel_blocks - 1, self.horizon)

    @property
    def n_threads(self) -> int:
        """Threads to work with."""
        return usable_cores() if self.threads is None else self.threads

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> LDSConfig:
        """From JSON values; an unknown name or a value out of range is a ConfigurationError."""
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(values) - known)
        if unknown:
            raise ConfigurationError(
                f"LDS has no setting {unknown[0]!r}; its settings are {', '.join(sorted(known))}"
            )
        try:
            return cls(**values)
        except TypeError as error:
            raise ConfigurationError(f"LDS: a setting has a wrong type ({error})") from error


_LOWEST: dict[str, float] = {
    "n_states": 1,
    "own_weight": 0,
    "row_norm_power": 0,
    "kappa": 0,
    "hankel_blocks": 2,
    "horizon": 2,
    "subspace_factor": 1,
    "subspace_iterations": 0,
    "full_iterations": 0,
    "seed": 0,
    "threads": 1,
}
_OPTIONAL = frozenset({"kappa", "threads"})
_WHOLE = frozenset(_LOWEST) - {"own_weight", "row_norm_power", "kappa", "subspace_factor"}
