"""``tacenda embed``: fit an embedder to raw text, apply it to a file, and look into it."""

from __future__ import annotations

import inspect
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from tacenda.cli import options as common
from tacenda.cli import paths
from tacenda.errors import ConfigurationError, importing
from tacenda.tokenizers import choose_tokenizer, spacy_config

app = typer.Typer(no_args_is_help=True, help="Fit, apply and inspect token embeddings.")

_ModelOutput = Annotated[
    str | None,
    typer.Option(
        "--model-output",
        metavar="NAME",
        help="Which vectors to compute: own_past_future, own_context, mean, ... (lds).",
    ),
]
_FittedTokenizer = Annotated[
    str | None,
    typer.Option(help='"whitespace", "words" or "spacy:LANG". Default: the tokenizer of the fit.'),
]
_Language = Annotated[
    str | None,
    typer.Option(
        help="Language code of spaCy. Default: the language of the tokenizer of the model's text, else en."
    ),
]
_SPACY = "this command needs spaCy", "tacenda-embeddings[spacy]"  # see `importing`


def _file_option(help: str) -> Any:
    """Declare an option that is a file."""
    return typer.Option(metavar="FILE", help=help)


# -- any embedder ------------------------------------------------------------------------------------


@app.command()
def fit(
    text: common.Texts,
    output: common.Output,
    model: Annotated[
        str,
        typer.Option(
            help="Model to fit; `tacenda plugins embedders` lists them. `vectors`: lds and sumembed, as init-config "
            "takes them, in OUTPUT/lds and OUTPUT/vectors."
        ),
    ] = "lds",
    distribution: common.Distribution = None,
    tokenizer: common.Tokenizer = None,
    language: Annotated[
        str | None, typer.Option(metavar="LANG", help="The same as --tokenizer spacy:LANG.")
    ] = None,
    max_vocabulary: common.MaxVocabulary = 40_000,
    min_count: common.MinCount = 1,
    digits: common.Digits = True,
    lowercase: common.Lowercase = False,
    oov: Annotated[
        str,
        typer.Option(
            help="Treat unknown words by shape and suffix (learned from the text, or classes: English suffixes) or all "
            "alike (single)."
        ),
    ] = "learned",
    n_states: Annotated[
        int | None, typer.Option(min=1, help="Number of latent dimensions (lds).")
    ] = None,
    model_output: _ModelOutput = None,
    valid: Annotated[
        Path | None,
        _file_option("Held-out text; training stops when it no longer improves (varembed)."),
    ] = None,
    checkpoints: common.Checkpoints = None,
    precision: common.Precision = None,
    settings: common.Set = None,
    scheduler: common.Scheduler = None,
    text_field: common.TextField = None,
    encoding: common.Encoding = "utf-8",
    errors: common.Errors = "strict",
    force: common.Force = False,
) -> None:
    """Fit an embedder to raw text, save it, and print its cost.

    The text is read once. With --model vectors, put the model before each option: --set lds.n_states=100 --set
    vectors.width=200. With --scheduler, count the text of an lds on a cluster.
    """
    from tacenda import Corpus

    group = "lds." if model == "vectors" else ""
    named = {f"{group}n_states": n_states, f"{group}output": model_output}
    members = _make_embedders(model, common.options_of(settings, **named), distribution)
    given: dict[str, Any] = {"valid": valid, "checkpoints": checkpoints}
    stepwise = {name: value for name, value in given.items() if value is not None}
    for embedder, part in members:
        _check_fit(embedder, stepwise, scheduler)
        paths.check_output(output / part, force)
    if language is not None:
        if tokenizer is not None:
            raise ConfigurationError(
                f"--language {language} means --tokenizer spacy:{language}: leave out one of the two"
            )
        tokenizer = f"spacy:{language}"
    decoding: dict[str, Any] = {"tokenizer": tokenizer or "whitespace"}
    decoding |= {"encoding": encoding, "errors": errors, "text_field": text_field}
    vocabulary: dict[str, Any] = {"max_vocabulary": max_vocabulary or None}
    vocabulary |= {"min_count": min_count, "oov": oov, "digits": digits, "lowercase": lowercase}
    start = time.process_time()
    with paths.open_corpus(text, scheduler, **decoding, **vocabulary) as corpus:
        if valid is not None:
            stepwise["valid"] = Corpus.from_text(valid, vocabulary=corpus.vocabulary, **decoding)
        typer.echo(f"text read: {time.process_time() - start:.1f} CPU seconds", err=True)
        for embedder, part in members:
            start = time.process_time()
            if scheduler is None:
                embedder.fit(corpus, **stepwise)
            else:
                from tacenda_embeddings import dask

                dask.fit(embedder, corpus)
            embedder.fitted_on = {**(getattr(embedder, "fitted_on", None) or {}), **corpus.origin}
            cost = _save_rounded(embedder, output / part, precision)
            typer.echo(
                f"{embedder.name}, {embedder.width} columns, saved in {output / part}: "
                f"{time.process_time() - start:.1f} CPU seconds{cost}",
                err=True,
            )


