"""Draws the vectors of one word in six sentences, for the guides: python -m benchmarks.embeddings.contexts.

The model is the installed en-lds-small; nothing is measured. The picture shows the two principal components.
"""

from __future__ import annotations

import numpy as np
import spacy

from benchmarks import reporting

SENTENCES = {
    "verb": ("They will book a room.", "We should book a table.", "She wants to book a hotel."),
    "noun": (
        "He read the book.",
        "The book was published in 1960.",
        "She wrote a book about birds.",
    ),
}
WORD = "book"


def main() -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("lds_embeddings", config={"output": "mean"}).initialize(artifact="en-lds-small")
    kinds = [kind for kind, sentences in SENTENCES.items() for _ in sentences]
    docs = [nlp(text) for sentences in SENTENCES.values() for text in sentences]
    vectors = np.stack([token.vector for doc in docs for token in doc if token.text == WORD])
    _, _, directions = np.linalg.svd(vectors - vectors.mean(0), full_matrices=False)
    x, y = directions[:2] @ (vectors - vectors.mean(0)).T
    x = x * np.sign(x[-1])  # nouns to the right, whatever the signs of the library
    pyplot = reporting.pyplot()
    figure, axes = pyplot.subplots(figsize=(7.2, 3.2), layout="constrained")
    for kind, color in (("verb", "C0"), ("noun", "C1")):
        chosen = [i for i, each in enumerate(kinds) if each == kind]
        axes.scatter(x[chosen], y[chosen], color=color, label=f"{WORD}, {kind}")
        for i in chosen:
            axes.annotate(
                docs[i].text, (x[i], y[i]), (7, -3), textcoords="offset points", fontsize=10
            )
    axes.set(xticks=[], yticks=[])
    axes.margins(x=0.3, y=0.1)
    axes.legend(frameon=False, loc="upper left", fontsize=11)
    axes.set_frame_on(False)
    figure.savefig(reporting.RESULTS / "embeddings-contexts.png", dpi=150)


if __name__ == "__main__":
    main()
