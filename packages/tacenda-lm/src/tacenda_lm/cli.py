"""``tacenda lm``: fit language models, score text with them, generate from them, mix them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacenda.cli.options import check_output, settings_of

if TYPE_CHECKING:
    from tacenda_lm.language_model import LanguageModel
    from tacenda_lm.perplexity import Perplexity

app = typer.Typer(no_args_is_help=True, help="Fit, apply and mix language models.")

_SENTENCES = 2000  # scored at once

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a saved language model.")]
File = Annotated[Path, typer.Argument(metavar="FILE", help="Text, one sentence per line.")]
Output = Annotated[
    Path, typer.Option("--output", "-o", metavar="DIR", help="Folder to save the model in.")
]
Tokenizer = Annotated[
    str | None,
    typer.Option(help='"whitespace", "words" or "spacy:LANG"; by default that of the fit.'),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Encoding = Annotated[str, typer.Option(help="Encoding of the text.")]


@app.command()
def fit(
    text: Annotated[
        list[Path],
        typer.Option(
            "--text", metavar="FILE", help="Text, one sentence per line; may be repeated."
        ),
    ],
    output: Output,
    valid: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Held-out text, one sentence per line.")
    ] = None,
    model: Annotated[
        str, typer.Option("--model", help="A name that `tacenda plugins language_models` lists.")
    ] = "kneser_ney",
    distribution: Annotated[
        str | None, typer.Option(help="Its distribution, if two have a model of that name.")
    ] = None,
    order: Annotated[
        int | None, typer.Option(min=1, help="Words that an n-gram spans (kneser_ney).")
    ] = None,
    lds: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Saved LDS that training starts from (recurrent)."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Any option of the model, as JSON; advanced.NAME=VALUE for one of its group advanced.",
        ),
    ] = None,
    checkpoints: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Save the progress here, and continue from it."),
    ] = None,
    tokenizer: Annotated[
        str, typer.Option(help='"whitespace", "words" or "spacy:LANG".')
    ] = "whitespace",
    max_vocabulary: Annotated[
        int, typer.Option(min=0, help="Keep the most frequent types, this many; 0 keeps all.")
    ] = 0,
    min_count: Annotated[int, typer.Option(min=1, help="Rarer types become <unk>.")] = 1,
    lowercase: Annotated[bool, typer.Option(help="Ignore case.")] = False,
    digits: Annotated[bool, typer.Option(help="Map all numbers to one word.")] = False,
    encoding: Encoding = "utf-8",
) -> None:
    """Fit a language model to text and save it."""
    from tacenda import Corpus, plugins
    from tacenda.corpus.text import sentences_of

    options = settings_of(settings or [])
    if order is not None:
        options["order"] = order
    if lds is not None:
        options["lds"] = lds
    unfitted = plugins.make("language_models", model, options, distribution=distribution)
    check_output(output)
    corpus = Corpus.from_text(
        text,
        tokenizer=tokenizer,
        max_vocabulary=max_vocabulary or None,
        min_count=min_count,
        lowercase=lowercase,
        digits=digits,
        encoding=encoding,
    )
    typer.echo(
        f"{corpus.n_tokens:,} tokens in {corpus.n_sentences:,} sentences, "
        f"{len(corpus.vocabulary):,} types",
        err=True,
    )
    held_out = None  # as words, because a corpus does not remember which <unk> were written
    if valid is not None:
        held_out = list(sentences_of(valid, tokenizer, encoding))
    fitted = unfitted.fit(corpus, held_out, checkpoints=checkpoints)
    fitted.save(output)
    for figure in fitted.figures:
        typer.echo(f"{figure['measure']} of the {figure['text']}: {figure['value']:.2f}", err=True)
    typer.echo(f"{model}, saved in {output}", err=True)


@app.command()
def score(
    folder: Folder,
    file: File,
    words: Annotated[
        bool, typer.Option(help="Print a line per word, with its surprisal in bits.")
    ] = False,
    tokenizer: Tokenizer = None,
    encoding: Encoding = "utf-8",
) -> None:
    """Print the log-probability of every line of a text.

    A line of the output is the base-10 logarithm, a tab and the sentence; </s> is counted, and an empty line
    is a sentence without words. With --words it is a word, a tab and its surprisal in bits; </s> comes last,
    and an empty line follows every sentence.
    """
    from tacenda.corpus.text import sentences_of

    model = _load(folder)
    sentences = sentences_of(file, _tokenizer(model, tokenizer), encoding)
    while batch := list(islice(sentences, _SENTENCES)):
        for line in (_scored_words if words else _scored_sentences)(model, batch):
            typer.echo(line)


@app.command()
def perplexity(
    folder: Folder,
    file: File,
    context: Annotated[
        str,
        typer.Option(help='"sentence": each by itself; "stream": each after all before it.'),
    ] = "sentence",
    tokenizer: Tokenizer = None,
    as_json: AsJson = False,
    encoding: Encoding = "utf-8",
) -> None:
    """Print the perplexity of a text, with and without unknown words and ends of sentences."""
    from tacenda.corpus.text import sentences_of
    from tacenda_lm.perplexity import checked_context

    checked = checked_context(context)
    model = _load(folder)
    sentences = sentences_of(file, _tokenizer(model, tokenizer), encoding)
    found = model.perplexity(sentences, context=checked)
    if as_json:
        typer.echo(json.dumps({"file": str(file), **found.to_dict()}))
        return
    for line in _figures(found):
        typer.echo(line)


@app.command()
def generate(
    folder: Folder,
    context: Annotated[str, typer.Option(help="What every sentence begins with.")] = "",
    n: Annotated[int, typer.Option("-n", "--n", min=1, help="How many sentences.")] = 5,
    max_words: Annotated[int, typer.Option(min=1, help="The longest continuation.")] = 50,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random choices.")] = 0,
    temperature: Annotated[
        float, typer.Option(help="Below 1, probable words are drawn more often.")
    ] = 1.0,
    k: Annotated[
        int | None, typer.Option("--k", min=1, help="Draw from the K most probable words only.")
    ] = None,
    beam: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="WIDTH", help="Search for the most probable sentences instead."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print sentences of a model: random ones, or with --beam the most probable ones."""
    import numpy as np

    model = _load(folder)
    if beam is not None:
        found = model.beam(context, width=max(beam, n), n=n, max_words=max_words)
    else:
        rng = np.random.default_rng(seed)
        found = [
            model.sample(context, max_words=max_words, seed=rng, temperature=temperature, k=k)
            for _ in range(n)
        ]
    if as_json:
        typer.echo(json.dumps([each._asdict() for each in found]))
        return
    for each in found:
        typer.echo(" ".join([*context.split(), *each.words, *([] if each.ended else ["..."])]))


