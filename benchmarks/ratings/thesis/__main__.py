"""Tables 5.1 and 5.2 and Figures 5.1 to 5.3 of Mnih (2010) on MovieLens-1M.

    python -m benchmarks.ratings.thesis [--only STUDY ...] [--no-save]

Studies: machines (Table 5.1), conditioning (Figures 5.1 and 5.2), factorizations (Table 5.2, Figure 5.3). Every fit is
kept and shared by the studies. What the thesis stops on is the set it reports (section 5.4.3). Here a twentieth of the
training part decides where to stop, and the test part decides nothing. Needs matplotlib.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks import kept, pictures, reporting
from benchmarks.pictures import Curve, Panel
from benchmarks.reporting import Options, Row, Table
from tacenda import datasets
from tacenda.ratings import Ratings, read_ratings
from tacenda_surprise import PMF, RBM, ConditionalPMF, ConditionalRBM, RatingAlgorithm
from tacenda_surprise.identities import Identities

published = reporting.published(__file__)  # what the thesis reports; not measured here
TEST, SEED, VALIDATION = 0.1, 0, 0.05
TRAIN, ALL = "told of train", "told of train and test"
HIDDEN = (25, 50, 100)  # 200, as the thesis has too, would double the time of the study
WIDTHS = (10, 25, 50, 100, 200, 500)
COLUMNS = {  # of Table 5.2, with the styles of their curves
    "online SVD": "C1-.", "online SVD with biases": "C2--", "PMF": "C0-", "CPMF1": "C3-", "CPMF2": "C4-",
    "PMF ours": "C0:", "CPMF1 ours": "C3:",
}  # fmt: skip
PROTOCOL = {
    "data": "MovieLens-1M, train_test_split(test_size=0.1, random_state=0)",
    "measure": "RMSE of the test part, estimates clipped to the scale",
    "RBM, PMF, online SVD": "PMF.thesis (250 epochs at most, patience 20), .online_svd, RBM.thesis (250 passes); of "
    "all these the parameters of the pass that predicts a twentieth of the training part best",
    "CRBM1, CPMF1": "told who has rated what in the training part",
    "CRBM2, CPMF2": "told that of the test part too, without the ratings",
    "ours": "the defaults but for the size, fitted on the whole training part; told of the training part alone",
    "published": published.SOURCE,
}


class Setting(NamedTuple):
    """A part of the ratings, the parts of the identities, and the Netflix figures it stands beside."""

    name: str
    share: float
    told: tuple[float, ...]
    netflix: str


MODELS = ("RBM", "RBM ours", "PMF", "PMF ours")
UNITS, WIDTH = 25, 50
PLAIN = "nothing: plain models"
SETTINGS = (
    Setting("a tenth", 0.1, (0.1, 0.25, 0.5, 0.75, 1.0), "10M"),
    Setting("half", 0.5, (0.5, 1.0), "50M"),
)


class Parts(NamedTuple):
    """The ratings learned from and those tested, users and items numbered alike."""

    train: Ratings
    test: Ratings


def parted(whole: Ratings) -> Parts:
    """The split that Surprise's train_test_split makes of ratings in the order of user and item."""
    test = np.zeros(len(whole), bool)
    order = np.random.RandomState(SEED).permutation(len(whole))
    test[order[len(whole) - math.ceil(TEST * len(whole)) :]] = True
    return Parts(whole.select(~test), whole.select(test))


def nested(n: int, shares: Sequence[float]) -> list[npt.NDArray[np.bool_]]:
    """Random subsets of ``n`` things, one for every share, each a subset of every larger one."""
    rank = np.random.default_rng(SEED).permutation(n)
    return [rank < round(share * n) for share in shares]


def made(model: type[RatingAlgorithm], ours: bool = False, **size: int) -> RatingAlgorithm:
    """Return a model with the settings of the thesis, or ours."""
    if ours:
        return model(**size, random_state=SEED)
    found: RatingAlgorithm = model.thesis(**size, random_state=SEED, validation=VALIDATION)  # type: ignore[attr-defined]
    return found


class Bench:
    """The split that everything is measured on; every fit is a cell that is kept."""

    def __init__(self, parts: Parts, options: Options) -> None:
        self.parts, self.options = parts, options
        self.cells = kept.Cells("ratings-thesis")

    @cached_property
    def known(self) -> Identities:
        """Who has rated what in the training part."""
        return Identities.of(self.parts.train)

    @cached_property
    def all_known(self) -> Identities:
        """That, and who has rated what in the test part."""
        return self.known.union(Identities.of(self.parts.test), self.parts.train.n_items)

    def report(
        self, study: str, rows: list[Row], panels: Sequence[Panel] = (), **told: str
    ) -> None:
        """Print the rows of a study, save them and draw its panels."""
        name = f"ratings-thesis-{study}"
        picture = (lambda _: pictures.draw(name, panels)) if panels else None
        Table(name, {**PROTOCOL, **told}, lambda _: rows, after=picture).run(self.options)

    def fit(
        self,
        model: RatingAlgorithm,
        told: str = "",
        train: Ratings | None = None,
        identities: Identities | None = None,
    ) -> float:
        """Return the RMSE of a model, fitted to the training part or ``train``.

        ``told`` says in words what identities it is given, which tell it from other cells.
        """
        train = train or self.parts.train
        settings = model.settings.to_dict()
        key = kept.cell_key(
            model=model.name, told=told, settings=settings, train=train.fingerprint[:10]
        )
        cell = self.cells.measure(
            key, lambda: {"RMSE": measure(model, train, self.parts.test, identities)}
        )
        print(f"{model.name} {told}: {cell['RMSE']:.4f}", flush=True)
        return float(cell["RMSE"])