def _check_fit(embedder: Any, stepwise: Iterable[str], scheduler: str | None) -> None:
    """Raise ConfigurationError if an embedder cannot be fitted with such options or on a cluster."""
    for name in stepwise:
        if name not in inspect.signature(embedder.fit).parameters:
            raise ConfigurationError(
                f"the embedder {embedder.name!r} is not trained in steps: leave out --{name}"
            )
    if scheduler is not None:
        from tacenda.dask.corpus import check_model
        from tacenda_embeddings import LDS

        check_model(embedder, LDS)


def _save_rounded(embedder: Any, folder: Path, precision: str | None) -> str:
    """Save a model, its tables rounded if it has any; return a message about the cost of rounding."""
    from tacenda_embeddings.text_vectors import compare

    if not embedder.can_be_compact():
        embedder.save(folder)
        return "" if precision is None else f"; no tables to round to {precision}"
    small = embedder.rounded(precision or "int8")
    small.save(folder)
    if small is embedder:
        return ""
    loss = compare(embedder, small)
    return (
        f"; cosine with the vectors before rounding: mean {loss.mean:.5f}, least {loss.least:.5f}"
    )


def _make_embedders(
    model: str, options: dict[str, Any], distribution: str | None
) -> list[tuple[Any, str]]:
    """Return unfitted embedders, each with its folder within the output; two of them for "vectors"."""
    from tacenda import plugins

    if model != "vectors":
        return [(plugins.make("embedders", model, options, distribution=distribution), "")]
    kinds = {"lds": "lds", "vectors": "sumembed"}
    for name, value in options.items():
        if name not in kinds or not isinstance(value, dict):
            option = "NAME" if name in kinds else name
            raise ConfigurationError(
                f"with --model vectors, write --set lds.{option}=... or --set vectors.{option}=..., not {name}=..."
            )
    return [
        (plugins.make("embedders", kind, options.get(part), distribution=distribution), part)
        for part, kind in kinds.items()
    ]


@app.command()
def apply(
    folder: common.Folder,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Text, one sentence per line.")],
    output: Annotated[
        str,
        typer.Option("--output", "-o", metavar="FILE.npz|-", help="An .npz file, or - to print."),
    ] = "-",
    tokenizer: _FittedTokenizer = None,
    model_output: _ModelOutput = None,
    encoding: common.Encoding = "utf-8",
    errors: common.Errors = "strict",
    force: common.Force = False,
) -> None:
    """Write a vector for every token of a text.

    Printed output has a token, a tab and its numbers on each line, and an empty line after each sentence. An .npz
    file has three arrays: vectors, float32 (tokens, width); offsets, int64 (lines + 1,), where line i has the rows
    offsets[i] to offsets[i + 1]; and tokens, the UTF-8 bytes of the tokens, one per line.
    """
    from tacenda_embeddings import text_vectors

    if output != "-" and not output.endswith(".npz"):
        raise typer.BadParameter(f"--output must end in .npz or be -, not {output}")
    if output != "-":
        paths.check_file(Path(output), force)
    embedder = _load(folder, model_output)
    split = choose_tokenizer(embedder, tokenizer)
    sentences = text_vectors.embed_file(embedder, file, split, encoding, errors)
    if output == "-":
        for words, rows in sentences:
            for word, row in zip(words, rows, strict=True):
                typer.echo(f"{word}\t{' '.join(f'{value:.6g}' for value in row)}")
            typer.echo()
    else:
        n_tokens, n_lines = text_vectors.save_npz(Path(output), sentences, embedder.width)
        typer.echo(f"{n_tokens:,} vectors of {n_lines:,} lines in {output}", err=True)


