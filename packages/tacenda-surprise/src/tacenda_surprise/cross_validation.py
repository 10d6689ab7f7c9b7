"""Cross-validation that tells a conditional model whose ratings it will be asked for, not what they are."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from copy import copy
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed  # type: ignore[import-untyped]
from surprise import Dataset, Trainset, accuracy
from surprise.model_selection.split import get_cv

from tacenda.errors import ConfigurationError
from tacenda_surprise.algorithm import RatingAlgorithm
from tacenda_surprise.trainsets import SideInfo


class _Fold(NamedTuple):
    """What one fold gave: measures of the test part, of the training part if asked for, and seconds."""

    test: list[float]
    train: list[float]
    fit_time: float
    test_time: float


def cross_validate_conditional(
    algo: RatingAlgorithm,
    data: Dataset,
    measures: Sequence[str] = ("rmse", "mae"),
    cv: Any = None,
    *,
    return_train_measures: bool = False,
    n_jobs: int = 1,
    verbose: bool = False,
) -> dict[str, Any]:
    """Cross-validate on the folds of Surprise's ``cross_validate``, with the identities of every test part given.

    The setting of the Netflix prize, where the pairs to be predicted were known (CRBM2 in Mnih 2010,
    section 5.4). It is transductive: do not compare it with results of the ordinary kind.

    Parameters
    ----------
    algo
        A conditional algorithm; a copy of it is fitted to every fold.
    data
        A Surprise data set.
    measures
        Names of functions in ``surprise.accuracy``.
    cv
        As for ``cross_validate``: None (five folds), their number, or an iterator.
    return_train_measures
        Measure the training part too.
    n_jobs
        Folds at a time, each in a process; -1: as many as there are processors.
    verbose
        Print the result of every fold.

    Returns
    -------
    ``test_<measure>`` (folds,), ``train_<measure>`` if asked for, ``fit_time`` and ``test_time`` in
    seconds, and ``protocol``, which says that it is transductive.

    Raises
    ------
    ConfigurationError
        The algorithm cannot take identities.
    """
    if not getattr(algo, "conditional", False):
        raise ConfigurationError(
            f"{type(algo).__name__} does not condition on identities; give a conditional algorithm"
        )
    names = [name.lower() for name in measures]
    folds: list[_Fold] = Parallel(n_jobs=n_jobs)(
        delayed(_fold)(algo, trainset, testset, names, return_train_measures)
        for trainset, testset in get_cv(cv).split(data)
    )
    found: dict[str, Any] = {}
    for k, name in enumerate(names):
        found[f"test_{name}"] = np.array([fold.test[k] for fold in folds])
        if return_train_measures:
            found[f"train_{name}"] = np.array([fold.train[k] for fold in folds])
    found["fit_time"] = tuple(fold.fit_time for fold in folds)
    found["test_time"] = tuple(fold.test_time for fold in folds)
    found["protocol"] = "transductive: identities of the test pairs given, their ratings not"
    if verbose:
        for number, fold in enumerate(folds, 1):
            values = zip(names, fold.test, strict=True)
            listed = ", ".join(f"{name.upper()} {value:.4f}" for name, value in values)
            print(f"fold {number}: {listed} (transductive)")
    return found


def _fold(
    algo: RatingAlgorithm,
    trainset: Trainset,
    testset: list[Any],
    names: list[str],
    train: bool,
) -> _Fold:
    fitted = copy(algo)
    fitted.rated = SideInfo.from_testset(testset)
    start = time.perf_counter()
    with warnings.catch_warnings():
        # of a random fold some items are always missing from the training part
        warnings.filterwarnings("ignore", message=r"\d+ identities are of items")
        fitted.fit(trainset)
    between = time.perf_counter()
    predictions = fitted.test(testset)
    end = time.perf_counter()
    of_train = fitted.test(trainset.build_testset()) if train else []
    measured = [
        [float(getattr(accuracy, name)(part, verbose=False)) for name in names] if part else []
        for part in (predictions, of_train)
    ]
    return _Fold(measured[0], measured[1], between - start, end - between)
