"""How much raw text is enough: the stock tagger, by tokens of the text that LDS and SumEmbed were fitted to.

    python -m benchmarks.embeddings.raw_text [--millions 1 3 10 0 43] [--seeds 0]

EWT with 1,000 labelled sentences; pipelines and training are those of `spacy_rows`. The text is the beginning of
Wikipedia (0: all of it), and past its end of the novels. Every size has models of its own, kept in the cache.
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

import tacenda
from benchmarks import reporting
from benchmarks.embeddings import common, labelled, models, pipelines, spacy_rows, text
from tacenda_embeddings import LDS

TASK, SIZE = "ewt-upos", 1000
MILLIONS = (1.0, 3.0, 10.0, 0.0, 43.0)
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


def fitted(options: argparse.Namespace, millions: float) -> LDS:
    """The LDS of the first so many million tokens, loaded or fitted and saved."""
    if not millions:
        return models.fitted(options.cache)
    path = options.cache / f"lds-{millions:g}-{models.code()}"
    if not path.exists():
        LDS().fit(text.corpus(options.cache, millions)).save(path)
    return tacenda.load(path)


def measure(
    options: argparse.Namespace, row: pipelines.Row, lds: LDS, vectors: Any, seed: int
) -> dict[str, Any]:
    task = labelled.load(TASK)
    nlp = pipelines.build(spacy_rows.TASKS[TASK], row, vectors)
    docs = spacy_rows.documents(nlp, task, row, options.cache, lds)
    return spacy_rows.measure(task, SIZE, seed, nlp, docs)


def run(options: argparse.Namespace) -> list[dict[str, Any]]:
    log = common.logger("raw_text", options.cache)
    cells = common.Cells(options.cache, "raw_text")
    rows = []
    for millions in options.millions:
        lds, words = fitted(options, millions), pipelines.words(options.cache, millions)
        n_tokens = text.corpus(options.cache, millions).n_tokens
        made_by = f"{n_tokens}+{models.code()}+{words.key}"
        for name in common.chosen(ROWS, options.only):
            found = []
            for seed in options.seeds:
                key = spacy_rows.key_of(TASK, name, SIZE, seed, made_by)
                row = pipelines.ROWS[name]
                run = partial(measure, options, row, lds, words.model, seed)
                found.append(cells.measure(key, run))
                log.info("%s: %.2f (%.0f s)", key, found[-1]["test"], found[-1]["seconds"])
            scores = {part: common.spread([c[part] for c in found]) for part in ("dev", "test")}
            rows.append({"tokens": n_tokens, "row": name, **scores})
    return rows


def main() -> None:
    parser = common.arguments(__doc__, seeds="0")
    parser.add_argument("--millions", nargs="*", type=float, default=list(MILLIONS))
    options = parser.parse_args()
    rows = run(options)
    reporting.save("embeddings-raw-text", PROTOCOL, rows, seeds=options.seeds, dry=options.no_save)


if __name__ == "__main__":
    main()
