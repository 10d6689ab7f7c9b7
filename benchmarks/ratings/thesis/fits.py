"""One fit and its test, as a cell that is measured once and kept."""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from benchmarks import freshness, parts
from benchmarks.embeddings.common import Cells
from benchmarks.ratings.thesis import splits
from benchmarks.ratings.thesis.splits import Numbers, Parts
from tacenda.ratings import Ratings
from tacenda_surprise import RatingAlgorithm
from tacenda_surprise.catalogue import Identities

# What a model of this kind has learned, by the names its arrays have when it is saved; the rest (raw
# ids, inputs of the cases, means of W) follows from these and from the data.
LEARNED = (
    "user_factors", "item_factors", "user_biases", "item_biases", "side_factors",
    "weights", "visible_biases", "hidden_biases", "side_weights", "slopes",
)  # fmt: skip


@dataclass(frozen=True)
class Figures:
    """What a cell holds.

    Attributes
    ----------
    squared
        Sum of squared errors of the test ratings, by bin of their users.
    tested
        Test ratings, by bin.
    parameters
        Numbers learned.
    epochs
        Passes whose parameters were kept; None: the model does not say.
    seconds
        Of the processor, for the fit.
    """

    squared: list[float]
    tested: list[int]
    parameters: int
    epochs: int | None
    seconds: float

    @property
    def rmse(self) -> float:
        return round(math.sqrt(sum(self.squared) / sum(self.tested)), 4)

    @property
    def of_bins(self) -> list[float]:
        pairs = zip(self.squared, self.tested, strict=True)
        return [round(math.sqrt(squared / tested), 4) for squared, tested in pairs]


@dataclass(frozen=True)
class Bench:
    """The split that everything but the cold start is measured on, and the cells measured so far."""

    parts: Parts
    bins: Numbers
    cells: Cells
    log: logging.Logger

    @cached_property
    def known(self) -> Identities:
        """Who has rated what in the training part."""
        return Identities.of(self.parts.train)

    @cached_property
    def all_known(self) -> Identities:
        """That, and who has rated what in the test part."""
        return self.known.union(Identities.of(self.parts.test), self.parts.train.n_items)

    @classmethod
    def of(cls, parts: Parts, cells: Cells, log: logging.Logger) -> Bench:
        bins = splits.equal_bins(np.diff(parts.train.user_offsets))
        return cls(parts, bins, cells, log)

    def fit(
        self,
        model: RatingAlgorithm,
        told: str = "",
        train: Ratings | None = None,
        identities: Identities | None = None,
        test: Ratings | None = None,
    ) -> Figures:
        """The cell of ``model``.

        Parameters
        ----------
        told
            What tells this cell from others of the same model: parts and identities given, in words.
        train
            Instead of the whole training part.
        identities
            Given beside the ratings.
        test
            Instead of the whole test part.
        """
        train, test = train or self.parts.train, test or self.parts.test
        key = key_of(model, train, test, told)

        def measure() -> dict[str, Any]:
            return measured(model, train, test, identities, self.bins)

        found = Figures(**self.cells.measure(key, measure))
        self.log.info("%s %s: %.4f", model.name, told, found.rmse)
        return found


def key_of(model: RatingAlgorithm, train: Ratings, test: Ratings, told: str) -> str:
    """Model, what it is told, its settings, the data, and the code that learns and predicts."""
    settings = json.dumps(model.settings.to_dict(), sort_keys=True)  # type: ignore[attr-defined]
    data = f"{train.fingerprint[:10]} {test.fingerprint[:10]}"
    code = " ".join(freshness.code(each) for each in parts.RATINGS)
    return " | ".join((model.name, told, settings, data, code))


def measured(
    model: RatingAlgorithm,
    train: Ratings,
    test: Ratings,
    identities: Identities | None,
    bins: Numbers,
) -> dict[str, Any]:
    """Fits and tests; the values of `Figures`. Predictions are clipped to the scale, as Surprise does it."""
    start = time.process_time()
    model.fit(train, identities=identities if model.conditional else None)
    seconds = time.process_time() - start
    scores = np.clip(model.score_pairs(test.user_ids, test.item_ids), *test.scale)
    errors = (scores.astype(np.float64) - test.values) ** 2
    of_user, n = bins[test.user_ids], int(bins.max()) + 1
    history = model.history
    return {
        "squared": np.bincount(of_user, errors, n).tolist(),
        "tested": np.bincount(of_user, minlength=n).tolist(),
        "parameters": n_parameters(model),
        "epochs": history.best.epoch if history.best else history.epochs,
        "seconds": round(seconds, 1),
    }


def n_parameters(model: RatingAlgorithm) -> int:
    """Numbers learned; a table of nothing but zeros is one that the model does without."""
    arrays = model.arrays()
    return sum(arrays[name].size for name in LEARNED if name in arrays and arrays[name].any())


def pooled(cells: Iterable[Figures]) -> Figures:
    """Of several fits whose test ratings are parts of one whole: their errors together (section 5.4.5)."""
    found = list(cells)
    squared = np.sum([one.squared for one in found], axis=0).tolist()
    tested = np.sum([one.tested for one in found], axis=0).tolist()
    seconds = sum(one.seconds for one in found)
    return Figures(squared, tested, found[0].parameters, None, round(seconds, 1))
