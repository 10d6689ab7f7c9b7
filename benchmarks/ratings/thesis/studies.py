"""The studies: each is a function of a `Bench`, named as its option, and reports its own results."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import fmean, stdev
from typing import Any, NamedTuple

import numpy as np

from benchmarks.pictures import Curve, Panel
from benchmarks.ratings.thesis import fits, published
from benchmarks.ratings.thesis.fits import Bench, Figures, pooled
from tacenda.ratings import Ratings
from tacenda_surprise import RatingAlgorithm
from tacenda_surprise.catalogue import Identities

Row = dict[str, Any]

HIDDEN = (25, 50, 100)  # 200, as the thesis has too, would double the time of the study
WIDTHS = (10, 25, 50, 100, 200, 500)
TRAIN, ALL = "told of train", "told of train and test"
COLUMNS = {  # of Table 5.2, with the styles of their curves
    "online SVD": "C1-.", "online SVD with biases": "C2--", "PMF": "C0-", "CPMF1": "C3-", "CPMF2": "C4-",
    "PMF ours": "C0:", "CPMF1 ours": "C3:",
}  # fmt: skip
OURS = "the defaults but for the size, fitted on the whole training part; told of the training part alone"
TOLD_ALL = (
    f"{fits.THESIS}; CPMF and CRBM are told who has rated what in the test part too; SVD has biases"
)


def of_machines(bench: Bench, hidden: int) -> dict[str, Figures]:
    """The columns of Table 5.1, and our default machines, items being cases."""
    conditional = fits.conditional_rbm
    return {
        "RBM": bench.fit(fits.rbm(hidden)),
        "CRBM1": bench.fit(conditional(hidden), TRAIN, identities=bench.known),
        "CRBM2": bench.fit(conditional(hidden), ALL, identities=bench.all_known),
        "RBM ours": bench.fit(fits.rbm(hidden, ours=True)),
        "CRBM1 ours": bench.fit(conditional(hidden, ours=True), TRAIN),
    }


def of_factorizations(bench: Bench, width: int) -> dict[str, Figures]:
    """The models of one width; CPMF1 and CPMF2 as the machines of Table 5.1."""
    conditional = fits.conditional_pmf
    found = (
        bench.fit(fits.online_svd(width, biased=False)),
        bench.fit(fits.online_svd(width, biased=True)),
        bench.fit(fits.pmf(width)),
        bench.fit(conditional(width), TRAIN, identities=bench.known),
        bench.fit(conditional(width), ALL, identities=bench.all_known),
        bench.fit(fits.pmf(width, ours=True)),
        bench.fit(conditional(width, ours=True), TRAIN),
    )
    return dict(zip(COLUMNS, found, strict=True))


def by_size(
    bench: Bench, size: str, found: dict[int, dict[str, Figures]], names: list[str], table: Any
) -> list[Row]:
    """A row a size: ours, and what the thesis reports of the models of these names."""
    return [
        {
            size: n,
            **{name: figures.rmse for name, figures in models.items()},
            **{f"{name} published": rmse for name, rmse in zip(names, table[n], strict=True)},
            "epochs": {name: figures.epochs for name, figures in models.items()},
        }
        for n, models in found.items()
    ]


def machines(bench: Bench) -> None:
    """Table 5.1: Boltzmann machines by their number of hidden units."""
    found = {hidden: of_machines(bench, hidden) for hidden in HIDDEN}
    rows = by_size(bench, "hidden units", found, published.MACHINES, published.TABLE_1)
    told = {
        "measure": "RMSE of the test part",
        "CRBM1": "told who has rated what in the training part",
        "CRBM2": "told that of the test part too, without the ratings",
        "RBM, CRBM1, CRBM2": fits.THESIS,
        "ours": "the defaults, fitted on the whole training part",
    }
    bench.report("machines", told, rows)


def factorizations(bench: Bench) -> None:
    """Table 5.2 and Figure 5.3: factorizations by width, with and without penalties, biases, identities."""
    found = {width: of_factorizations(bench, width) for width in WIDTHS}
    rows = by_size(bench, "factors", found, published.FACTORIZATIONS, published.TABLE_2)
    curves = [
        Curve(name, [row[name] for row in rows], color=style[:2], style=f"o{style[2:]}")
        for name, style in COLUMNS.items()
    ]
    panel = Panel("MovieLens-1M", "factors", curves, [str(width) for width in WIDTHS])
    told = {
        "measure": "RMSE of the test part",
        "online SVD, PMF, CPMF1, CPMF2": fits.THESIS,
        "CPMF1": "told who has rated what in the training part",
        "CPMF2": "told that of the test part too, without the ratings; so was the thesis's CPMF",
        "ours": "default settings but for the width, fitted on the whole training part",
    }
    bench.report("factorizations", told, rows, [panel])


def biases(bench: Bench) -> None:
    """Biases alone, of Table 5.2."""
    kinds = {"user biases": "users", "movie biases": "items", "user and movie biases": "both"}
    rows = [
        {"model": name, "RMSE": bench.fit(fits.bias(kind)).rmse, "RMSE published": published.BIASES[name]}  # type: ignore[arg-type]
        for name, kind in kinds.items()
    ]  # fmt: skip
    told = {"measure": "RMSE of the test part", "models": "BiasModel, defaults"}
    bench.report("biases", told, rows)


MODELS = ("RBM", "RBM ours", "PMF", "PMF ours")
UNITS, WIDTH = 25, 50
PLAIN = "nothing: plain models"


class Setting(NamedTuple):
    """A part of the ratings, the parts of the identities, and the Netflix figures it stands beside."""

    name: str
    share: float
    told: tuple[float, ...]
    netflix: str


SETTINGS = (
    Setting("a tenth", 0.1, (0.1, 0.25, 0.5, 0.75, 1.0), "10M"),
    Setting("half", 0.5, (0.5, 1.0), "50M"),
)


def of_part(bench: Bench, train: Ratings, told: Ratings | None = None) -> dict[str, float]:
    """RMSE of plain models or, where they are told of more ratings than they learn from, of conditional ones."""
    rbm, pmf = (
        (fits.rbm, fits.pmf) if told is None else (fits.conditional_rbm, fits.conditional_pmf)
    )
    known = None if told is None else Identities.of(told)
    words = "" if told is None else f"told of {len(told)}"
    models = (rbm(UNITS), rbm(UNITS, ours=True), pmf(WIDTH), pmf(WIDTH, ours=True))
    found = (bench.fit(model, words, train, known).rmse for model in models)
    return dict(zip(MODELS, found, strict=True))


def rows_of(bench: Bench, setting: Setting) -> list[Row]:
    whole = bench.parts.train
    shares = sorted({setting.share, 2 * setting.share, *setting.told})
    parts = dict(zip(shares, fits.nested(len(whole), shares), strict=True))
    train = whole.select(parts[setting.share])
    without, least, most = published.CONDITIONING[setting.netflix]
    netflix = {PLAIN: without, setting.told[0]: least, setting.told[-1]: most}

    def row(told: float | str, n: int, found: dict[str, float]) -> Row:
        name = told if isinstance(told, str) else f"{told:.0%} of the training part"
        figures = {"RBM published": netflix.get(told)}
        head = {"ratings": setting.name, "training ratings": len(train), "told": name}
        return {**head, "identities": n, **found, **figures}

    rows = [row(PLAIN, 0, of_part(bench, train))]
    for share in setting.told:
        told = whole.select(parts[share])
        rows.append(row(share, len(told), of_part(bench, train, told)))
    if setting.share < 0.5:
        more = whole.select(parts[2 * setting.share])
        twice = row("nothing: plain models, twice as many ratings", 0, of_part(bench, more))
        rows.append(
            twice | {"training ratings": len(more), "RBM published": published.TWICE_AS_MANY}
        )
    return rows


def conditioning(bench: Bench) -> None:
    """Figures 5.1 and 5.2: RMSE by how much is told of what has been rated.

    A tenth, or half, of the training part keeps its ratings. Of the rest it is only told who has rated what, of more
    and more of it.
    """
    found = {setting.name: rows_of(bench, setting) for setting in SETTINGS}
    panels = []
    for name, rows in found.items():
        curves, told = [], [row for row in rows if row["identities"]]
        for number, model in enumerate(MODELS):
            color, y = f"C{number}", [row[model] for row in told]
            x = [row["identities"] / 1e3 for row in told]
            level = [row[model] for row in rows if row["told"] == PLAIN]
            curves.append(Curve(f"conditional {model}", y, x, color))
            curves.append(Curve(model, level, color=color, style=":", level=True))
        title = f"ratings of {name} of the training part"
        panels.append(Panel(title, "thousand identities told", curves))
    told_of = {
        "measure": "RMSE of the test part, the same for all rows",
        "ratings": "random parts of the training part, each within the next; of the rest only identities are told",
        "RBM, PMF": f"{UNITS} hidden units, {WIDTH} factors; {fits.THESIS}",
        "ours": f"default settings, {UNITS} hidden units, items being cases; {WIDTH} factors",
        "published": f"{published.SOURCE}; 50 hidden units, 10M and 50M of 99M training ratings",
    }
    bench.report("conditioning", told_of, [row for part in found.values() for row in part], panels)


PANELS: dict[str, tuple[str, ...]] = {
    "PMF and CPMF (Fig. 5.4)": ("PMF10", "CPMF10", "PMF500", "CPMF500"),
    "RBM and PMF (Figs. 5.6 to 5.8)": ("RBM100", "PMF10", "PMF50", "PMF500"),
    "with penalties and without": ("SVD50", "PMF50"),
    "RBM and CRBM": ("RBM100", "CRBM100"),
    "ours": ("PMF100 ours", "CPMF100 ours", "RBM100 ours", "CRBM100 ours"),
}


def frequency(bench: Bench) -> None:
    """Figures 5.4 and 5.6 to 5.8: RMSE by how much a user has rated."""
    of_width = {width: of_factorizations(bench, width) for width in (10, 50, 100, 500)}
    machine = of_machines(bench, 100)
    found = {f"PMF{width}": of_width[width]["PMF"] for width in (10, 50, 500)}
    found |= {f"CPMF{width}": of_width[width]["CPMF2"] for width in (10, 500)}
    found["SVD50"] = of_width[50]["online SVD with biases"]
    found |= {"RBM100": machine["RBM"], "CRBM100": machine["CRBM2"]}
    found |= {
        "PMF100 ours": of_width[100]["PMF ours"], "CPMF100 ours": of_width[100]["CPMF1 ours"],
        "RBM100 ours": machine["RBM ours"], "CRBM100 ours": machine["CRBM1 ours"],
    }  # fmt: skip
    counts = np.diff(bench.parts.train.user_offsets)
    labels = fits.ranges(counts, bench.bins)
    rows = [
        {
            "ratings of the user": label,
            "users": int((bench.bins == number).sum()),
            "test ratings": found["PMF50"].tested[number],
            **{name: figures.of_bins[number] for name, figures in found.items()},
        }
        for number, label in enumerate(labels)
    ]
    panels = [
        bins_panel(title, "training ratings of the user", {n: found[n] for n in names}, labels)
        for title, names in PANELS.items()
    ]
    told = {
        "measure": "RMSE of the test part, by the user's number of training ratings; bins of as many users each",
        "models": TOLD_ALL,
        "ours": "the defaults, fitted on the whole training part; told of the training part alone",
    }
    bench.report("frequency", told, rows, panels, columns=3)


def bins_panel(title: str, x: str, found: dict[str, Figures], labels: list[str]) -> Panel:
    curves = [Curve(name, each.of_bins, color=f"C{i}") for i, (name, each) in enumerate(found.items())]  # fmt: skip
    return Panel(title, x, curves, labels)


GROUPS = 5
COLD: dict[str, Callable[[], RatingAlgorithm]] = {
    "movie biases": lambda: fits.bias("items"),
    "CPMF": lambda: fits.conditional_pmf(100),
    "CPMF ours": lambda: fits.conditional_pmf(100, ours=True),
    "CRBM": lambda: fits.conditional_rbm(25),
}


def of_cold_users(bench: Bench, make: Callable[[], RatingAlgorithm]) -> Figures:
    """One model, every user tested once."""
    train, test = bench.parts
    groups = fits.user_groups(train.n_users, GROUPS)
    cells = []
    for group in range(GROUPS):
        chosen = groups == group
        rest, asked = fits.without(train, chosen), fits.only(test, chosen)
        cells.append(bench.fit(make(), f"told of group {group}", rest, bench.known, asked))
    return pooled(cells)


def cold(bench: Bench) -> None:
    """Figure 5.5: users of whom no rating is known, only what they have rated.

    A fifth of the users at a time loses all its training ratings, but not the knowledge of what was rated; their test
    ratings are predicted. The identities of test ratings are never told.
    """
    found = {name: of_cold_users(bench, make) for name, make in COLD.items()}
    labels = fits.ranges(np.diff(bench.parts.train.user_offsets), bench.bins)
    tested = found["CPMF"].tested
    rows: list[Row] = [
        {
            "items told": label,
            "test ratings": tested[number],
            **{name: figures.of_bins[number] for name, figures in found.items()},
        }
        for number, label in enumerate(labels)
    ]
    netflix = {f"{name} published": value for name, value in published.COLD.items()}
    whole = {name: figures.rmse for name, figures in found.items()}
    rows.append({"items told": "all", "test ratings": sum(tested), **whole, **netflix})
    panel = bins_panel(
        "users without ratings", "items known to be rated by the user", found, labels
    )
    told = {
        "measure": "RMSE of the test ratings of users without training ratings, by the number of items they are "
        "known to have rated; squared errors of five groups of users together",
        "CPMF": f"100 factors; {fits.THESIS}",
        "CRBM": "25 hidden units, users are cases; as above",
        "CPMF ours": "default settings, 100 factors, all ratings of the other users",
        "movie biases": "BiasOnly, defaults",
    }
    bench.report("cold", told, rows, [panel])


def parameters(bench: Bench) -> None:
    """Table 5.3: how many numbers a model has learned, and what they are worth."""
    of_hidden = {hidden: of_machines(bench, hidden) for hidden in HIDDEN}
    of_width = {width: of_factorizations(bench, width) for width in WIDTHS}
    found = {
        model: {size: cells[column] for size, cells in sizes.items()}
        for model, sizes, column in (
            ("RBM", of_hidden, "RBM"), ("CRBM", of_hidden, "CRBM2"),
            ("PMF", of_width, "PMF"), ("CPMF", of_width, "CPMF2"),
            ("RBM ours", of_hidden, "RBM ours"), ("CRBM ours", of_hidden, "CRBM1 ours"),
            ("PMF ours", of_width, "PMF ours"), ("CPMF ours", of_width, "CPMF1 ours"),
        )
    }  # fmt: skip
    rows = [
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
    told = {
        "measure": "RMSE of the test part; numbers learned, biases and slopes of all users and items included",
        "size": "hidden units or factors",
        "RBM, CRBM, PMF, CPMF": TOLD_ALL.rpartition(";")[0],
        "ours": OURS,
    }
    panel = Panel("MovieLens-1M", "million parameters", curves, logarithmic=True)
    bench.report("parameters", told, rows, [panel])


def netflix(model: str, size: int) -> dict[str, float | None]:
    """The thesis's row of Table 5.3, as far as it has one."""
    millions = published.PARAMETERS.get(model, {}).get(size)
    rmse = None
    if millions is not None and model == "RBM":
        rmse = published.TABLE_1[size][published.MACHINES.index(model)]
    elif millions is not None:
        rmse = published.TABLE_2[size][published.FACTORIZATIONS.index(model)]
    return {"million parameters published": millions, "RMSE published": rmse}


