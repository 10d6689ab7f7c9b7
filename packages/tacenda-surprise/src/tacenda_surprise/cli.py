"""``tacenda ratings``: compare the lists of rating models on a file, fit a model, recommend with it."""

from __future__ import annotations

import json
from array import array
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from tacenda import plugins
from tacenda.arrays import LARGEST
from tacenda.cli import options as common
from tacenda.cli import paths
from tacenda.errors import ConfigurationError, DataError
from tacenda.estimator import load
from tacenda.ratings import Ratings, read_ratings, split_last, split_per_user
from tacenda.ratings.files import read_rated_rows
from tacenda.ratings.table import Duplicates
from tacenda_surprise.algorithm import RatingAlgorithm
from tacenda_surprise.catalogue import Catalogue, Doubles, check_utf8
from tacenda_surprise.choices import ImplicitFactors
from tacenda_surprise.identities import Identities
from tacenda_surprise.selection import option_names
from tacenda_surprise.top_n import By, Lists, best_items, most_popular, name_items, quality

_ALL = ["bias", "pmf", "conditional_pmf", "rbm", "conditional_rbm", "conditional_bayesian_pmf"]


def _read_separator(given: str | None) -> str | None:
    """Take what people type for a tab, which few shells let through."""
    return "\t" if given in ("\\t", "tab") else given


File = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="Ratings file: a user, an item and a rating on each line."),
]
Separator = Annotated[
    str | None,
    typer.Option(
        help="Column separator, such as ; or tab. Default: detected.", callback=_read_separator
    ),
]
Columns = Annotated[
    str | None,
    typer.Option(help="Columns of user, item and rating, counted from 0. Default: 0,1,2."),
]
ScaleOf = Annotated[str | None, typer.Option("--scale", help="LOW,HIGH. Default: detected.")]
DuplicatesOption = Annotated[
    Duplicates,
    typer.Option(help="If a pair is rated twice: error, or last (the last rating counts)."),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Set an option of the model, as JSON. MODEL.NAME=VALUE sets it for one model only.",
    ),
]
ByOption = Annotated[
    By,
    typer.Option(
        help="Sort by how likely items are to be chosen and liked (both), by rating, or by choice alone."
    ),
]


def evaluate(
    file: File,
    model: Annotated[
        list[str] | None,
        typer.Option("--model", help="A model of `tacenda plugins recommenders`. Repeatable."),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Random seed of the split and of the models.")
    ] = 0,
    settings: Set = None,
    n: Annotated[int, typer.Option("-n", "--n", min=1, help="Length of the lists.")] = 10,
    by: ByOption = "both",
    time_column: Annotated[
        int | None,
        typer.Option(
            "--time",
            min=0,
            help="Column of the time. Holds out the last fifth of each user's ratings instead of a random one.",
        ),
    ] = None,
    separator: Separator = None,
    columns: Columns = None,
    scale: ScaleOf = None,
    encoding: common.Encoding = "utf-8",
    duplicates: DuplicatesOption = "error",
    as_json: common.AsJson = False,
) -> None:
    """Compare the top lists of models on held-out ratings."""
    chosen = read_settings(settings, model or _ALL)
    models = [make_model(name, options, seed) for name, options in chosen.items()]
    places = read_numbers("--columns", columns or "0,1,2", int, 3)
    if time_column in places:
        raise typer.BadParameter(
            f"--time {time_column} is the column of users, items or ratings: give the column of the time"
        )
    ratings = read(file, separator, columns, scale, encoding, duplicates)
    if time_column is None:
        train, held_out = split_per_user(ratings, 1, seed=seed)
        protocol, least = f"one rating of each user held out, seed {seed}", "two ratings"
    else:
        times = read_times(file, ratings, separator, (*places[:2], time_column), encoding)
        train, held_out = split_last(ratings, times)
        protocol = "the last fifth of each user's ratings held out"
        least = "five ratings, of which the last is held out"
    users = np.flatnonzero(np.diff(held_out.user_offsets))
    if not len(users):
        raise DataError(f"{file}: no user has {least}; give more ratings of some users")
    seen = Identities.of(train)
    ranked_by = Lists.of(ImplicitFactors.of(train, seen), by)
    n = min(n, ratings.n_items)  # no list is longer
    rows = [{"model": "popularity", **most_popular(train, users, n, held_out)._asdict()}]
    for name, one in zip(chosen, models, strict=True):
        own = ranked_by if one.takes_ratings else Lists()
        ranked = best_items(one.fit(train), users, n, seen, own)
        rows.append({"model": name, **quality(ranked, held_out, n)._asdict()})
    if as_json:
        typer.echo(json.dumps({"users": len(users), "n": n, "by": by, "models": rows}))
        return
    typer.echo(f"{len(users):,} users, lists of {n}, ranked by {by}; {protocol}")
    width = max(26, *(len(row["model"]) + 1 for row in rows))
    typer.echo(f"{'model':<{width}}{'HR':>8}{'NDCG':>8}{'MRR':>8}{'recall':>8}")
    for row in rows:
        name, *values = row.values()
        typer.echo(f"{name:<{width}}" + "".join(f"{value:>8.4f}" for value in values))


