"""Curves as a small PNG beside the results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks import reporting


@dataclass(frozen=True)
class Curve:
    """One line of a panel; ``level`` draws a single value across the panel instead."""

    label: str
    y: Sequence[float]
    x: Sequence[float] = ()
    color: str = "C0"
    style: str = "o-"
    level: bool = False


@dataclass(frozen=True)
class Panel:
    """One pair of axes; ``ticks`` name whole numbers on the first."""

    title: str
    x_label: str
    curves: Sequence[Curve]
    ticks: Sequence[str] = ()


def draw(name: str, panels: Sequence[Panel], y_label: str = "RMSE") -> None:
    """``benchmarks/results/<name>.png``."""
    pyplot = reporting.pyplot()

    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    size = (4.2 * columns, 3.1 * rows)
    figure, grid = pyplot.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
    for axes, panel in zip(grid.flat, panels, strict=False):
        for curve in panel.curves:
            style = {"color": curve.color, "label": curve.label, "lw": 1.2}
            if curve.level:
                axes.axhline(curve.y[0], ls=curve.style, **style)
            else:
                x = curve.x or range(len(curve.y))
                axes.plot(x, curve.y, curve.style, ms=3.5, **style)
        if panel.ticks:
            axes.set_xticks(range(len(panel.ticks)), panel.ticks, rotation=40, ha="right")
        axes.tick_params(labelsize=8)
        axes.set_title(panel.title, fontsize=9)
        axes.set_xlabel(panel.x_label, fontsize=9)
        axes.set_ylabel(y_label, fontsize=9)
        axes.grid(alpha=0.3)
        many = len(panel.curves) > 4
        if many:  # the legend wants room of its own, above the curves
            low, high = axes.get_ylim()
            axes.set_ylim(low, high + 0.4 * (high - low))
        where = {"loc": "upper right", "ncols": 2} if many else {}
        axes.legend(frameon=False, fontsize=7, **where)
    for axes in grid.flat[len(panels) :]:
        axes.axis("off")
    figure.savefig(reporting.RESULTS / f"{name}.png", dpi=100)
    pyplot.close(figure)
