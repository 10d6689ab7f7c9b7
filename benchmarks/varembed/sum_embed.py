"""SumEmbed, to compare with VarEmbed's tables: similarity, supersenses and tags, by tokens of the text.

    python -m benchmarks.varembed.sum_embed [--tokens 1.5 0] [--seeds 0 1 2]

`intrinsic` and `tagging` have the same text and vocabulary and measure the same; 0 is the whole text.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from benchmarks import kept
from benchmarks.embeddings import labelled
from benchmarks.reporting import Row, Table, main
from benchmarks.varembed import intrinsic, models, tagging

TASK = "treebank-xpos"
ROWS = {
    "SumEmbed": models.Row("SumEmbed"),
    "SumEmbed, power 0.25": models.Row("SumEmbed", {"advanced": {"power": 0.25}}),
}
PROTOCOL = {
    **{key: intrinsic.PROTOCOL[key] for key in ("WS353, RW", "QVEC", "cpu seconds")},
    "tags": f"{tagging.TASKS[TASK]}: accuracy in percent of a tagger of five words; {tagging.HIDDEN} hidden units, at "
    f"most {tagging.EPOCHS} epochs, best on dev",
    "settings": "128 columns; the power of the other rows was chosen on the smaller text, by these similarities",
    "seeds": "of the vectors and of the tagger",
}


def measure(found: models.Vectors, seed: int, text: Any) -> Row:
    tags = tagging.measure(found, labelled.load(TASK), seed, text)
    return {
        **intrinsic.measure(found),
        "tags": tags["test"],
        "tags, unseen": 100 - tags["error unseen"],
    }


def rows(options: Any) -> Iterator[Row]:
    cells = kept.Cells("sum_embed")
    for millions, row in product(options.tokens, options.chosen(ROWS)):
        text, found = models.corpus(millions), []
        for seed in options.seeds:
            vectors = models.fitted(ROWS[row], seed, text)
            key = kept.cell_key(tokens=millions, seed=seed, model=vectors.key)
            found.append(cells.measure(key, lambda: measure(vectors, seed, text)))  # noqa: B023
        what = f"{row}, {millions:g}"
        yield {"what": what, "row": row, "tokens": text.n_tokens, **models.combined(found)}


if __name__ == "__main__":
    table = Table("varembed-sum-embed", PROTOCOL, rows, "what")
    main(__doc__, table, tokens=[1.5, 0.0], seeds=[0, 1, 2])
