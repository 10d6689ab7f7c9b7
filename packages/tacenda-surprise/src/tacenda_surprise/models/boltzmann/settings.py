"""Settings of the Boltzmann machines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np

from tacenda import devices
from tacenda.errors import ConfigurationError
from tacenda.ratings import Ratings
from tacenda.settings import Settings, group, option
from tacenda_surprise.models.catalogue import sparsity

_PENALTY = 0.02
_USUAL_NOISE, _STEEP = 0.3, 8  # up to which sparsity it holds, and how steeply it grows beyond
_SIDE_PENALTY, _SIDE_TOTAL = 0.002, 3.0  # of weights of identities: for each case, and in all
_BATCH, _BATCHES = 32, 40  # cases of a minibatch at least, and minibatches of an epoch at most


@dataclass(frozen=True, kw_only=True)
class BoltzmannAdvanced(Settings):
    """Options of `BoltzmannSettings` that few need to change."""

    optimizer: Literal["adam", "sgd"] = option(
        "adam",
        """how parameters follow the gradients: Adam, by minibatches of cases, or plain steps after every
        case, as in the thesis, on the CPU and in one process; with plain steps the visible biases start
        at the logarithms of plain frequencies, and nothing but their penalty holds them""",
    )
    bias_learning_rate: float = option(
        0.0001, "learning rate of the biases with plain steps; that of the thesis", at_least=0
    )
    bias_penalty: float = option(
        0.001,
        "weight of the squared biases with plain steps, for each case; that of the thesis",
        at_least=0,
    )
    batch_cases: int | None = option(
        None,
        """cases in a minibatch; None: 32, or a fortieth of all where these are more, as every minibatch
        visits the parameters of all visible units; the thesis has 1""",
        at_least=1,
    )
    rate_decay: float = option(
        0.95,
        "factor on the learning rate after every epoch; the thesis has 1",
        at_least=0,
        at_most=1,
    )
    damping: float | None = option(
        None,
        """ratings at the expected value that are added to those of every case and visible unit for the
        slopes and the first visible biases; None: estimated from the ratings, as in `BiasModel`""",
        at_least=0,
    )
    bins: int = option(
        20, "levels that continuous ratings, or more than 50 levels, are brought to", at_least=2
    )
    gibbs_steps: int = option(
        1, "T, the steps of contrastive divergence; the thesis has 1, later more", at_least=1
    )
    persistent: bool = option(
        False,
        """go on with the Gibbs chain of a case where its last update left it (Tieleman 2008); the first
        epochs predict badly, so do not stop early""",
    )
    prediction: Literal["mean_field", "exact"] = option(
        "mean_field",
        "how ratings are predicted: eq 5.11, or eq 5.9, which is slower and hardly differs",
    )


@dataclass(frozen=True, kw_only=True)
class BoltzmannSettings(Settings):
    """Settings of `RBMModel`; what the thesis has is in section 5.4.2."""

    n_hidden: int = option(100, "hidden units; the thesis has 25 to 200", at_least=1)
    epochs: int = option(60, "passes over the cases; at most so many, with validation", at_least=0)
    orientation: Literal["item", "user"] = option(
        "item",
        """what a case is: an item, whose visible units are the users who rated it, or a user, as in
        the thesis; cases are inferred and visible units learned, so that ``item`` predicts better where
        items have many ratings, and ``user`` folds in a user without any fitting""",
    )
    ordinal: bool = option(
        True,
        """tie the weights of the levels, W_mk = s_k a_m; without ties, as in the thesis, every level of
        every visible unit has weights of its own, far too many for small data""",
    )
    offset: bool = option(
        True,
        "give every case a fixed slope, how much higher than usual its ratings are; the thesis does not",
    )
    learning_rate: float = option(
        0.005,
        "learning rate of Adam, for minibatches of cases; the thesis has plain steps of 0.001",
        at_least=0,
    )
    penalty: float | None = option(
        None,
        """weight of the squared weights, for each case; None: 0.02, and more where users and items have
        few ratings, and where that leaves nothing of the weights the fit ends early; the thesis has 0.01""",
        at_least=0,
    )
    validation: float = option(
        0.0, "part of the ratings held out to stop early; 0: none", at_least=0, below=1
    )
    patience: int = option(
        4, "epochs without improvement on the ratings held out before the fit stops", at_least=1
    )
    refit: bool = option(
        True,
        "fit anew to all ratings, for as many epochs as were best on the ratings held out",
    )
    seed: int = option(0, "seed of the start, the order and the sampling", at_least=0)
    device: str = devices.option(default="cpu")
    advanced: BoltzmannAdvanced = group(BoltzmannAdvanced)

    @property
    def items_are_cases(self) -> bool:
        """Whether the visible units are users."""
        return self.orientation == "item"

    def penalty_for(self, ratings: Ratings) -> float:
        """The penalty of a machine for these ratings."""
        if self.penalty is not None:
            return self.penalty
        return _PENALTY * _excess(ratings)

    def batch_size(self, n_cases: int) -> int:
        """How many cases a minibatch has, of ``n_cases`` that have ratings."""
        return self.advanced.batch_cases or max(_BATCH, -(-n_cases // _BATCHES))

    def idle(self) -> Mapping[str, str]:
        """Options that early stopping and the optimizer leave without effect."""
        return idle_options(self.validation, self.advanced.optimizer, offset=self.offset)

    def check(self) -> None:
        """Refuse what is no device, plain steps on one that is not the CPU, and early stopping of persistent chains."""
        devices.check(self)
        if self.advanced.optimizer == "sgd" and self.device not in ("auto", "cpu"):
            self.refuse("device", "'cpu' with optimizer='sgd', whose steps wait for one another")
        if self.advanced.persistent and self.validation:
            raise ConfigurationError(
                "persistent chains predict badly at first and early stopping would take that for the end; "
                "set validation to 0 or persistent to False"
            )

    @classmethod
    def thesis(cls, **options: Any) -> Self:
        """The machine of the thesis, trained as in section 5.4.2; ``options`` replace single settings.

        Users are cases, levels have weights of their own, and there is no offset. Parameters change after
        every user, by plain steps with rates 0.001 of weights and 0.0001 of biases, less 0.01 and 0.001 times
        themselves. Of 250 passes the parameters of the one that predicts a twentieth of the ratings best are kept;
        there is no second fit. The thesis does not say where the parameters start: weights are small
        random numbers, and visible biases the logarithms of how often each level is given, as in Salakhutdinov,
        Mnih and Hinton (2007).
        """
        values: dict[str, Any] = {
            "orientation": "user",
            "ordinal": False,
            "offset": False,
            "learning_rate": 0.001,
            "penalty": 0.01,
            "epochs": 250,
            "validation": 0.05,
            **cls._side(0.01),
            **options,
        }
        if values["validation"]:
            values = {"patience": max(values["epochs"], 1), "refit": False, **values}
        advanced = {"optimizer": "sgd", "rate_decay": 1.0, **values.pop("advanced", {})}
        return cls(**values | {"advanced": advanced})

    @classmethod
    def _side(cls, penalty: float) -> dict[str, float]:
        """Options of the weights of identities, where the machine has such."""
        return {}


@dataclass(frozen=True, kw_only=True)
class ConditionalBoltzmannSettings(BoltzmannSettings):
    """Settings of `ConditionalRBMModel`."""

    side_penalty: float | None = option(
        None,
        """weight of the squared weights of identities, for each case, which want much less than the
        others; None: 0.002, and more where there are few cases, or users and items have few ratings; the
        thesis has 0.01""",
        at_least=0,
    )

    def side_penalty_for(self, ratings: Ratings) -> float:
        """The penalty of the weights of identities, for ratings whose users are the cases."""
        if self.side_penalty is not None:
            return self.side_penalty
        n_cases = max(int(np.count_nonzero(np.diff(ratings.user_offsets))), 1)
        return max(_SIDE_PENALTY, _SIDE_TOTAL / n_cases) * _excess(ratings)

    @classmethod
    def _side(cls, penalty: float) -> dict[str, float]:
        return {"side_penalty": penalty}


def _excess(ratings: Ratings) -> float:
    """How many times as large penalties are where users and items have few ratings."""
    return max(sparsity(ratings) / _USUAL_NOISE, 1.0) ** _STEEP


def idle_options(validation: float, optimizer: str, *, offset: bool) -> dict[str, str]:
    """Paths of the options of `BoltzmannSettings` that these leave without effect, and why."""
    found = {} if validation else dict.fromkeys(("patience", "refit"), "without validation")
    if optimizer == "adam":
        of_steps = ("advanced.bias_learning_rate", "advanced.bias_penalty")
        return {**found, **dict.fromkeys(of_steps, "with optimizer='adam'")}
    found["advanced.batch_cases"] = "with optimizer='sgd', which steps after every case"
    if not offset:
        found["advanced.damping"] = "with optimizer='sgd' and offset=False"
    return found
