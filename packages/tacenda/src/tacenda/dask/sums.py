"""Work on partitions on the workers of a Dask cluster, and the sum of its results in a tree.

A task is a pure function of a partition, so one that a dead worker took along is done again elsewhere, and one that is
done twice changes nothing. Results are sums of integers, which do not depend on their order. A result comes in
*pieces* (rows of a matrix, a range of n-grams), which are summed each by itself, `FAN_IN` at a time: a worker needs
memory for so many pieces, and Dask writes to its disk what it holds beyond.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, TypeVar

import dask
from dask.delayed import Delayed, delayed
from distributed import CancelledError, Client, KilledWorker, as_completed, get_client

from tacenda.errors import ConfigurationError, FittingError
from tacenda.progress import Progress, track

__all__ = [
    "FAN_IN",
    "Run",
    "Summed",
    "client_or_current",
    "connected",
    "finished",
    "placed",
    "summed",
    "tree",
]

FAN_IN: Final = 8
"""How many results are summed in one task."""

_RETRIES: Final = 3  # of a task that fails, as storage that is far away sometimes does

T = TypeVar("T")


class Run(NamedTuple):
    """What counting a partition gives: pieces to be summed, and what is small enough to be sent to the client."""

    pieces: list[Any]
    about: Any


class Summed(NamedTuple):
    """What `summed` returns."""

    about: list[Any]
    """Of every partition, in order."""
    pieces: Iterator[Any]
    """The sums of the pieces in order, fetched one by one."""


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


def tree(results: Sequence[Delayed], add: Callable[[list[Any]], Any]) -> Delayed:
    """Return the sum of results, each `FAN_IN` of them by one call of ``add``."""
    level = list(results)
    while len(level) > 1:
        groups = [level[i : i + FAN_IN] for i in range(0, len(level), FAN_IN)]
        level = [delayed(add)(group) if len(group) > 1 else group[0] for group in groups]
    return level[0]


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
) -> Summed:
    """Sum the pieces of runs over all partitions.

    Parameters
    ----------
    client
        Where to.
    runs
        One for each partition, each a `Run` with ``n_pieces`` pieces when it is computed.
    add
        Returns the sum of a list of pieces.
    description, sizes, unit
        Of the progress bar: what is done, and how much of it each partition is.
    """
    about = [delayed(_about)(run) for run in runs]
    sums = [tree([delayed(_piece)(run, i) for run in runs], add) for i in range(n_pieces)]
    # in one graph, so that Dask sums what is there before it counts more
    futures = client.compute([*about, *sums], retries=_RETRIES)
    _watch(client, futures[: len(runs)], description, sizes, unit)
    with _explained():
        found = client.gather(futures[: len(runs)])
    return Summed(found, _fetched(futures[len(runs) :]))


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
    """Yield results, and let go of each on the cluster."""
    futures.reverse()
    while futures:
        future = futures.pop()
        with _explained():
            found = future.result()
        future.release()
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


def _about(run: Run) -> Any:
    return run.about


def _piece(run: Run, i: int) -> Any:
    return run.pieces[i]
