"""The commands of ``tacenda embed`` for models whose word vectors are made of morphemes: varembed, sumembed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacenda.cli.options import check_output
from tacenda_embeddings.building import load_morphological, vectors_pipeline

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a saved embedder.")]


def morphemes(
    folder: Folder,
    words: Annotated[list[str], typer.Argument(metavar="WORD...", help="Words, seen or not.")],
) -> None:
    """Show what words are made of (varembed, sumembed).

    A line is a word, whether it has a vector of its own, the mean entropy of its dimensions in bits (varembed),
    and its morphemes; one in brackets was never seen.
    """
    embedder = load_morphological(folder)
    known = set(embedder.inventory.names)
    for word in words:
        pieces = [piece if piece in known else f"[{piece}]" for piece in embedder.pieces(word)]
        seen = "seen" if word in embedder.vocabulary else "unseen"
        bits = f"{embedder.entropy([word]).mean():.3f}" if hasattr(embedder, "entropy") else "-"
        typer.echo(f"{word}\t{seen}\t{bits}\t{' '.join(pieces)}")


def export(
    folder: Folder,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The text file to write.")],
    words: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="More words to write, one a line, seen or not."),
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="As fitted, and not brought to one length.")
    ] = False,
) -> None:
    """Write the vectors of words as word2vec's text format (varembed, sumembed).

    `spacy init vectors LANG FILE DIR` reads it.
    """
    from tacenda.datasets.textfile import numbered_lines

    more = [line.strip() for _, line in numbered_lines(words)] if words is not None else []
    chosen = [word for word in more if word]
    n = load_morphological(folder).save_word2vec(file, chosen, scaled=not raw)
    typer.echo(f"{n:,} vectors in {file}", err=True)


def vectors(
    folder: Folder,
    output: Annotated[Path, typer.Argument(metavar="PIPELINE", help="The pipeline to write.")],
    language: Annotated[
        str, typer.Option("--language", help="Its language, as spaCy's code.")
    ] = "en",
) -> None:
    """Make a spaCy pipeline whose word vectors are a model's (varembed, sumembed).

    `spacy train` takes it as `--paths.vectors PIPELINE`, with `[nlp.vectors] @vectors =
    "tacenda.MorphologicalVectors.v1"` in the configuration.
    """
    check_output(output)
    n, width = vectors_pipeline(load_morphological(folder), output, language)
    typer.echo(f"a pipeline with {n:,} vectors of {width} columns in {output}", err=True)
