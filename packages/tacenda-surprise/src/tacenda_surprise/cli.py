"""``tacenda ratings``: compare rating models on a file, fit one, recommend with it."""

from __future__ import annotations

import json
import time
from array import array
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import typer

import tacenda
from tacenda import artifact, plugins
from tacenda.cli.options import Force, check_output, settings_of
from tacenda.errors import ConfigurationError, DataError
from tacenda.progress import track
from tacenda.ratings import Ratings, folds, read_ratings, split_last, split_per_user
from tacenda.ratings.files import rated_rows
from tacenda_surprise.models.base import FoldedUser, RatingModel, new_model
from tacenda_surprise.models.catalogue import Catalogue
from tacenda_surprise.models.choices import Choices
from tacenda_surprise.models.identities import Identities
from tacenda_surprise.models.ranking import Lists, best_items, most_popular, quality
from tacenda_surprise.pmf import PMF, BayesianPMF, BiasOnly, ConditionalBayesianPMF, ConditionalPMF
from tacenda_surprise.rbm import RBM, ConditionalRBM
from tacenda_surprise.settings import merged_options

Numbers = npt.NDArray[np.int64]


class Held(StrEnum):
    """What is held out to compare lists."""

    one = "one"
    last = "last"


class RankedBy(StrEnum):
    """What lists go by, see ``top_n``."""

    both = "both"
    rating = "rating"
    choice = "choice"


app = typer.Typer(no_args_is_help=True, help="Evaluate, fit and apply rating models.")

ALGORITHMS = (
    *(PMF, ConditionalPMF, BayesianPMF, ConditionalBayesianPMF),
    *(RBM, ConditionalRBM, BiasOnly),
)
_ALL = ["bias", "pmf", "conditional_pmf", "rbm", "conditional_rbm", "conditional_bayesian_pmf"]

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


@app.command()
def evaluate(
    file: File,
    model: Annotated[
        list[str] | None,
        typer.Option("--model", help="As `tacenda plugins recommenders` shows; may be repeated."),
    ] = None,
    n_folds: Annotated[
        int, typer.Option("--folds", min=2, help="Parts of the cross-validation.")
    ] = 5,
    seed: Annotated[int, typer.Option(min=0, help="Of the parts and of the models.")] = 0,
    settings: Set = None,
    lists: Annotated[
        Held | None,
        typer.Option(
            help="Compare lists instead of ratings, by one rating of each user that is held out, or by the "
            "last fifth of each user's (with --time)."
        ),
    ] = None,
    n: Annotated[int, typer.Option("-n", "--n", min=1, help="Items in a list.")] = 10,
    by: ByOption = RankedBy.both,
    time_column: Annotated[
        int | None, typer.Option("--time", min=0, help="Where the time stands, for --lists last.")
    ] = None,
    separator: Separator = None,
    columns: Columns = "0,1,2",
    scale: ScaleOf = None,
    encoding: Encoding = "utf-8",
    duplicates: Duplicates = "error",
    as_json: AsJson = False,
) -> None:
    """Cross-validate models on a file of ratings."""
    ratings = _read(file, separator, columns, scale, encoding, duplicates)
    chosen = _chosen(settings, model or _ALL)
    models = [_new(name, chosen, seed) for name in model or _ALL]
    if lists is not None:
        times = None
        if lists is Held.last:
            if time_column is None:
                raise typer.BadParameter("--lists last needs --time, the column of the time")
            user_at, item_at, _ = columns.split(",")
            places = int(user_at), int(item_at), time_column
            times = _times(file, ratings, separator, places, encoding)
        _compare_lists(models, ratings, times, n, by, seed, as_json=as_json)
        return
    rows = [cross_validated(one, ratings, n_folds, seed)._asdict() for one in models]
    if as_json:
        typer.echo(json.dumps({"file": str(file), "folds": n_folds, "seed": seed, "models": rows}))
        return
    typer.echo(
        f"{len(ratings):,} ratings, {n_folds} random folds, seed {seed}; errors on the test parts"
    )
    typer.echo(f"{'model':<26}{'RMSE':>8}{'±':>8}{'MAE':>8}{'fit s':>8}")
    for row in sorted(rows, key=lambda row: row["rmse"]):
        numbers = f"{row['rmse']:>8.4f}{row['deviation']:>8.4f}{row['mae']:>8.4f}"
        typer.echo(f"{row['model']:<26}{numbers}{row['seconds']:>8.2f}")