def measure(
    model: RatingAlgorithm, train: Ratings, test: Ratings, identities: Identities | None
) -> float:
    """Fit and test; predictions are clipped to the scale, as Surprise does it."""
    model.fit(train, identities=identities if model.conditional else None)
    scores = np.clip(model.score_pairs(test.user_ids, test.item_ids), *test.scale)
    return round(float(np.sqrt(np.mean((scores.astype(np.float64) - test.values) ** 2))), 4)


def by_size(size: str, found: dict[int, Row], names: list[str], table: Any) -> list[Row]:
    """A row a size: ours, and what the thesis reports of the models of these names."""
    return [
        {size: n, **row, **{f"{name} published": x for name, x in zip(names, table[n], strict=True)}}
        for n, row in found.items()
    ]  # fmt: skip


def machines(bench: Bench) -> None:
    """Table 5.1: Boltzmann machines by their number of hidden units."""
    found = {
        n: {
            "RBM": bench.fit(made(RBM, n_hidden=n)),
            "CRBM1": bench.fit(made(ConditionalRBM, n_hidden=n), TRAIN, identities=bench.known),
            "CRBM2": bench.fit(made(ConditionalRBM, n_hidden=n), ALL, identities=bench.all_known),
            "RBM ours": bench.fit(made(RBM, True, n_hidden=n)),
            "CRBM1 ours": bench.fit(made(ConditionalRBM, True, n_hidden=n), TRAIN),
        }
        for n in HIDDEN
    }
    bench.report("machines", by_size("hidden units", found, published.MACHINES, published.TABLE_1))


def factorizations(bench: Bench) -> None:
    """Table 5.2 and Figure 5.3: factorizations by width, with and without penalties, biases, identities."""
    found = {}
    for n in WIDTHS:
        plain: dict[str, Any] = {"n_factors": n, "random_state": SEED, "validation": VALIDATION}
        cells = (
            bench.fit(PMF.online_svd(biased=False, **plain)),
            bench.fit(PMF.online_svd(biased=True, **plain)),
            bench.fit(made(PMF, n_factors=n)),
            bench.fit(made(ConditionalPMF, n_factors=n), TRAIN, identities=bench.known),
            bench.fit(made(ConditionalPMF, n_factors=n), ALL, identities=bench.all_known),
            bench.fit(made(PMF, True, n_factors=n)),
            bench.fit(made(ConditionalPMF, True, n_factors=n), TRAIN),
        )
        found[n] = dict(zip(COLUMNS, cells, strict=True))
    rows = by_size("factors", found, published.FACTORIZATIONS, published.TABLE_2)
    curves = [
        Curve(name, [row[name] for row in rows], color=style[:2], style=f"o{style[2:]}")
        for name, style in COLUMNS.items()
    ]
    panel = Panel("MovieLens-1M", "factors", curves, [str(width) for width in WIDTHS])
    bench.report("factorizations", rows, [panel])


def of_part(bench: Bench, train: Ratings, told: Ratings | None = None) -> dict[str, float]:
    """RMSE of plain models or, where they are told of more ratings than they learn from, of conditional ones."""
    rbm, pmf = (RBM, PMF) if told is None else (ConditionalRBM, ConditionalPMF)
    known = None if told is None else Identities.of(told)
    words = "" if told is None else f"told of {len(told)}"
    models = (
        *(made(rbm, ours, n_hidden=UNITS) for ours in (False, True)),
        *(made(pmf, ours, n_factors=WIDTH) for ours in (False, True)),
    )
    found = (bench.fit(model, words, train, known) for model in models)
    return dict(zip(MODELS, found, strict=True))


def rows_of(bench: Bench, setting: Setting) -> list[Row]:
    whole = bench.parts.train
    shares = sorted({setting.share, 2 * setting.share, *setting.told})
    parts = dict(zip(shares, nested(len(whole), shares), strict=True))
    train = whole.select(parts[setting.share])
    without, least, most = published.CONDITIONING[setting.netflix]
    netflix = {PLAIN: without, setting.told[0]: least, setting.told[-1]: most}

    def row(told: float | str, n: int, found: dict[str, float]) -> Row:
        name = told if isinstance(told, str) else f"{told:.0%} of the training part"
        head = {"ratings": setting.name, "training ratings": len(train), "told": name}
        return {**head, "identities": n, **found, "RBM published": netflix.get(told)}

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
    bench.report(
        "conditioning",
        [row for part in found.values() for row in part],
        panels,
        ratings="random parts of the training part, each within the next; of the rest only identities are told",
        size=f"{UNITS} hidden units (50 in the thesis), {WIDTH} factors",
    )


STUDIES = {"machines": machines, "conditioning": conditioning, "factorizations": factorizations}

if __name__ == "__main__":
    options = reporting.parse(__doc__)
    options.whole = True  # every study measures all rows of its table
    bench = Bench(parted(read_ratings(datasets.locate("ml-1m")["ratings"])), options)
    for study in options.chosen(STUDIES):
        STUDIES[study](bench)
