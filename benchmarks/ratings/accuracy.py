"""RMSE and time of every algorithm, ours, Surprise's and other libraries', on the same folds.

    python -m benchmarks.ratings.accuracy [--data ml-1m] [--only NAME ...] [--repeats 1] [--again]

Ours have their defaults. The others have two rows: their defaults, and settings chosen on ratings held out
(`benchmarks.ratings.peer_settings`). All test pairs are scored and clipped to the scale; compiled code is warm. cornac,
LensKit and myFM run under an interpreter of their own (`benchmarks.ratings.peers`); one that is not installed is left
out, a line says so, and the table is not replaced. Every finished fold is kept, so that an interrupted run goes on
where it was, and what was measured with the same code and libraries is measured again only with ``--again``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import fmean, stdev
from typing import Any, NamedTuple

from surprise import AlgoBase

from benchmarks import kept, reporting
from benchmarks.ratings import data, measuring, peer_process, peer_settings, peers
from benchmarks.ratings.data import Fold
from benchmarks.ratings.measuring import SEED
from benchmarks.ratings.peers import PEERS, Measured, told
from benchmarks.reporting import Options, Row, Table
from tacenda_surprise import (
    PMF,
    RBM,
    BayesianPMF,
    Blend,
    ConditionalBayesianPMF,
    ConditionalPMF,
    ConditionalRBM,
)

OURS: dict[str, Callable[[], AlgoBase]] = {
    "PMF": lambda: PMF(random_state=SEED),
    "BayesianPMF": lambda: BayesianPMF(random_state=SEED),
    "ConditionalPMF": lambda: ConditionalPMF(random_state=SEED),
    "ConditionalBayesianPMF": lambda: ConditionalBayesianPMF(random_state=SEED),
    "RBM": lambda: RBM(random_state=SEED),
    "ConditionalRBM": lambda: ConditionalRBM(random_state=SEED),
    "RBM of the thesis": lambda: RBM.thesis(random_state=SEED),
    "Blend of ConditionalBayesianPMF and ConditionalRBM": lambda: Blend(
        [ConditionalBayesianPMF(random_state=SEED), ConditionalRBM(random_state=SEED)],
        random_state=SEED,
    ),
}
CHOSEN = ", chosen settings"
SLOW = 30.0  # seconds of processor time: what takes longer is timed once

SEEN = (
    "constants of ours were first chosen on other folds of MovieLens-100K and on parts of MovieLens-1M, which hold "
    "ratings that are tested here, and then compared with their neighbors on synthetic sets (ratings.defaults at "
    "6aec3c05)"
)
PROTOCOL = {
    "ours": "defaults of every class, random_state=0",
    "others": "the defaults of their documentation, and settings chosen on a tenth of the training ratings "
    "(peer-settings); myFM has no default rank: rank 10, 200 sweeps and groups of users and items are those of "
    "its documentation, and it has groups in both rows; what a library cannot predict is the mean of the training "
    "ratings; all are given the ratings in one random order, drawn by seed",
    "spread": "standard deviation of the RMSE over folds; folds differ by more than algorithms do, so compare fold "
    "by fold",
    "time": "one thread, seconds of processor time, fitting and testing apart, median over folds and repeats; what "
    f"takes more than {SLOW:.0f} s is not repeated",
}


class Entry(NamedTuple):
    """A row of the table, and what measures it on some folds."""

    name: str
    settings: str
    library: str
    measure: Callable[[Sequence[Fold]], Iterator[Measured]]


def entries(name: str, options: Options) -> Iterator[Entry]:
    """Yield every row of a data set whose library is installed."""
    own = f"tacenda-surprise {reporting.installed('tacenda-surprise')}"
    for row, make in OURS.items():
        yield Entry(row, "defaults", own, lambda folds, make=make: measuring.here(make, folds))
    chosen = peer_settings.chosen(name)
    for peer in PEERS:
        library = measuring.library(peer)
        if library is None:
            options.leave_out(peer.name, f"{peer.library} is not installed")
            continue
        rows = {peer.name: peer.default}
        if chosen.get(peer.name, peer.default) != peer.default:
            rows[peer.name + CHOSEN] = chosen[peer.name]
        for row, settings in rows.items():
            yield Entry(
                row,
                told(settings),
                library,
                lambda folds, peer=peer, settings=settings: measuring.of_peer(
                    peer, [settings], folds
                ),
            )


def figures(entry: Entry, folds: Sequence[Fold], repeats: int, cells: kept.Cells) -> Row:
    """Return the row of ``entry``, its folds measured now or found in the cells."""
    found: list[dict[str, Any]] = []
    ours = entry.library.startswith("tacenda")
    for repeat in range(repeats):
        if repeat and found[0]["fit"] + found[0]["test"] > SLOW:
            break
        about = {"row": entry.name, "settings": entry.settings, "library": entry.library}
        keys = [kept.cell_key(**about, repeat=repeat, fold=n) for n in range(len(folds))]
        left = [(key, fold) for key, fold in zip(keys, folds, strict=True) if key not in cells]
        measured = entry.measure([fold for _, fold in left]) if left else ()
        for (key, fold), (estimates, fit, test) in zip(left, measured, strict=True):
            rmse, mae = measuring.rmse(estimates, fold), measuring.mae(estimates, fold)
            cell = {"rmse": rmse, "mae": mae, "fit": fit, "test": test}
            cells.measure(key, lambda cell=cell: cell, ours=ours)
            print(f"{entry.name}: {rmse:.4f}", flush=True)
        found += [cells[key] for key in keys]
    once = found[: len(folds)]
    return {
        "algorithm": entry.name,
        "settings": entry.settings,
        "library": entry.library,
        "folds": len(once),
        "RMSE": round(fmean(cell["rmse"] for cell in once), 4),
        "spread": round(stdev(cell["rmse"] for cell in once), 4) if len(once) > 1 else None,
        "RMSE of folds": [round(cell["rmse"], 4) for cell in once],
        "MAE": round(fmean(cell["mae"] for cell in once), 4),
        "fit s": reporting.summary([cell["fit"] for cell in found]),
        "test s": reporting.summary([cell["test"] for cell in found]),
    }


def table(name: str) -> Table:
    """Return the table of a data set."""

    def protocol(options: Any) -> dict[str, Any]:
        return {
            "data": data.SPLITS[name],
            "settings seen": SEEN,
            **PROTOCOL,
            "cornac, LensKit and myFM under": peers.versions(peers.interpreter()),
            "the others under": peer_process.installed(),
            "repeats": options.repeats,
        }

    def rows(options: Any) -> Iterator[Row]:
        cells, folds = kept.Cells(f"ratings-{name}"), data.folds(name)
        if options.again:
            cells.clear()
        every = {entry.name: entry for entry in entries(name, options)}
        for row in options.chosen(every):
            yield figures(every[row], folds, options.repeats, cells)

    return Table(f"ratings-{name}", protocol, rows, key="algorithm")


if __name__ == "__main__":
    options = reporting.parse(__doc__, data=data.NAMES, repeats=1)
    for each in options.data:
        table(each).run(options)
