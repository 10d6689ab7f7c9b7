"""Cross-validation that tells a conditional model whose ratings it will be asked for, not what they are."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np
from surprise import Dataset, accuracy
from surprise.model_selection.split import get_cv

from tacit.errors import ConfigurationError
from tacit_surprise.algorithm import TacitAlgorithm
from tacit_surprise.side_info import SideInfo

__all__ = ["cross_validate_conditional"]


def cross_validate_conditional(
    algo: TacitAlgorithm,
    data: Dataset,
    measures: Sequence[str] = ("rmse", "mae"),
    cv: Any = None,
    *,
    verbose: bool = False,
) -> dict[str, Any]:
    """Surprise's ``cross_validate`` on the same folds, with the identities of every test part given.

    The setting of the Netflix prize, where the pairs to be predicted were known (CRBM2 in Mnih 2010,
    section 5.4). It is transductive: do not compare it with results of the ordinary kind.

    Args:
        algo: a conditional algorithm; a copy is fitted on every fold.
        data: a Surprise data set.
        measures: names of functions in ``surprise.accuracy``.
        cv: as for ``cross_validate``: None (five folds), their number, or an iterator.
        verbose: print the result of every fold.

    Returns:
        ``test_<measure>`` (folds,), ``fit_time`` and ``test_time`` in seconds, and ``protocol``, which says
        that it is transductive.

    Raises:
        ConfigurationError: the algorithm cannot take identities.
    """
    if not getattr(algo, "conditional", False):
        raise ConfigurationError(
            f"{type(algo).__name__} does not condition on identities; give a conditional algorithm"
        )
    results: dict[str, list[float]] = {f"test_{name.lower()}": [] for name in measures}
    times: dict[str, list[float]] = {"fit_time": [], "test_time": []}
    for fold, (trainset, testset) in enumerate(get_cv(cv).split(data)):
        fitted = copy(algo)
        fitted.rated = SideInfo.from_testset(testset)
        start = time.perf_counter()
        with warnings.catch_warnings():
            # of a random fold some items are always missing from the training part
            warnings.filterwarnings("ignore", message=r"\d+ identities are of items")
            fitted.fit(trainset)
        between = time.perf_counter()
        predictions = fitted.test(testset)
        times["fit_time"].append(between - start)
        times["test_time"].append(time.perf_counter() - between)
        for name in measures:
            value = getattr(accuracy, name.lower())(predictions, verbose=False)
            results[f"test_{name.lower()}"].append(float(value))
            if verbose:
                print(f"fold {fold + 1}: {name.upper()} {value:.4f} (transductive)")
    return {
        **{name: np.array(values) for name, values in results.items()},
        **{name: tuple(values) for name, values in times.items()},
        "protocol": "transductive: identities of the test pairs given, their ratings not",
    }
