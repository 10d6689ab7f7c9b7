"""Data of the kit."""

from __future__ import annotations

from functools import cache
from typing import Any

from surprise import Dataset, Reader, Trainset
from surprise.model_selection import train_test_split

from tacenda.datasets import synthetic_ratings

Testset = list[tuple[Any, Any, Any]]


def dataset(triples: Any, scale: tuple[float, float] = (1, 5)) -> Dataset:
    """A Surprise Dataset of (user, item, rating) triples, whatever the types of the ids."""
    data = Dataset(Reader(rating_scale=scale))
    data.raw_ratings = [(user, item, rating, None) for user, item, rating in triples]
    data.has_been_split = False
    data.build_full_trainset = lambda: data.construct_trainset(data.raw_ratings)
    return data


def small_dataset() -> Dataset:
    """1150 ratings of 60 users and 60 items, raw ids being text."""
    ratings = synthetic_ratings.generate(60, 60, 1150, rank=2, noise=0.5, seed=2).ratings
    raw = zip(ratings.user_ids, ratings.item_ids, ratings.values, strict=True)
    return dataset([(f"user {u}", f"item {i}", float(r)) for u, i, r in raw])


@cache
def parts() -> tuple[Trainset, Testset]:
    """Four fifths of `small_dataset` to train, the rest to test."""
    trainset, testset = train_test_split(small_dataset(), test_size=0.2, random_state=0)
    return trainset, testset
