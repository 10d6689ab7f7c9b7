"""The settings of the factored restricted Boltzmann machines of words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tacenda.settings import Settings, group, option
from tacenda_lm import options

__all__ = ["FRBMAdvanced", "FRBMSettings", "TemporalFRBMSettings"]


@dataclass(frozen=True, kw_only=True)
class FRBMAdvanced(Settings):
    """Options of `FRBM` and `TemporalFRBM` that few need to change."""

    visible: Literal["stochastic", "mean_field"] = option(
        "stochastic",
        "what contrastive divergence puts in the place of the next word: a word drawn given the hidden units, or the "
        "probabilities of all words; the thesis has the latter for its FRBM",
    )
    gibbs_steps: int = option(
        1,
        "steps of Gibbs sampling from the word of the text, k of CD-k; 1 in the thesis",
        at_least=1,
        at_most=1000,
    )
    drawn_words: int = option(
        10,
        'words drawn from the model\'s own prediction for every context with learning="likelihood"',
        at_least=1,
        at_most=1 << 16,
    )
    feature_decay: float = option(
        1e-4,
        "lambda of the weight decay of feature vectors, which those of the words of a step undergo",
        at_least=0,
        below=1,
    )
    weight_decay: float = option(
        1e-5, "lambda of the weight decay of all other weights but biases", at_least=0, below=1
    )

    def without_sampling(self) -> FRBMAdvanced:
        """Return the same with the defaults of what depends on the way of learning."""
        return FRBMAdvanced(feature_decay=self.feature_decay, weight_decay=self.weight_decay)


@dataclass(frozen=True, kw_only=True)
class FRBMSettings(Settings):
    """Settings of `FRBM`."""

    features: int = options.width(
        100, "elements of a word's feature vector, N_f; 100 in the thesis"
    )
    hidden: int = options.width(
        100, "binary hidden units, N_h; 1000 in the thesis; a prediction costs this times the words"
    )
    context: int = option(
        2,
        "preceding words that a prediction rests on, n - 1; 2 in the thesis",
        at_least=1,
        at_most=1000,
    )
    learning: Literal["likelihood", "divergence"] = option(
        "likelihood",
        '"divergence": contrastive divergence, as in the thesis; "likelihood": the gradient of the log-likelihood, '
        "with words drawn from the exact prediction in the place of its expectation",
    )
    epochs: int = options.epochs(10)
    learning_rate: float = options.learning_rate(0.2, "AdaGrad", "a tenth; not given in the thesis")
    patience: int = options.patience(3)
    batch_words: int = option(
        1000,
        "words of a step, and a sixteenth of the words of a text that has fewer than 16 times as many; 1000 in the "
        "thesis",
        at_least=1,
        at_most=1 << 20,
    )
    across_sentences: bool = options.across_sentences(
        ", which are words like others; true in the thesis"
    )
    seed: int = options.seed()
    advanced: FRBMAdvanced = group(FRBMAdvanced)

    def idle(self) -> Mapping[str, str]:
        """Say what one way of learning leaves unused."""
        reason = f'with learning="{self.learning}"'
        if self.learning == "likelihood":
            return {"advanced.visible": reason, "advanced.gibbs_steps": reason}
        return {"advanced.drawn_words": reason}


@dataclass(frozen=True, kw_only=True)
class TemporalFRBMSettings(FRBMSettings):
    """Settings of `TemporalFRBM`."""

    frbm_epochs: int = option(
        5,
        "passes over the text, at most, of the `FRBM` whose parameters training begins with; 0 begins with random ones",
        at_least=0,
    )
    piece_words: int = option(
        10,
        "consecutive words of a step in each of batch_words / piece_words stretches of the text, and of fewer where "
        "they would be shorter than 16 pieces; 1 in the thesis; "
        'with learning="likelihood" the gradient goes back to the beginning of the piece',
        at_least=1,
        at_most=1 << 20,
    )

    def check(self) -> None:
        """Refuse pieces longer than a step."""
        if self.piece_words > self.batch_words:
            self.refuse("piece_words", f"at most batch_words, {self.batch_words}")

    def plain(self) -> FRBMSettings:
        """Return the settings of the `FRBM` that training begins with."""
        shared = {one.name: getattr(self, one.name) for one in FRBMSettings.options()}
        return FRBMSettings(**{**shared, "epochs": self.frbm_epochs})
