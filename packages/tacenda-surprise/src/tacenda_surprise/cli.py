"""``tacenda ratings``: compare rating models on a file, fit one, recommend with it."""

from __future__ import annotations

import json
import time
from copy import deepcopy
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import numpy.typing as npt
import typer

import tacenda
from tacenda import plugins
from tacenda.cli.options import Force, check_output, settings_of
from tacenda.errors import DataError
from tacenda.progress import track
from tacenda.ratings import Ratings, folds, read_ratings
from tacenda_surprise.models.base import FoldedUser, RatingModel, new_model
from tacenda_surprise.models.catalogue import Catalogue
from tacenda_surprise.models.identities import Identities
from tacenda_surprise.models.ranking import best_items, top

Numbers = npt.NDArray[np.int64]

app = typer.Typer(no_args_is_help=True, help="Evaluate, fit and apply rating models.")

_ALL = ["bias", "pmf", "conditional_pmf", "rbm", "conditional_rbm", "conditional_bayesian_pmf"]

File = Annotated[
    Path, typer.Argument(metavar="FILE", help="Ratings: user, item and rating a line.")
]
Separator = Annotated[str | None, typer.Option(help="Between columns; found if not given.")]
Columns = Annotated[str, typer.Option(help="Where user, item and rating stand, from 0.")]
ScaleOf = Annotated[str | None, typer.Option("--scale", help="LOW,HIGH; found if not given.")]
Encoding = Annotated[str, typer.Option(help="Encoding of the file.")]
Duplicates = Annotated[str, typer.Option(help="A pair rated twice: error, or last.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Any option of the model, as JSON."),
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
    separator: Separator = None,
    columns: Columns = "0,1,2",
    scale: ScaleOf = None,
    encoding: Encoding = "utf-8",
    duplicates: Duplicates = "error",
    as_json: AsJson = False,
) -> None:
    """Cross-validate models on a file of ratings."""
    ratings = _read(file, separator, columns, scale, encoding, duplicates)
    chosen = settings_of(settings or [])
    rows = [
        cross_validated(new_model(name, chosen, seed=seed), ratings, n_folds, seed)._asdict()
        for name in model or _ALL
    ]
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
    unfitted: RatingModel = plugins.make("recommenders", model, settings_of(settings or []))
    check_output(output, force)
    ratings = _read(file, separator, columns, scale, encoding, duplicates)
    fitted = unfitted.fit(ratings)
    fitted.save(output)
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
    separator: Separator = None,
    columns: Columns = "0,1,2",
    encoding: Encoding = "utf-8",
    as_json: AsJson = False,
) -> None:
    """Recommend the best items to users of the ratings, or to a new user."""
    if not user and not rate:
        raise typer.BadParameter("give --user ID, or --rate ITEM=RATING for a new user")
    model: RatingModel = tacenda.load(folder)
    catalogue = model.catalogue
    known = None
    if seen is not None:
        ratings = _read(seen, separator, columns, None, encoding, "last")
        known = _identities(catalogue, ratings)
    found: dict[str, list[tuple[str, float]]] = {}
    raw, (low, high) = catalogue.items.raw, catalogue.scale
    wanted = [(one, catalogue.users.number(one)) for one in user or []]
    numbers = np.array([number for _, number in wanted], np.int64)
    for (one, _), ranked in zip(wanted, best_items(model, numbers, n, known), strict=True):
        scores = np.clip(ranked.scores, low, high).tolist()
        found[one] = list(zip(raw[ranked.items].tolist(), scores, strict=True))
    if rate:
        folded, items = _new_user(model, rate)
        best, scores = top(folded.score(), n, items)
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
        item, _, value = text.rpartition("=")
        try:
            rating = float(value)
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
