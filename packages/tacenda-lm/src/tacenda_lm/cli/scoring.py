"""``tacenda lm score`` and ``perplexity``: the probabilities of texts."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from tacenda.cli.options import Encoding, Errors
from tacenda_lm.cli.arguments import (
    AsJson,
    BlankLines,
    File,
    Folder,
    Marks,
    Tokenizer,
    load_model,
    sentences_of_file,
)

if TYPE_CHECKING:
    from tacenda_lm.language_model import LanguageModel
    from tacenda_lm.perplexity import Perplexity
    from tacenda_lm.sequences import BlankLines as Blank


_SENTENCES = 2000  # scored at once


def score(
    folder: Folder,
    file: File,
    words: Annotated[
        bool, typer.Option(help="Print a line per word, with its surprisal in bits.")
    ] = False,
    tokenizer: Tokenizer = None,
    marks: Marks = "refuse",
    blank_lines: BlankLines = "skip",
    encoding: Encoding = "utf-8",
    errors: Errors = "strict",
) -> None:
    """Print the log-probability of every line of a text.

    A line of the output is the base-10 logarithm, a tab and the sentence; </s> is counted, and an empty line
    is no sentence and has 0. With --words it is a word, a tab and its surprisal in bits; </s> comes last,
    and an empty line follows every sentence. An unknown word has the probability of all unknown words together, which
    is too much for one of them: `tacenda lm surprisal` gives each its own.
    """
    from tacenda_lm.sequences import checked_blank_lines

    blank = checked_blank_lines(blank_lines)
    model = load_model(folder)
    sentences = sentences_of_file(model, file, tokenizer, marks, encoding, errors)
    while batch := list(islice(sentences, _SENTENCES)):
        for line in (_scored_words if words else _scored_sentences)(model, batch, blank):
            typer.echo(line)


def perplexity(
    folder: Folder,
    file: File,
    context: Annotated[
        str,
        typer.Option(help='"sentence": each by itself; "stream": each after all before it.'),
    ] = "sentence",
    tokenizer: Tokenizer = None,
    marks: Marks = "refuse",
    blank_lines: BlankLines = "skip",
    as_json: AsJson = False,
    encoding: Encoding = "utf-8",
    errors: Errors = "strict",
) -> None:
    """Print the perplexity of a text, with and without unknown words and ends of sentences."""
    from tacenda_lm.perplexity import checked_context
    from tacenda_lm.sequences import checked_blank_lines

    checked, blank = checked_context(context), checked_blank_lines(blank_lines)
    model = load_model(folder)
    sentences = sentences_of_file(model, file, tokenizer, marks, encoding, errors)
    found = model.perplexity(sentences, context=checked, marks="keep", blank_lines=blank)
    if as_json:
        typer.echo(json.dumps({"file": str(file), **found.to_dict()}))
        return
    for line in _figures(found):
        typer.echo(line)


def _scored_sentences(
    model: LanguageModel, sentences: list[list[str]], blank_lines: Blank
) -> Iterator[str]:
    """Base-10 log-probability, tab, sentence."""
    scores = model.score_batch(sentences, blank_lines=blank_lines).tolist()
    for score_, sentence in zip(scores, sentences, strict=True):
        yield f"{score_:.6g}\t{' '.join(sentence)}"


def _scored_words(
    model: LanguageModel, sentences: list[list[str]], blank_lines: Blank
) -> Iterator[str]:
    """Word, tab, surprisal in bits; an empty line after every sentence."""
    for sentence, bits in zip(sentences, model.surprisals(sentences, eos=True), strict=True):
        if sentence or blank_lines == "count":
            for word, value in zip([*sentence, "</s>"], bits.tolist(), strict=True):
                yield f"{word}\t{value:.4f}"
        yield ""


def _figures(found: Perplexity) -> Iterator[str]:
    """The figures of a text, and what each counts."""
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
        counted = "spaces and line ends counted, unknown words spelled"
        yield f"{'bits per character':<24}{found.bits_per_character:>12.4f}  {counted}"
    yield f"{'log10 probability':<24}{found.log_prob / math.log(10):>12.2f}"
    if found.n_oov:
        yield (
            "Unknown words count with the probability of all unknown words together: compare perplexities that count "
            "them only over one vocabulary."
        )
