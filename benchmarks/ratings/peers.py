"""The algorithms of other libraries that ours stand beside, and the settings that are tried for each.

Every peer is measured with the defaults that its documentation states, and with those of its ``candidates`` that
predict ratings held out of the training part best (`benchmarks.ratings.peer_settings`). Candidates of
factorizations have 100 factors, as `PMF` has, and more epochs than the default, with penalties around it; those of
the Bayesian one have widths as ours chooses them, 8 to 32, and as many sweeps or more. Where the defaults are best
there is no second row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

Settings = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Peer:
    """An algorithm of another library.

    Attributes
    ----------
    name
        Of its row.
    library
        The distribution that it comes from.
    algorithm
        Its class there.
    default
        Settings of its row of defaults: none, or what its documentation uses where it has no default.
    candidates
        Settings that are tried on ratings held out; none: it has none that matter.
    slow
        Whether these take hours on a million ratings: there, only the defaults are measured.
    """

    name: str
    library: str
    algorithm: str
    default: Settings = field(default_factory=dict)
    candidates: Sequence[Settings] = ()
    slow: bool = False

    def tried(self, data: str) -> Sequence[Settings]:
        """The candidates for this data set, the defaults among them."""
        if not self.candidates or (self.slow and data != "ml-100k"):
            return ()
        return [self.default, *(each for each in self.candidates if each != self.default)]

    @property
    def in_surprise(self) -> bool:
        return self.library == "scikit-surprise"


def grid(**options: Sequence[Any]) -> list[Settings]:
    """Every combination of the values of these options."""
    return [dict(zip(options, values, strict=True)) for values in product(*options.values())]


def told(settings: Settings) -> str:
    """The settings as a reader sees them, by the library's own names."""
    return ", ".join(f"{name}={_value(value)}" for name, value in settings.items()) or "defaults"


def _value(value: Any) -> str:
    return f"({told(value)})" if isinstance(value, Mapping) else f"{value}"


PEERS = (
    Peer("Surprise BaselineOnly", "scikit-surprise", "BaselineOnly"),
    Peer(
        "Surprise SVD",
        "scikit-surprise",
        "SVD",
        candidates=grid(n_factors=[100], n_epochs=[20, 40, 80, 160], reg_all=[0.02, 0.05, 0.1]),
    ),
    Peer(
        "Surprise SVD, biased=False",
        "scikit-surprise",
        "SVD",
        {"biased": False},
        grid(
            biased=[False], n_factors=[100], n_epochs=[20, 40, 80, 160], reg_all=[0.02, 0.05, 0.1]
        ),
    ),
    Peer(
        "Surprise KNNBaseline",
        "scikit-surprise",
        "KNNBaseline",
        candidates=grid(
            sim_options=[
                {"name": "pearson_baseline", "user_based": False},
                {"name": "pearson_baseline", "user_based": True},
            ]
        ),
    ),
    Peer(
        "Surprise SVDpp",
        "scikit-surprise",
        "SVDpp",
        candidates=grid(
            n_factors=[100], n_epochs=[20, 40], reg_all=[0.02, 0.1], cache_ratings=[True]
        ),
        slow=True,
    ),
    Peer(
        "cornac MF",
        "cornac",
        "MF",
        candidates=grid(k=[100], max_iter=[20, 40, 80, 160], lambda_reg=[0.02, 0.05, 0.1, 0.2]),
    ),
    Peer(
        "cornac PMF",
        "cornac",
        "PMF",
        candidates=[
            *grid(k=[100], variant=["linear"], max_iter=[50, 100], lambda_reg=[0.001, 0.01, 0.1]),
            *grid(k=[100], variant=["non_linear"], max_iter=[50], lambda_reg=[0.001, 0.01, 0.1]),
        ],
    ),
    Peer(
        "LensKit ALS with biases",
        "lenskit",
        "BiasedMFScorer",
        candidates=grid(embedding_size=[100], epochs=[10, 20], regularization=[0.05, 0.1, 0.2]),
    ),
    Peer(
        "myFM",
        "myfm",
        "MyFMRegressor",
        {"rank": 10, "n_iter": 200, "n_kept_samples": 200},
        [
            {"rank": rank, "n_iter": sweeps, "n_kept_samples": sweeps}
            for rank, sweeps in ((10, 200), (20, 200), (32, 200), (20, 500))
        ],
    ),
)
