"""cornac, LensKit and myFM on the folds of a benchmark, in a process and under an interpreter of their own.

Their newest versions ask for another Python than the one these benchmarks may run under. The environment variable
TACENDA_PEERS_PYTHON names an interpreter that has them; without it it is that of `.venv-peers`, which `make bench`
makes where Python 3.12.5 or newer is found, and without that the interpreter of the benchmark itself.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks import parts
from benchmarks.ratings import peer_process
from benchmarks.ratings.data import Fold
from benchmarks.ratings.peers import Peer, Settings
from tacenda_surprise.trainsets import numbers, ratings_of

Floats = npt.NDArray[np.float64]

ONE_THREAD_AND_QUIET = {
    f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "RAYON", "LK")
} | {"LK_NUM_BACKEND_THREADS": "1", "TQDM_DISABLE": "1"}


class Measured(NamedTuple):
    """Estimates (test pairs,), clipped to the scale, and processor seconds."""

    estimates: Floats
    fit: float
    test: float


def interpreter() -> Path:
    """The Python that has the libraries."""
    named = os.environ.get("TACENDA_PEERS_PYTHON")
    own = parts.ROOT / ".venv-peers" / "bin" / "python"
    return Path(named) if named else own if own.exists() else Path(sys.executable)


@cache
def versions(python: Path) -> dict[str, str]:
    """Of Python and of the libraries under ``python``, by name."""
    command, environment = _command(python), _environment()
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout))


def version_of(library: str) -> str | None:
    """The version that is measured; None: it is not installed."""
    return versions(interpreter()).get(library)


def measure(
    peer: Peer, tried: Sequence[Settings], folds: Sequence[Fold], seed: int
) -> Iterator[Measured]:
    """Fits and tests ``peer`` with every one of the settings on every fold: all folds of the first, then the next."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number, fold in enumerate(folds):
            write(folder / f"{number}.npz", fold)
        with _process(folder) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            for settings in tried:
                for number, fold in enumerate(folds):
                    job = {
                        "library": peer.library,
                        "algorithm": peer.algorithm,
                        "settings": dict(settings),
                        "seed": seed,
                        "fold": str(number),
                        "scores": "scores",
                    }
                    print(json.dumps(job), file=process.stdin, flush=True)
                    line = process.stdout.readline()
                    if not line:
                        raise RuntimeError(f"{peer.name} failed; its own words are above")
                    yield Measured(read(folder / "scores.npy", fold), **json.loads(line))


def write(path: Path, fold: Fold) -> None:
    """The fold as numbers: -1 is a user or item of the test part that has no training rating."""
    ratings = ratings_of(fold.trainset)
    uids, iids, _ = zip(*fold.testset, strict=True)
    np.savez(
        path,
        users=ratings.user_ids.astype(np.int64),
        items=ratings.item_ids.astype(np.int64),
        values=ratings.values.astype(np.float64),
        n_users=ratings.n_users,
        n_items=ratings.n_items,
        test_users=numbers(uids, fold.trainset._raw2inner_id_users),
        test_items=numbers(iids, fold.trainset._raw2inner_id_items),
    )


def read(path: Path, fold: Fold) -> Floats:
    """Estimates as Surprise makes them: clipped, and the mean rating where the library has none."""
    scores = np.load(path)
    scores[~np.isfinite(scores)] = fold.trainset.global_mean
    return np.asarray(np.clip(scores, *fold.trainset.rating_scale), np.float64)


@contextmanager
def _process(folder: Path) -> Iterator[subprocess.Popen[str]]:
    command = [*_command(interpreter()), str(folder)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=_environment(), **pipes) as process:
        try:
            yield process
        finally:
            assert process.stdin is not None
            process.stdin.close()


def _environment() -> dict[str, str]:
    """One thread; PYTHONPATH is left out, as it is meant for the Python of the benchmark."""
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return own | ONE_THREAD_AND_QUIET


def _command(python: Path) -> list[str]:
    """``-P``: the modules that lie beside the script are not what the libraries mean to import."""
    return [str(python), "-P", peer_process.__file__]
