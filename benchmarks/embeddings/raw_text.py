"""How much raw text is enough: the stock tagger, by tokens of the text that LDS and SumEmbed were fitted to.

    python -m benchmarks.embeddings.raw_text [--millions 1 3 10 0 43] [--seeds 0]

EWT with 1,000 labelled sentences; pipelines and training are those of `spacy_rows`. The text is the beginning of
Wikipedia (0: all of it), and past its end of the novels. Every size has models of its own, which are kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from benchmarks import kept
from benchmarks.embeddings import labelled, models, pipelines, spacy_rows, text
from benchmarks.reporting import Row, Table, main, spread

TASK, SIZE = "ewt-upos", 1000
MILLIONS = [1.0, 3.0, 10.0, 0.0, 43.0]
ROWS = (
    pipelines.RECOMMENDED,
    "hash + SumEmbed + LDS, no CNN",
    "hash + SumEmbed, CNN4",
    "hash + LDS own_past_future, no CNN",
)
PROTOCOL = {
    **spacy_rows.PROTOCOL,
    "labelled": f"{SIZE:,} sentences of EWT",
    "text": "the beginning of English Wikipedia's good and featured articles, past its end of a hundred novels",
}


def measure(name: str, millions: float, seed: int) -> Row:
    task, row = labelled.load(TASK), pipelines.ROWS[name]
    nlp = pipelines.build("tagger", row, pipelines.words(millions).model)
    docs = pipelines.documents(nlp, task, row, models.fitted(millions=millions))
    return spacy_rows.measure(task, SIZE, seed, nlp, docs)


def rows(options: Any) -> Iterator[Row]:
    cells = kept.Cells("raw_text")
    for millions, name in product(options.millions, options.chosen(ROWS)):
        found = []
        for seed in options.seeds:
            key = kept.cell_key(row=name, millions=millions, seed=seed)
            found.append(cells.measure(key, lambda: measure(name, millions, seed)))  # noqa: B023
        scores = {part: spread([cell[part] for cell in found]) for part in ("dev", "test")}
        tokens = text.corpus(millions).n_tokens
        yield {"what": f"{tokens}, {name}", "tokens": tokens, "row": name, **scores}


if __name__ == "__main__":
    table = Table("embeddings-raw-text", PROTOCOL, rows, key="what")
    main(__doc__, table, millions=MILLIONS, seeds=[0])
