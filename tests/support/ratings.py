"""Ratings that differ from others in one thing or are a data frame, and how far a model is from ratings held out."""

import numpy as np

from tacenda.ratings import Ratings


def rmse(model, held_out):
    scores = model.score_pairs(held_out.user_ids, held_out.item_ids)
    return float(np.sqrt(np.mean((scores - held_out.values) ** 2)))


def changed(ratings, **changes):
    """Return the same ratings with other ``values``, ``users``, ``items`` or ``scale``."""
    fields = {name: getattr(ratings, name) for name in ("values", "users", "items", "scale")}
    return Ratings(user_ids=ratings.user_ids, item_ids=ratings.item_ids, **{**fields, **changes})


class Frame:
    """What is asked of a data frame of pandas, whose columns may have names."""

    def __init__(self, *columns, **named):
        if named:
            self.columns = list(named)
        self.held = [*map(np.array, columns), *(np.array(each, object) for each in named.values())]
        self.shape, self.ndim, self.iloc = (len(self.held[0]), len(self.held)), 2, self

    def __getitem__(self, at):
        return self.held[at[1]]

    def __array__(self, dtype=None, copy=None):
        return np.zeros(self.shape)
