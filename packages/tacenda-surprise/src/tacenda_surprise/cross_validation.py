"""Cross-validation that tells a conditional model whose ratings it will be asked for, not what they are."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np
from joblib import Parallel, delayed  # type: ignore[import-untyped]
from surprise import Dataset, Trainset
from surprise.model_selection.split import get_cv
from surprise.model_selection.validation import fit_and_score

from tacenda.errors import ConfigurationError
from tacenda_surprise.algorithm import RatingAlgorithm
from tacenda_surprise.trainsets import SideInfo


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
    """Cross-validate like Surprise's ``cross_validate``, with the identities of the test pairs known.

    This is the setting of the Netflix Prize, where the pairs to be predicted were known (CRBM2 in Mnih 2010,
    section 5.4). It is transductive: do not compare its results with the results of ordinary cross-validation.

    Takes the arguments of ``cross_validate``: ``measures`` are functions of ``surprise.accuracy``, and ``n_jobs`` folds
    run at a time, each in a process. Returns the same dictionary, with a ``protocol`` that says it is transductive.
    Raises ConfigurationError for an algorithm that cannot take identities.
    """
    if not getattr(algo, "conditional", False):
        raise ConfigurationError(
            f"{type(algo).__name__} does not condition on identities; give a conditional algorithm"
        )
    names = [name.lower() for name in measures]
    folds = Parallel(n_jobs=n_jobs)(
        delayed(fit_and_score)(
            _tell(algo, trainset, testset), trainset, testset, names, return_train_measures
        )
        for trainset, testset in get_cv(cv).split(data)
    )
    tests, trains, fit_times, test_times = zip(*folds, strict=True)
    found: dict[str, Any] = {
        f"test_{name}": np.array([one[name] for one in tests]) for name in names
    }
    if return_train_measures:
        found |= {f"train_{name}": np.array([one[name] for one in trains]) for name in names}
    found |= {"fit_time": fit_times, "test_time": test_times}
    found["protocol"] = "transductive: identities of the test pairs given, their ratings not"
    for number, one in enumerate(tests if verbose else (), 1):
        listed = ", ".join(f"{name.upper()} {one[name]:.4f}" for name in names)
        print(f"fold {number}: {listed} (transductive)")
    return found


def _tell(algo: RatingAlgorithm, trainset: Trainset, testset: list[Any]) -> RatingAlgorithm:
    """Copy an algorithm and tell it the pairs of a test part; of a random fold some items are always missing."""
    told = copy(algo)
    known = trainset._raw2inner_id_items
    told.rated = SideInfo((user, item) for user, item, _ in testset if item in known)
    return told
