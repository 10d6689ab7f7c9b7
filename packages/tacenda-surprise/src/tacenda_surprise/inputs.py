"""What a model is fitted on: the ratings of a trainset, and what else is known of its users."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from surprise import Trainset

from tacenda.errors import DataError
from tacenda.ratings import Ratings
from tacenda_surprise.models.identities import Identities
from tacenda_surprise.side_info import SideInfo, refuse_everything, warn_of_dropped
from tacenda_surprise.trainsets import more_ids, ratings_of


class Input(NamedTuple):
    """What a fit begins with: ratings, further identities, and the number of every raw user id."""

    ratings: Ratings
    identities: Identities | None
    users: dict[Hashable, int]


def input_of(trainset: Trainset, side: SideInfo | None) -> Input:
    """What the model is given; users that only the identities know are numbered after the others."""
    ratings = ratings_of(trainset)
    users: dict[Hashable, int] = trainset._raw2inner_id_users
    if side is None:
        return Input(ratings, None, users)
    found = side.numbered(users, trainset._raw2inner_id_items)
    refuse_everything(Identities.of(ratings, found.identities), ratings.n_items)
    warn_of_dropped(found.dropped)
    if found.new_users:
        first = len(users)
        if len({str(user) for user in found.new_users}) < len(found.new_users):
            raise DataError(
                "two users of rated= have ids of the same text, as 7 and '7'; Surprise cannot tell such "
                "users apart unless they have ratings: make the ids of one type"
            )
        users = {**users, **{user: first + k for k, user in enumerate(found.new_users)}}
        ratings = Ratings(
            ratings.user_ids,
            ratings.item_ids,
            ratings.values,
            more_ids(ratings.users, found.new_users),
            ratings.items,
            scale=ratings.scale,
        )
    return Input(ratings, found.identities, users)
