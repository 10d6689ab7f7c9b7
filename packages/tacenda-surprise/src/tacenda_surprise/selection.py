"""Choosing among algorithms with Surprise: algorithms by name and options, and cross-validation with identities."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np
from joblib import Parallel, delayed  # type: ignore[import-untyped]
from surprise import AlgoBase, Dataset, Trainset, accuracy
from surprise.model_selection.split import get_cv
from surprise.model_selection.validation import fit_and_score

from tacenda import plugins
from tacenda.errors import ConfigurationError, DataError
from tacenda_surprise.frames import SideInfo


def option_names(name: str, distribution: str | None = None) -> set[str]:
    """Return the names of the options of a registered algorithm. Raises PluginError as `Recommender` does."""
    algorithm = plugins.get("recommenders", name, distribution=distribution)
    return set(inspect.signature(algorithm).parameters)


def Recommender(  # noqa: N802 - the algorithm that it makes is named by its first argument
    name: str = "conditional_pmf",
    *,
    distribution: str | None = None,
    settings: Mapping[str, Any] | None = None,
    **options: Any,
) -> AlgoBase:
    """Make the algorithm that is registered under a name; ``tacenda plugins recommenders`` lists them.

    ``settings`` and further arguments are options of the algorithm. ``random_state`` and ``verbose`` are ignored by
    algorithms that do not have these options. Raises PluginError for an algorithm that does not exist or cannot be
    loaded.

    Examples
    --------
    >>> cross_validate(Recommender(name="pmf", n_factors=20), data)
    >>> GridSearchCV(Recommender, {"name": ["pmf", "rbm"], "random_state": [0]})
    """
    given = {**options, **(settings or {})}
    for ignored in {"random_state", "verbose"} - option_names(name, distribution):
        given.pop(ignored, None)
    return plugins.make("recommenders", name, given, distribution=distribution)


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
    for name in names:  # accuracy also has what it imports, such as defaultdict
        if getattr(getattr(accuracy, name, None), "__module__", None) != accuracy.__name__:
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
