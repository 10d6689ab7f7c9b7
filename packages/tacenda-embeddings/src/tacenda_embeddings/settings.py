"""Options of `LDS`, `VarEmbed` and `SumEmbed`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Literal, get_args

from tacenda import devices
from tacenda.kernels.machinery.threads import usable_cores
from tacenda.settings import Group, Settings, group, option

LDSOutput = Literal["own_context", "weighted_mean", "own_past_future", "mean", "own", "filtered"]
WordOutput = Literal["logits", "log_odds", "probabilities"]
Ends = Literal["exact", "zero"]

LDS_OUTPUTS: tuple[str, ...] = get_args(LDSOutput)
WORD_OUTPUTS: tuple[str, ...] = get_args(WordOutput)

# -- linear dynamical systems ----------------------------------------------------------------------------


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
    output: LDSOutput = option(
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


# -- word vectors ------------------------------------------------------------------------------------------

# options of training, which a `SumEmbed` had in earlier releases
_TRAINING_OPTIONS = ("hidden", "softmax", "negatives", "batch_streams", "unrolled_tokens")


@dataclass(frozen=True, kw_only=True)
class WordVectorAdvanced(Settings):
    """Options of both models that few need to change."""

    retired: ClassVar[Mapping[str, Any]] = MappingProxyType(
        {
            "max_pieces": 16,
            "start_window": ...,
            "start_scale": ...,
            "start_ridge": ...,
            "lstm_learning_rate": ...,
            "clip": ...,
            "kl_weight": ...,
        }
    )

    n_morphemes: int | None = option(
        None,
        """pieces that the unigram segmenter keeps; None is 0.3 for every word type, the ratio of the
        paper. Fewer suit a small text of a language rich in endings""",
        at_least=1,
    )
    base: bool = option(
        True,
        """whether every word has one more, common morpheme, which holds the base rate of every dimension;
        the paper has none""",
    )
    start_adjacent: float = option(
        0.7,
        """weight in the vectors from counts of the words directly before and directly after, which are counted
        separately from the window; they carry syntax""",
        at_least=0,
    )
    start_shrinkage: float = option(
        20.0,
        """a word that occurs n times is n / (n + this) of the way from the sum of its morphemes to its
        own initial vector, by default from counts; the paper has 0""",
        at_least=0,
    )


@dataclass(frozen=True, kw_only=True)
class VarEmbedAdvanced(WordVectorAdvanced):
    """Options of `VarEmbed` that few need to change."""

    hidden: int = option(128, "units of the LSTM", at_least=1)
    softmax: Literal["sampled", "exact"] = option(
        "sampled",
        "whether the loss sums over a sample of words or over all; the paper does not say",
    )
    negatives: int = option(1024, "words drawn for a batch by the sampled softmax", at_least=1)
    batch_streams: int = option(
        64, "pieces of the text that are read in parallel; the paper has 25", at_least=1
    )
    unrolled_tokens: int = option(
        32, "tokens of each piece that are differentiated through at a time", at_least=1
    )
    kl: Literal["types", "tokens"] = option(
        "types",
        """what the divergence from the prior is counted for: "types", once for every word of the
        vocabulary, as in eq 20; or "tokens", once for every occurrence and dimension, as in the authors'
        code""",
    )
    refit_morphemes: bool = option(
        True,
        """whether the morphemes are fitted once more after training, to the words as they are then, by the
        regression of the start with a tenth of its ridge, every word counting once. The bound does not
        keep a morpheme of few words from following them anywhere, nor does it say what belongs to the base
        and what to the others; the ridge does. The paper does not refit""",
    )


@dataclass(frozen=True, kw_only=True)
class SumEmbedAdvanced(WordVectorAdvanced):
    """Options of `SumEmbed` that few need to change."""

    retired: ClassVar[Mapping[str, Any]] = MappingProxyType(
        {**WordVectorAdvanced.retired, **dict.fromkeys(_TRAINING_OPTIONS, ...)}
    )

    base: bool = option(False, "whether every word has one more, common morpheme")
    power: float = option(
        1.0,
        """exponent of the singular values of the counts. 1 suits taggers; with 0.25, the similarities of words
        agree much better with human judgments, and taggers lose little""",
        at_least=0,
        at_most=1,
    )


@dataclass(frozen=True, kw_only=True)
class WordVectorSettings(Settings):
    """Options that both models share."""

    retired: ClassVar[Mapping[str, Any]] = MappingProxyType({"dropout": ...})

    width: int = option(128, "columns of a word vector, k in the paper", at_least=1)
    segmenter: Literal["unigram", "morfessor", "ngrams"] = option(
        "unigram",
        """how words are cut into morphemes: "unigram" pieces learned in seconds, "morfessor" (which needs
        the package morfessor, and minutes) or "ngrams" of characters; the paper has "morfessor" """,
    )
    seed: int = option(0, "seed of all random numbers", at_least=0)

    advanced: Group[WordVectorAdvanced] = group(WordVectorAdvanced)

    def idle(self) -> Mapping[str, str]:
        if self.segmenter == "unigram":
            return {}
        return {"advanced.n_morphemes": f'with segmenter="{self.segmenter}"'}


@dataclass(frozen=True, kw_only=True)
class VarEmbedSettings(WordVectorSettings):
    """Options of `VarEmbed`."""

    start: Literal["counts", "word2vec", "random"] = option(
        "counts",
        """initial word vectors: "counts", a factorization of co-occurrence counts; "word2vec", which needs
        the package gensim; or "random"; the paper has "word2vec" """,
    )
    epochs: int = option(3, "passes over the text; the paper has 15", at_least=0)
    learning_rate: float = option(
        0.1,
        """learning rate of word, morpheme and output vectors, for AdaGrad with one accumulator a row; the
        paper has 0.01, for RMSProp""",
        at_least=0,
    )
    patience: int = option(
        2, "evaluations without progress after which a fit with held-out text stops", at_least=1
    )
    device: str = devices.option()
    threads: int | None = option(
        None, "threads of torch while training; None leaves them as they are", at_least=1
    )
    output: WordOutput = option(
        "log_odds",
        """what transform returns for a word: "logits", the expected embedding through an inverse sigmoid,
        as the paper evaluates it; "log_odds", the same less the base rate; or "probabilities" """,
    )
    advanced: Group[VarEmbedAdvanced] = group(VarEmbedAdvanced)

    def idle(self) -> Mapping[str, str]:
        unused = dict(super().idle())
        if self.start != "counts":
            unused["advanced.start_adjacent"] = f'with start="{self.start}"'
        if self.advanced.softmax == "exact":
            unused["advanced.negatives"] = 'with softmax="exact"'
        if not self.epochs:
            unused["advanced.refit_morphemes"] = "with epochs=0"
        return unused


@dataclass(frozen=True, kw_only=True)
class SumEmbedSettings(WordVectorSettings):
    """Options of `SumEmbed`."""

    retired: ClassVar[Mapping[str, Any]] = MappingProxyType(
        {
            **WordVectorSettings.retired,
            **dict.fromkeys(
                ("start", "epochs", "learning_rate", "patience", "device", "threads"), ...
            ),
        }
    )

    advanced: Group[SumEmbedAdvanced] = group(SumEmbedAdvanced)
