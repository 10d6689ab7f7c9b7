"""The studies as pictures beside their results."""

from __future__ import annotations

from benchmarks.language_models.hidden_markov.fits import Row
from benchmarks.ratings.thesis.pictures import Curve, Panel, draw


def draw_states(name: str, rows: list[Row]) -> None:
    """Perplexity by number of states."""
    rows = sorted(rows, key=lambda row: int(row["states"]))
    ticks = [f"$2^{{{row['power']}}}$" for row in rows]
    curves = [
        Curve(role, [row[role] for row in rows], color=f"C{n}")
        for n, role in enumerate(("train", "valid", "test"))
    ]
    draw(name, [Panel("Penn Treebank", "states", curves, ticks)], y_label="perplexity")


def draw_features(name: str, rows: list[Row]) -> None:
    """Validation perplexity by size of the feature map, a curve and a level for each number of states."""
    curves: list[Curve] = []
    ticks: list[str] = []
    for n, states in enumerate(sorted({int(row["states"]) for row in rows})):
        own = [row for row in rows if row["states"] == states]
        mapped = sorted(
            (row["features"], row["valid"]) for row in own if row["features"] != "softmax"
        )
        ticks = [str(features) for features, _ in mapped]
        curves.append(Curve(f"{states} states", [valid for _, valid in mapped], color=f"C{n}"))
        curves += [
            Curve(f"{states} states, softmax", [row["valid"]], color=f"C{n}", style=":", level=True)
            for row in own
            if row["features"] == "softmax"
        ]
    panel = Panel("Penn Treebank, validation text", "features", curves, ticks)
    draw(name, [panel], y_label="perplexity")
