"""``tacenda ratings evaluate``: models compared on parts of a file, by their errors or by their lists."""

from __future__ import annotations

import json
import time
from array import array
from copy import deepcopy
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import numpy.typing as npt
import typer

from tacenda.errors import DataError
from tacenda.progress import track
from tacenda.ratings import Ratings, folds, split_last, split_per_user
from tacenda.ratings.files import rated_rows
from tacenda_surprise.cli.arguments import (
    AsJson,
    ByOption,
    Columns,
    Duplicates,
    Encoding,
    File,
    RankedBy,
    ScaleOf,
    Separator,
    Set,
    chosen_settings,
    read,
    refuse_idle,
    unfitted_model,
)
from tacenda_surprise.models.base import RatingModel
from tacenda_surprise.models.checked import checked
from tacenda_surprise.models.choices import Choices
from tacenda_surprise.models.identities import Identities
from tacenda_surprise.models.ranking import Lists, best_items, most_popular, quality

_ALL = ["bias", "pmf", "conditional_pmf", "rbm", "conditional_rbm", "conditional_bayesian_pmf"]


class Held(StrEnum):
    """What is held out to compare lists."""

    one = "one"
    last = "last"


def evaluate(
    context: typer.Context,
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
    if lists is None:
        refuse_idle(context, "without --lists", "-n", "--by", "--time")
    else:
        refuse_idle(context, "with --lists", "--folds")
    if lists is Held.one:
        refuse_idle(context, "with --lists one", "--time")
    ratings = read(file, separator, columns, scale, encoding, duplicates)
    chosen = chosen_settings(settings, model or _ALL)
    models = [unfitted_model(name, chosen, seed) for name in model or _ALL]
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
    n = min(n, ratings.n_items)  # no list is longer
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
        found = fitted.score_pairs(test.user_ids, test.item_ids)
        scores = fitted.catalogue.clip(checked(fitted, "score_pairs", found, len(test)))
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
