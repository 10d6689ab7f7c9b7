"""Side information, who has rated what, whatever the ratings; and cross-validation with that of the test pairs."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from copy import copy
from typing import Any

import numpy as np
from joblib import Parallel, delayed  # type: ignore[import-untyped]
from surprise import AlgoBase, Dataset, Trainset, accuracy
from surprise.model_selection.split import get_cv
from surprise.model_selection.validation import fit_and_score

from tacenda.errors import ConfigurationError, DataError
from tacenda_surprise.frames import read_columns
from tacenda_surprise.raw_ids import check_ids

_MAX_FIELDS = 4  # of a rating with its time


class SideInfo:
    """Pairs of raw user and item ids that are known to be rated; no ratings.

    Parameters
    ----------
    pairs
        (raw user id, raw item id), or a data frame or sparse matrix of them; further fields are ignored, and duplicates
        are merged. An array has at most four columns; a wider one is taken for a matrix of users and items.

    Raises DataError for anything but pairs, and for a missing id.

    Examples
    --------
    >>> ConditionalPMF(rated=SideInfo([("alice", "Brazil"), ("alice", "Alien")])).fit(trainset)
    """

    def __init__(self, pairs: Iterable[Iterable[Any]]) -> None:
        if isinstance(pairs, str | bytes) or not isinstance(pairs, Iterable):
            raise DataError(f"{pairs!r:.80} is no list of pairs; give (raw user id, raw item id)")
        if isinstance(pairs, np.ndarray) and pairs.shape[1:] > (_MAX_FIELDS,):
            raise DataError(
                f"an array of shape {pairs.shape} seems to be a matrix of users and items: give the pairs, as "
                "np.argwhere(matrix) does"
            )
        columns, _ = read_columns(pairs, 2)
        rows: list[tuple[Hashable, Hashable]] = list(zip(*columns, strict=True))
        for pair in () if columns else pairs:
            fields = list(pair) if isinstance(pair, Iterable) else []
            if isinstance(pair, str | bytes) or len(fields) < 2:
                raise DataError(f"{pair!r} is not a pair; give (raw user id, raw item id)")
            rows.append((fields[0], fields[1]))
        check_ids((user for user, _ in rows), "user")
        check_ids((item for _, item in rows), "item")
        self.pairs: list[tuple[Hashable, Hashable]] = list(dict.fromkeys(rows))

    @classmethod
    def from_testset(cls, testset: Iterable[Iterable[Any]]) -> SideInfo:
        """Take the pairs of a Surprise testset, without their ratings.

        Results with it are transductive: the model is told who has rated the items it is tested on, as the
        competitors for the Netflix prize were.
        """
        return cls(testset)

    def __len__(self) -> int:
        return len(self.pairs)

    def __repr__(self) -> str:
        return f"<SideInfo of {len(self)} pairs>"


def cross_validate_conditional(
    algo: AlgoBase,
    data: Dataset,
    measures: Sequence[str] = ("rmse", "mae"),
    cv: Any = None,
    return_train_measures: bool = False,
    n_jobs: int = 1,
    pre_dispatch: int | str = "2*n_jobs",
    verbose: bool = False,
) -> dict[str, Any]:
    """Cross-validate like Surprise's ``cross_validate``, with the identities of the test pairs known.

    This is the setting of the Netflix Prize, where the pairs to be predicted were known (CRBM2 in Mnih 2010,
    section 5.4). It is transductive: do not compare its results with the results of ordinary cross-validation.

    Pairs in the algorithm's own ``rated=`` are known in every fold, too.

    Takes the arguments of ``cross_validate``: ``measures`` are functions of ``surprise.accuracy``, and ``n_jobs`` folds
    run at a time, each in a process. Returns the same dictionary, with a ``protocol`` that says it is transductive.
    Raises ConfigurationError for an algorithm that cannot take identities, and for an unknown measure; DataError for
    data that is no Dataset.
    """
    if not isinstance(algo, AlgoBase) or not getattr(algo, "conditional", False):
        name = getattr(algo, "__name__", type(algo).__name__)
        raise ConfigurationError(
            f"{name} is no algorithm that conditions on identities: give one, as ConditionalPMF()"
        )
    if not isinstance(data, Dataset):
        raise DataError(
            f"data is a {type(data).__name__}; give a Dataset, which is split into folds"
        )
    names = [str(name).lower() for name in measures]
    for name in names:
        if not callable(getattr(accuracy, name, None)):
            raise ConfigurationError(
                f"{name!r} is not a measure of surprise.accuracy: give a list of names, such as ['rmse', 'mae']"
            )
    folds = Parallel(n_jobs=n_jobs, pre_dispatch=pre_dispatch)(
        delayed(fit_and_score)(_with_test_pairs(algo, *fold), *fold, names, return_train_measures)
        for fold in get_cv(cv).split(data)
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


def _with_test_pairs(algo: AlgoBase, trainset: Trainset, testset: list[Any]) -> AlgoBase:
    """Copy an algorithm, and add the pairs of the test set to those that it knows to be rated."""
    # A random fold holds out all ratings of some items. Pairs with these items are left out here, because
    # `FitData.join` would warn of them in every fold.
    held_out_items = {item for _, item, _ in testset} - trainset._raw2inner_id_items.keys()
    pairs = [] if algo.rated is None else list(algo.rated.pairs)
    pairs += [(user, item) for user, item, _ in testset]
    conditional = copy(algo)
    conditional.rated = SideInfo(pair for pair in pairs if pair[1] not in held_out_items)
    return conditional
