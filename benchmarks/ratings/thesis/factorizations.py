"""Table 5.2 and Figure 5.3: factorizations by width, with and without penalties, biases, identities."""

from __future__ import annotations

from typing import Any

from benchmarks import reporting
from benchmarks.ratings.thesis import fits, machines, pictures, published
from benchmarks.ratings.thesis.fits import Bench, Figures
from benchmarks.ratings.thesis.pictures import Curve, Panel

NAME = "ratings-thesis-factorizations"
BIASES_NAME = "ratings-thesis-biases"
WIDTHS = (10, 25, 50, 100, 200, 500)
BIASES = {"user biases": "users", "movie biases": "items", "user and movie biases": "both"}
COLUMNS = {
    "online SVD": "-.",
    "online SVD with biases": "--",
    "PMF": "-",
    "CPMF1": "-",
    "CPMF2": "-",
    "PMF ours": ":",
    "CPMF1 ours": ":",
}


def fitted(bench: Bench, width: int) -> dict[str, Figures]:
    """The models of one width; CPMF1 and CPMF2 as the machines of Table 5.1."""
    told, all_told = machines.TRAIN, machines.ALL
    conditional = fits.conditional_pmf
    found = (
        bench.fit(fits.online_svd(width, biased=False)),
        bench.fit(fits.online_svd(width, biased=True)),
        bench.fit(fits.pmf(width)),
        bench.fit(conditional(width), told, identities=bench.known),
        bench.fit(conditional(width), all_told, identities=bench.all_known),
        bench.fit(fits.pmf(width, ours=True)),
        bench.fit(conditional(width, ours=True), told),
    )
    return dict(zip(COLUMNS, found, strict=True))


def main(bench: Bench, save: bool) -> None:
    rows: list[dict[str, Any]] = []
    for width in WIDTHS:
        found = fitted(bench, width)
        netflix = dict(zip(published.FACTORIZATIONS, published.TABLE_2[width], strict=True))
        rows.append(
            {
                "factors": width,
                **{name: figures.rmse for name, figures in found.items()},
                **{f"{name} published": value for name, value in netflix.items()},
                "epochs": {name: figures.epochs for name, figures in found.items()},
            }
        )
    biases = [
        {
            "model": name,
            "RMSE": bench.fit(fits.bias(kind)).rmse,
            "RMSE published": published.BIASES[name],
        }
        for name, kind in BIASES.items()
    ]
    protocol = {
        "measure": "RMSE of the test part",
        "data": fits.SPLIT,
        "online SVD, PMF, CPMF1, CPMF2": fits.THESIS,
        "CPMF1": "told who has rated what in the training part",
        "CPMF2": "told that of the test part too, without the ratings; so was the thesis's CPMF",
        "ours": "default settings but for the width, fitted on the whole training part",
        "published": published.SOURCE,
    }
    if not save:
        reporting.print_table(rows)
        reporting.print_table(biases)
        return
    reporting.save(NAME, protocol, rows, seeds=[fits.SEED])
    shared = {key: protocol[key] for key in ("measure", "data", "published")}
    reporting.save(
        BIASES_NAME, {**shared, "models": "BiasModel, defaults"}, biases, seeds=[fits.SEED]
    )
    pictures.draw(NAME, [panel(rows)])


def panel(rows: list[dict[str, Any]]) -> Panel:
    colors = dict(zip(COLUMNS, ("C1", "C2", "C0", "C3", "C4", "C0", "C3"), strict=True))
    curves = [
        Curve(name, [row[name] for row in rows], color=colors[name], style=f"o{style}")
        for name, style in COLUMNS.items()
    ]
    return Panel("MovieLens-1M", "factors", curves, [str(row["factors"]) for row in rows])
