"""Fits and tests an algorithm of cornac, LensKit or myFM in this process, which has that library.

    python -P peer_process.py FOLDER < JOBS        # a job a line; so is an answer
    python -P peer_process.py                      # the versions that are installed

It needs numpy, scipy and the libraries it is asked for, and nothing of Tacenda, so that it runs under an interpreter
with newer versions of them. `peers` writes the folds and reads the predictions. A job names the library,
the algorithm, its settings, a seed, and the fold `FOLDER/<fold>.npz`; the answer has processor seconds of fitting and
of testing, and the estimates lie in `FOLDER/<scores>.npy`, NaN where the library has none. Every library is given the
ratings in one random order, drawn from the seed: cornac's algorithms learn in the order they are given.
"""

from __future__ import annotations

import json
import platform
import sys
import time
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

LIBRARIES = ("cornac", "lenskit", "myfm")
WARMING = 2000  # ratings of a fit that does not count: imports on first use, compiled code

Arrays = Mapping[str, Any]


class Cornac:
    """A factorization of cornac.models, on one thread."""

    def __init__(self, algorithm: str, settings: dict[str, Any], seed: int) -> None:
        self._model = getattr(import_module("cornac.models"), algorithm)(seed=seed, **settings)

    def fit(self, fold: Arrays) -> None:
        dataset = import_module("cornac.data").Dataset
        users, items = ({n: n for n in range(int(fold[k]))} for k in ("n_users", "n_items"))
        triples = fold["users"], fold["items"], fold["values"]
        self._model.fit(dataset(len(users), len(items), users, items, triples))

    def score(self, users: Any, items: Any) -> Any:
        pairs = zip(users.tolist(), items.tolist(), strict=True)
        return np.array([self._model.rate(user, item) for user, item in pairs], float)


class LensKit:
    """A scorer of lenskit.als, which takes ratings as a table."""

    def __init__(self, algorithm: str, settings: dict[str, Any], seed: int) -> None:
        self._model, self._seed = getattr(import_module("lenskit.als"), algorithm)(**settings), seed

    def fit(self, fold: Arrays) -> None:
        columns = {"user_id": "users", "item_id": "items", "rating": "values"}
        table = {name: fold[column] for name, column in columns.items()}
        frame = import_module("pandas").DataFrame(table)
        data = import_module("lenskit.data").from_interactions_df(frame)
        options = import_module("lenskit.training").TrainingOptions(rng=self._seed)
        self._model.train(data, options)

    def score(self, users: Any, items: Any) -> Any:
        listed = import_module("lenskit.data").ItemList
        found = np.full(len(users), np.nan)
        order = np.argsort(users, kind="stable")
        for rows in np.split(order, np.flatnonzero(np.diff(users[order])) + 1):
            if len(rows):
                wanted = listed(item_ids=items[rows])
                found[rows] = self._model(int(users[rows[0]]), wanted).scores()
        return found


class MyFM:
    """A factorization machine of user and item alone: Bayesian matrix factorization, by Gibbs sampling."""

    def __init__(self, algorithm: str, settings: dict[str, Any], seed: int) -> None:
        model = {name: settings[name] for name in settings.keys() & {"rank"}}
        self._sweeps = {name: settings[name] for name in settings.keys() - {"rank"}}
        self._model = getattr(import_module("myfm"), algorithm)(random_seed=seed, **model)

    def fit(self, fold: Arrays) -> None:
        self._sizes = [int(fold["n_users"]), int(fold["n_items"])]
        rows = self._rows(fold["users"], fold["items"])
        self._model.fit(rows, fold["values"], group_shapes=self._sizes, **self._sweeps)

    def score(self, users: Any, items: Any) -> Any:
        return np.asarray(self._model.predict(self._rows(users, items)), float)

    def _rows(self, users: Any, items: Any) -> scipy.sparse.csr_matrix:
        """One row a pair, with a one for the user and a one for the item; none for what is unknown."""
        columns = np.stack([users, np.where(items >= 0, items + self._sizes[0], -1)], axis=1)
        ends = np.cumsum((columns >= 0).sum(axis=1))
        columns = columns[columns >= 0]
        shape = len(users), sum(self._sizes)
        offsets = np.concatenate([[0], ends])
        return scipy.sparse.csr_matrix((np.ones(len(columns)), columns, offsets), shape)


KINDS = {"cornac": Cornac, "lenskit": LensKit, "myfm": MyFM}


def shuffled(fold: Arrays, seed: int) -> dict[str, Any]:
    """The fold with its training ratings in a random order."""
    order = np.random.default_rng(seed).permutation(len(fold["values"]))
    return {**fold, **{name: fold[name][order] for name in ("users", "items", "values")}}


def measure(job: dict[str, Any], fold: Arrays) -> tuple[Any, dict[str, float]]:
    """Estimates (test pairs,) and the processor seconds of the fit and of the test."""
    model = KINDS[job["library"]](job["algorithm"], job["settings"], job["seed"])
    start = time.process_time()
    model.fit(fold)
    between = time.process_time()
    scores = model.score(fold["test_users"], fold["test_items"])
    return scores, {"fit": between - start, "test": time.process_time() - between}


def warm(job: dict[str, Any], fold: Arrays) -> None:
    """Fits and tests on few ratings."""
    cut = {name: value[:WARMING] if value.ndim else value for name, value in fold.items()}
    measure(job, {**cut, "test_users": cut["users"], "test_items": cut["items"]})


def installed() -> dict[str, str]:
    """The version of Python and of every library that is there, and NumPy's linear algebra."""
    config: Any = np.show_config(mode="dicts")
    blas = config["Build Dependencies"]["blas"]
    found = {"python": platform.python_version(), "blas": f"{blas['name']} {blas['version']}"}
    for name in (*LIBRARIES, "numpy", "scipy"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def main() -> None:
    if len(sys.argv) < 2:
        print(json.dumps(installed()))
        return
    folder, warmed = Path(sys.argv[1]), False
    answers, sys.stdout = sys.stdout, sys.stderr  # whatever a library prints is no answer
    for line in sys.stdin:
        job = json.loads(line)
        with np.load(folder / f"{job['fold']}.npz") as arrays:
            fold = shuffled(dict(arrays), job["seed"])
        if not warmed:
            warm(job, fold)
            warmed = True
        scores, seconds = measure(job, fold)
        np.save(folder / f"{job['scores']}.npy", scores)
        print(json.dumps(seconds), file=answers, flush=True)


if __name__ == "__main__":
    main()
