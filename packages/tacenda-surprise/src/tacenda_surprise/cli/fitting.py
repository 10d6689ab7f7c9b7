"""``tacenda ratings fit``: a model fitted to a file and saved."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from tacenda import artifact
from tacenda.cli.options import Force, check_output
from tacenda_surprise.cli.arguments import (
    Columns,
    Duplicates,
    Encoding,
    File,
    ScaleOf,
    Separator,
    Set,
    chosen_settings,
    read,
    unfitted_model,
)
from tacenda_surprise.models.catalogue import in_utf8
from tacenda_surprise.models.choices import Choices
from tacenda_surprise.models.identities import Identities


def fit(
    file: File,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Where to save.")],
    model: Annotated[
        str, typer.Option("--model", help="As `tacenda plugins recommenders` shows.")
    ] = "conditional_pmf",
    seed: Annotated[
        int | None, typer.Option(min=0, help="Of the model; its own default if not given.")
    ] = None,
    settings: Set = None,
    checkpoints: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Save the progress here, and continue from it."),
    ] = None,
    separator: Separator = None,
    columns: Columns = "0,1,2",
    scale: ScaleOf = None,
    encoding: Encoding = "utf-8",
    duplicates: Duplicates = "error",
    force: Force = False,
) -> None:
    """Fit a model to a file of ratings and save it, with who has rated what for `recommend`."""
    chosen = chosen_settings(settings, [model])
    if seed is not None:
        if "seed" in chosen or "seed" in chosen.get(model, {}):
            raise typer.BadParameter("--seed and --set name a seed; leave one of the two out")
        chosen["seed"] = seed
    if checkpoints is not None and checkpoints.resolve().is_relative_to(output.resolve()):
        raise typer.BadParameter(
            "--checkpoints lies in --output, which holds the model alone: name another folder"
        )
    unfitted = unfitted_model(model, chosen)
    check_output(output, force)
    ratings = read(file, separator, columns, scale, encoding, duplicates)
    for index in (ratings.users, ratings.items):
        in_utf8(index)  # an id that cannot be saved is refused before a long fit
    found = unfitted.fit(ratings, checkpoints=checkpoints).to_artifact()
    seen = Identities.of(ratings)
    lists = {**Choices.of(ratings, seen).arrays(), **seen.arrays()}
    artifact.write(output, replace(found, arrays={**found.arrays, **lists}))
    typer.echo(
        f"{output}: {model} of {len(ratings):,} ratings, {ratings.n_users:,} users, "
        f"{ratings.n_items:,} items"
    )
