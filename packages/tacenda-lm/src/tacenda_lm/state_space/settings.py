"""The settings of `StateSpaceLM`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Literal

from tacenda.settings import Group, Settings, group, option
from tacenda_lm import options

# options that only one way of training has
_GRADIENT_OPTIONS = ("dropout",)
_RULES_OPTIONS = ("advanced.last_piece", "advanced.norm_limit")
_JOINT_OPTIONS = tuple(f"advanced.joint_{name}" for name in ("width", "dropout", "sum"))


@dataclass(frozen=True, kw_only=True)
class StateSpaceLMAdvanced(Settings):
    """Options of `StateSpaceLM` that few need to change."""

    retired: ClassVar[Mapping[str, Any]] = MappingProxyType(
        {"clip_norm": ..., "joint_min_count": ...}
    )

    variance: float = option(
        1.0,
        "of the innovations, the diagonal of Lambda; 0.1 in the paper (section 2.4), where any would do",
        above=0,
        at_most=100,
    )
    biases: bool = option(
        True,
        "whether every token has a bias, which begins as the logarithm of its frequency; the paper has none",
    )
    joint_order: int = options.count(
        1,
        "the longest run of last tokens that has a feature vector of its own, as if it were one token; runs that do "
        "not occur in the training text have zero vectors, like unknown tokens; 1, as in the paper, uses no runs",
        16,
    )
    joint_width: int = options.width(25, "elements of the feature vector of a run")
    joint_sum: float = option(
        1e-5,
        "the sum of squares that AdaGrad begins with for the vector of a run, 1e-6 for everything else: the larger it "
        "is, the less is learned from rare runs",
        above=0,
        at_most=1e6,
    )
    joint_dropout: float = options.dropout(
        0.3,
        "share of the places that ignore all runs in training; of the others, the same share ignores runs of three "
        "tokens and more, and so on",
    )
    streams: int = options.count(
        32, "places of the text that are read side by side in training", 1 << 16
    )
    piece: int = options.count(
        25,
        "tokens of each place in a step, over which gradients go back; with the rules, in the steps of the first epoch",
        1 << 16,
    )
    last_piece: int = options.count(
        200, "with the rules, tokens of each place in the steps of the last epoch", 1 << 16
    )
    norm_limit: float = option(
        100.0,
        "with the rules, the sum of squares that no matrix exceeds; 10 in the paper (section 2.4), with which a model "
        "without an internal state can predict little",
        above=0,
        at_most=1e8,
    )


@dataclass(frozen=True, kw_only=True)
class StateSpaceLMSettings(options.SeededSettings):
    """Settings of `StateSpaceLM`."""

    order: int = options.count(
        5,
        "tokens that a prediction spans: feature vectors of the order - 1 last ones are part of the state; 1, 2, 3 "
        "and 5 in the paper",
        1000,
    )
    internal: int = option(
        40, "elements of the internal state, N_q; 0 to 40 in the paper", at_least=0, at_most=1 << 12
    )
    features: int = options.width(
        25, "elements of the feature vector of a token, N_l; 1 to 25 in the paper"
    )
    training: Literal["gradient", "rules"] = option(
        "gradient",
        "the likelihood of the text by back-propagation through states and their inference, or the rules of the paper "
        "(eqs 10 to 12)",
    )
    inference: Literal["step", "map"] = option(
        "step",
        "how a token that was read corrects the state: by one step of ascent from the predicted state, or to the most "
        "probable state (eq 9), as in the paper",
    )
    dropout: float = options.dropout(
        0.1, "share of the elements of the state left out in training; the paper has none"
    )
    epochs: int = options.epochs(15)
    learning_rate: float = options.learning_rate(
        0.1, "AdaGrad, or of the rules (alpha, beta and gamma are the same)", "a tenth"
    )
    patience: int = options.patience(3)
    across_sentences: bool = options.across_sentences("", "the state and the last tokens reach")
    advanced: Group[StateSpaceLMAdvanced] = group(StateSpaceLMAdvanced)

    @property
    def window(self) -> int:
        """The number of last tokens that a state holds."""
        joint = self.advanced.joint_order
        return max(self.order - 1, joint if joint > 1 else 0)

    @property
    def inputs(self) -> int:
        """The number of elements of the state that depend on the last tokens only."""
        of_runs = self.advanced.joint_width if self.advanced.joint_order > 1 else 0
        return (self.order - 1) * self.features + of_runs

    def idle(self) -> Mapping[str, str]:
        of_others = _RULES_OPTIONS if self.training == "gradient" else _GRADIENT_OPTIONS
        reasons = dict.fromkeys(of_others, f'with training="{self.training}"')
        if self.advanced.joint_order == 1:
            reasons |= dict.fromkeys(_JOINT_OPTIONS, "with joint_order=1")
        if self.order == 1:
            reasons["features"] = "with order=1"
        if not self.internal and self.training == "gradient":
            # the rules learn from the whole state after its token was read, gradients only from what it predicts
            reasons |= dict.fromkeys(
                ("inference", "advanced.variance"), "without an internal state"
            )
        return reasons
