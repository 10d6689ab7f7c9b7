"""Figures 5.1 and 5.2: RMSE by how much is told of what has been rated.

A tenth, or half, of the training part keeps its ratings. Of the rest it is only told who has rated what, of more
and more of it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from benchmarks import reporting
from benchmarks.ratings.thesis import fits, pictures, published
from benchmarks.ratings.thesis.fits import Bench
from benchmarks.ratings.thesis.pictures import Curve, Panel
from tacenda.ratings import Ratings
from tacenda_surprise.catalogue import Identities

NAME = "ratings-thesis-conditioning"
HIDDEN, WIDTH = 25, 50
MODELS = ("RBM", "RBM ours", "PMF", "PMF ours")


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
PLAIN = "nothing: plain models"


def plain(bench: Bench, train: Ratings) -> dict[str, float]:
    """Of the models that do not condition."""
    measured = (
        bench.fit(fits.rbm(HIDDEN), train=train),
        bench.fit(fits.rbm(HIDDEN, ours=True), train=train),
        bench.fit(fits.pmf(WIDTH), train=train),
        bench.fit(fits.pmf(WIDTH, ours=True), train=train),
    )
    return {model: fit.rmse for model, fit in zip(MODELS, measured, strict=True)}


def conditional(bench: Bench, train: Ratings, told: Ratings) -> dict[str, float]:
    """Of those that do; ``told`` holds ``train``."""
    known = Identities.of(told)
    words = f"told of {len(told)}"
    measured = (
        bench.fit(fits.conditional_rbm(HIDDEN), words, train, known),
        bench.fit(fits.conditional_rbm(HIDDEN, ours=True), words, train, known),
        bench.fit(fits.conditional_pmf(WIDTH), words, train, known),
        bench.fit(fits.conditional_pmf(WIDTH, ours=True), words, train, known),
    )
    return {model: fit.rmse for model, fit in zip(MODELS, measured, strict=True)}


def rows_of(bench: Bench, setting: Setting) -> list[dict[str, Any]]:
    whole = bench.parts.train
    shares = sorted({setting.share, 2 * setting.share, *setting.told})
    parts = dict(zip(shares, fits.nested(len(whole), shares), strict=True))
    train = whole.select(parts[setting.share])
    without, least, most = published.CONDITIONING[setting.netflix]
    netflix = {PLAIN: without, setting.told[0]: least, setting.told[-1]: most}

    def row(told: float | str, n: int, found: dict[str, float]) -> dict[str, Any]:
        name = told if isinstance(told, str) else f"{told:.0%} of the training part"
        figures = {"RBM published": netflix.get(told)}
        head = {"ratings": setting.name, "training ratings": len(train), "told": name}
        return {**head, "identities": n, **found, **figures}

    rows = [row(PLAIN, 0, plain(bench, train))]
    for share in setting.told:
        told = whole.select(parts[share])
        rows.append(row(share, len(told), conditional(bench, train, told)))
    if setting.share < 0.5:
        more = whole.select(parts[2 * setting.share])
        twice = row("nothing: plain models, twice as many ratings", 0, plain(bench, more))
        twice |= {"training ratings": len(more), "RBM published": published.TWICE_AS_MANY}
        rows.append(twice)
    return rows


def panel(title: str, rows: list[dict[str, Any]]) -> Panel:
    curves = []
    for number, model in enumerate(MODELS):
        color = f"C{number}"
        told = [row for row in rows if row["identities"]]
        y, x = [row[model] for row in told], [row["identities"] / 1e3 for row in told]
        level = [row[model] for row in rows if row["told"] == PLAIN]
        curves += [
            Curve(f"conditional {model}", y, x, color),
            Curve(f"{model}", level, color=color, style=":", level=True),
        ]
    return Panel(title, "thousand identities told", curves)


def main(bench: Bench, save: bool) -> None:
    found = {setting.name: rows_of(bench, setting) for setting in SETTINGS}
    rows = [row for part in found.values() for row in part]
    protocol = {
        "measure": "RMSE of the test part, the same for all rows",
        "data": fits.SPLIT,
        "ratings": "random parts of the training part, each within the next; of the rest only identities are told",
        "RBM, PMF": f"{HIDDEN} hidden units, {WIDTH} factors; {fits.THESIS}",
        "ours": f"default settings, {HIDDEN} hidden units, items being cases; {WIDTH} factors",
        "published": f"{published.SOURCE}; 50 hidden units, 10M and 50M of 99M training ratings",
    }
    if not save:
        reporting.print_table(rows)
        return
    reporting.save(NAME, protocol, rows, seeds=[fits.SEED])
    titles = [f"ratings of {setting.name} of the training part" for setting in SETTINGS]
    panels = [panel(title, part) for title, part in zip(titles, found.values(), strict=True)]
    pictures.draw(NAME, panels)
