"""Evaluation: cross-validation with the rated pairs of the test set known, and the quality of top lists."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed  # type: ignore[import-untyped]
from surprise import Dataset, Trainset
from surprise.model_selection.split import get_cv
from surprise.model_selection.validation import fit_and_score

from tacenda.errors import ConfigurationError
from tacenda.ratings import Ratings
from tacenda_surprise.algorithm import RatingAlgorithm
from tacenda_surprise.catalogue import Numbers
from tacenda_surprise.side_info import SideInfo
from tacenda_surprise.top_n import Ranked, top


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


class Quality(NamedTuple):
    """Quality of lists: means over the users who have items held out.

    With h_k = 1 if the item in place k of the list was held out, m items held out and n places: ``hit_rate`` is how
    often any h_k is 1, ``recall`` sum_k h_k / m, ``ndcg`` sum_k h_k / log2(k + 1) over what it is at best, and
    ``mrr`` 1 / k of the first h_k that is 1, or 0.
    """

    hit_rate: float
    ndcg: float
    mrr: float
    recall: float


def quality(ranked: Iterable[Ranked], held_out: Ratings, n: int) -> Quality:
    """Compare lists of at most ``n`` items with what their users have rated in ``held_out``; others are passed over."""
    gains = 1 / np.log2(np.arange(n) + 2)
    rows = []
    for one in ranked:
        wanted, _ = held_out.of_user(one.user)
        if not len(wanted):
            continue
        places = np.flatnonzero(np.isin(one.items[:n], wanted))
        best = gains[: min(len(wanted), n)].sum()
        first = 1 / (places[0] + 1) if len(places) else 0.0
        rows.append((len(places) > 0, gains[places].sum() / best, first, len(places) / len(wanted)))
    return Quality(*np.mean(rows, axis=0).tolist()) if rows else Quality(*[float("nan")] * 4)


def most_popular(train: Ratings, users: Numbers, n: int, held_out: Ratings) -> Quality:
    """Judge lists of the items with the most ratings, without what users have rated."""
    counts = train.item_counts.astype(np.float32)
    ranked = (Ranked(u, *top(counts, n, train.of_user(u)[0])) for u in users.tolist())
    return quality(ranked, held_out, n)
