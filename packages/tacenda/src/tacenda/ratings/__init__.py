"""Explicit ratings, compactly: CSR by user and by item, raw ids, files, seeded splits."""

from tacenda.ratings.files import read_ratings
from tacenda.ratings.ids import IdIndex
from tacenda.ratings.table import Ratings, folds, split, split_last, split_per_user

__all__ = ["IdIndex", "Ratings", "folds", "read_ratings", "split", "split_last", "split_per_user"]
