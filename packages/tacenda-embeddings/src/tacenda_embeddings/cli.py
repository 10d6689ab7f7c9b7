"""``tacenda embed``: fit an embedder on raw text, apply it to a file, and look into it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NoReturn

import typer

from tacenda.cli.options import check_output, settings_of
from tacenda.errors import ConfigurationError
from tacenda_embeddings import cli_words
from tacenda_embeddings.building import load_embedder
from tacenda_embeddings.cli_words import Folder

app = typer.Typer(no_args_is_help=True, help="Fit, apply and inspect token embeddings.")

Texts = Annotated[
    list[Path],
    typer.Option("--text", metavar="FILE", help="Raw text, a sentence a line; may be repeated."),
]
Output = Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Where to save it.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Any setting of the model, as JSON."),
]
Encoding = Annotated[str, typer.Option(help="Encoding of the text.")]
#: no leap from a mistyped byte to a lost evening: say "replace" to go on
Errors = Annotated[str, typer.Option(help="What to do with undecodable bytes: strict or replace.")]


@app.command()
def fit(
    text: Texts,
    output: Output,
    model: Annotated[
        str, typer.Option("--model", help="An embedder that `tacenda plugins embedders` shows.")
    ] = "lds",
    distribution: Annotated[
        str | None, typer.Option(help="Whose, if two distributions have one of that name.")
    ] = None,
    tokenizer: Annotated[
        str, typer.Option(help='"words", "whitespace" or "spacy:LANG".')
    ] = "words",
    max_vocabulary: Annotated[
        int, typer.Option(min=0, help="Types kept, the most frequent ones; 0 keeps all.")
    ] = 40_000,
    min_count: Annotated[int, typer.Option(min=1, help="Rarer types are out of vocabulary.")] = 1,
    digits: Annotated[bool, typer.Option(help="Map all numbers to one shape.")] = True,
    lowercase: Annotated[bool, typer.Option(help="Ignore case.")] = False,
    oov: Annotated[
        str, typer.Option(help="Unknown words: by shape and suffix (classes) or one (single).")
    ] = "classes",
    n_states: Annotated[
        int | None, typer.Option(min=1, help="Dimension of the latent state (lds).")
    ] = None,
    valid: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Held-out text (varembed, sumembed): stop in time."),
    ] = None,
    checkpoints: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Save training there, and go on from it (varembed, sumembed)."
        ),
    ] = None,
    settings: Settings = None,
    encoding: Encoding = "utf-8",
    errors: Errors = "strict",
) -> None:
    """Fit an embedder on raw text and save it."""
    from tacenda import Corpus, plugins
    from tacenda_embeddings.building import build, prepare, record_text

    chosen = {} if n_states is None else {"n_states": n_states}
    embedder = build(
        plugins.get("embedders", model, distribution=distribution),
        {**chosen, **settings_of(settings or [])},
    )
    prepare(embedder, model, valid, checkpoints)
    check_output(output)
    corpus = Corpus.from_text(
        text,
        tokenizer=tokenizer,
        max_vocabulary=max_vocabulary or None,
        min_count=min_count,
        digits=digits,
        lowercase=lowercase,
        oov=oov,  # type: ignore[arg-type] # checked by the corpus
        encoding=encoding,
        errors=errors,
    )
    typer.echo(
        f"{corpus.n_tokens:,} tokens in {corpus.n_sentences:,} sentences, "
        f"{len(corpus.vocabulary):,} types",
        err=True,
    )
    if valid is None:
        embedder.fit(corpus)
    else:
        held_out = Corpus.from_text(
            valid,
            tokenizer=tokenizer,
            vocabulary=corpus.vocabulary,
            encoding=encoding,
            errors=errors,
        )
        embedder.fit(corpus, held_out)
    record_text(embedder, text=[path.name for path in text], tokenizer=tokenizer)
    embedder.save(output)
    typer.echo(f"{model}, {embedder.width} columns, saved in {output}", err=True)


@app.command()
def apply(
    folder: Folder,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Text, a sentence a line.")],
    output: Annotated[
        str,
        typer.Option("--output", "-o", metavar="FILE.npz|-", help="An .npz file, or - to print."),
    ] = "-",
    tokenizer: Annotated[
        str | None, typer.Option(help="As in fit; the one it was fitted with if not given.")
    ] = None,
    encoding: Encoding = "utf-8",
    errors: Errors = "strict",
) -> None:
    """Write a vector for every token of a text.

    Printed: a token, a tab and its numbers a line, an empty line after every sentence. In an .npz file:
    vectors (tokens, width) float32; offsets (lines + 1) int64, line i being rows offsets[i] to
    offsets[i + 1]; and the tokens, UTF-8, one a line, as the bytes of the array tokens.
    """
    from tacenda_embeddings import applying

    if output != "-" and not output.endswith(".npz"):
        _usage(f"--output must end in .npz or be -, not {output}")
    embedder = load_embedder(folder)
    if tokenizer is None:
        tokenizer = str(getattr(embedder, "fitted_on", {}).get("tokenizer", "words"))
    sentences = applying.embed_file(embedder, file, tokenizer, encoding, errors)
    if output == "-":
        for words, rows in sentences:
            for word, row in zip(words, rows, strict=True):
                typer.echo(f"{word}\t{' '.join(f'{value:.6g}' for value in row)}")
            typer.echo()
    else:
        n_tokens, n_lines = applying.save_npz(Path(output), sentences, embedder.width)
        typer.echo(f"{n_tokens:,} vectors of {n_lines:,} lines in {output}", err=True)


@app.command()
def pairs(
    folder: Folder,
    n_pairs: Annotated[int, typer.Option("--pairs", min=1, help="Singular vectors shown.")] = 10,
    n_words: Annotated[int, typer.Option("--words", min=1, help="Words shown for each.")] = 8,
) -> None:
    """Show which words a linear dynamical system expects after which.

    A line is a pair of singular vectors of the transition operator, with its singular value: words,
    then words expected next.
    """
    embedder = load_embedder(folder)
    if not hasattr(embedder, "transition_pairs"):
        raise ConfigurationError(
            f"{folder} holds a model {embedder.name!r}, which has no transition operator: "
            "pairs are for lds"
        )
    for before, after, strength in embedder.transition_pairs(n_pairs=n_pairs, n_words=n_words):
        typer.echo(f"{strength:.3f}\t{' '.join(before)}\t->\t{' '.join(after)}")


@app.command()
def neighbours(
    folder: Folder,
    word: Annotated[str, typer.Argument(help="A word.")],
    n_words: Annotated[int, typer.Option("--words", min=1, help="Neighbours shown.")] = 10,
) -> None:
    """Show the words whose vectors, each alone in a sentence, are nearest by cosine."""
    from tacenda_embeddings.applying import nearest_words

    embedder = load_embedder(folder)
    if hasattr(embedder, "pieces") and word not in embedder.vocabulary:
        made_of = " ".join(embedder.pieces(word)) or "no morpheme"
        typer.echo(f"{word!r} was never seen: its vector is made of {made_of}", err=True)
    elif word not in embedder.vocabulary:
        stands_for = embedder.vocabulary.words[embedder.vocabulary.id_of(word)]
        typer.echo(f"{word!r} is not in the vocabulary: shown is {stands_for}", err=True)
    for other, cosine in nearest_words(embedder, word, n_words):
        typer.echo(f"{cosine:.3f}\t{other}")


for command in (cli_words.morphemes, cli_words.export, cli_words.vectors):
    app.command()(command)


def _usage(message: str) -> NoReturn:
    raise typer.BadParameter(message)
