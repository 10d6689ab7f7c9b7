"""Explicit ratings, compactly: CSR by user and by item, raw ids, files, seeded splits."""

from tacit.ratings.index import IdIndex
from tacit.ratings.reading import read_ratings
from tacit.ratings.splits import folds, split, split_per_user
from tacit.ratings.table import Ratings

__all__ = ["IdIndex", "Ratings", "folds", "read_ratings", "split", "split_per_user"]