@app.command()
def compact(
    context: typer.Context,
    folder: common.Folder,
    output: common.Output,
    precision: common.Precision = None,
    text: Annotated[
        Path | None, _file_option("Compare the vectors on this text instead of single words.")
    ] = None,
    tokenizer: _FittedTokenizer = None,
    encoding: common.Encoding = "utf-8",
    errors: common.Errors = "strict",
    force: common.Force = False,
) -> None:
    """Save a smaller copy of a model, and print what is lost.

    The loss is the cosine between the original vectors and the smaller model's.
    """
    from tacenda_embeddings.text_vectors import compare

    if text is None:
        common.refuse_idle(context, "without --text FILE", "--tokenizer", "--encoding", "--errors")
    embedder = _load(folder)
    paths.check_output(output, force)
    smaller = embedder.rounded(precision or "int8")
    # before anything is saved, because the text may be missing or have no vectors
    split = "whitespace" if text is None else choose_tokenizer(embedder, tokenizer)
    loss = compare(embedder, smaller, text, split, encoding, errors)
    paths.save_smaller(smaller, folder, output, None)
    typer.echo(
        f"cosine with the original vectors, {loss.n_vectors:,} {loss.of}: mean {loss.mean:.5f}, least {loss.least:.5f}"
    )


@app.command()
def neighbours(
    folder: common.Folder,
    word: Annotated[str, typer.Argument(help="A word.")],
    n_words: Annotated[
        int, typer.Option("--words", min=1, help="Number of neighbours to show.")
    ] = 10,
    model_output: _ModelOutput = None,
) -> None:
    """Show the words with the nearest vectors (cosine).

    Vectors that depend on context are those of one-word sentences.
    """
    from tacenda_embeddings.text_vectors import nearest_words

    if not word.strip():
        raise ConfigurationError("WORD is empty: name a word")
    embedder = _load(folder, model_output)
    nearest = nearest_words(embedder, word, n_words)
    if word not in embedder.vocabulary:
        origin = _describe_origin(embedder, word)
        typer.echo(f"{word!r} is not in the vocabulary: its vector is {origin}", err=True)
    for other, cosine in nearest:
        typer.echo(f"{cosine:.3f}\t{other}")


def _describe_origin(embedder: Any, word: str) -> str:
    """Describe where the vector of a word outside the vocabulary comes from."""
    from tacenda_embeddings.text_vectors import embed_alone

    if hasattr(embedder, "pieces"):
        known = set(embedder.inventory.names)
        return f"made of {' '.join(piece for piece in embedder.pieces(word) if piece in known)}"
    word_class = embedder.vocabulary.class_of(word)
    word_vector, class_vector = embed_alone(embedder, [word, word_class])
    if (word_vector == class_vector).all():
        return f"that of {word_class}, which it shares with other unknown words"
    return "made from its spelling"


@app.command()
def pairs(
    folder: common.Folder,
    n_pairs: Annotated[int, typer.Option("--pairs", min=1, help="Number of pairs to show.")] = 10,
    n_words: Annotated[
        int, typer.Option("--words", min=1, help="Number of words on each side.")
    ] = 8,
) -> None:
    """Show which words an LDS expects after which other words.

    Each line is a pair of singular vectors of the transition operator: the singular value, words, and the words
    expected after them.
    """
    embedder = _load(folder)
    if not hasattr(embedder, "transition_pairs"):
        raise ConfigurationError(
            f"{folder} holds a model {embedder.name!r}, which has no transition operator: name the folder of an lds"
        )
    for before, after, strength in embedder.transition_pairs(n_pairs=n_pairs, n_words=n_words):
        typer.echo(f"{strength:.3f}\t{' '.join(before)}\t->\t{' '.join(after)}")


# -- word vectors made of morphemes ------------------------------------------------------------------


@app.command()
def morphemes(
    folder: common.Folder,
    words: Annotated[
        list[str], typer.Argument(metavar="WORD...", help="Words, in the vocabulary or not.")
    ],
) -> None:
    """Show the morphemes of words (varembed, sumembed).

    Each line has a word, whether it was seen in training, the mean entropy of its dimensions in bits (varembed), and
    its morphemes, unknown ones in brackets.
    """
    embedder = _load_morphological(folder)
    known = set(embedder.inventory.names)
    for word in words:
        pieces = [piece if piece in known else f"[{piece}]" for piece in embedder.pieces(word)]
        seen = "seen" if word in embedder.vocabulary else "unseen"
        bits = f"{embedder.entropy([word]).mean():.3f}" if hasattr(embedder, "entropy") else "-"
        typer.echo(f"{word}\t{seen}\t{bits}\t{' '.join(pieces)}")


@app.command()
def export(
    folder: common.Folder,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The text file to write.")],
    words: Annotated[
        Path | None, _file_option("More words to write, one per line, in the vocabulary or not.")
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Do not scale the vectors to one length.")
    ] = False,
    force: common.Force = False,
) -> None:
    """Write word vectors in word2vec's format (varembed, sumembed).

    `spacy init vectors LANG FILE DIR` reads it.
    """
    from tacenda.corpus.lines import numbered_lines

    paths.check_file(file, force)
    lines = () if words is None else numbered_lines(words)
    more = [line.strip() for _, line in lines if line.strip()]
    n_words = _load_morphological(folder).save_word2vec(file, more, scaled=not raw)
    typer.echo(f"{n_words:,} vectors in {file}", err=True)


