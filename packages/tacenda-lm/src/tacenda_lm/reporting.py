"""What ``tacenda lm`` prints."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from tacenda.corpus.text import sentences_of
from tacenda_lm.language_model import LanguageModel
from tacenda_lm.perplexity import Perplexity

__all__ = ["perplexity_lines", "scored_lines", "scored_words"]

_LN10 = math.log(10)
_SENTENCES = 2000  # scored at once


def scored_lines(
    model: LanguageModel, file: Path, tokenizer: str, encoding: str = "utf-8"
) -> Iterator[str]:
    """Base-10 log-probability, tab, sentence."""
    for sentences in _batches(file, tokenizer, encoding):
        scores = model.score_batch(sentences).tolist()
        for score, sentence in zip(scores, sentences, strict=True):
            yield f"{score:.6g}\t{' '.join(sentence)}"


def scored_words(
    model: LanguageModel, file: Path, tokenizer: str, encoding: str = "utf-8"
) -> Iterator[str]:
    """Word, tab, surprisal in bits; an empty line after every sentence."""
    for sentences in _batches(file, tokenizer, encoding):
        for sentence, bits in zip(sentences, model.surprisals(sentences, eos=True), strict=True):
            for word, value in zip([*sentence, "</s>"], bits.tolist(), strict=True):
                yield f"{word}\t{value:.4f}"
            yield ""


def perplexity_lines(found: Perplexity) -> Iterator[str]:
    """The figures of a text with what they count."""
    yield (
        f"{found.n_sentences:,} sentences, {found.n_words:,} words, "
        f"{found.n_oov:,} of them outside the vocabulary"
    )
    rows = [
        ("perplexity", found.value, "words and </s>, unknown words as <unk>"),
        ("without unknown words", found.without_oov, "words of the vocabulary and </s>"),
        ("without </s>", found.without_eos, "words, unknown ones as <unk>"),
        ("without both", found.without_oov_and_eos, "words of the vocabulary"),
    ]
    for name, value, counted in rows:
        yield f"{name:<24}{value:>12.4f}  per token: {counted}"
    yield f"{'bits per token':<24}{found.bits_per_token:>12.4f}"
    if found.bits_per_character is not None:
        yield f"{'bits per character':<24}{found.bits_per_character:>12.4f}  spaces and line ends counted"
    yield f"{'log10 probability':<24}{found.log_prob / _LN10:>12.2f}"


def _batches(file: Path, tokenizer: str, encoding: str) -> Iterator[list[list[str]]]:
    sentences = sentences_of(file, tokenizer, encoding)
    while batch := list(islice(sentences, _SENTENCES)):
        yield batch
