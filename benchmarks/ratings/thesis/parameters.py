"""Table 5.3: how many numbers a model has learned, and what they are worth."""

from __future__ import annotations

from typing import Any

from benchmarks import reporting
from benchmarks.ratings.thesis import factorizations, fits, machines, pictures, published
from benchmarks.ratings.thesis.fits import Bench, Figures
from benchmarks.ratings.thesis.pictures import Curve, Panel

NAME = "ratings-thesis-parameters"


def fitted(bench: Bench) -> dict[str, dict[int, Figures]]:
    """By model and size; CPMF and CRBM of the thesis are told of the test part too, as there."""
    of_size = {hidden: machines.thesis(bench, hidden) for hidden in machines.HIDDEN}
    own = {hidden: machines.ours(bench, hidden) for hidden in machines.HIDDEN}
    of_width = {width: factorizations.fitted(bench, width) for width in factorizations.WIDTHS}
    return {
        "RBM": {size: cells["RBM"] for size, cells in of_size.items()},
        "CRBM": {size: cells["CRBM2"] for size, cells in of_size.items()},
        "PMF": {size: cells["PMF"] for size, cells in of_width.items()},
        "CPMF": {size: cells["CPMF2"] for size, cells in of_width.items()},
        "RBM ours": {size: cells["RBM ours"] for size, cells in own.items()},
        "CRBM ours": {size: cells["CRBM1 ours"] for size, cells in own.items()},
        "PMF ours": {size: cells["PMF ours"] for size, cells in of_width.items()},
        "CPMF ours": {size: cells["CPMF1 ours"] for size, cells in of_width.items()},
    }


def netflix(model: str, size: int) -> dict[str, float | None]:
    """The thesis's row, as far as it has one."""
    parameters = published.PARAMETERS.get((model, size))
    rmse = None
    if parameters is not None and model == "RBM":
        rmse = published.TABLE_1[size][published.MACHINES.index(model)]
    elif parameters is not None:
        rmse = published.TABLE_2[size][published.FACTORIZATIONS.index(model)]
    return {"million parameters published": parameters, "RMSE published": rmse}


def main(bench: Bench, save: bool) -> None:
    found = fitted(bench)
    rows: list[dict[str, Any]] = [
        {
            "model": model,
            "size": size,
            "million parameters": round(figures.parameters / 1e6, 3),
            "RMSE": figures.rmse,
            **netflix(model, size),
        }
        for model, cells in found.items()
        for size, figures in cells.items()
    ]
    protocol = {
        "measure": "RMSE of the test part; numbers learned, biases and slopes of all users and items included",
        "data": fits.SPLIT,
        "size": "hidden units or factors",
        "RBM, CRBM, PMF, CPMF": f"{fits.THESIS}; CRBM and CPMF are told who has rated what in the test part too",
        "ours": "the defaults but for the size, fitted on the whole training part; told of the training part alone",
        "published": published.SOURCE,
    }
    if not save:
        reporting.print_table(rows)
        return
    reporting.save(NAME, protocol, rows, seeds=[fits.SEED])
    curves = [
        Curve(
            model,
            [figures.rmse for figures in cells.values()],
            [figures.parameters / 1e6 for figures in cells.values()],
            color=f"C{number % 4}",
            style="o:" if model.endswith("ours") else "o-",
        )
        for number, (model, cells) in enumerate(found.items())
    ]
    pictures.draw(NAME, [Panel("MovieLens-1M", "million parameters", curves, logarithmic=True)])
