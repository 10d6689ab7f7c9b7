"""Settings of the peers that are fair to them: those that predict ratings held out best.

    python -m benchmarks.ratings.peer_settings [--data ml-1m] [--only NAME ...]

A tenth of the training part of the first fold is held out. Every candidate of `benchmarks.ratings.peers` is fitted
to the rest, and the best one is what `benchmarks.ratings.accuracy` measures beside the defaults. No test part is seen
on MovieLens-1M; on MovieLens-100K the training part of the first fold holds the test parts of the others, which can
only favour the peers. Every finished candidate is kept, so that an interrupted run goes on where it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks import kept, reporting
from benchmarks.ratings import data, measuring
from benchmarks.ratings.data import Fold
from benchmarks.ratings.peers import PEERS, Peer, Settings, told
from benchmarks.reporting import Row, Table

PROTOCOL = {
    "measure": "RMSE of a tenth of the training part, held out; the test part decides nothing",
    "MovieLens-100K": "the training part of the first fold, which holds test ratings of the other folds",
    "time": "seconds of processor time, one thread",
}


def results(name: str) -> str:
    """The name of the results of a data set."""
    return f"ratings-peer-settings-{name}"


def chosen(name: str) -> dict[str, Settings]:
    """The settings of every peer, by name, that were best on the data set, as far as they are searched."""
    report = reporting.stored(results(name))
    if report is None:
        print(f"Defaults alone: run python -m benchmarks.ratings.peer_settings --data {name}")
        return {}
    return {row["peer"]: row["options"] for row in report["rows"] if row["chosen"] == "yes"}


def rows_of(peer: Peer, candidates: Sequence[Settings], fold: Fold, cells: kept.Cells) -> list[Row]:
    """Return one row a candidate; the best is chosen."""
    library = measuring.library(peer)
    keys = {
        kept.cell_key(peer=peer.name, library=library, settings=told(settings)): settings
        for settings in candidates
    }
    missing = {key: settings for key, settings in keys.items() if key not in cells}
    measured = measuring.of_peer(peer, list(missing.values()), [fold])
    for key, (estimates, fit, _) in zip(missing, measured, strict=True):
        rmse = round(measuring.rmse(estimates, fold), 4)
        cells.measure(
            key, lambda rmse=rmse, fit=fit: {"rmse": rmse, "fit": round(fit, 2)}, ours=False
        )
        print(f"{key}: {rmse:.4f}", flush=True)
    best = min(keys, key=lambda key: cells[key]["rmse"])
    return [
        {
            "row": f"{peer.name}: {told(settings)}",
            "peer": peer.name,
            "library": library,
            "settings": told(settings),
            "RMSE held out": cells[key]["rmse"],
            "fit s": cells[key]["fit"],
            "chosen": "yes" if key == best else "no",
            "options": dict(settings),
        }
        for key, settings in keys.items()
    ]


def table(name: str) -> Table:
    """Return the table of a data set."""

    def rows(options: Any) -> Iterator[Row]:
        cells, fold = kept.Cells(results(name)), data.held_out(data.folds(name, 1)[0])
        if options.again:
            cells.clear()
        tried = {peer.name: peer for peer in PEERS if peer.tried(name)}
        for peer in map(tried.__getitem__, options.chosen(tried)):
            if measuring.library(peer) is None:
                options.leave_out(peer.name, f"{peer.library} is not installed")
                continue
            yield from rows_of(peer, peer.tried(name), fold, cells)

    protocol = {"data": data.SPLITS[name], **PROTOCOL}
    return Table(results(name), protocol, rows, key="row")


if __name__ == "__main__":
    options = reporting.parse(__doc__, data=data.NAMES)
    for each in options.data:
        table(each).run(options)
