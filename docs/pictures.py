"""Draw the pictures of the guides, static/*.png, from the shipped models and the ratings of the tutorial.

python docs/pictures.py        # needs matplotlib and tacenda-en[lm]
"""

import os
import re
import tempfile
from pathlib import Path
from typing import Any

from matplotlib import pyplot
from matplotlib.axes import Axes

import tacenda
from tacenda_surprise import ConditionalPMF

DOCS = Path(__file__).parent
COLOR = "#c2410c"


def draw_surprisal(axes: Axes) -> None:
    """Draw the surprisal of each word of a sentence that misleads its readers."""
    words = ["The", "old", "man", "the", "boats", "."]
    bits = tacenda.load("en-ngrams-small").surprisal(words)
    bars = axes.bar(range(len(words)), bits, color=COLOR)
    axes.bar_label(bars, fmt="%.1f", fontsize=12)
    axes.set_xticks(range(len(words)), words, fontsize=14)
    axes.set_ylabel("surprisal, bits", fontsize=13)


def draw_list(axes: Axes) -> None:
    """Draw what a new user is recommended, with one standard deviation."""
    page = (DOCS / "ratings.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    for block in re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)[:2]:
        exec(block, names)  # the ratings of the tutorial
    algo = ConditionalPMF(random_state=0).fit(names["data"].build_full_trainset())
    maria = algo.fold_in({"Alien": 5, "The Matrix": 4, "Notting Hill": 1})
    films, estimates = zip(*reversed(maria.top_n(6)), strict=True)
    deviations = [maria.predict_std(film) for film in films]
    axes.barh(films, estimates, xerr=deviations, color=COLOR, ecolor="#475569", capsize=4)
    axes.set_xlim(1, 5)
    axes.tick_params(axis="y", labelsize=13)
    axes.set_xlabel("expected rating", fontsize=13)


def main() -> None:
    """Draw both pictures."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name, draw in {"surprisal": draw_surprisal, "new-user": draw_list}.items():
            figure, axes = pyplot.subplots(figsize=(6.4, 3), layout="constrained")
            draw(axes)
            axes.spines[["top", "right"]].set_visible(False)
            figure.savefig(DOCS / "static" / f"{name}.png", dpi=110)


if __name__ == "__main__":
    main()
