"""The settings of the log-bilinear models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tacenda.settings import Settings, group, option
from tacenda_lm.log_bilinear.tree_building import MAX_CODES, MAX_DEPTH, Rule

__all__ = ["HLBLAdvanced", "HLBLSettings", "LBLAdvanced", "LBLSettings"]


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
        "epsilon of ADAPTIVE(epsilon) and NOISY-ADAPTIVE(epsilon): a word whose side of a split is in doubt by at most "
        "this probability goes to both sides; 0.4 in the thesis's best tree",
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
    bootstrap_width: int = option(
        96,
        "width of the model on a random tree whose predictions the words are clustered by",
        at_least=1,
        at_most=1 << 14,
    )
    bootstrap_epochs: int = option(
        2, "passes of that model over the text", at_least=1, at_most=10**6
    )
    piece_words: int = option(
        128, "words of a contiguous piece of text", at_least=1, at_most=1 << 20
    )
    eight_bits: bool = option(
        False,
        "whether node vectors are rounded to 8 bits after training, which makes scoring more than twice as fast and "
        "changes log-probabilities in the third decimal",
    )
    batch_pieces: int = option(4, "pieces of text in a step", at_least=1, at_most=1 << 20)


@dataclass(frozen=True, kw_only=True)
class HLBLSettings(Settings):
    """Settings of `HLBL`."""

    width: int = option(
        208, "D, elements of a feature vector; the thesis has 100", at_least=1, at_most=1 << 14
    )
    context: int = option(
        10,
        "n - 1, the number of preceding words that have weights of their own; 5, 10 and 20 in the thesis",
        at_least=0,
        at_most=1000,
    )
    tree: Rule = option(
        "adaptive", "how words are split into a tree (section 4.4 of the thesis); see `build_tree`"
    )
    copies: int = option(
        4, "trees that are joined into an overcomplete one; 4 in the thesis's best tree", at_least=1, at_most=64
    )  # fmt: skip
    dropout: float = option(
        0.6,
        "share of the elements of the predicted vector left out in training; the thesis has none",
        at_least=0,
        below=1,
    )
    epochs: int = option(13, "passes over the text, at most", at_least=0, at_most=10**6)
    learning_rate: float = option(
        0.1,
        "of AdaGrad: reached after a warm-up, it falls along half a cosine to a tenth",
        at_least=0,
        below=1e6,
    )
    patience: int = option(
        3,
        "epochs without a better perplexity of the held-out text after which training ends early",
        at_least=1,
        at_most=10**6,
    )
    across_sentences: bool = option(
        True, "whether the context reaches over the ends of sentences; false in the thesis"
    )
    threads: int = option(
        1, "threads of training; the result does not depend on it", at_least=1, at_most=1024
    )
    seed: int = option(
        0, "of everything random; one seed gives one model", at_least=0, at_most=2**63 - 1
    )
    advanced: HLBLAdvanced = group(HLBLAdvanced)


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
        "k of noise-contrastive estimation: words of noise in a step, drawn from the unigram distribution",
        at_least=1,
        at_most=1 << 20,
    )


@dataclass(frozen=True, kw_only=True)
class LBLSettings(Settings):
    """Settings of `LBL`."""

    width: int = option(
        100, "D, elements of a feature vector; 100 in the thesis", at_least=1, at_most=1 << 14
    )
    context: int = option(5, "n - 1, the number of preceding words", at_least=1, at_most=1000)
    loss: Literal["softmax", "nce"] = option(
        "softmax",
        "the exact likelihood, or noise-contrastive estimation (Mnih and Teh 2012)",
    )
    dropout: float = option(
        0.2,
        "share of the elements of the predicted vector left out in training; the thesis has none",
        at_least=0,
        below=1,
    )
    epochs: int = option(8, "passes over the text, at most", at_least=0, at_most=10**6)
    learning_rate: float = option(
        0.1,
        "of AdaGrad: reached after a warm-up, it falls along half a cosine to a tenth",
        at_least=0,
        below=1e6,
    )
    patience: int = option(
        3,
        "epochs without a better perplexity of the held-out text after which training ends early",
        at_least=1,
        at_most=10**6,
    )
    batch_words: int = option(512, "words of a step", at_least=1, at_most=1 << 20)
    across_sentences: bool = option(
        True, "whether the context reaches over the ends of sentences; false in the thesis"
    )
    seed: int = option(
        0, "of everything random; one seed gives one model", at_least=0, at_most=2**63 - 1
    )
    advanced: LBLAdvanced = group(LBLAdvanced)
