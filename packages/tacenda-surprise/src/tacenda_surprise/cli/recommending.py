"""``tacenda ratings recommend``: lists of a saved model, for users of its ratings and for new ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import numpy as np
import numpy.typing as npt
import typer

import tacenda
from tacenda import artifact
from tacenda.errors import ConfigurationError, DataError
from tacenda.ratings import Ratings
from tacenda_surprise.cli.arguments import AsJson, Columns, Encoding, RankedBy, Separator, read
from tacenda_surprise.models.base import FoldedUser, RatingModel
from tacenda_surprise.models.catalogue import Catalogue
from tacenda_surprise.models.choices import Choices
from tacenda_surprise.models.identities import Identities
from tacenda_surprise.models.ranking import Lists, best_items

Numbers = npt.NDArray[np.int64]


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
        typer.Option(
            metavar="FILE",
            help="Further ratings, to leave out what users have rated there; all of them, if the folder does not say "
            "who has rated what, as one of `tacenda ratings fit` does.",
        ),
    ] = None,
    include_rated: Annotated[
        bool, typer.Option("--include-rated", help="List what users have rated, too.")
    ] = False,
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
    """Recommend the best items that they have not rated to users of the ratings, or to a new user."""
    if include_rated and seen is not None:
        raise typer.BadParameter("--seen leaves out what --include-rated lists; give one of them")
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
    arrays = artifact.read(folder).arrays
    choices = Choices.found(arrays, n_users, n_items)
    known = None if include_rated else Identities.found(arrays, n_users, n_items)
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
    if seen is not None:
        more = _identities(catalogue, read(seen, separator, columns, None, encoding, "last"))
        known = more if known is None else known.union(more, n_items)
    elif known is None and user and not include_rated:
        typer.echo(
            f"{folder} does not say who has rated what, so lists may hold what users have rated; --seen FILE leaves "
            "it out",
            err=True,
        )
    found: dict[str, list[tuple[str, float]]] = {}
    raw, (low, high) = catalogue.items.raw, catalogue.scale
    wanted = [(one, catalogue.users.number(one)) for one in user or []]
    numbers = np.array([number for _, number in wanted], np.int64)
    for (one, _), ranked in zip(wanted, best_items(model, numbers, n, known, lists), strict=True):
        scores = np.clip(ranked.scores, low, high).tolist()
        found[one] = list(zip(raw[ranked.items].tolist(), scores, strict=True))
    if rate:
        folded, items = _new_user(model, rate)
        best, scores = lists.of_new_user(folded, items, n, None if include_rated else items)
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
