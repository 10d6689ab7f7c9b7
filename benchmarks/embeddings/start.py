"""EM from subspace identification against EM from a random start: the paper's Figure 2.

    python -m benchmarks.embeddings.start [--seeds 0 1 2] [--iterations 30] [--states 100]

Likelihood gain over the model without dynamics, in nats per token, at the start and after every full
EM iteration (no subspace stage for either), on the unlabelled text. Writes the curves and a picture,
benchmarks/results/embeddings-start.{json,png}.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from benchmarks import kept, pictures
from benchmarks.embeddings import models
from benchmarks.reporting import Row, Table, main
from tacenda_embeddings import LDS

LABELS = {"subspace": "subspace identification", "random": "random start"}


def protocol(options: Any) -> dict[str, Any]:
    return {
        "measure": "log-likelihood gain over the model without dynamics, nats per token, by iteration "
        "(approximate second-order statistics, horizon 7)",
        "em": "full iterations only",
        "states": options.states,
        "iterations": options.iterations,
    }


def measure(settings: dict[str, Any]) -> Row:
    history = LDS(**settings).fit(models.counts()).history
    return {
        "gain": [step.likelihood_gain for step in history],
        "seconds": [round(step.seconds, 1) for step in history],
    }


def rows(options: Any) -> Iterator[Row]:
    cells = kept.Cells("start")
    for seed, start in product(options.seeds, LABELS):
        settings = {
            "n_states": options.states,
            "seed": seed,
            "subspace_iterations": 0,
            "full_iterations": options.iterations,
            "advanced": {"start": start},
        }
        cell = cells.measure(kept.cell_key(**settings), lambda: measure(settings))  # noqa: B023
        ends = {"first": cell["gain"][0], "last": cell["gain"][-1]}
        yield {"start": start, "seed": seed, **ends, **cell}


def picture(rows: list[Row]) -> None:
    with pictures.picture("embeddings-start", (5, 3.4)) as [[axes]]:
        for start, color in zip(LABELS, ("C0", "C3"), strict=True):
            for i, row in enumerate(row for row in rows if row["start"] == start):
                axes.plot(row["gain"], color=color, lw=1.2, label=None if i else LABELS[start])
        axes.set_xlabel("EM iterations")
        axes.set_ylabel("likelihood gain, nats per token")
        axes.legend(frameon=False)
        axes.grid(alpha=0.3)


if __name__ == "__main__":
    table = Table("embeddings-start", protocol, rows, after=picture)
    main(__doc__, table, seeds=[0, 1, 2], iterations=30, states=100)