# -- spaCy -------------------------------------------------------------------------------------------


@app.command()
def vectors(
    folder: common.Folder,
    output: Annotated[Path, typer.Argument(metavar="PIPELINE", help="The pipeline to write.")],
    language: _Language = None,
) -> None:
    """Make a spaCy pipeline with word vectors (varembed, sumembed).

    You do not need it for `spacy train`: name the model itself with `init-config --vectors`, or in
    `[initialize.before_init]` with `@callbacks = "tacenda.use_vectors.v1"` and `source = DIR`.
    """
    paths.check_output(output)
    model = _load_morphological(folder)
    with importing(*_SPACY):
        import spacy

        from tacenda_embeddings.spacy.configuration import choose_language
        from tacenda_embeddings.spacy.vectors import use_vectors
    chosen = choose_language(language, [str(folder)])
    try:
        nlp = spacy.blank(chosen, config=spacy_config(chosen))
    except ImportError as error:
        raise ConfigurationError(
            f"cannot make a spaCy pipeline for the language {chosen!r} ({error}): name a language of spaCy, such as en"
        ) from error
    _announce_language(language, chosen)
    n_words, width = use_vectors(nlp, model).shape
    nlp.to_disk(output)
    typer.echo(f"a pipeline with {n_words:,} vectors of {width} columns in {output}", err=True)


@app.command("init-config")
def init_config(
    output: Annotated[Path, typer.Argument(metavar="FILE.cfg|-", help="The file, or - to print.")],
    lds: Annotated[
        str, typer.Option(metavar="DIR", help="Folder or name of an LDS or another embedder.")
    ],
    pipeline: Annotated[
        str, typer.Option(help="Components, separated by commas: tagger,parser,ner.")
    ] = "tagger",
    vectors: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Folder or name of a sumembed or varembed (recommended)."),
    ] = None,
    language: _Language = None,
    cnn_layers: Annotated[int, typer.Option(min=0, help="Number of convolution layers.")] = 1,
    shared: Annotated[
        bool, typer.Option(help="Share one tok2vec, or give each component its own layers.")
    ] = True,
    target: Annotated[
        str | None,
        typer.Option(help='Where the vectors go: "tensor" (Doc.tensor) or NAME (doc._.NAME).'),
    ] = None,
    model_output: _ModelOutput = None,
    force: common.Force = False,
) -> None:
    """Write a configuration for `spacy train`.

    It is complete: you can train with it, or edit it first.
    """
    if str(output) != "-":
        paths.check_file(output, force)
    with importing(*_SPACY):
        from tacenda_embeddings.spacy.configuration import explain_missing, pipeline_config
    config = pipeline_config(
        pipeline.split(","),
        lds,
        vectors=vectors,
        language=language,
        cnn_layers=cnn_layers,
        shared=shared,
        target=target,
        output=model_output,
    )
    _announce_language(language, config["nlp"]["lang"])
    for option, model in (("--lds", lds), ("--vectors", vectors)):
        reason = None if model is None else explain_missing(model)
        if reason is not None:
            typer.echo(
                f"{option} {model} does not exist yet, and training will need it: {reason}",
                err=True,
            )
    if str(output) == "-":
        typer.echo(config.to_str())
        return
    config.to_disk(output)
    typer.echo(
        f"{', '.join(config['nlp']['pipeline'])}, in {output}; now:\n"
        f"python -m spacy train {output} --output trained --paths.train train.spacy --paths.dev dev.spacy",
        err=True,
    )


def _announce_language(given: str | None, chosen: str) -> None:
    """Print the language that was chosen because of the models."""
    if given is None and chosen != "en":
        typer.echo(
            f"--language {chosen}, because the text of the model was tokenized for it", err=True
        )


# -- saved models ------------------------------------------------------------------------------------


def _load(folder: Path, output: str | None = None) -> Any:
    """Load a fitted embedder. Raises ConfigurationError for a model of another kind, or without that output."""
    from tacenda_embeddings.text_vectors import with_output

    return with_output(paths.load_model(folder, "transform", "token embeddings"), output)


def _load_morphological(folder: Path) -> Any:
    """Load a fitted embedder of words and their morphemes. Raises ConfigurationError for another."""
    embedder = _load(folder)
    if not hasattr(embedder, "pieces"):
        raise ConfigurationError(
            f"{folder} holds a model {embedder.name!r}, whose vectors are not built from morphemes: this "
            "command is for varembed and sumembed"
        )
    return embedder
