"""What the commands of ratings share: options, reading a file, making the model that the options describe."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from tacenda import plugins
from tacenda.arrays import LARGEST
from tacenda.cli.options import settings_of
from tacenda.errors import DataError
from tacenda.ratings import Ratings, read_ratings
from tacenda_surprise.models.base import RatingModel, new_model
from tacenda_surprise.pmf import PMF, BayesianPMF, BiasOnly, ConditionalBayesianPMF, ConditionalPMF
from tacenda_surprise.rbm import RBM, ConditionalRBM
from tacenda_surprise.settings import merged_options


class RankedBy(StrEnum):
    """What lists go by, see ``top_n``."""

    both = "both"
    rating = "rating"
    choice = "choice"


ALGORITHMS = (
    *(PMF, ConditionalPMF, BayesianPMF, ConditionalBayesianPMF),
    *(RBM, ConditionalRBM, BiasOnly),
)

File = Annotated[
    Path, typer.Argument(metavar="FILE", help="Ratings: user, item and rating a line.")
]


def _separator(given: str | None) -> str | None:
    """What people type for a tab, which few shells let through."""
    return "\t" if given in ("\\t", "tab") else given


Separator = Annotated[
    str | None,
    typer.Option(
        help="Between columns, such as ; or tab; found if not given.", callback=_separator
    ),
]
Columns = Annotated[str, typer.Option(help="Where user, item and rating stand, from 0.")]
ScaleOf = Annotated[str | None, typer.Option("--scale", help="LOW,HIGH; found if not given.")]
Encoding = Annotated[str, typer.Option(help="Encoding of the file.")]
Duplicates = Annotated[str, typer.Option(help="A pair rated twice: error, or last.")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Any option of the model, as JSON; MODEL.NAME=VALUE is for one model alone.",
    ),
]
ByOption = Annotated[
    RankedBy,
    typer.Option(
        help="What is best: likely to be chosen and liked, a high rating, or likely to be chosen."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="JSON instead of a table.")]


def refuse_idle(context: typer.Context, why: str, *options: str) -> None:
    """Raise BadParameter for an option of the command line that has no effect, and say ``why``."""
    for one in context.command.params:
        source = context.get_parameter_source(one.name or "")
        if one.opts[0] in options and source is not None and source.name == "COMMANDLINE":
            raise typer.BadParameter(f"{one.opts[0]} has no effect {why}; leave it out")


def read(
    file: Path,
    separator: str | None,
    columns: str,
    scale: str | None,
    encoding: str,
    duplicates: str,
) -> Ratings:
    """The ratings of a file, as the options of a command describe it."""
    if duplicates not in ("error", "last"):
        raise typer.BadParameter(f"--duplicates is error or last, not {duplicates}")
    try:
        places = [int(place) for place in columns.split(",")]
        ends = None if scale is None else [float(end) for end in scale.split(",")]
    except ValueError as error:
        raise typer.BadParameter(
            f"--columns and --scale take numbers with commas: {error}"
        ) from error
    if len(places) != 3 or (ends is not None and len(ends) != 2):
        raise typer.BadParameter("--columns takes three numbers, --scale two")
    if ends is not None and not all(abs(end) <= LARGEST for end in ends):  # NaN included
        raise typer.BadParameter(
            f"--scale takes numbers of at most {LARGEST:g}, not {scale}: give the lowest and the highest rating"
        )
    if not file.exists():
        raise DataError(f"there is no file {file}")
    return read_ratings(
        file,
        separator=separator,
        columns=places,
        scale=None if ends is None else (ends[0], ends[1]),
        duplicates="last" if duplicates == "last" else "error",
        encoding=encoding,
    )


def _names() -> set[str]:
    """Names of all models there are."""
    return {plugin.name for plugin in plugins.available("recommenders")}


def chosen_settings(settings: list[str] | None, models: list[str]) -> dict[str, Any]:
    """Read the options of ``--set``. Raises BadParameter for those of a model that is not among ``models``."""
    chosen = settings_of(settings or [])
    asked = {model.partition("@")[0] for model in models}
    for name in _names() & set(chosen):
        if not isinstance(chosen[name], dict):
            raise typer.BadParameter(
                f"--set {name}={chosen[name]} sets a model; give one of its options, {name}.NAME=VALUE"
            )
        if name not in asked:
            first = next(iter(chosen[name]), "NAME")
            raise typer.BadParameter(
                f"--set {name}.{first} is for a model that is not asked for; leave it out, or give --model {name}"
            )
    return chosen


def unfitted_model(name: str, chosen: Mapping[str, Any], seed: int | None = None) -> RatingModel:
    """Make a model with the options of all models and those of its own, ``NAME.option``.

    Options go by the words of the model or by those of its algorithm for Surprise. ``seed`` is for a model that takes
    one and is given none among its options.
    """
    names = _names()
    options = {key: value for key, value in chosen.items() if key not in names}
    options |= chosen.get(name.partition("@")[0], {})
    model_class = plugins.get("recommenders", name)
    for algorithm in ALGORITHMS:
        if algorithm.model_class is model_class:
            words: Any = algorithm.settings_class
            own = {one.name for one in words.model_settings.options()}
            said = {one.name for one in words.options() if one.paths} - own
            given = {word: options.pop(word) for word in said & set(options)}
            if given:
                options = merged_options(words.from_dict(given).for_model(only=given), options)
    if seed is None:
        made: RatingModel = plugins.make("recommenders", name, options)
        return made
    return new_model(name, options, seed=seed)