SEEDS = range(5)
OF_SEEDS: dict[str, Callable[[int], RatingAlgorithm]] = {
    "PMF, 50 factors": lambda seed: fits.pmf(50, seed=seed),
    "PMF ours, 50 factors": lambda seed: fits.pmf(50, ours=True, seed=seed),
    "RBM, 25 hidden units": lambda seed: fits.rbm(25, seed=seed),
    "RBM ours, 25 hidden units": lambda seed: fits.rbm(25, ours=True, seed=seed),
}


def spread(bench: Bench) -> None:
    """By how much fits of one model differ that differ in nothing but the seed."""
    rows = []
    for name, make in OF_SEEDS.items():
        found = [bench.fit(make(seed)).rmse for seed in SEEDS]
        deviation = stdev(found)
        rows.append(
            {
                "model": name,
                "RMSE": round(fmean(found), 4),
                "deviation": round(deviation, 5),
                "by chance": round(2 * math.sqrt(2) * deviation, 4),
                "RMSE of seeds": found,
            }
        )
    told = {
        "measure": "RMSE of the test part; its standard deviation over seeds; twice the deviation of the difference "
        "between two fits",
        "PMF, RBM": fits.THESIS,
        "ours": "default settings but for the width",
    }
    bench.report("spread", told, rows, seeds=SEEDS)
