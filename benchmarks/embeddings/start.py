"""EM from subspace identification against EM from a random start: the paper's Figure 2.

    python -m benchmarks.embeddings.start [--seeds 0-2] [--iterations 30] [--states 100]

Likelihood gain over the model without dynamics, in nats per token, at the start and after every full
EM iteration (no subspace stage for either), on the unlabelled text. Writes the curves and a picture,
benchmarks/results/embeddings-start.{json,png}.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks import reporting
from benchmarks.embeddings import common, models, text
from tacenda_embeddings import LDS

STARTS = ("subspace", "random")
LABELS = {"subspace": "subspace identification", "random": "random start"}
PROTOCOL = {
    "measure": "log-likelihood gain over the model without dynamics, nats per token, by iteration "
    "(approximate second-order statistics, horizon 7)",
    "em": "full iterations only",
}


def measure(cache: Path, start: str, seed: int, states: int, iterations: int) -> dict[str, Any]:
    model = LDS.from_settings(
        {
            "n_states": states,
            "seed": seed,
            "subspace_iterations": 0,
            "full_iterations": iterations,
            "advanced": {"start": start},
        }
    )
    history = model.fit(models.counts(cache)).history
    return {
        "gain": [step.likelihood_gain for step in history],
        "seconds": [round(step.seconds, 1) for step in history],
    }


def picture(path: Path, rows: list[dict[str, Any]]) -> None:
    pyplot = reporting.pyplot()

    figure, axes = pyplot.subplots(figsize=(5, 3.4), layout="constrained")
    for start, color in zip(STARTS, ("C0", "C3"), strict=True):
        curves = [row["gain"] for row in rows if row["start"] == start]
        for i, curve in enumerate(curves):
            axes.plot(curve, color=color, lw=1.2, label=None if i else LABELS[start])
    axes.set_xlabel("EM iterations")
    axes.set_ylabel("likelihood gain, nats per token")
    axes.legend(frameon=False)
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = common.arguments(__doc__)
    parser.add_argument("--iterations", type=int, default=30)
    parser.add_argument("--states", type=int, default=100)
    options = parser.parse_args()
    log = common.logger("start", options.cache)
    cells = common.Cells(options.cache, "start")
    vocabulary = text.corpus(options.cache).vocabulary.fingerprint[:10]
    rows: list[dict[str, Any]] = []
    for seed in options.seeds:
        for start in STARTS:
            arguments = (start, seed, options.states, options.iterations)
            key = f"{arguments} | {vocabulary} | {models.code()}"
            cell = cells.measure(key, lambda: measure(options.cache, *arguments))  # noqa: B023
            log.info("%s: %.3f to %.3f nats", key, cell["gain"][0], cell["gain"][-1])
            ends = {"first": cell["gain"][0], "last": cell["gain"][-1]}
            rows.append({"start": start, "seed": seed, **ends, **cell})
    if not options.no_save:
        protocol = {
            **PROTOCOL,
            "text": common.text_of(options.cache),
            "states": options.states,
            "iterations": options.iterations,
        }
        reporting.save(
            common.results_name("embeddings-start", options.cache),
            protocol,
            rows,
            seeds=options.seeds,
        )
        picture(reporting.RESULTS / "embeddings-start.png", rows)


if __name__ == "__main__":
    main()