@app.command()
def fit(
    file: File,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Where to save.")],
    model: Annotated[
        str, typer.Option("--model", help="As `tacenda plugins recommenders` shows.")
    ] = "conditional_pmf",
    settings: Set = None,
    separator: Separator = None,
    columns: Columns = "0,1,2",
    scale: ScaleOf = None,
    encoding: Encoding = "utf-8",
    duplicates: Duplicates = "error",
    force: Force = False,
) -> None:
    """Fit a model to a file of ratings and save it."""
    unfitted = _new(model, _chosen(settings, [model]))
    check_output(output, force)
    ratings = _read(file, separator, columns, scale, encoding, duplicates)
    found = unfitted.fit(ratings).to_artifact()
    choices = Choices.of(ratings, Identities.of(ratings))
    artifact.write(output, replace(found, arrays={**found.arrays, **choices.arrays()}))
    typer.echo(
        f"{output}: {model} of {len(ratings):,} ratings, {ratings.n_users:,} users, "
        f"{ratings.n_items:,} items"
    )


@app.command()
def recommend(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a saved model.")],
    user: Annotated[
        list[str] | None, typer.Option("--user", help="A user of the ratings; may be repeated.")
    ] = None,
    rate: Annotated[
        list[str] | None,
        typer.Option("--rate", metavar="ITEM=RATING", help="What a new user has rated."),
    ] = None,
    n: Annotated[int, typer.Option("-n", "--n", min=1, help="Items for each user.")] = 10,
    seen: Annotated[
        Path | None,
        typer.Option(help="The ratings again, to leave out what users have rated."),
    ] = None,
    by: Annotated[
        RankedBy | None,
        typer.Option(
            help="What is best, as for `evaluate`; both if not given, or rating where the folder does not "
            "say what gets chosen."
        ),
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option(help="An item that is not to be listed; may be repeated.")
    ] = None,
    min_ratings: Annotated[
        int, typer.Option(min=0, help="How many ratings an item must have.")
    ] = 0,
    separator: Separator = None,
    columns: Columns = "0,1,2",
    encoding: Encoding = "utf-8",
    as_json: AsJson = False,
) -> None:
    """Recommend the best items to users of the ratings, or to a new user."""
    if not user and not rate:
        raise typer.BadParameter("give --user ID, or --rate ITEM=RATING for a new user")
    model: RatingModel = tacenda.load(folder)
    if model.kind != RatingModel.kind:
        raise ConfigurationError(
            f"{folder} holds the model {type(model).__name__}, which rates nothing: give a model of "
            "`tacenda ratings fit`"
        )
    catalogue = model.catalogue
    n_users, n_items = len(catalogue.users), len(catalogue.items)
    choices = Choices.found(artifact.read(folder).arrays, n_users, n_items)
    ranked_by = by or (RankedBy.rating if choices is None else RankedBy.both)
    unsupported = None
    if choices is not None:
        unsupported = choices.popularity * n_users < min_ratings - 0.5
    elif min_ratings or ranked_by is not RankedBy.rating:
        asked = "--min-ratings" if min_ratings else f"--by {ranked_by.value}"
        raise typer.BadParameter(
            f"{asked} needs to know who has rated what, and {folder} does not say: fit the model with "
            "tacenda ratings fit, or save the algorithm"
        )
    excluded = [catalogue.items.number(item) for item in exclude or []]
    lists = Lists.of(choices, ranked_by.value, n_items, None, excluded, unsupported)
    known = None
    if seen is not None:
        ratings = _read(seen, separator, columns, None, encoding, "last")
        known = _identities(catalogue, ratings)
    found: dict[str, list[tuple[str, float]]] = {}
    raw, (low, high) = catalogue.items.raw, catalogue.scale
    wanted = [(one, catalogue.users.number(one)) for one in user or []]
    numbers = np.array([number for _, number in wanted], np.int64)
    for (one, _), ranked in zip(wanted, best_items(model, numbers, n, known, lists), strict=True):
        scores = np.clip(ranked.scores, low, high).tolist()
        found[one] = list(zip(raw[ranked.items].tolist(), scores, strict=True))
    if rate:
        folded, items = _new_user(model, rate)
        best, scores = lists.of_new_user(folded, items, n, items)
        found["new user"] = list(
            zip(raw[best].tolist(), np.clip(scores, low, high).tolist(), strict=True)
        )
    if as_json:
        typer.echo(json.dumps(found))
        return
    for one, items_of in found.items():
        typer.echo(f"{one}:")
        for item, score in items_of:
            typer.echo(f"  {score:.2f}  {item}")