@app.command()
def mix(
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Folders of saved language models.")
    ],
    output: Output,
    valid: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Held-out text to which the weights are fitted."),
    ] = None,
    weights: Annotated[
        str | None, typer.Option(help="Fixed weights, separated by commas; equal by default.")
    ] = None,
    tokenizer: Tokenizer = None,
    encoding: Encoding = "utf-8",
) -> None:
    """Mix language models, with fixed weights or with weights fitted to held-out text."""
    from tacenda.corpus.text import sentences_of
    from tacenda_lm.mixture import Mixture

    if valid is not None and weights is not None:
        raise typer.BadParameter("give --valid FILE to fit the weights, or --weights, not both")
    try:
        given = None if weights is None else [float(weight) for weight in weights.split(",")]
    except ValueError as error:
        raise typer.BadParameter(f"--weights takes numbers with commas: {error}") from error
    check_output(output)
    models = [_load(folder) for folder in folders]
    mixture = Mixture(dict(zip(_names(folders), models, strict=True)), given)
    if valid is not None:
        sentences = list(sentences_of(valid, _tokenizer(models[0], tokenizer), encoding))
        mixture.fit_weights(sentences)
        mixture.record(sentences, "text the weights were fitted on", context=mixture.own_context)
    mixture.save(output)
    for name, weight in mixture.weights.items():
        typer.echo(f"{weight:.4f}  {name}")


@app.command()
def cache(
    folder: Folder,
    output: Output,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="An option of NeuralCache, as JSON."),
    ] = None,
) -> None:
    """Put a neural cache over a saved model that predicts from a vector, such as hlbl or recurrent.

    Mix it with that model and others; `tacenda lm fit --model unigram_cache` makes a cache of words alone.
    """
    from tacenda_lm.cache.neural import NeuralCache

    options = settings_of(settings or [])
    check_output(output)
    NeuralCache.over(_load(folder), **options).save(output)
    typer.echo(f"neural_cache, saved in {output}", err=True)


def _load(folder: Path) -> LanguageModel:
    """A saved language model. Raises ConfigurationError for a model of another kind."""
    import tacenda
    from tacenda.errors import ConfigurationError
    from tacenda_lm.language_model import LanguageModel

    model = tacenda.load(folder)
    if not isinstance(model, LanguageModel):
        name = getattr(model, "name", type(model).__name__)
        raise ConfigurationError(f"{folder} holds a model {name!r}, not a language model")
    return model


def _tokenizer(model: Any, given: str | None) -> str:
    """The tokenizer that was given, or else the one that the model was fitted with."""
    known = str(getattr(model, "fitted_on", {}).get("tokenizer") or "whitespace")
    if given is None and known == "callable":
        raise typer.BadParameter(
            "the model was fitted with a tokenizer of your own, which is not saved with it: give --tokenizer"
        )
    return given or known


def _names(folders: Sequence[Path]) -> list[str]:
    """Names of the components of a mixture: those of their folders, if an artefact can hold them."""
    from tacenda.artifact.manifest import checked_name
    from tacenda.errors import ArtifactError

    names = [folder.resolve().name for folder in folders]
    try:
        usable = len(set(names)) == len(names) and all(map(checked_name, names))
    except ArtifactError:
        usable = False
    return names if usable else [f"model-{i}" for i in range(len(folders))]


def _scored_sentences(model: LanguageModel, sentences: list[list[str]]) -> Iterator[str]:
    """Base-10 log-probability, tab, sentence."""
    scores = model.score_batch(sentences).tolist()
    for score_, sentence in zip(scores, sentences, strict=True):
        yield f"{score_:.6g}\t{' '.join(sentence)}"


def _scored_words(model: LanguageModel, sentences: list[list[str]]) -> Iterator[str]:
    """Word, tab, surprisal in bits; an empty line after every sentence."""
    for sentence, bits in zip(sentences, model.surprisals(sentences, eos=True), strict=True):
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
        yield f"{'bits per character':<24}{found.bits_per_character:>12.4f}  spaces and line ends counted"
    yield f"{'log10 probability':<24}{found.log_prob / math.log(10):>12.2f}"
