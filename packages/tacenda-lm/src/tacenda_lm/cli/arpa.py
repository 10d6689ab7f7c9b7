"""``tacenda lm from-arpa`` and ``to-arpa``: n-gram models from other tools, and for them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacenda.cli.options import Force, check_file, check_output
from tacenda.errors import ConfigurationError
from tacenda_lm.cli.arguments import Folder, Output, load_model


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
