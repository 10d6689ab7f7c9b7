"""One algorithm on some folds: estimates and processor time, ours, Surprise's or another library's."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np
import surprise
from surprise import AlgoBase

from benchmarks.ratings import peers
from benchmarks.ratings.data import Fold
from benchmarks.ratings.peers import Floats, Measured, Peer, Settings
from tacenda.fitting import Callback, FitLoop
from tacenda_surprise.testing import small_dataset

SEED = 0
# One fit instead of two, to all but a few ratings, so that a callback sees every epoch.
ONE_FIT: dict[str, Any] = {"validation": 1e-4, "refit": False, "patience": 100}
RANDOM = "SVD", "SVDpp", "NMF"  # those of Surprise that take a random_state


class Clock(Callback):
    """Clock and processor time at the end of each epoch."""

    def __init__(self) -> None:
        self.wall: list[float] = []
        self.processor: list[float] = []

    def on_epoch_end(self, run: FitLoop) -> bool | None:
        self.wall.append(time.perf_counter())
        self.processor.append(time.process_time())
        return None


def here(make: Callable[[], AlgoBase], folds: Sequence[Fold]) -> Iterator[Measured]:
    """Of an algorithm of Surprise's kind, in this process, its compiled code warm."""
    warm(make())
    for fold in folds:
        # what is derived from a trainset is kept; every fit pays for it
        trainset = copy(fold.trainset)
        start = time.process_time()
        algo = make().fit(trainset)
        between = time.process_time()
        predictions = algo.test(fold.testset)
        seconds = between - start, time.process_time() - between
        yield Measured(np.array([prediction.est for prediction in predictions]), *seconds)


def of_peer(peer: Peer, tried: Sequence[Settings], folds: Sequence[Fold]) -> Iterator[Measured]:
    """Of another library's algorithm: with the first settings on all folds, then with the next."""
    if not peer.in_surprise:
        yield from peers.measure(peer, tried, folds, SEED)
        return
    for settings in tried:
        yield from here(partial(in_surprise, peer, settings), folds)


def library(peer: Peer) -> str | None:
    """The library and its version, as `cornac 3.0.1`; None: it is not installed."""
    found = version(peer.library) if peer.in_surprise else peers.version_of(peer.library)
    return found and f"{peer.library} {found}"


def in_surprise(peer: Peer, settings: Settings) -> AlgoBase:
    """An algorithm of Surprise itself."""
    more = {"random_state": SEED} if peer.algorithm in RANDOM else {"verbose": False}
    return getattr(surprise, peer.algorithm)(**settings, **more)


def warm(algo: AlgoBase) -> None:
    """Compiles what a fit and a test compile, on few ratings."""
    trainset = small_dataset().build_full_trainset()
    algo.fit(trainset).test(trainset.build_testset())


def rmse(estimates: Floats, fold: Fold) -> float:
    """Root of the mean squared error of the test part."""
    return float(np.sqrt(((estimates - truth(fold)) ** 2).mean()))


def mae(estimates: Floats, fold: Fold) -> float:
    """Mean absolute error of the test part."""
    return float(np.abs(estimates - truth(fold)).mean())


def truth(fold: Fold) -> Floats:
    """The ratings (test pairs,) of the test part."""
    return np.array([rating for _, _, rating in fold.testset], np.float64)
