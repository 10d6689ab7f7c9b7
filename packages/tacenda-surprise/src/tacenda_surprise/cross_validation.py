"""Cross-validation with the rated pairs of the test set known (transductive)."""

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
from tacenda_surprise.side_info import SideInfo


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

    Pairs in the algorithm's own ``rated=`` are known in every fold, too.

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
            _with_test_pairs(algo, trainset, testset),
            trainset,
            testset,
            names,
            return_train_measures,
        )
        for trainset, testset in get_cv(cv).split(data)
    )
    tests, trains, fit_times, test_times = zip(*folds, strict=True)
    results: dict[str, Any] = {
        f"test_{name}": np.array([fold[name] for fold in tests]) for name in names
    }
    if return_train_measures:
        results |= {f"train_{name}": np.array([fold[name] for fold in trains]) for name in names}
    results |= {"fit_time": fit_times, "test_time": test_times}
    results["protocol"] = "transductive: identities of the test pairs given, their ratings not"
    if verbose:
        for number, fold in enumerate(tests, 1):
            listed = ", ".join(f"{name.upper()} {fold[name]:.4f}" for name in names)
            print(f"fold {number}: {listed} (transductive)")
    return results


def _with_test_pairs(
    algo: RatingAlgorithm, trainset: Trainset, testset: list[Any]
) -> RatingAlgorithm:
    """Copy an algorithm, and add the pairs of the test set to those that it knows to be rated."""
    # A random fold holds out all ratings of some items. Pairs with these items are left out here, because
    # `FitData.join` would warn of them in every fold.
    held_out_items = {item for _, item, _ in testset} - trainset._raw2inner_id_items.keys()
    pairs = [] if algo.rated is None else list(algo.rated.pairs)
    pairs += [(user, item) for user, item, _ in testset]
    conditional = copy(algo)
    conditional.rated = SideInfo(pair for pair in pairs if pair[1] not in held_out_items)
    return conditional
