"""What is learned from, what is tested, and what is told without a rating.

The models of the thesis, by the names of its tables, with its settings and with ours.

What the thesis stops on is the set it reports (section 5.4.3). Here a twentieth of the training part decides
where to stop, and the test part decides nothing.

One fit and its test, as a cell that is measured once and kept.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from benchmarks import kept, pictures
from benchmarks.pictures import Panel
from benchmarks.ratings.thesis import published
from benchmarks.reporting import Options, Table
from tacenda import datasets
from tacenda.ratings import Ratings, read_ratings
from tacenda_surprise import PMF, RBM, BiasOnly, ConditionalPMF, ConditionalRBM, RatingAlgorithm
from tacenda_surprise.catalogue import Identities

TEST, SEED = 0.1, 0
SPLIT = "MovieLens-1M, train_test_split(test_size=0.1, random_state=0)"
BINS = 10

Numbers = npt.NDArray[np.integer[Any]]
Flags = npt.NDArray[np.bool_]


class Parts(NamedTuple):
    """The ratings learned from and those tested, users and items numbered alike."""

    train: Ratings
    test: Ratings


def movielens() -> Parts:
    """MovieLens-1M, split as `benchmarks.ratings.accuracy` splits it."""
    return parted(read_ratings(datasets.locate("ml-1m")["ratings"]))


def parted(whole: Ratings) -> Parts:
    """The split that Surprise's train_test_split makes of ratings in the order of user and item."""
    test = np.zeros(len(whole), bool)
    order = np.random.RandomState(SEED).permutation(len(whole))
    test[order[len(whole) - math.ceil(TEST * len(whole)) :]] = True
    return Parts(whole.select(~test), whole.select(test))


def nested(n: int, shares: list[float], seed: int = SEED) -> list[Flags]:
    """Random subsets of ``n`` things, one for every share, each a subset of every larger one."""
    rank = np.random.default_rng(seed).permutation(n)
    return [rank < round(share * n) for share in shares]


def equal_bins(counts: Numbers, n_bins: int = BINS) -> Numbers:
    """The bin of every user, by rising count; bins have the same number of users (section 5.4.5).

    Users of the same count may come into different bins, those of lower number into the lower one.
    """
    bins = np.empty(len(counts), np.int64)
    bins[np.argsort(counts, kind="stable")] = np.arange(len(counts)) * n_bins // len(counts)
    return bins


def ranges(counts: Numbers, bins: Numbers) -> list[str]:
    """Lowest and highest count of every bin, as a reader sees them."""
    parts = [counts[bins == number] for number in range(int(bins.max()) + 1)]
    return [f"{part.min()} to {part.max()}" for part in parts]


def user_groups(n_users: int, n_groups: int, seed: int = SEED) -> Numbers:
    """The group of every user: random, and as many in each as can be."""
    return np.random.default_rng(seed).permutation(n_users) % n_groups


def without(ratings: Ratings, users: Flags) -> Ratings:
    """``ratings`` but for those of the users that are marked."""
    return ratings.select(~users[ratings.user_ids])


def only(ratings: Ratings, users: Flags) -> Ratings:
    """The ratings of the users that are marked."""
    return ratings.select(users[ratings.user_ids])


VALIDATION = 0.05
THESIS = (
    "PMF.thesis (250 epochs at most, patience 20), .online_svd, RBM.thesis "
    "(250 passes); of all these the parameters of the pass that predicts a twentieth of the training part best"
)

A = TypeVar("A", PMF, RBM)


def rbm(hidden: int, *, ours: bool = False, seed: int = 0) -> RBM:
    return _made(RBM, ours, n_hidden=hidden, random_state=seed)


def conditional_rbm(hidden: int, *, ours: bool = False, seed: int = 0) -> RBM:
    return _made(ConditionalRBM, ours, n_hidden=hidden, random_state=seed)


def pmf(width: int, *, ours: bool = False, seed: int = 0) -> PMF:
    return _made(PMF, ours, n_factors=width, random_state=seed)


def conditional_pmf(width: int, *, ours: bool = False, seed: int = 0) -> PMF:
    return _made(ConditionalPMF, ours, n_factors=width, random_state=seed)


def _made(model: type[A], ours: bool, **options: Any) -> A:
    return model(**options) if ours else model.thesis(**options, validation=VALIDATION)


def online_svd(width: int, *, biased: bool, seed: int = 0) -> PMF:
    return PMF.online_svd(n_factors=width, biased=biased, random_state=seed, validation=VALIDATION)


def bias(biases: Literal["both", "items", "users", "none"]) -> BiasOnly:
    return BiasOnly(biases=biases)


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
    """The split that everything but the cold start is measured on; every fit is a cell that is kept."""

    parts: Parts
    bins: Numbers
    options: Options

    @cached_property
    def cells(self) -> kept.Cells:
        return kept.Cells("ratings-thesis")

    @cached_property
    def known(self) -> Identities:
        """Who has rated what in the training part."""
        return Identities.of(self.parts.train)

    @cached_property
    def all_known(self) -> Identities:
        """That, and who has rated what in the test part."""
        return self.known.union(Identities.of(self.parts.test), self.parts.train.n_items)

    @classmethod
    def of(cls, parts: Parts, options: Options) -> Bench:
        return cls(parts, equal_bins(np.diff(parts.train.user_offsets)), options)

    def report(
        self,
        study: str,
        told: dict[str, Any],
        rows: list[dict[str, Any]],
        panels: Sequence[Panel] = (),
        *,
        seeds: Sequence[int] = (SEED,),
        columns: int = 2,
    ) -> None:
        """Print the rows of a study, save them and draw its panels."""
        name = f"ratings-thesis-{study}"
        protocol = {"data": SPLIT, "published": published.SOURCE, **told}
        picture = (lambda _: pictures.draw(name, panels, columns)) if panels else None
        Table(name, protocol, lambda _: rows, seeds=seeds, after=picture).run(self.options)

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
        key = kept.cell_key(
            model=model.name,
            told=told,
            settings=model.settings.to_dict(),
            train=train.fingerprint[:10],
            test=test.fingerprint[:10],
        )
        cell = self.cells.measure(key, lambda: measured(model, train, test, identities, self.bins))
        found = Figures(**cell)
        print(f"{model.name} {told}: {found.rmse:.4f}", flush=True)
        return found


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
