"""Ratings: MovieLens, with the hashes GroupLens publishes beside the archives."""

from tacenda.datasets.catalogue.common import compressed
from tacenda.datasets.registry import MIB, DatasetSpec, Download

_GROUPLENS = (
    "GroupLens research licence. Free for research; the user must acknowledge the use in "
    "publications (Harper and Konstan 2015), may not redistribute the data without permission, "
    "may not use it commercially without permission, and may not imply endorsement by the "
    "University of Minnesota."
)

_ML_FOLDS = ("u1", "u2", "u3", "u4", "u5", "ua", "ub")

ML_100K = DatasetSpec(
    name="ml-100k",
    title="MovieLens 100K: 100,000 ratings of 1,682 films by 943 users",
    licence="GroupLens research licence",
    licence_text=_GROUPLENS,
    homepage="https://grouplens.org/datasets/movielens/100k/",
    folders=("ratings/ml-100k", "ml-100k"),
    files={
        "ratings": ("u.data",),
        "items": ("u.item",),
        "users": ("u.user",),
        **{f"{fold}.base": (f"{fold}.base",) for fold in _ML_FOLDS},
        **{f"{fold}.test": (f"{fold}.test",) for fold in _ML_FOLDS},
    },
    optional=frozenset(
        {"items", "users"} | {f"{fold}.{part}" for fold in _ML_FOLDS for part in ("base", "test")}
    ),
    downloads=(
        Download(
            urls=("https://files.grouplens.org/datasets/movielens/ml-100k.zip",),
            filename="ml-100k.zip",
            size=4_924_029,
            hash="md5:0e33842e24a9c977be4e0107933c0723",
            unpack=True,
            max_bytes=64 * MIB,
        ),
    ),
)

ML_1M = DatasetSpec(
    name="ml-1m",
    title="MovieLens 1M: 1,000,209 ratings of 3,706 films by 6,040 users",
    licence="GroupLens research licence",
    licence_text=_GROUPLENS,
    homepage="https://grouplens.org/datasets/movielens/1m/",
    folders=("ratings/ml-1m", "ml-1m"),
    files={
        "ratings": ("ratings.dat", *compressed("ratings-no-time.tsv")),
        "items": ("movies.dat",),
        "users": ("users.dat",),
    },
    optional=frozenset({"items", "users"}),
    downloads=(
        Download(
            urls=("https://files.grouplens.org/datasets/movielens/ml-1m.zip",),
            filename="ml-1m.zip",
            size=5_917_549,
            hash="md5:c4d9eecfca2ab87c1945afe126590906",
            unpack=True,
            max_bytes=128 * MIB,
        ),
    ),
)

RATINGS = [ML_100K, ML_1M]
