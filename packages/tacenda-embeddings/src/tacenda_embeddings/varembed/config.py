"""Settings of VarEmbed and SumEmbed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

from tacenda.artifact import ModelSettings

__all__ = ["Output", "SumEmbedConfig", "VarEmbedConfig", "WordVectorConfig"]

Segmentation = Literal["unigram", "morfessor", "ngrams"]
Start = Literal["counts", "word2vec", "random"]
Softmax = Literal["sampled", "exact"]
Output = Literal["logits", "log_odds", "probabilities"]
KLWeighting = Literal["types", "tokens"]


@dataclass(frozen=True)
class WordVectorConfig(ModelSettings):
    """What both models share; the paper's values stand in brackets where ours differ.

    Attributes
    ----------
    width
        k, columns of a word vector.
    hidden
        Units of the LSTM.
    segmenter
        ``"unigram"`` pieces learned in seconds, ``"morfessor"`` (the package morfessor, minutes),
        ``"ngrams"`` of characters [``"morfessor"``].
    n_morphemes
        Pieces the unigram segmenter keeps; None is 0.3 for every word type, the paper's ratio. Fewer
        suit a small text of a language rich in endings.
    max_pieces
        Morphemes of a word at most; the last one takes the rest. N-grams are not limited.
    base
        Every word has one more, common morpheme, which holds the base rate of every dimension [False].
    start
        Initial word vectors: ``"counts"``, a factorisation of co-occurrence counts; ``"word2vec"`` (the
        package gensim); or ``"random"`` [``"word2vec"``].
    start_window
        Words to each side that are counted for the start; 2 or 3 tell more of syntax, 10 of topics.
    start_adjacent
        Weight of the words directly before and directly after, which are counted apart for the
        start, beside those of the window; they tell of syntax.
    start_scale
        Root mean square of the initial word vectors.
    start_ridge
        Of the regression that gives morphemes their initial vectors; None is 10, and 100 for n-grams,
        of which a word has many.
    start_shrinkage
        a word that occurs n times begins n / (n + this) of the way from the sum of its
        morphemes to the vector it was given [0].
    softmax
        ``"sampled"`` [not stated], or ``"exact"`` over all words.
    negatives
        Words drawn for a batch by the sampled softmax.
    epochs
        Passes over the text [15].
    learning_rate
        Of word, morpheme and output vectors, by AdaGrad with one accumulator a row
        [0.01, RMSProp].
    lstm_rate
        Of the LSTM, by Adam.
    batch
        Pieces of text read in parallel [25].
    length
        Tokens of each that are differentiated through at a time.
    dropout
        Of the inputs and outputs of the LSTM [not stated].
    clip
        Largest norm of the LSTM's gradient per token.
    patience
        Evaluations without progress before a fit with held-out text stops.
    seed
        Of everything that is drawn.
    device
        Where training runs, ``"cpu"`` or ``"cuda"``.
    threads
        Torch's, while training; None leaves them as they are.
    """

    width: int = 128
    hidden: int = 128
    segmenter: Segmentation = "unigram"
    n_morphemes: int | None = None
    max_pieces: int = 16
    base: bool = True
    start: Start = "counts"
    start_window: int = 10
    start_adjacent: float = 0.7
    start_scale: float = 1.0
    start_ridge: float | None = None
    start_shrinkage: float = 20.0
    softmax: Softmax = "sampled"
    negatives: int = 1024
    epochs: int = 3
    learning_rate: float = 0.1
    lstm_rate: float = 2e-3
    batch: int = 64
    length: int = 32
    dropout: float = 0.0
    clip: float = 1.0
    patience: int = 2
    seed: int = 0
    device: str = "cpu"
    threads: int | None = None

    def __post_init__(self) -> None:
        """Refuse settings out of range: one sentence, naming the setting."""
        for name, least in _WHOLE.items():
            value: Any = getattr(self, name)
            if name in _OPTIONAL and value is None:
                continue
            if type(value) is not int or value < least:
                self._refuse(name, f"a whole number of at least {least}")
        for name, (low, high) in _REAL.items():
            value = getattr(self, name, low)
            if name in _OPTIONAL and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float):
                self._refuse(name, "a number")
            if not low <= value < high:
                self._refuse(name, f"a number in [{low:g}, {high:g})")
        for name, kind in _CHOICES.items():
            if hasattr(self, name) and getattr(self, name) not in get_args(kind):
                self._refuse(name, f"one of {', '.join(get_args(kind))}")
        for name in ("base", "refit"):
            if type(getattr(self, name, True)) is not bool:
                self._refuse(name, "true or false")
        if not isinstance(self.device, str) or self.device.split(":")[0] not in ("cpu", "cuda"):
            self._refuse("device", "cpu or cuda")


@dataclass(frozen=True)
class VarEmbedConfig(WordVectorConfig):
    """Settings of `VarEmbed`: those of `WordVectorConfig`, and these.

    Attributes
    ----------
    output
        What ``transform`` returns for a word: ``"logits"``, the expected embedding through an inverse
        sigmoid, as the paper evaluates it; ``"log_odds"``, the same less the base rate; ``"probabilities"``.
    kl
        ``"types"`` counts the divergence from the prior once for every word of the vocabulary, as eq 20
        does; ``"tokens"`` once for every occurrence and dimension, as the authors' code does.
    kl_weight
        What the divergence is multiplied by; 1 is the bound.
    refit
        After training, the morphemes are fitted once more to the words as they are then, by the regression
        of the start with a tenth of its ridge, every word counting once. The bound says nothing against a
        morpheme of few words that follows them anywhere, nor what is the base's and what the others'; the
        ridge does [False].
    """

    output: Output = "log_odds"
    kl: KLWeighting = "types"
    kl_weight: float = 1.0
    refit: bool = True


@dataclass(frozen=True)
class SumEmbedConfig(WordVectorConfig):
    """Settings of `SumEmbed`: those of `WordVectorConfig`, here without a common morpheme."""

    base: bool = False


_WHOLE = {
    "width": 1, "hidden": 1, "n_morphemes": 1, "max_pieces": 1, "start_window": 1, "negatives": 1,
    "epochs": 0, "batch": 1, "length": 1, "patience": 1, "seed": 0, "threads": 1,
}  # fmt: skip
_OPTIONAL = ("n_morphemes", "start_ridge", "threads")
_REAL = {
    "start_adjacent": (0.0, math.inf),
    "start_scale": (0.0, math.inf),
    "start_ridge": (0.0, math.inf),
    "start_shrinkage": (0.0, math.inf),
    "learning_rate": (0.0, math.inf),
    "lstm_rate": (0.0, math.inf),
    "dropout": (0.0, 1.0),
    "clip": (1e-12, math.inf),
    "kl_weight": (0.0, math.inf),
}
_CHOICES: dict[str, Any] = {
    "segmenter": Segmentation,
    "start": Start,
    "softmax": Softmax,
    "output": Output,
    "kl": KLWeighting,
}
