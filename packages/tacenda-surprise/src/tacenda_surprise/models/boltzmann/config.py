"""Settings of the Boltzmann machines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self

from tacenda.errors import ConfigurationError
from tacenda_surprise.models.settings import Settings


@dataclass(frozen=True)
class BoltzmannConfig(Settings):
    """Settings of `RBMModel` and `ConditionalRBMModel`; in brackets the thesis's choice (section 5.4.2).

    Attributes
    ----------
    n_hidden
        Hidden units [25 to 200].
    n_epochs
        Passes over the cases at most.
    orientation
        What a case is: ``"item"``, whose visible units are the users who rated it, or ``"user"``
        [user]. Cases are inferred, visible units learned: with many ratings for each item the former
        predicts better.
    ordinal
        Tie the weights of the levels, W_mk = s_k a_m [False]; without ties every level of every
        visible unit has weights of its own, far too many for small data.
    offset
        Give every case a fixed slope, how much higher than usual its ratings are [False].
    persistent
        Go on with the Gibbs chain of a case where its last update left it [False]. Conditional
        machines fitted for 40 epochs or more gain 0.002 to 0.004 of RMSE; others do not. The first ten
        to twenty epochs are worse than no machine at all, so do not stop early.
    gibbs_steps
        T of contrastive divergence [1, later more].
    prediction
        ``"mean_field"`` (eq 5.11) or ``"exact"`` (eq 5.9), which is slower and hardly differs.
    learning_rate
        Of Adam, for minibatches of cases.
    lr_decay
        The rate is multiplied by it after every epoch [1].
    reg
        Weight of the squared weights, for each case [0.001 to 0.01].
    reg_side
        The same for the weights of identities; they want much less [0.001 to 0.01].
    batch_cases
        Cases in a minibatch [1].
    damping
        Ratings at the overall mean that are added to those of every case and visible unit for the
        slopes and the first visible biases.
    validation
        Part of the ratings held out to stop early; 0: none.
    patience
        Epochs without improvement on them before the fit stops.
    refit
        Fit anew on all ratings, for as many epochs as were best on the part held out.
    seed
        Of the start, the order and the sampling.
    """

    n_hidden: int = 100
    n_epochs: int = 60
    orientation: Literal["item", "user"] = "item"
    ordinal: bool = True
    offset: bool = True
    persistent: bool = False
    gibbs_steps: int = 1
    prediction: Literal["mean_field", "exact"] = "mean_field"
    learning_rate: float = 0.005
    lr_decay: float = 0.95
    reg: float = 0.02
    reg_side: float = 0.002
    batch_cases: int = 32
    damping: float = 5.0
    validation: float = 0.0
    patience: int = 4
    refit: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse settings out of range: one sentence, naming the setting."""
        words = {"orientation": ("item", "user"), "prediction": ("mean_field", "exact")}
        self.check(_LOWEST, words)
        if self.persistent and self.validation:
            raise ConfigurationError(
                "persistent chains predict badly at first and early stopping would take that for the end; "
                "set validation to 0 or persistent to False"
            )
        if not (self.lr_decay <= 1 and self.validation < 1):
            raise ConfigurationError(
                f"lr_decay must be at most 1 and validation less, not {self.lr_decay!r} and "
                f"{self.validation!r}"
            )

    @property
    def items_are_cases(self) -> bool:
        """Whether the visible units are users."""
        return self.orientation == "item"

    @classmethod
    def thesis(cls, **settings: Any) -> Self:
        """The machine of the thesis: users are cases, levels have weights of their own, no offset."""
        faithful: dict[str, Any] = {
            "orientation": "user",
            "ordinal": False,
            "offset": False,
            "reg": 0.005,
            "reg_side": 0.005,
            "n_epochs": 30,
        }
        return cls.from_dict({**cls().to_dict(), **faithful, **settings})


_LOWEST: dict[str, float] = {
    "n_hidden": 1,
    "n_epochs": 0,
    "gibbs_steps": 1,
    "learning_rate": 0.0,
    "lr_decay": 0.0,
    "reg": 0.0,
    "reg_side": 0.0,
    "batch_cases": 1,
    "damping": 0.0,
    "validation": 0.0,
    "patience": 1,
    "seed": 0,
}