def fit(
    file: File,
    output: common.Output,
    model: Annotated[
        str, typer.Option("--model", help="A model of `tacenda plugins recommenders`.")
    ] = "conditional_pmf",
    seed: Annotated[int | None, typer.Option(min=0, help="Random seed. Default: 0.")] = None,
    settings: Set = None,
    checkpoints: common.Checkpoints = None,
    separator: Separator = None,
    columns: Columns = None,
    scale: ScaleOf = None,
    encoding: common.Encoding = "utf-8",
    duplicates: DuplicatesOption = "error",
    force: common.Force = False,
) -> None:
    """Train a model on a file of ratings, and save it together with the ratings."""
    options = read_settings(settings, [model])[model]
    if seed is not None:
        if "random_state" in options:
            raise typer.BadParameter("--seed and --set both give a seed; leave out one of the two")
        options["random_state"] = seed  # a model that draws no random numbers refuses it
    if checkpoints is not None and checkpoints.resolve().is_relative_to(output.resolve()):
        raise typer.BadParameter(
            "--checkpoints is a folder within --output, which holds only the model: name another folder"
        )
    unfitted = make_model(model, options, 0)
    paths.check_output(output, force)
    ratings = read(file, separator, columns, scale, encoding, duplicates)
    for index in (ratings.users, ratings.items):
        check_utf8(index)  # refuse an id that cannot be saved before a long fit
    unfitted.fit(ratings, checkpoints=checkpoints).save(output)
    typer.echo(
        f"{output}: {model} of {len(ratings):,} ratings, {ratings.n_users:,} users, {ratings.n_items:,} items"
    )


