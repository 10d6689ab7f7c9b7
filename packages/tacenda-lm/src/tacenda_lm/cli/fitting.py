"""``tacenda lm fit``, ``mix``, ``cache`` and ``clusters``: new models, from texts and from saved models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

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
    Folder,
    Marks,
    Output,
    Tokenizer,
    load_model,
    sentences_of_file,
    vocabulary_of,
)


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
    from tacenda.corpus.lines import check_marks
    from tacenda.corpus.text import sentences_of
    from tacenda_lm.language_model import check_keeps_checkpoints
    from tacenda_lm.mixture import Mixture

    marked = check_marks(marks)
    options = settings_of(settings or [])
    if order is not None:
        options["order"] = order
    if lds is not None:
        options["lds"] = lds
    if issubclass(plugins.get("language_models", model, distribution=distribution), Mixture):
        raise ConfigurationError(
            "a mixture is made of saved models: fit each, and mix them with `tacenda lm mix`"
        )
    unfitted = plugins.make("language_models", model, options, distribution=distribution)
    if checkpoints is not None:
        check_keeps_checkpoints(unfitted)  # none that a cluster fits does
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
        with connected(scheduler) as client:
            spread = ClusterCorpus.from_text(text, client=client, **reading)
            say_sizes(spread)
            fitted = dask.fit(unfitted, spread, held_out, marks="keep")
    fitted.save(output)
    for figure in fitted.figures:
        typer.echo(f"{figure['measure']} of the {figure['text']}: {figure['value']:.2f}", err=True)
    typer.echo(f"{model}, saved in {output}", err=True)


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
    adaptive: Annotated[
        bool,
        typer.Option("--adaptive", help="Let the weights follow the text; fitted with --valid."),
    ] = False,
    tokenizer: Tokenizer = None,
    marks: Marks = "refuse",
    encoding: Encoding = "utf-8",
    errors: Errors = "strict",
    force: Force = False,
) -> None:
    """Mix language models, with fixed weights or with weights fitted to held-out text."""
    from tacenda_lm.adaptive_mixture import AdaptiveMixture
    from tacenda_lm.mixture import Mixture

    if adaptive and valid is None:
        raise typer.BadParameter("--adaptive needs --valid FILE, to which the weights are fitted")
    if valid is None and tokenizer is not None:
        raise typer.BadParameter("--tokenizer splits the text of --valid FILE: leave it out")
    if valid is not None and weights is not None:
        raise typer.BadParameter("give --valid FILE to fit the weights, or --weights, not both")
    try:
        given = None if weights is None else [float(weight) for weight in weights.split(",")]
    except ValueError as error:
        raise typer.BadParameter(f"--weights takes numbers with commas: {error}") from error
    check_output(output, force)
    models = [load_model(folder) for folder in folders]
    kind = AdaptiveMixture if adaptive else Mixture
    mixture = kind(dict(zip(_names(folders), models, strict=True)), given)
    if valid is not None:
        text = list(sentences_of_file(mixture, valid, tokenizer, marks, encoding, errors))
        mixture.fit_weights(text, marks="keep")
        name = "text the weights were fitted on"
        mixture.record(text, name, context=mixture.own_context, marks="keep")
    mixture.save(output)
    for name, weight in mixture.weights.items():
        typer.echo(f"{weight:.4f}  {name}")
    if isinstance(mixture, AdaptiveMixture):
        typer.echo(f"adaptation {mixture.adaptation:.3f}, memory {mixture.memory:g}")


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
    from tacenda.corpus.lines import check_marks
    from tacenda_lm.hidden_markov.brown import brown_clusters

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
    from tacenda.artifact.folder import check_name
    from tacenda.errors import ArtifactError

    names = [folder.resolve().name for folder in folders]
    try:
        usable = len(set(names)) == len(names) and all(map(check_name, names))
    except ArtifactError:
        usable = False
    return names if usable else [f"model-{i}" for i in range(len(folders))]
