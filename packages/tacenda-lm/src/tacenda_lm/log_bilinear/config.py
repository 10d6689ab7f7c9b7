"""Settings of the log-bilinear models."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from tacenda.artifact import ModelSettings
from tacenda_lm.log_bilinear.tree_building import MAX_CODES, MAX_DEPTH, Rule

__all__ = ["Contexts", "HLBLConfig", "LBLConfig", "Loss", "Settings"]

Contexts = Literal["diagonal", "full"]
Loss = Literal["softmax", "nce"]


@dataclass(frozen=True)
class Settings(ModelSettings):
    """What both models share."""

    across_sentences: bool = True
    seed: int = 0

    def _rates(self) -> None:
        rates = getattr(self, "tail_rates")  # noqa: B009 - not a field of this base
        if not isinstance(rates, tuple) or not all(
            isinstance(rate, float) and math.isfinite(rate) and 0 < rate < 1 for rate in rates
        ):
            self._refuse("tail_rates", "numbers between 0 and 1")


@dataclass(frozen=True)
class HLBLConfig(Settings):
    """Settings of `HLBL`. The thesis's models have ``width=100, context=5, tail_rates=(), dropout=0.0,
    frequency_power=0.0, across_sentences=False``; its best tree is ``overlap=0.4, copies=4``.

    Attributes
    ----------
    width
        D, elements of a feature vector.
    context
        n - 1, words before that have weights of their own (5, 10 and 20 in Table 4.7).
    tail_rates
        lambda of each tail: all older words, fading by it a word. Not in the thesis.
    far_words
        Whether words in the tails have feature vectors of their own. Not in the thesis.
    tree
        How words are split: ``"random"``, ``"balanced"``, ``"adaptive"`` or ``"noisy"`` (section 4.4).
    overlap
        epsilon of ADAPTIVE(epsilon) and NOISY-ADAPTIVE(epsilon).
    copies
        Trees in an overcomplete tree.
    frequency_power
        Words weigh count ** this in the clustering; 0 is the thesis's, all the same.
    max_codes
        Codes of a word in each copy.
    max_depth
        Steps of a code in each copy.
    bootstrap_width
        D of the model on a random tree that the clustered vectors come from.
    bootstrap_epochs
        Its passes over the text.
    dropout
        Share of the elements of the predicted vector left out in training. Not in the thesis.
    epochs
        Passes over the text at most.
    learning_rate
        Of AdaGrad, after a warm-up falling along half a cosine to a tenth.
    patience
        Epochs without a better perplexity of the held-out text before training ends early.
    piece
        Words of a contiguous piece of text.
    batch
        Pieces of a step.
    across_sentences
        Whether the context goes on over the ends of sentences.
    threads
        Of training; the result does not depend on it.
    seed
        Of everything random; one seed gives one model.
    """

    width: int = 208
    context: int = 10
    tail_rates: tuple[float, ...] = (0.9, 0.95, 0.98, 0.995)
    far_words: bool = False
    tree: Rule = "adaptive"
    overlap: float = 0.0
    copies: int = 4
    frequency_power: float = 0.5
    max_codes: int = MAX_CODES
    max_depth: int = MAX_DEPTH
    bootstrap_width: int = 96
    bootstrap_epochs: int = 2
    dropout: float = 0.6
    epochs: int = 13
    learning_rate: float = 0.1
    patience: int = 3
    piece: int = 128
    batch: int = 4
    across_sentences: bool = True
    threads: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse settings out of range: one sentence, naming the setting."""
        for name, low, high in (
            ("width", 1, 1 << 14),
            ("context", 0, 1000),
            ("copies", 1, 64),
            ("max_codes", 1, 64),
            ("max_depth", 1, 64),
            ("bootstrap_width", 1, 1 << 14),
            ("bootstrap_epochs", 1, 10**6),
            ("epochs", 0, 10**6),
            ("patience", 1, 10**6),
            ("piece", 1, 1 << 20),
            ("batch", 1, 1 << 20),
            ("threads", 1, 1024),
            ("seed", 0, 2**63 - 1),
        ):
            self._whole(name, low, high)
        self._real("overlap", 0.0, 0.5)
        self._real("frequency_power", 0.0, 10.0)
        self._real("dropout", 0.0, 1.0)
        self._real("learning_rate", 0.0, 1e6)
        self._one_of("tree", get_args(Rule))
        self._flag("far_words")
        self._flag("across_sentences")
        self._rates()


@dataclass(frozen=True)
class LBLConfig(Settings):
    """Settings of `LBL`. The thesis's models have 100 features, full context matrices and no dropout.

    Attributes
    ----------
    width
        D, elements of a feature vector.
    context
        n - 1, words before.
    contexts
        ``"full"`` matrices C_i (eq 3.16), or ``"diagonal"`` ones, which with tied vectors cannot tell
        which of two words comes first.
    tied
        Whether the words to predict have the feature vectors of the context words (section 3.3).
    loss
        ``"softmax"``, the exact likelihood, or ``"nce"``, noise-contrastive estimation (Mnih and Teh 2012).
    noise
        k of ``nce``: words of noise for every word of the text, drawn from the unigram distribution.
    dropout
        Share of the elements of the predicted vector left out in training. Not in the thesis.
    epochs
        Passes over the text at most.
    learning_rate
        Of AdaGrad, after a warm-up falling along half a cosine to a tenth.
    patience
        Epochs without a better perplexity of the held-out text before training ends early.
    batch
        Words of a step.
    across_sentences
        Whether the context goes on over the ends of sentences.
    seed
        Of everything random; one seed gives one model.
    """

    width: int = 100
    context: int = 5
    contexts: Contexts = "full"
    tied: bool = True
    loss: Loss = "softmax"
    noise: int = 100
    dropout: float = 0.2
    epochs: int = 8
    learning_rate: float = 0.1
    patience: int = 3
    batch: int = 512
    across_sentences: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse settings out of range: one sentence, naming the setting."""
        for name, low, high in (
            ("width", 1, 1 << 14),
            ("context", 1, 1000),
            ("noise", 1, 1 << 20),
            ("epochs", 0, 10**6),
            ("patience", 1, 10**6),
            ("batch", 1, 1 << 20),
            ("seed", 0, 2**63 - 1),
        ):
            self._whole(name, low, high)
        self._real("dropout", 0.0, 1.0)
        self._real("learning_rate", 0.0, 1e6)
        self._one_of("contexts", get_args(Contexts))
        self._one_of("loss", get_args(Loss))
        self._flag("tied")
        self._flag("across_sentences")
