"""The settings of the log-bilinear models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from tacenda import devices
from tacenda.settings import Settings, group, option
from tacenda_lm import options
from tacenda_lm.log_bilinear.trees import MAX_CODES, MAX_DEPTH, Rule

__all__ = ["HLBLAdvanced", "HLBLSettings", "LBLAdvanced", "LBLSettings"]

_PLAN = options.Plan(tokens=7, most=13)  # by benchmarks/language_models/sizes.py and Penn Treebank
_DROPOUT = "share of the elements of the predicted vector left out in training; the thesis has none"


@dataclass(frozen=True, kw_only=True)
class HLBLAdvanced(Settings):
    """Options of `HLBL` that few need to change."""

    tail_rates: tuple[float, ...] = option(
        (0.9, 0.95, 0.98, 0.995),
        "lambda of each tail, a sum over all words older than ``context`` that fades by this factor a word; the "
        "thesis has no tails",
        above=0,
        below=1,
    )
    far_words: bool = option(
        False, "whether words in the tails have feature vectors of their own; not in the thesis"
    )
    overlap: float = option(
        0.0,
        "epsilon of ADAPTIVE(epsilon) and NOISY-ADAPTIVE(epsilon): a word goes to both sides of a split where its "
        "probability is this near to 1/2; 0.4 in the thesis's best tree",
        at_least=0,
        below=0.5,
    )
    frequency_power: float = option(
        0.5,
        "a word weighs count ** this in the clustering; the thesis has 0, which weighs all words the same",
        at_least=0,
        below=10,
    )
    max_codes: int = option(
        MAX_CODES, "codes of a word in one copy of the tree, at most", at_least=1, at_most=64
    )
    max_depth: int = option(
        MAX_DEPTH, "steps of a code in one copy of the tree, at most", at_least=1, at_most=64
    )
    bootstrap_width: int = options.width(
        96, "width of the model on a random tree whose predictions the words are clustered by"
    )
    bootstrap_epochs: int = option(2, "passes of that model over the text", at_least=1)
    piece_words: int = option(
        128, "words of a contiguous piece of text", at_least=1, at_most=1 << 20
    )
    batch_pieces: int = option(4, "pieces of text in a step", at_least=1)
    eight_bits: bool = option(
        False,
        "whether node vectors are rounded to 8 bits after training, which makes scoring more than twice as fast and "
        "changes log-probabilities in the third decimal",
    )


@dataclass(frozen=True, kw_only=True)
class HLBLSettings(Settings):
    """Settings of `HLBL`."""

    width: int = options.width(208, "elements of a feature vector, D; 100 in the thesis")
    context: int = option(
        10,
        "preceding words that have weights of their own, n - 1; 5, 10 and 20 in the thesis",
        at_least=0,
        at_most=1000,
    )
    tree: Rule = option(
        "adaptive", "how words are split into a tree (section 4.4 of the thesis); see `build_tree`"
    )
    copies: int = option(
        4,
        "trees that are joined into an overcomplete one; 4 in the thesis's best tree",
        at_least=1,
        at_most=64,
    )
    dropout: float = options.dropout(0.6, _DROPOUT)
    epochs: int | None = _PLAN.option()
    learning_rate: float = options.learning_rate(0.1, "AdaGrad", "a tenth")
    patience: int = options.patience(3)
    across_sentences: bool = options.across_sentences()
    threads: int = options.threads()
    device: str = devices.option()
    seed: int = options.seed()
    advanced: HLBLAdvanced = group(HLBLAdvanced)

    def check(self) -> None:
        """Refuse what is no device."""
        devices.check(self)

    def planned(self, n_tokens: int, n_types: int) -> HLBLSettings:
        """Return the settings with as many epochs as a text of this size lasts, unless they are given."""
        return replace(self, epochs=_PLAN.epochs(self.epochs, n_tokens, n_types))

    def idle(self) -> Mapping[str, str]:
        """Say what a random tree and a model without tails leave unused."""
        found = {}
        if self.tree == "random":
            for name in ("bootstrap_width", "bootstrap_epochs", "frequency_power"):
                found[f"advanced.{name}"] = 'with tree="random", which clusters no words'
        if self.tree in ("random", "balanced"):
            found["advanced.overlap"] = f'with tree="{self.tree}", which halves the words'
        if not self.advanced.tail_rates:
            found["advanced.far_words"] = "without tail_rates"
        return found


@dataclass(frozen=True, kw_only=True)
class LBLAdvanced(Settings):
    """Options of `LBL` that few need to change."""

    context_matrices: Literal["full", "diagonal"] = option(
        "full",
        "the matrices C_i of equation 3.16 of the thesis; diagonal ones with tied vectors cannot tell which of two "
        "words comes first",
    )
    tied: bool = option(
        True,
        "whether the words to predict have the feature vectors of the context words (section 3.3 of the thesis)",
    )
    noise_words: int = option(
        100,
        "words of noise in a step of noise-contrastive estimation, k, drawn from the unigram distribution",
        at_least=1,
        at_most=1 << 20,
    )


@dataclass(frozen=True, kw_only=True)
class LBLSettings(Settings):
    """Settings of `LBL`."""

    width: int = options.width(100, "elements of a feature vector, D; 100 in the thesis")
    context: int = option(
        5, "preceding words that a prediction rests on, n - 1", at_least=1, at_most=1000
    )
    loss: Literal["softmax", "nce"] = option(
        "softmax", "the exact likelihood, or noise-contrastive estimation (Mnih and Teh 2012)"
    )
    dropout: float = options.dropout(0.2, _DROPOUT)
    epochs: int = options.epochs(8)
    learning_rate: float = options.learning_rate(0.1, "AdaGrad", "a tenth")
    patience: int = options.patience(3)
    batch_words: int = option(512, "words of a step", at_least=1, at_most=1 << 20)
    across_sentences: bool = options.across_sentences()
    device: str = devices.option()
    seed: int = options.seed()
    advanced: LBLAdvanced = group(LBLAdvanced)

    def check(self) -> None:
        """Refuse what is no device."""
        devices.check(self)

    def idle(self) -> Mapping[str, str]:
        """Say what the exact likelihood leaves unused."""
        if self.loss == "softmax":
            return {"advanced.noise_words": 'with loss="softmax"'}
        return {}
