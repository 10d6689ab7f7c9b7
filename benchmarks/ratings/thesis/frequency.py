"""Figures 5.4 and 5.6 to 5.8: RMSE by how many training ratings the user has, model against model."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import reporting
from benchmarks.ratings.thesis import factorizations, fits, machines, pictures, published
from benchmarks.ratings.thesis.fits import Bench, Figures
from benchmarks.ratings.thesis.pictures import Curve, Panel

NAME = "ratings-thesis-frequency"
HIDDEN = machines.HIDDEN[-1]
PANELS: dict[str, tuple[str, ...]] = {
    "PMF and CPMF (Fig. 5.4)": ("PMF10", "CPMF10", "PMF500", "CPMF500"),
    "RBM and PMF (Figs. 5.6 to 5.8)": (f"RBM{HIDDEN}", "PMF10", "PMF50", "PMF500"),
    "with penalties and without": ("SVD50", "PMF50"),
    "RBM and CRBM": (f"RBM{HIDDEN}", f"CRBM{HIDDEN}"),
    "ours": ("PMF100 ours", "CPMF100 ours", "RBM100 ours", "CRBM100 ours"),
}


def fitted(bench: Bench) -> dict[str, Figures]:
    """The models of all panels; conditional ones of the thesis are told of the test part too, as there."""
    of_width = {width: factorizations.fitted(bench, width) for width in (10, 50, 100, 500)}
    machine = machines.thesis(bench, HIDDEN)
    own = machines.ours(bench, 100)
    found = {f"PMF{width}": of_width[width]["PMF"] for width in (10, 50, 500)}
    found |= {f"CPMF{width}": of_width[width]["CPMF2"] for width in (10, 500)}
    found["SVD50"] = of_width[50]["online SVD with biases"]
    found[f"RBM{HIDDEN}"], found[f"CRBM{HIDDEN}"] = machine["RBM"], machine["CRBM2"]
    found["PMF100 ours"] = of_width[100]["PMF ours"]
    found["CPMF100 ours"] = of_width[100]["CPMF1 ours"]
    found["RBM100 ours"], found["CRBM100 ours"] = own["RBM ours"], own["CRBM1 ours"]
    return found


def main(bench: Bench, save: bool) -> None:
    counts = np.diff(bench.parts.train.user_offsets)
    labels, found = fits.ranges(counts, bench.bins), fitted(bench)
    tested = found["PMF50"].tested
    rows: list[dict[str, Any]] = [
        {
            "ratings of the user": label,
            "users": int((bench.bins == number).sum()),
            "test ratings": tested[number],
            **{name: figures.of_bins[number] for name, figures in found.items()},
        }
        for number, label in enumerate(labels)
    ]
    protocol = {
        "measure": "RMSE of the test part, by the user's number of training ratings; bins of as many users each",
        "data": fits.SPLIT,
        "models": f"{fits.THESIS}; CPMF and CRBM are told who has rated what in the test part too; SVD has biases",
        "ours": "the defaults, fitted on the whole training part; told of the training part alone",
        "published": published.SOURCE,
    }
    if not save:
        reporting.print_table(rows)
        return
    reporting.save(NAME, protocol, rows, seeds=[fits.SEED])
    panels = [
        Panel(
            title,
            "training ratings of the user",
            [
                Curve(name, found[name].of_bins, color=f"C{number}")
                for number, name in enumerate(names)
            ],
            labels,
        )
        for title, names in PANELS.items()
    ]
    pictures.draw(NAME, panels, columns=3)
