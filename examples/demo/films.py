"""Invented viewers of real films: each likes some kinds of film and not others."""

from __future__ import annotations

import numpy as np
from surprise import Dataset, Reader, Trainset

KINDS = {
    "science fiction": (
        "Alien", "Blade Runner", "The Matrix", "Solaris", "Metropolis", "The Terminator", "Gravity",
    ),
    "romance": (
        "Notting Hill", "Casablanca", "Titanic", "Pretty Woman", "Roman Holiday", "Brief Encounter",
    ),
    "comedy": ("Some Like It Hot", "Airplane!", "The General", "Playtime", "Life of Brian", "Tootsie"),
    "crime": ("The Godfather", "Fargo", "Heat", "Chinatown", "Rififi", "The Third Man"),
}  # fmt: skip
TITLES = [title for titles in KINDS.values() for title in titles]
VIEWERS = 300
SEEN = 0.4


def ratings(seed: int) -> Trainset:
    """Make Surprise ratings from 1 to 5: the viewer's taste for the kind of film, plus noise."""
    rng = np.random.default_rng(seed)
    kind = np.repeat(np.arange(len(KINDS)), [len(titles) for titles in KINDS.values()])
    taste = rng.normal(3.2, 1.2, (VIEWERS, len(KINDS)))[:, kind]
    found = np.clip(np.rint(taste + rng.normal(0, 0.7, taste.shape)), 1, 5)
    viewers, seen = np.nonzero(rng.random(taste.shape) < SEEN)
    rows = [
        (f"viewer {viewer}", TITLES[film], float(found[viewer, film]), None)
        for viewer, film in zip(viewers, seen, strict=True)
    ]
    return Dataset(Reader(rating_scale=(1, 5))).construct_trainset(rows)
