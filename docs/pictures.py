"""Draw the pictures of the guides, static/*.png, from the shipped models and the ratings of the tutorial.

python docs/pictures.py        # needs matplotlib and tacenda-en[lm]
"""

import os
import re
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import spacy
from matplotlib import pyplot
from matplotlib.axes import Axes

import tacenda
from tacenda_surprise import ConditionalPMF

DOCS = Path(__file__).parent
COLOR = "#c2410c"
BOOKS = {
    "verb": ("They will book a room.", "We should book a table.", "She wants to book a hotel."),
    "noun": (
        "He read the book.",
        "The book was published in 1960.",
        "She wrote a book about birds.",
    ),
}


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


def draw_contexts(axes: Axes) -> None:
    """Draw the vectors of a word in six sentences, by their two principal components."""
    nlp = spacy.blank("en")
    nlp.add_pipe("lds_embeddings", config={"output": "mean"}).initialize(artifact="en-lds-small")
    docs = list(nlp.pipe(sentence for sentences in BOOKS.values() for sentence in sentences))
    vectors = np.stack([token.vector for doc in docs for token in doc if token.text == "book"])
    vectors -= vectors.mean(0)
    _, _, directions = np.linalg.svd(vectors, full_matrices=False)
    x, y = directions[:2] @ vectors.T
    x *= np.sign(x[-1])  # nouns to the right, whatever the signs of the library
    for n, kind in enumerate(BOOKS):
        own = slice(3 * n, 3 * n + 3)
        axes.scatter(x[own], y[own], color=f"C{n}", label=f"book, {kind}")
    for doc, *place in zip(docs, x, y, strict=True):
        axes.annotate(doc.text, place, (7, -3), textcoords="offset points", fontsize=10)
    axes.set(xticks=[], yticks=[])
    axes.margins(x=0.3, y=0.1)
    axes.legend(frameon=False, loc="upper left", fontsize=11)
    axes.set_frame_on(False)


def main() -> None:
    """Draw all pictures."""
    pictures = {"surprisal": draw_surprisal, "new-user": draw_list, "contexts": draw_contexts}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name, draw in pictures.items():
            figure, axes = pyplot.subplots(figsize=(6.4, 3), layout="constrained")
            draw(axes)
            axes.spines[["top", "right"]].set_visible(False)
            figure.savefig(DOCS / "static" / f"{name}.png", dpi=110)


if __name__ == "__main__":
    main()
