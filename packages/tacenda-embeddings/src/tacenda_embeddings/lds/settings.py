"""Options of `LDS`, and constants of its algorithm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Literal, get_args

from tacenda import devices
from tacenda.kernels.machinery.threads import usable_cores
from tacenda.settings import Group, Settings, group, option

Output = Literal["own_context", "weighted_mean", "own_past_future", "mean", "own", "filtered"]
Ends = Literal["exact", "zero"]

OUTPUTS: tuple[str, ...] = get_args(Output)

# blocks per side of the Hankel matrix, r in the paper; it needs lags up to 2 r - 1
HANKEL_BLOCKS = 2
HORIZON = 7  # lags that the approximate second-order statistics of EM use
SUBSPACE_FACTOR = 2  # EM first runs in a subspace of this many times n_states dimensions
MAXIMUM_RADIUS = 0.995  # limit on the spectral radius of the initial A
N_LAGS = max(2 * HANKEL_BLOCKS - 1, HORIZON)  # lags that a fit needs


@dataclass(frozen=True, kw_only=True)
class LDSAdvanced(Settings):
    """Options of `LDS` for ablations and unusual texts."""

    retired: ClassVar[Mapping[str, Any]] = MappingProxyType(
        {"hankel_blocks": ..., "horizon": ..., "subspace_factor": ..., "maximum_radius": ...}
    )

    ends: Ends = option(
        "exact",
        """how a sequence ends: "exact" integrates over the unobserved words outside it; "zero", as in the paper,
        is the plain steady-state filter, which treats them as average words""",
    )
    row_norm_power: float = option(
        1.0,
        """the input row of each word is divided by its norm to this power before the recursions, because
        frequent words have tiny rows otherwise; the paper has 0""",
        at_least=0,
        at_most=2,
    )
    noise: Literal["full", "diagonal", "spherical"] = option(
        "full",
        """covariance of the observation noise; "diagonal" and "spherical" are the paper's comparison and skip
        the subspace. Their likelihood gain also counts the direction in which whitened words never vary, so
        compare it among these two only""",
    )
    start: Literal["subspace", "random"] = option(
        "subspace", "parameters that EM starts from; the paper compares the two in Figure 2"
    )
    whiten: bool = option(
        True, "whether the subspace is identified in whitened coordinates, as in the paper"
    )


@dataclass(frozen=True, kw_only=True)
class LDSSettings(Settings):
    """Options of `LDS`."""

    n_states: int = option(200, "dimensions of the latent state, h in the paper", at_least=1)
    output: Output = option(
        "own_past_future",
        """what transform returns for a token: own_past_future (3h columns), own_context (2h), weighted_mean
        (h), mean (h), own (h, static) or filtered (h, sees the past only); the paper has mean""",
    )
    own_weight: float = option(
        3.0,
        """weight of the token's own part in weighted_mean and own_past_future; the paper has 1""",
        at_least=0,
        at_most=1e6,
    )
    kappa: float | None = option(
        None,
        """pseudo-counts added to every word type; None takes 0.3 times the average count of a type.
        The paper has 1000, for 10^9 tokens and 200k types""",
        at_least=0,
    )
    subspace_iterations: int = option(
        20, "EM iterations in the subspace; tagging accuracy peaks at 20 to 50", at_least=0
    )
    full_iterations: int = option(
        2, "EM iterations over the whole vocabulary after that; the paper has 50", at_least=0
    )
    seed: int = option(0, "seed of the randomized SVD and of a random start", at_least=0)
    threads: int | None = option(
        None,
        """threads that count and multiply sparse matrices while fitting; None takes every core that this
        process may use. The result does not depend on it""",
        at_least=1,
    )
    device: str = devices.option("fitting and smoothing")
    advanced: Group[LDSAdvanced] = group(LDSAdvanced)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.device.startswith("cuda") and self.advanced.noise != "full":
            self.refuse("device", f'"auto" or "cpu" with noise={self.advanced.noise!r}')

    @property
    def n_threads(self) -> int:
        """The number of threads to work with."""
        return usable_cores() if self.threads is None else self.threads