def _read(
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


def _chosen(settings: list[str] | None, models: list[str]) -> dict[str, Any]:
    """Read the options of ``--set``. Raises BadParameter for those of a model that is not among ``models``."""
    chosen = settings_of(settings or [])
    for name in _names() & set(chosen):
        if not isinstance(chosen[name], dict):
            raise typer.BadParameter(
                f"--set {name}={chosen[name]} sets a model; give one of its options, {name}.NAME=VALUE"
            )
        if name not in models:
            first = next(iter(chosen[name]), "NAME")
            raise typer.BadParameter(
                f"--set {name}.{first} is for a model that is not asked for; leave it out, or give --model {name}"
            )
    return chosen


def _times(
    file: Path,
    ratings: Ratings,
    separator: str | None,
    places: tuple[int, int, int],
    encoding: str,
) -> npt.NDArray[np.float64]:
    """The times (n_ratings,) of the ratings of a file, in their order; of a pair rated twice that of the last.

    Not as ratings are read, whose float32 holds seconds since 1970 to the minute only. Raises DataError where a
    rating has no time.
    """
    users, items, values = [], [], array("d")
    for fields, value in rated_rows(file, separator, None, places, encoding):
        users.append(fields[places[0]].strip())
        items.append(fields[places[1]].strip())
        values.append(value)
    u, i = ratings.users.numbers(users), ratings.items.numbers(items)
    known = (u >= 0) & (i >= 0)
    keys = ratings.user_ids.astype(np.int64) * ratings.n_items + ratings.item_ids
    order = np.argsort(keys)
    wanted = u[known].astype(np.int64) * ratings.n_items + i[known]
    times = np.full(len(ratings), np.nan)
    times[order[np.searchsorted(keys, wanted, sorter=order)]] = np.frombuffer(values)[known]
    if not np.isfinite(times).all():
        raise DataError(f"{file}: a rating has no time in column {places[2]}; check --time")
    return times


def _new(name: str, chosen: Mapping[str, Any], seed: int | None = None) -> RatingModel:
    """Make a model with the options of all models and those of its own, ``NAME.option``.

    Options go by the words of the model or by those of its algorithm for Surprise.
    """
    names = _names()
    options = {key: value for key, value in chosen.items() if key not in names}
    options |= chosen.get(name, {})
    for algorithm in ALGORITHMS:
        if algorithm.model_class.name == name:
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


def _compare_lists(
    models: list[RatingModel],
    ratings: Ratings,
    times: npt.NDArray[np.float64] | None,
    n: int,
    by: RankedBy,
    seed: int,
    *,
    as_json: bool,
) -> None:
    """Print how good lists are of what users have rated but the models were not fitted to."""
    if times is None:
        train, held_out = split_per_user(ratings, 1, seed=seed)
        told = f"one rating of each user held out, seed {seed}"
    else:
        train, held_out = split_last(ratings, times)
        told = "the last fifth of each user's ratings held out"
    seen = Identities.of(train)
    users = np.flatnonzero(np.diff(held_out.user_offsets))
    choices = Choices.of(train, seen)
    lists = Lists.of(choices, by.value, ratings.n_items)
    rows = [{"model": "popularity", **most_popular(train, users, n, held_out)._asdict()}]
    for model in models:
        ranked = best_items(deepcopy(model).fit(train), users, n, seen, lists)
        rows.append({"model": model.name, **quality(ranked, held_out, n)._asdict()})
    if as_json:
        typer.echo(json.dumps({"users": len(users), "n": n, "by": by.value, "models": rows}))
        return
    typer.echo(f"{len(users):,} users, lists of {n}, ranked by {by.value}; {told}")
    typer.echo(f"{'model':<26}{'HR':>8}{'NDCG':>8}{'MRR':>8}{'recall':>8}")
    for row in rows:
        values = "".join(f"{value:>8.4f}" for value in list(row.values())[1:])
        typer.echo(f"{row['model']:<26}{values}")


class CrossValidated(NamedTuple):
    """Errors of a model on the test parts, predictions clipped to the scale."""

    model: str  # its registered name
    rmse: float  # mean over the folds of the root mean squared error
    deviation: float  # its standard deviation over them
    mae: float  # mean absolute error
    seconds: float  # to fit one fold, median


def cross_validated(
    model: RatingModel, ratings: Ratings, n_folds: int, seed: int
) -> CrossValidated:
    """Fit a copy of ``model`` to each of ``n_folds`` random parts of ``ratings`` and test it on the rest."""
    errors, absolute, seconds = [], [], []
    parts = folds(ratings, n_folds, seed=seed)
    for train, test in track(parts, f"{model.name}, folds", total=n_folds):
        start = time.perf_counter()
        fitted = deepcopy(model).fit(train)
        seconds.append(time.perf_counter() - start)
        scores = fitted.catalogue.clip(fitted.score_pairs(test.user_ids, test.item_ids))
        wrong = scores.astype(np.float64) - test.values
        errors.append(float(np.sqrt(np.mean(wrong**2))))
        absolute.append(float(np.mean(np.abs(wrong))))
    return CrossValidated(
        model.name,
        float(np.mean(errors)),
        float(np.std(errors)),
        float(np.mean(absolute)),
        float(np.median(seconds)),
    )


def _new_user(model: RatingModel, rated: list[str]) -> tuple[FoldedUser, Numbers]:
    """Fold a user in from ``ITEM=RATING``; also returns the numbers of the items.

    Raises DataError for an item the model does not know or a rating that is none.
    """
    catalogue = model.catalogue
    low, high = catalogue.scale
    found: dict[int, float] = {}
    for text in rated:
        item, equals, value = text.rpartition("=")
        try:
            rating = float(value if equals else "none")
        except ValueError as error:
            raise DataError(f"--rate takes ITEM=RATING, not {text}") from error
        if not low <= rating <= high:
            raise DataError(f"the rating of {item!r} is {value}, off the scale {low:g} to {high:g}")
        found[catalogue.items.number(item)] = rating
    items = np.fromiter(found, np.int64, len(found))
    return model.fold_in(items, list(found.values())), items


def _identities(catalogue: Catalogue, ratings: Ratings) -> Identities:
    """Who has rated what, in the numbers of the model; what it does not know is left out."""
    u = catalogue.users.numbers(ratings.users.raw)[ratings.user_ids]
    i = catalogue.items.numbers(ratings.items.raw)[ratings.item_ids]
    known = (u >= 0) & (i >= 0)
    return Identities.from_pairs(u[known], i[known], len(catalogue.users), len(catalogue.items))
