"""Pictures of results, as PNG next to them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from benchmarks import reporting


@contextmanager
def picture(
    name: str, size: tuple[float, float], shape: tuple[int, int] = (1, 1), dpi: int = 150
) -> Iterator[Any]:
    """Yield the axes (rows, columns) of ``benchmarks/results/<name>.png``, and write it; ``size`` in inches."""
    import matplotlib

    matplotlib.use("Agg")  # without a screen
    from matplotlib import pyplot

    figure, grid = pyplot.subplots(*shape, figsize=size, layout="constrained", squeeze=False)
    yield grid
    figure.savefig(reporting.RESULTS / f"{name}.png", dpi=dpi)
    pyplot.close(figure)


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
    """Draw panels side by side as ``benchmarks/results/<name>.png``."""
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    with picture(name, (4.2 * columns, 3.1 * rows), (rows, columns), dpi=100) as grid:
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