def recommend(
    context: typer.Context,
    folder: common.Folder,
    user: Annotated[
        list[str] | None, typer.Option("--user", help="Recommend to this user. Repeatable.")
    ] = None,
    rate: Annotated[
        list[str] | None,
        typer.Option("--rate", metavar="ITEM=RATING", help="A rating of a new user. Repeatable."),
    ] = None,
    n: Annotated[int, typer.Option("-n", "--n", min=1, help="Length of the lists.")] = 10,
    seen: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Newer ratings, whose items are also left out. If the model was saved without "
            "ratings, give all ratings.",
        ),
    ] = None,
    include_rated: Annotated[
        bool, typer.Option("--include-rated", help="Also list items that the user has rated.")
    ] = False,
    by: Annotated[
        By | None,
        typer.Option(
            help="Sort as in `evaluate`. Default: both, or rating if the "
            "model was saved without ratings."
        ),
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option(help="An item to leave out. Repeatable.")
    ] = None,
    min_ratings: Annotated[
        int, typer.Option(min=0, help="List only items that at least this many users have rated.")
    ] = 0,
    separator: Separator = None,
    columns: Columns = None,
    encoding: common.Encoding = "utf-8",
    as_json: common.AsJson = False,
) -> None:
    """Recommend items to users, or to a new user with some ratings."""
    if include_rated and seen is not None:
        raise typer.BadParameter("--seen leaves out what --include-rated lists; give one of them")
    if not user and not rate:
        raise typer.BadParameter("give --user ID, or --rate ITEM=RATING for a new user")
    if not user:
        common.refuse_idle(context, "without --user", "--seen")
    if seen is None:
        common.refuse_idle(context, "without --seen", "--separator", "--columns", "--encoding")
    model = load(folder)
    if not isinstance(model, RatingAlgorithm):
        raise ConfigurationError(
            f"{folder} holds the model {type(model).__name__}, which rates nothing: give a model of "
            "`tacenda ratings fit`"
        )
    lists = _rank(folder, model, by, exclude or [], min_ratings)
    catalogue, known = model.catalogue, None if include_rated else model.seen
    if seen is not None:
        known = _know_more(model, read(seen, separator, columns, None, encoding, "last"))
    elif known is None and user and not include_rated:
        typer.echo(
            f"{folder} does not say who has rated what, so lists may hold what users have rated; --seen FILE leaves "
            "it out",
            err=True,
        )
    raw, scale = catalogue.items.raw.tolist(), catalogue.scale
    listed: dict[str, list[tuple[str, float]]] = {}
    users = np.array([catalogue.users.number(one) for one in user or []], np.int64)
    for one, best in zip(user or [], best_items(model, users, n, known, lists), strict=True):
        listed[one] = name_items(best.items, best.scores, raw, scale)
    if rate:
        names = model.raw_items  # ids of any type, while those of the catalogue are text
        rated = {names[item]: rating for item, rating in _read_ratings(rate, catalogue).items()}
        found_items = model.fold_in(rated).best(lists, n, exclude_seen=not include_rated)
        label = "the user of --rate" if "new user" in listed else "new user"
        listed[label] = name_items(*found_items, raw, scale)
    if as_json:
        typer.echo(json.dumps(listed))
    else:
        _print_lists(listed, lists.by)


def _print_lists(listed: Mapping[str, list[tuple[str, float]]], by: By) -> None:
    """Print the items of each user with their expected ratings; a note on standard error says how they are ranked."""
    if by != "rating":
        likely = "to be chosen and liked" if by == "both" else "to be chosen"
        typer.echo(f"expected ratings; the item most likely {likely} comes first", err=True)
    for one, items_of in listed.items():
        typer.echo(f"{one}:")
        for item, score in items_of:
            typer.echo(f"  {score:.2f}  {item}")


def _rank(
    folder: Path, model: RatingAlgorithm, by: By | None, exclude: list[str], min_ratings: int
) -> Lists:
    """Return how lists are ranked. Raises BadParameter for an option that needs data which the folder lacks."""
    ranked_by: By = by or ("both" if model.knows_choices else "rating")
    option = None
    if min_ratings and model.seen is None:
        option = "--min-ratings"
    elif not model.knows_choices and ranked_by != "rating":
        option = f"--by {ranked_by}"
    if option:
        raise typer.BadParameter(
            f"{option} needs to know who has rated what, and {folder} does not say: fit the model with "
            "tacenda ratings fit, or save the algorithm"
        )
    names = model.raw_items
    excluded = [names[model.catalogue.items.number(item)] for item in exclude]
    return model.lists(ranked_by, None, excluded, min_ratings)


def _know_more(model: RatingAlgorithm, ratings: Ratings) -> Identities:
    """Add further ratings to who has rated what, without users and items that the model does not know."""
    users, items = model.catalogue.users, model.catalogue.items
    u = users.numbers(ratings.users.raw)[ratings.user_ids]
    i = items.numbers(ratings.items.raw)[ratings.item_ids]
    both = (u >= 0) & (i >= 0)
    more = Identities.from_pairs(u[both], i[both], len(users), len(items))
    return more if model.seen is None else model.seen.union(more, len(items))


