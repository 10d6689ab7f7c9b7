"""Models in forked children, in worker processes and in many threads at once: the same answers as alone."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from children import Cases, outcomes, require_equal
from specimens import exercise, fitted, specimens

_THREADS = 8


def forks(name: str, folder: Path) -> Cases:
    """Use a model in children of a process that has fitted and used it, with all its threads."""
    model = fitted(name)
    wanted = exercise(model)

    def child() -> None:
        require_equal(exercise(model), wanted, "another answer in a forked child")

    def pool() -> None:
        with multiprocessing.get_context("fork").Pool(2, _adopt, (model,)) as workers:
            for found in workers.map(_exercise_adopted, range(4)):
                require_equal(found, wanted, "another answer in a pool of processes")

    def loader() -> None:
        from torch.utils.data import DataLoader

        items: Any = _Answers(model)
        for found in DataLoader(items, batch_size=None, num_workers=2):
            require_equal(
                [np.asarray(each) for each in found], wanted, "another answer in a data loader"
            )

    # torch has one thread here, and other last bits than with more of them
    def fit_again() -> None:
        first, second = (exercise(specimens()[name].fit()) for _ in range(2))
        require_equal(second, first, "another model at every fit in a forked child")

    acts: list[Callable[[], None]] = [child, pool, loader, fit_again]
    yield from zip(
        ("forked", "pool", "data loader", "fitted in a fork"), outcomes(acts), strict=True
    )


def threads(name: str, folder: Path) -> Cases:
    """Use one model from many threads, and fit several at once."""
    specimen = specimens()[name]

    def use() -> None:
        model = fitted(name)
        wanted = exercise(model)
        with ThreadPoolExecutor(_THREADS) as executor:
            for found in executor.map(lambda _: exercise(model), range(4 * _THREADS)):
                require_equal(found, wanted, "another answer in a thread")

    def fit() -> None:
        wanted = exercise(specimen.fit())
        with ThreadPoolExecutor(3) as executor:
            for found in executor.map(lambda _: exercise(specimen.fit()), range(3)):
                require_equal(found, wanted, "another model when several are fitted at once")

    yield from zip((f"{_THREADS} threads", "fits at once"), outcomes([use, fit]), strict=True)


class _Answers:
    """A data set whose items are what a model answers."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def __len__(self) -> int:
        return 4

    def __getitem__(self, place: int) -> list[np.ndarray]:
        return exercise(self.model)


_adopted: Any = None


def _adopt(model: Any) -> None:
    global _adopted
    _adopted = model


def _exercise_adopted(_: int) -> list[np.ndarray]:
    return exercise(_adopted)
