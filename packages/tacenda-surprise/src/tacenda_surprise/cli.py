"""``tacenda ratings``: compare rating models on a file, fit one, recommend with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from tacenda.cli.options import check_output, settings_of
from tacenda.errors import DataError

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
    typer.Option("--set", metavar="NAME=VALUE", help="Any setting of the model, as JSON."),
]
AsJson = Annotated[bool, typer.Option("--json", help="JSON instead of a table.")]


@app.command()
def evaluate(
    file: File,
    model: Annotated[
        list[str] | None,
        typer.Option("--model", help="As `tacenda plugins recommenders` shows; may be repeated."),
    ] = None,
    folds: Annotated[int, typer.Option(min=2, help="Parts of the cross-validation.")] = 5,
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
    from tacenda_surprise.evaluation import cross_validated
    from tacenda_surprise.making import make_model

    ratings = _read(file, separator, columns, scale, encoding, duplicates)
    chosen = settings_of(settings or [])
    rows = [
        cross_validated(make_model(name, chosen, seed=seed), ratings, folds, seed)._asdict()
        for name in model or _ALL
    ]
    if as_json:
        typer.echo(json.dumps({"file": str(file), "folds": folds, "seed": seed, "models": rows}))
        return
    typer.echo(
        f"{len(ratings):,} ratings, {folds} random folds, seed {seed}; errors on the test parts"
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
) -> None:
    """Fit a model to a file of ratings and save it."""
    from tacenda_surprise.making import make_model

    unfitted = make_model(model, settings_of(settings or []))
    check_output(output)
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
    """The best items for users of the ratings, or for a new one."""
    import numpy as np

    import tacenda
    from tacenda_surprise.models import Identities
    from tacenda_surprise.models.ranking import best_items, top
    from tacenda_surprise.recommendation import new_user, numbers_of

    if not user and not rate:
        raise typer.BadParameter("give --user ID, or --rate ITEM=RATING for a new user")
    model = tacenda.load(folder)
    catalogue = model.catalogue
    known: Any = None
    if seen is not None:
        ratings = _read(seen, separator, columns, None, encoding, "last")
        known = Identities.from_pairs(*numbers_of(catalogue, ratings))
    found: dict[str, list[tuple[str, float]]] = {}
    raw, (low, high) = catalogue.items.raw, catalogue.scale
    wanted = [(one, catalogue.users.number(one)) for one in user or []]
    numbers = np.array([number for _, number in wanted], np.int64)
    for (one, _), ranked in zip(wanted, best_items(model, numbers, n, known), strict=True):
        scores = np.clip(ranked.scores, low, high).tolist()
        found[one] = list(zip(raw[ranked.items].tolist(), scores, strict=True))
    if rate:
        folded, items = new_user(model, rate)
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
) -> Any:
    from tacenda.ratings import read_ratings

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