def _read_ratings(rated: list[str], catalogue: Catalogue) -> dict[int, float]:
    """Read ``ITEM=RATING``. Raises DataError for an unknown or repeated item, and a rating that is not a number."""
    found: dict[int, float] = {}
    for text in rated:
        try:
            item, value = text.rsplit("=", 1)
            rating = float(value)
        except ValueError as error:  # also where there is no =
            raise DataError(f"--rate takes ITEM=RATING, not {text}") from error
        number = catalogue.items.number(item)
        if number in found:
            raise DataError(f"--rate gives {item} two ratings; give one")
        found[number] = rating
    return found


# -- files and options -------------------------------------------------------------------------------


def read(
    file: Path,
    separator: str | None,
    columns: str | None,
    scale: str | None,
    encoding: str,
    duplicates: Duplicates,
) -> Ratings:
    """Read the ratings of a file, as the options of a command describe it."""
    ends = None if scale is None else read_numbers("--scale", scale, float, 2)
    return read_ratings(
        file,
        separator=separator,
        columns=None if columns is None else read_numbers("--columns", columns, int, 3),
        scale=None if ends is None else (ends[0], ends[1]),
        duplicates=duplicates,
        encoding=encoding,
    )


def read_numbers(option: str, text: str, kind: type[Any], n: int) -> list[Any]:
    """Read ``n`` numbers with commas between them. Raises BadParameter for anything else, and for NaN."""
    try:
        found = [kind(part) for part in text.split(",")]
    except ValueError:
        found = []
    if len(found) != n or not all(abs(one) <= LARGEST for one in found):
        raise typer.BadParameter(
            f"{option} takes {n} numbers with commas between them, of at most {LARGEST:g}, not {text}"
        )
    return found


def read_times(
    file: Path, ratings: Ratings, separator: str | None, places: tuple[int, int, int], encoding: str
) -> Doubles:
    """Read the times (ratings,) float64 of the ratings of a file, in their order; of a pair rated twice, the last one.

    They are not read as ratings, because float32 holds seconds since 1970 only to the minute. Raises DataError if a
    rating has no time.
    """
    users, items, values = [], [], array("d")
    for fields, value in read_rated_rows(file, separator, None, places, encoding, "time"):
        users.append(fields[places[0]].strip())
        items.append(fields[places[1]].strip())
        values.append(value)
    u, i = ratings.users.numbers(users), ratings.items.numbers(items)
    known = (u >= 0) & (i >= 0)
    keys = ratings.user_ids.astype(np.int64) * ratings.n_items + ratings.item_ids
    wanted = u[known].astype(np.int64) * ratings.n_items + i[known]
    times = np.full(len(ratings), np.nan)
    times[np.searchsorted(keys, wanted)] = np.frombuffer(values)[known]
    if not np.isfinite(times).all():
        raise DataError(f"{file}: a rating has no time in column {places[2]}; check --time")
    return times


def read_settings(settings: list[str] | None, models: list[str]) -> dict[str, dict[str, Any]]:
    """Read the options of ``--set`` for each of ``models``: those for all models, and those for one alone.

    Raises BadParameter for options of a model that is not among ``models``.
    """
    chosen = common.options_of(settings)
    short = {model: model.partition("@")[0] for model in models}
    own = {}
    for name in {plugin.name for plugin in plugins.available("recommenders")} & set(chosen):
        own[name] = given = chosen.pop(name)
        if not isinstance(given, dict):
            raise typer.BadParameter(
                f"--set {name}={given} sets a model; give one of its options, {name}.NAME=VALUE"
            )
        if name not in short.values():
            raise typer.BadParameter(
                f"--set {name}.{next(iter(given), 'NAME')} is for a model that is not asked for; leave it out, or "
                f"give --model {name}"
            )
    return {model: {**chosen, **own.get(name, {})} for model, name in short.items()}


def make_model(name: str, options: Mapping[str, Any], seed: int) -> RatingAlgorithm:
    """Make a model; ``seed`` is for a model that draws random numbers, unless ``options`` have a ``random_state``."""
    if "random_state" in option_names(name):
        options = {"random_state": seed, **options}
    made: RatingAlgorithm = plugins.make("recommenders", name, options)
    return made


app = typer.Typer(no_args_is_help=True, help="Train, apply and compare rating models.")
for _command in (evaluate, fit, recommend):
    app.command()(_command)
