"""cornac, LensKit and myFM on the folds of a benchmark, in a process and under an interpreter of their own.

Their newest versions ask for another Python than the one these benchmarks may run under. The environment variable
TACENDA_PEERS_PYTHON names an interpreter that has them; without it it is that of `.venv-peers`, which `make bench`
makes where Python 3.12.5 or newer is found, and without that the interpreter of the benchmark itself.

The algorithms of other libraries that ours stand beside, and the settings that are tried for each.

Every peer is measured with the defaults that its documentation states, and with those of its ``candidates`` that
predict ratings held out of the training part best (`benchmarks.ratings.peer_settings`). Candidates of
factorizations have 100 factors, as `PMF` has, and more epochs than the default, with penalties around it; those of
the Bayesian one have widths as ours chooses them, 8 to 32, and as many sweeps or more. Where the defaults are best
there is no second row.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks import freshness
from benchmarks.ratings import peer_process
from benchmarks.ratings.data import Fold
from tacenda_surprise.raw_ids import numbers
from tacenda_surprise.trainsets import ratings_of

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
    own = freshness.ROOT / ".venv-peers" / "bin" / "python"
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


Settings = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Peer:
    """An algorithm of another library.

    Attributes
    ----------
    name
        Of its row.
    library
        The distribution that it comes from.
    algorithm
        Its class there.
    default
        Settings of its row of defaults: none, or what its documentation uses where it has no default.
    candidates
        Settings that are tried on ratings held out; none: it has none that matter.
    slow
        Whether these take hours on a million ratings: there, only the defaults are measured.
    """

    name: str
    library: str
    algorithm: str
    default: Settings = field(default_factory=dict)
    candidates: Sequence[Settings] = ()
    slow: bool = False

    def tried(self, data: str) -> Sequence[Settings]:
        """The candidates for this data set, the defaults among them."""
        if not self.candidates or (self.slow and data != "ml-100k"):
            return ()
        return [self.default, *(each for each in self.candidates if each != self.default)]

    @property
    def in_surprise(self) -> bool:
        return self.library == SURPRISE


def grid(**options: Sequence[Any]) -> list[Settings]:
    """Every combination of the values of these options."""
    return [dict(zip(options, values, strict=True)) for values in product(*options.values())]


def told(settings: Settings) -> str:
    """The settings as a reader sees them, by the library's own names."""
    return ", ".join(f"{name}={_value(value)}" for name, value in settings.items()) or "defaults"


def _value(value: Any) -> str:
    return f"({told(value)})" if isinstance(value, Mapping) else f"{value}"


SURPRISE = "scikit-surprise"
PEERS = (
    Peer("Surprise BaselineOnly", SURPRISE, "BaselineOnly"),
    Peer("Surprise SVD", SURPRISE, "SVD",
         candidates=grid(n_factors=[100], n_epochs=[20, 40, 80, 160], reg_all=[0.02, 0.05, 0.1])),
    Peer("Surprise SVD, biased=False", SURPRISE, "SVD", {"biased": False},
         grid(biased=[False], n_factors=[100], n_epochs=[20, 40, 80, 160], reg_all=[0.02, 0.05, 0.1])),
    Peer("Surprise KNNBaseline", SURPRISE, "KNNBaseline",
         candidates=grid(sim_options=[{"name": "pearson_baseline", "user_based": each} for each in (False, True)])),
    Peer("Surprise SVDpp", SURPRISE, "SVDpp", slow=True,
         candidates=grid(n_factors=[100], n_epochs=[20, 40, 80], reg_all=[0.02, 0.1], cache_ratings=[True])),
    Peer("cornac MF", "cornac", "MF",
         candidates=grid(k=[100], max_iter=[20, 40, 80, 160], lambda_reg=[0.02, 0.05, 0.1, 0.2])),
    Peer("cornac PMF", "cornac", "PMF", candidates=[
        *grid(k=[100], variant=["linear"], max_iter=[50, 100], lambda_reg=[0.001, 0.01, 0.1]),
        *grid(k=[100], variant=["non_linear"], max_iter=[50], lambda_reg=[0.001, 0.01, 0.1]),
    ]),
    Peer("LensKit ALS with biases", "lenskit", "BiasedMFScorer",
         candidates=grid(embedding_size=[100], epochs=[10, 20], regularization=[0.05, 0.1, 0.2])),
    Peer("myFM", "myfm", "MyFMRegressor", {"rank": 10, "n_iter": 200, "n_kept_samples": 200}, [
        {"rank": rank, "n_iter": sweeps, "n_kept_samples": sweeps}
        for rank, sweeps in ((10, 200), (20, 200), (32, 200), (20, 500))
    ]),
)  # fmt: skip
