"""A trainset with the ratings of another one added: what `partial_fit` goes on with."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import numpy as np
from surprise import Trainset

from tacenda.errors import ConfigurationError
from tacenda.ratings import Ratings
from tacenda_surprise.models.catalogue import Catalogue
from tacenda_surprise.trainsets import more_ids, numbers, ratings_of, trainset_of


def merged(
    trainset: Trainset,
    more: Trainset,
    users: Mapping[Hashable, int],
    items: Mapping[Hashable, int],
    catalogue: Catalogue,
) -> Trainset:
    """All ratings of both; of a pair in both that of ``more`` counts.

    Parameters
    ----------
    trainset
        What a model was fitted on.
    more
        What is new.
    users
        Raw id -> number in the model, users without ratings included. They keep their numbers, which
        become inner ids; users that only ``more`` has are numbered after them.
    items
        Likewise.
    catalogue
        Of the model.

    Raises
    ------
    ConfigurationError
        The rating scales differ.
    DataError
        a rating of ``more`` is not finite or off the scale.
    """
    if tuple(more.rating_scale) != tuple(trainset.rating_scale):
        raise ConfigurationError(
            f"the new ratings have the scale {more.rating_scale} and the old ones {trainset.rating_scale}; "
            "give both the same Reader(rating_scale=...)"
        )
    old, new = ratings_of(trainset), ratings_of(more)
    new_users = [raw for raw in more._raw2inner_id_users if raw not in users]
    new_items = [raw for raw in more._raw2inner_id_items if raw not in items]
    all_users = dict(users) | {raw: len(users) + k for k, raw in enumerate(new_users)}
    all_items = dict(items) | {raw: len(items) + k for k, raw in enumerate(new_items)}
    user_numbers = numbers(more._raw2inner_id_users, all_users)
    item_numbers = numbers(more._raw2inner_id_items, all_items)
    ratings = Ratings(
        np.concatenate([old.user_ids, user_numbers[new.user_ids]]),
        np.concatenate([old.item_ids, item_numbers[new.item_ids]]),
        np.concatenate([old.values, new.values]),
        more_ids(catalogue.users, new_users),
        more_ids(catalogue.items, new_items),
        scale=old.scale,
        duplicates="last",
    )
    return trainset_of(ratings, list(all_users), list(all_items), ratings.mean)
