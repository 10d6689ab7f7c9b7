"""``tacenda lm``: fit language models, score text with them, generate from them, mix them, exchange them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacenda.cli.options import (
    Encoding,
    Errors,
    Force,
    Scheduler,
    Texts,
    check_file,
    check_output,
    input_text,
    input_texts,
    say_sizes,
    settings_of,
)
from tacenda.errors import ConfigurationError
from tacenda_lm.cli.arguments import (
    AsJson,
    BlankLines,
    File,
    Folder,
    Marks,
    Output,
    Tokenizer,
    load_model,
    sentences_of_file,
    vocabulary_of,
)
from tacenda_lm.cli.compact import compact
from tacenda_lm.cli.surprisal import surprisal

if TYPE_CHECKING:
    from tacenda_lm.language_model import LanguageModel
    from tacenda_lm.perplexity import Perplexity
    from tacenda_lm.sequences import BlankLines as Blank

app = typer.Typer(no_args_is_help=True, help="Fit, apply and mix language models.")
app.command()(surprisal)
app.command()(compact)

_SENTENCES = 2000  # scored at once


@app.command()
def fit(
    text: Texts,
    output: Output,
    valid: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Held-out text, one sentence per line.")
    ] = None,
    vocabulary: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE|DIR",
            help="The words to use: a file of words or of Brown clusters, or another saved model, with which this "
            "one can then be mixed.",
        ),
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
        str, typer.Option(help='"whitespace", "ascii_whitespace", "words" or "spacy:LANG".')
    ] = "whitespace",
    max_vocabulary: Annotated[
        int, typer.Option(min=0, help="Keep the most frequent types, this many; 0 keeps all.")
    ] = 0,
    min_count: Annotated[int, typer.Option(min=1, help="Rarer types become <unk>.")] = 1,
    lowercase: Annotated[bool, typer.Option(help="Ignore case.")] = False,
    digits: Annotated[bool, typer.Option(help="Map all numbers to one word.")] = False,
    scheduler: Scheduler = None,
    marks: Marks = "refuse",
    encoding: Encoding = "utf-8",
    errors: Errors = "strict",
    force: Force = False,
) -> None:
    """Fit a language model to text and save it; on a cluster, if a scheduler is named and the model counts n-grams."""
    from tacenda import Corpus, plugins
    from tacenda.corpus.marks import check_marks
    from tacenda.corpus.text import sentences_of
    from tacenda_lm.mixture import Mixture

    marked = check_marks(marks)
    options = settings_of(settings or [])
    if order is not None:
        options["order"] = order
    if lds is not None:
        options["lds"] = lds
    if plugins.get("language_models", model, distribution=distribution) is Mixture:
        raise ConfigurationError(
            "a mixture is made of saved models: fit each, and mix them with `tacenda lm mix`"
        )
    unfitted = plugins.make("language_models", model, options, distribution=distribution)
    check_output(output, force)
    held_out_file = None if valid is None else input_text(valid, encoding, errors)
    held_out = None  # as words, because a corpus does not remember which <unk> were written
    if held_out_file is not None:
        held_out = list(sentences_of(held_out_file, tokenizer, encoding, errors, marked))
    reading: dict[str, Any] = {
        "tokenizer": tokenizer,
        "vocabulary": None if vocabulary is None else vocabulary_of(vocabulary, digits, lowercase),
        "max_vocabulary": max_vocabulary or None,
        "min_count": min_count,
        "lowercase": lowercase,
        "digits": digits,
        "encoding": encoding,
        "errors": errors,
        "marks": marked,
    }
    if scheduler is None:
        corpus = Corpus.from_text(input_texts(text, encoding, errors), **reading)
        say_sizes(corpus)
        fitted = unfitted.fit(corpus, held_out, checkpoints=checkpoints, marks="keep")
    else:
        from tacenda.dask import ClusterCorpus, connected
        from tacenda_lm import dask

        dask.check_model(unfitted)
        if checkpoints is not None:
            raise ConfigurationError("counts of a cluster are not saved: leave out --checkpoints")
        with connected(scheduler) as client:
            spread = ClusterCorpus.from_text(text, client=client, **reading)
            say_sizes(spread)
            fitted = dask.fit(unfitted, spread, held_out, marks="keep")
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


@app.command()
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


@app.command()
def generate(
    folder: Folder,
    context: Annotated[str, typer.Option(help="What every sentence begins with.")] = "",
    n: Annotated[int, typer.Option("-n", "--n", min=1, help="How many sentences.")] = 5,
    max_words: Annotated[int, typer.Option(min=1, help="The longest continuation.")] = 50,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of the random choices; 0 by default.")
    ] = None,
    temperature: Annotated[
        float | None,
        typer.Option(help="Below 1, probable words are drawn more often; 1 by default."),
    ] = None,
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

    given = {"--seed": seed, "--temperature": temperature, "--k": k}
    drawing = [name for name, value in given.items() if value is not None]
    if beam is not None and drawing:
        raise typer.BadParameter(
            f"--beam searches and draws nothing at random: leave out {' and '.join(drawing)}"
        )
    model = load_model(folder)
    if beam is not None:
        found = model.beam(context, width=max(beam, n), n=n, max_words=max_words)
    else:
        rng, heat = np.random.default_rng(seed or 0), 1.0 if temperature is None else temperature
        found = [
            model.sample(context, max_words=max_words, seed=rng, temperature=heat, k=k)
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
    marks: Marks = "refuse",
    encoding: Encoding = "utf-8",
    errors: Errors = "strict",
    force: Force = False,
) -> None:
    """Mix language models, with fixed weights or with weights fitted to held-out text."""
    from tacenda_lm.mixture import Mixture

    if valid is not None and weights is not None:
        raise typer.BadParameter("give --valid FILE to fit the weights, or --weights, not both")
    try:
        given = None if weights is None else [float(weight) for weight in weights.split(",")]
    except ValueError as error:
        raise typer.BadParameter(f"--weights takes numbers with commas: {error}") from error
    check_output(output, force)
    models = [load_model(folder) for folder in folders]
    mixture = Mixture(dict(zip(_names(folders), models, strict=True)), given)
    if valid is not None:
        text = list(sentences_of_file(mixture, valid, tokenizer, marks, encoding, errors))
        mixture.fit_weights(text, marks="keep")
        name = "text the weights were fitted on"
        mixture.record(text, name, context=mixture.own_context, marks="keep")
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
    force: Force = False,
) -> None:
    """Put a neural cache over a saved model that predicts from a vector, such as hlbl or recurrent.

    Mix it with that model and others; `tacenda lm fit --model unigram_cache` makes a cache of words alone.
    """
    from tacenda_lm.cache.neural import NeuralCache

    options = settings_of(settings or [])
    if "hlbl" in options:
        raise ConfigurationError(
            "`tacenda lm cache` takes the vectors of the saved model: leave out hlbl, or fit a model with its cache "
            "with `tacenda lm fit --model neural_cache`"
        )
    check_output(output, force)
    NeuralCache.over(load_model(folder), **options).save(output)
    typer.echo(f"neural_cache, saved in {output}", err=True)


@app.command("from-arpa")
def from_arpa(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="An ARPA file, plain or compressed.")
    ],
    output: Output,
    force: Force = False,
) -> None:
    """Import an n-gram model of KenLM, SRILM or any other tool from an ARPA file."""
    from tacenda_lm.ngram.kneser_ney import KneserNey

    check_output(output, force)
    model = KneserNey.from_arpa(file)
    model.save(output)
    sizes = ", ".join(f"{size:,}" for size in model.table.sizes)
    typer.echo(f"n-grams of 1 to {model.order} words: {sizes}, saved in {output}", err=True)


@app.command("to-arpa")
def to_arpa(
    folder: Folder,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The file to write; gzipped if it ends in .gz.")
    ],
    force: Force = False,
) -> None:
    """Export an n-gram model as an ARPA file, which KenLM, SRILM and most decoders read."""
    from tacenda_lm.ngram.kneser_ney import KneserNey

    check_file(file, force)
    model = load_model(folder)
    if not isinstance(model, KneserNey):
        raise ConfigurationError(
            f"{folder} holds a model {model.name!r}: ARPA files are of kneser_ney"
        )
    model.to_arpa(file)
    typer.echo(f"n-grams of 1 to {model.order} words in {file}", err=True)


@app.command()
def clusters(
    text: Texts,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The file of clusters to write.")
    ],
    n_classes: Annotated[int, typer.Option(min=1, help="Leaves of the tree.")] = 256,
    min_count: Annotated[int, typer.Option(min=1, help="Rarer types get no cluster.")] = 1,
    tokenizer: Annotated[str, typer.Option(help="As of fit.")] = "whitespace",
    marks: Marks = "refuse",
    encoding: Encoding = "utf-8",
    errors: Errors = "strict",
    force: Force = False,
) -> None:
    """Find Brown clusters of the words of a text: bits, word and count a line, as wcluster writes them."""
    from tacenda import Corpus
    from tacenda.corpus.marks import check_marks
    from tacenda_lm.hidden_markov.brown_clusters import brown_clusters

    marked = check_marks(marks)
    check_file(output, force)
    lines = input_texts(text, encoding, errors)
    corpus = Corpus.from_text(
        lines, tokenizer=tokenizer, encoding=encoding, errors=errors, marks=marked
    )
    found = brown_clusters(corpus, n_classes, min_count=min_count)
    found.save(output)
    typer.echo(f"{len(found):,} words in {found.n_classes:,} clusters in {output}", err=True)


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
