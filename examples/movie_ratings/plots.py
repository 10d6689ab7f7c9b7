"""The three plots."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import numpy as np
from comparison import Certainty, Floats, Row
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from newcomer import Recommendation
from ratings_file import Material

PEER, OURS = "#888888", "#1f5fa8"


def compare(rows: list[Row], path: Path) -> None:
    """Plot error against seconds; the bars are standard deviations over the folds."""
    figure, axes = plt.subplots(figsize=(7, 4.5))
    seconds = [row.fit + row.test for row in rows]
    middle = (max(seconds) * min(seconds)) ** 0.5
    for row, x in zip(rows, seconds, strict=True):
        color = PEER if row.name.startswith("Surprise") else OURS
        mean, spread = float(np.mean(row.rmse)), float(np.std(row.rmse))
        axes.errorbar(x, mean, spread, fmt="o", color=color, capsize=3)
        side, offset = ("right", (-6, 4)) if x > middle else ("left", (6, 4))
        axes.annotate(row.name, (x, mean), offset, textcoords="offset points", ha=side, fontsize=8)
    axes.set_xscale("log")
    axes.margins(x=0.1)
    axes.set_xlabel("seconds to fit and test a fold, median")
    axes.set_ylabel("RMSE, mean ± deviation over folds")
    _finish(figure, path)


def certainty(sure: Certainty, path: Path) -> None:
    """Plot actual against predicted errors; correct standard deviations are on the line."""
    figure, axes = plt.subplots(figsize=(4.5, 4.5))
    ends = [min(sure.foretold.min(), sure.found.min()), max(sure.foretold.max(), sure.found.max())]
    axes.plot(ends, ends, color=PEER, linewidth=1)
    axes.plot(sure.foretold, sure.found, "o", color=OURS)
    axes.set_xlabel("predicted standard deviation (predict_std)")
    axes.set_ylabel("measured error (RMSE of an eighth of the test ratings)")
    _finish(figure, path)


def distributions(
    found: list[Recommendation], levels: Floats, material: Material, path: Path
) -> None:
    """Plot the probability of each rating of the best items."""
    figure, panels = plt.subplots(
        1, len(found), figsize=(2.6 * len(found), 2.8), sharey=True, squeeze=False
    )
    width = 0.8 * float(np.diff(levels).min(initial=1.0))
    for axes, one in zip(panels[0], found, strict=True):
        axes.bar(levels, one.chances, width=width, color=OURS)
        axes.axvline(one.expected, color=PEER, linewidth=1)
        axes.set_title(material.title(one.item)[:30], fontsize=8)
        axes.set_xticks(levels)
        axes.set_xlabel("rating")
    panels[0][0].set_ylabel("probability")
    _finish(figure, path)


def _finish(figure: Figure, path: Path) -> None:
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
