"""``tacenda ratings recommend``: lists of a saved model, for users of its ratings and for new ones."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import typer

from tacenda import artifact
from tacenda.errors import ConfigurationError, DataError
from tacenda.estimator import resolve
from tacenda.ratings import Ratings
from tacenda_surprise.cli.arguments import (
    AsJson,
    Columns,
    Encoding,
    RankedBy,
    Separator,
    read,
    refuse_idle,
)
from tacenda_surprise.models.base import FoldedUser, RatingModel
from tacenda_surprise.models.catalogue import Catalogue
from tacenda_surprise.models.choices import Choices
from tacenda_surprise.models.identities import Identities
from tacenda_surprise.models.ranking import Lists, best_items
from tacenda_surprise.storage import item_counts, load_errors

Numbers = npt.NDArray[np.int64]


def recommend(
    context: typer.Context,
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
        int, typer.Option(min=0, help="How many users must have rated an item.")
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
    if not user:
        refuse_idle(context, "without --user", "--seen")
    if seen is None:
        refuse_idle(context, "without --seen", "--separator", "--columns", "--encoding")
    found = artifact.read(folder)
    with load_errors(folder):
        model: RatingModel = resolve(found)
    if model.kind != RatingModel.kind:
        raise ConfigurationError(
            f"{folder} holds the model {type(model).__name__}, which rates nothing: give a model of "
            "`tacenda ratings fit`"
        )
    saved = _Saved.of(folder, model, found.arrays)
    lists = saved.lists(by, exclude or [], min_ratings)
    known = None if include_rated else saved.known
    if seen is not None:
        ratings = read(seen, separator, columns, None, encoding, "last")
        known = saved.known_with(ratings)
    elif known is None and user and not include_rated:
        typer.echo(
            f"{folder} does not say who has rated what, so lists may hold what users have rated; --seen FILE leaves "
            "it out",
            err=True,
        )
    listed: dict[str, list[tuple[str, float]]] = {}
    users = np.array([model.catalogue.users.number(one) for one in user or []], np.int64)
    for one, ranked in zip(user or [], best_items(model, users, n, known, lists), strict=True):
        listed[one] = saved.named(ranked.items, ranked.scores)
    if rate:
        folded, items = _new_user(model, rate)
        best = lists.of_new_user(folded, items, n, None if include_rated else items)
        listed["new user"] = saved.named(*best)
    if as_json:
        typer.echo(json.dumps(listed))
        return
    for one, items_of in listed.items():
        typer.echo(f"{one}:")
        for item, score in items_of:
            typer.echo(f"  {score:.2f}  {item}")


class _Saved(NamedTuple):
    """What the folder of a saved model says beside the model: what gets chosen, and who has rated what."""

    folder: Path
    catalogue: Catalogue
    choices: Choices | None
    known: Identities | None
    item_counts: Numbers | None  # (items,), how many ratings each has

    @classmethod
    def of(cls, folder: Path, model: RatingModel, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Find it among the arrays of the folder of ``model``. Raises ArtifactError."""
        catalogue = model.catalogue
        size = len(catalogue.users), len(catalogue.items)
        choices, known = Choices.found(arrays, *size), Identities.found(arrays, *size)
        return cls(folder, catalogue, choices, known, item_counts(arrays, size[1]))

    def lists(self, by: RankedBy | None, exclude: list[str], min_ratings: int) -> Lists:
        """What lists are ranked by and leave out. Raises BadParameter for what the folder does not know."""
        ranked_by = by or (RankedBy.rating if self.choices is None else RankedBy.both)
        asked = None
        if min_ratings and self.item_counts is None:
            asked = "--min-ratings"
        elif self.choices is None and ranked_by is not RankedBy.rating:
            asked = f"--by {ranked_by.value}"
        if asked:
            raise typer.BadParameter(
                f"{asked} needs to know who has rated what, and {self.folder} does not say: fit the model with "
                "tacenda ratings fit, or save the algorithm"
            )
        items, counts = self.catalogue.items, self.item_counts
        unsupported = None if counts is None else counts < min_ratings
        excluded = [items.number(item) for item in exclude]
        return Lists.of(self.choices, ranked_by.value, len(items), None, excluded, unsupported)

    def known_with(self, ratings: Ratings) -> Identities:
        """Who has rated what, here or in further ratings; what the model does not know is left out of those."""
        users, items = self.catalogue.users, self.catalogue.items
        u = users.numbers(ratings.users.raw)[ratings.user_ids]
        i = items.numbers(ratings.items.raw)[ratings.item_ids]
        both = (u >= 0) & (i >= 0)
        more = Identities.from_pairs(u[both], i[both], len(users), len(items))
        return more if self.known is None else self.known.union(more, len(items))

    def named(
        self, items: Numbers, scores: npt.NDArray[np.floating[Any]]
    ) -> list[tuple[str, float]]:
        """Names of items with their estimates, on the scale."""
        on_scale = np.clip(scores, *self.catalogue.scale).tolist()
        return list(zip(self.catalogue.items.raw[items].tolist(), on_scale, strict=True))


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
