"""The settings of the state-space model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tacenda.settings import Settings, group, option
from tacenda_lm import options

__all__ = ["StateSpaceLMAdvanced", "StateSpaceLMSettings"]

#: Options that only one way of training has.
_OF_GRADIENTS = ("dropout", "advanced.clip_norm")
_OF_RULES = ("advanced.last_piece", "advanced.norm_limit")
_OF_RUNS = tuple(f"advanced.joint_{name}" for name in ("width", "min_count", "dropout", "sum"))


@dataclass(frozen=True, kw_only=True)
class StateSpaceLMAdvanced(Settings):
    """Options of `StateSpaceLM` that few need to change."""

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
    joint_order: int = option(
        1,
        "the longest run of last tokens that has a feature vector of its own, as if it were one token; a run that the "
        "text does not have is a zero vector, as an unknown token is; 1, as in the paper, leaves all runs out",
        at_least=1,
        at_most=16,
    )
    joint_width: int = options.width(25, "elements of the feature vector of a run")
    joint_min_count: int = option(
        1, "rarer runs of tokens are zero vectors", at_least=1, at_most=1 << 31
    )
    joint_sum: float = option(
        1e-5,
        "the sum of squares that AdaGrad begins with for the vector of a run, 1e-6 for all else: the larger it is, "
        "the less is learned from runs that are rare",
        above=0,
        at_most=1e6,
    )
    joint_dropout: float = options.dropout(
        0.3,
        "share of the places which go without the runs of two tokens and longer in training, of the others the share "
        "without those of three and longer, and so on",
    )
    streams: int = option(
        32, "places of the text that are read side by side in training", at_least=1, at_most=1 << 16
    )
    piece: int = option(
        25,
        "tokens of each place in a step, over which gradients go back; with the rules, in the steps of the first epoch",
        at_least=1,
        at_most=1 << 16,
    )
    last_piece: int = option(
        200,
        "with the rules, tokens of each place in the steps of the last epoch",
        at_least=1,
        at_most=1 << 16,
    )
    clip_norm: float = option(
        1.0, "gradients of a mean token longer than this are made as long", above=0
    )
    norm_limit: float = option(
        100.0,
        "with the rules, the sum of squares that no matrix exceeds; 10 in the paper (section 2.4), with which a model "
        "without an internal state can predict little",
        above=0,
        at_most=1e8,
    )


@dataclass(frozen=True, kw_only=True)
class StateSpaceLMSettings(Settings):
    """Settings of `StateSpaceLM`."""

    order: int = option(
        5,
        "tokens that a prediction spans: feature vectors of the order - 1 last ones are part of the state; 1, 2, 3 "
        "and 5 in the paper",
        at_least=1,
        at_most=1000,
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
        "what a token that was read makes of the state: one step of ascent from the predicted state, or the most "
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
    seed: int = options.seed()
    advanced: StateSpaceLMAdvanced = group(StateSpaceLMAdvanced)

    @property
    def window(self) -> int:
        """How many of the last tokens are remembered as they are."""
        joint = self.advanced.joint_order
        return max(self.order - 1, joint if joint > 1 else 0)

    @property
    def inputs(self) -> int:
        """Elements of the state that the last tokens give."""
        joint = self.advanced
        return (self.order - 1) * self.features + joint.joint_width * (joint.joint_order > 1)

    def idle(self) -> Mapping[str, str]:
        """Say which options belong to what is not used."""
        found = {}
        for name in _OF_RULES if self.training == "gradient" else _OF_GRADIENTS:
            found[name] = f'with training="{self.training}"'
        for name in _OF_RUNS if self.advanced.joint_order == 1 else ():
            found[name] = "with joint_order=1"
        if self.order == 1:
            found["features"] = "with order=1"
        if not self.internal and self.training == "gradient":
            # the rules learn from the whole state after its token was read, gradients only from what it foretells
            for name in ("inference", "advanced.variance"):
                found[name] = "without an internal state"
        return found
