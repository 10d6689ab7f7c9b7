"""Parts of Surprise that the algorithms share: random states, predictions of raw ids, cross-validation, printing."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed  # type: ignore[import-untyped]
from surprise import AlgoBase, Dataset, Prediction, Trainset, accuracy
from surprise.model_selection.split import get_cv
from surprise.model_selection.validation import fit_and_score
from surprise.utils import get_rng

from tacenda.errors import ConfigurationError, DataError
from tacenda.fitting import Callback, FitLoop
from tacenda_surprise.catalogue import Doubles, Numbers
from tacenda_surprise.frames import SideInfo
from tacenda_surprise.top_n import check_answer
from tacenda_surprise.users import NewUser


def make_rng(seed: int | list[int] | np.random.RandomState | None) -> np.random.RandomState:
    """Return the state of NumPy that Surprise makes of a ``random_state``; seeds may be of any size here."""
    if seed is None or isinstance(seed, np.random.RandomState):
        return get_rng(seed)  # type: ignore[no-any-return]
    try:
        return np.random.RandomState(seed)
    except ValueError:  # more than 32 bits
        return np.random.RandomState(np.random.MT19937(np.random.SeedSequence(seed)))


class EpochPrinter(Callback):
    """Prints a line for every epoch, with ``verbose=True``."""

    def on_epoch_end(self, run: FitLoop) -> None:
        epoch, loss = run.history.epochs - 1, run.history.epoch_losses[-1]
        held_out = [f", held out {one.value:.4f}" for one in run.history.evaluations[-1:]]
        print(f"Processing epoch {epoch}: training loss {loss:.4f}", *held_out, sep="")


class Asked(NamedTuple):
    """Pairs of users and items that a model is asked about."""

    users: Numbers  # (pairs,); -1 for a user whom the model was not fitted to
    items: Numbers  # (pairs,); -1 for an unknown item
    new: Sequence[
        tuple[NewUser, Numbers]
    ] = ()  # users folded in, each with the places of their pairs

    def answers(self, model: object, method: str, *columns: int) -> Doubles:
        """Ask a ``method`` of the model, or of the new users: (pairs, *columns).

        Raises PluginError if the model answers with anything but floats of this shape.
        """
        answers = getattr(model, method)(self.users, self.items)
        found = check_answer(model, method, answers, len(self.users), *columns).astype(np.float64)
        for user, places in self.new:
            found[places] = user.ask(method, self.items[places])
        return found

    def explain_unknown(self) -> dict[int, str]:
        """Say what is unknown in each pair, by its place, that has an unknown user or item."""
        users = self.users.copy()
        for _, places in self.new:
            users[places] = 0
        reasons = {
            (True, True): "User and item are",
            (True, False): "User is",
            (False, True): "Item is",
        }
        return {
            place: f"{reasons[bool(users[place] < 0), bool(self.items[place] < 0)]} unknown."
            for place in np.flatnonzero((users < 0) | (self.items < 0)).tolist()
        }


def make_predictions(
    columns: Iterable[Sequence[Any]], estimates: list[float], reasons: Mapping[int, str]
) -> list[Prediction]:
    """Make predictions of ``columns``, users, items and true ratings; ``reasons`` are of impossible ones, by row."""
    # Many small objects, which map makes faster than a loop does.
    details = map(dict.copy, repeat({"was_impossible": False}))
    fields = zip(*columns, estimates, details, strict=False)  # details never end
    predictions: list[Prediction] = list(map(tuple.__new__, repeat(Prediction), fields))
    for row, reason in reasons.items():
        predictions[row].details.update(was_impossible=True, reason=reason)
    return predictions


@contextmanager
def no_collection() -> Iterator[None]:
    """Hold back the cyclic garbage collector while many objects are made that all stay.

    It would scan all of Surprise's tuples again and again while a list of predictions grows, which takes three
    quarters of the time of ``test``. Freezing and unfreezing at the end moves the new objects to the oldest generation
    without scanning them.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            if gc.get_freeze_count() == 0:  # else somebody wants objects to stay frozen
                gc.freeze()
                gc.unfreeze()
            gc.enable()


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
