"""Work on partitions on the workers of a Dask cluster, and the sum of its results in a tree.

A task is a pure function of a partition, so one that a dead worker took along is done again elsewhere, and one that is
done twice changes nothing. Results are sums of integers, which do not depend on their order. A result comes in
*pieces* (rows of a matrix, a range of n-grams), which are summed each by itself, `FAN_IN` at a time: a worker needs
memory for so many pieces, and Dask writes to its disk what it holds beyond. Pieces of one worker are added up there
before anything is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import dask
from dask.delayed import Delayed, delayed
from distributed import CancelledError, Client, KilledWorker, as_completed, get_client

from tacenda.errors import ConfigurationError, FittingError
from tacenda.progress import Progress, track

__all__ = [
    "FAN_IN",
    "client_or_current",
    "computed",
    "connected",
    "finished",
    "holders",
    "placed",
    "summed",
    "tree",
]

FAN_IN: Final = 8
"""How many results are summed in one task."""

_RETRIES: Final = 3  # of a task that fails, as storage that is far away sometimes does

T = TypeVar("T")


def client_or_current(client: Client | None) -> Client:
    """Return the client, or the current one if it is None. Raises ConfigurationError if there is none."""
    if client is not None:
        return client
    try:
        return get_client()
    except ValueError as error:
        raise ConfigurationError(
            "there is no current Dask client: make one with dask.distributed.Client(...), or give client="
        ) from error


@contextmanager
def connected(address: str) -> Iterator[Client]:
    """Make a client of a scheduler's address, or of workers on this machine for ``"local"``, one for each processor.

    Raises ConfigurationError if no scheduler answers there.
    """
    try:
        if address == "local":  # one thread each: splitting lines keeps a Python process to itself
            client = Client(threads_per_worker=1, dashboard_address=None, set_as_default=False)
        else:
            client = Client(address, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"no Dask scheduler answers at {address!r} ({error}): give its address, such as tcp://host:8786, or local"
        ) from error
    with client:
        yield client


def placed(client: Client, value: T) -> Any:
    """Return a value as a future that outlives every worker: what ``scatter`` places dies with those that hold it."""
    # it travels once, in a task of its own, and Dask would advise to scatter it
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 GiB"}):
        return client.submit(_itself, value, pure=False, retries=_RETRIES)


def holders(client: Client, futures: Sequence[Any]) -> list[str]:
    """Return the worker that holds each result; an empty string where it is not there, or no longer."""
    with _explained():
        found = client.who_has(futures)
    return [min(found.get(future.key, ()), default="") for future in futures]


def tree(
    results: Sequence[Delayed], add: Callable[[list[Any]], Any], places: Sequence[str] = ()
) -> Delayed:
    """Return the sum of results, each `FAN_IN` of them by one call of ``add``.

    ``places`` says where each result will be: those of one place are added up first, so that a sum is sent instead of
    what it is made of.
    """
    by_place: dict[str, list[Delayed]] = {}
    for result, place in zip(results, places or [""] * len(results), strict=True):
        by_place.setdefault(place, []).append(result)
    return _sum_of([_sum_of(level, add) for level in by_place.values()], add)


def _sum_of(level: list[Delayed], add: Callable[[list[Any]], Any]) -> Delayed:
    while len(level) > 1:
        groups = [level[i : i + FAN_IN] for i in range(0, len(level), FAN_IN)]
        level = [delayed(add)(group) if len(group) > 1 else group[0] for group in groups]
    return level[0]


def computed(client: Client, result: Delayed) -> Any:
    """Compute one result on the cluster, and return it. Raises what a task raises, or FittingError as `finished`."""
    with _explained():
        return client.compute(result, retries=_RETRIES).result()


def finished(
    client: Client, results: list[Delayed], description: str, sizes: Sequence[int], unit: str
) -> list[Any]:
    """Compute results on the cluster, and return their futures when all are there; a bar shows how far it has come.

    The list is emptied, so that what the results were made of is forgotten as soon as they are there.

    Raises what a task raises, or FittingError where workers die of a task.
    """
    futures: list[Any] = client.compute(results, retries=_RETRIES)
    results.clear()
    _watch(client, futures, description, sizes, unit)
    return futures


def summed(
    client: Client,
    runs: Sequence[Delayed],
    n_pieces: int,
    add: Callable[[list[Any]], Any],
    description: str,
    sizes: Sequence[int],
    unit: str,
    *,
    places: Sequence[str] = (),
    more: Sequence[Delayed] = (),
) -> Iterator[Any]:
    """Sum the pieces of runs over all partitions, and return the sums in order, which are fetched one by one.

    Parameters
    ----------
    client
        Where to.
    runs
        One for each partition, each a list of ``n_pieces`` pieces when it is computed.
    add
        Returns the sum of a list of pieces.
    description, sizes, unit
        Of the progress bar: what is done, and how much of it each partition is.
    places
        Where each run will be, as of `tree`.
    more
        What else belongs to each piece, if anything; it is added up with the first run.
    """
    done = [delayed(_done)(run) for run in runs]
    sums = []
    for i in range(n_pieces):
        pieces = [*more[i : i + 1], *(delayed(_piece)(run, i) for run in runs)]
        sums.append(tree(pieces, add, [*places[: len(pieces) - len(runs)], *places]))
    # in one graph, so that Dask sums what is there before it counts more
    futures = client.compute([*done, *sums], retries=_RETRIES)
    _watch(client, futures[: len(runs)], description, sizes, unit)
    return _fetched(futures[len(runs) :])


def _watch(
    client: Client, futures: list[Any], description: str, sizes: Sequence[int], unit: str
) -> None:
    """Wait for futures, each of a known size, with a bar. Raises what a task raises."""
    size_of = dict(zip(futures, sizes, strict=True))
    bar: Progress[Any] = track(None, description, total=sum(sizes), unit=unit)
    with bar, _explained():
        for future in as_completed(futures, loop=client.loop):
            if future.status != "finished":
                future.result()
            bar.update(size_of[future])


def _fetched(futures: list[Any]) -> Iterator[Any]:
    """Yield results, and let go of each on the cluster; the next one is on its way while one is in use."""
    futures.reverse()

    def fetch(future: Any) -> Any:
        with _explained():
            found = future.result()
        future.release()
        return found

    with ThreadPoolExecutor(1, thread_name_prefix="tacenda-fetch") as ahead:
        coming = ahead.submit(fetch, futures.pop()) if futures else None
        while coming is not None:
            found = coming.result()
            coming = ahead.submit(fetch, futures.pop()) if futures else None
            yield found


@contextmanager
def _explained() -> Iterator[None]:
    """Say in one sentence what is wrong where a cluster gives up."""
    try:
        yield
    except KilledWorker as error:
        raise FittingError(
            f"workers of the cluster died again and again over one task ({error.task}): give them more memory, or make "
            "partitions smaller with partition_bytes"
        ) from error
    except CancelledError as error:
        raise FittingError(
            "the cluster has given up the work: its scheduler, or this client, was closed; start again"
        ) from error


def _itself(value: T) -> T:
    return value


def _done(run: list[Any]) -> None:
    pass


def _piece(run: list[Any], i: int) -> Any:
    return run[i]
