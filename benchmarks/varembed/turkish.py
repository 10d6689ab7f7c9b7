"""Turkish: vectors from the training text of a treebank, tags of words that it does not have.

    python -m benchmarks.varembed.turkish --seeds 0-2

All vectors are trained on the words of the training part of IMST (37,500 tokens); a classifier reads the vectors of
five words, as in `tagging`, and learns UPOS from the same part. BOUN, in the state that is in the data folder, cannot
be used: in every column of its training part stands the number of the token, and its raw text has lost its letters.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import reporting
from benchmarks.embeddings import common, labelled
from benchmarks.local_classifier import MLPClassifier
from benchmarks.varembed import models, tagging
from tacit import Corpus
from tacit.datasets import conllu

ROWS: dict[str, dict[str, Any]] = {
    "word2vec CBOW": {"kind": "Word2Vec", "epochs": 20},
    "word2vec skip-gram": {"kind": "Word2Vec", "sg": 1, "epochs": 20},
    "FastText skip-gram": {"kind": "FastText", "sg": 1, "epochs": 20},
    "SumEmbed": {"kind": "SumEmbed", "n_morphemes": 400, "start_window": 2},
    "VarEmbed": {"kind": "VarEmbed", "n_morphemes": 400, "start_window": 2},
    "VarEmbed, n-grams": {"kind": "VarEmbed", "segmenter": "ngrams", "start_window": 2},
    "VarEmbed, Morfessor": {"kind": "VarEmbed", "segmenter": "morfessor", "start_window": 2},
}
MIN_COUNT = 2


def sentences(treebank: str, part: str) -> list[labelled.Sentence]:
    folder = common.data_folder() / "ud" / f"UD_Turkish-{treebank}"
    (path,) = (p for p in folder.glob(f"*-ud-{part}.conllu*") if p.suffix in (".conllu", ".xz"))
    return [labelled.Sentence(list(s.words), list(s.upos)) for s in conllu.read(path)]


def lowered(word: str) -> str:
    """Turkish lower case: a dotless I has no dot."""
    return word.replace("I", "ı").replace("İ", "i").lower()


def lower(found: Sequence[labelled.Sentence]) -> list[labelled.Sentence]:
    return [labelled.Sentence([lowered(w) for w in s.words], s.tags) for s in found]


def measure(
    row: str, seed: int, text: Corpus, parts: dict[str, list[labelled.Sentence]], where: Path
) -> dict[str, Any]:
    settings = dict(ROWS[row])
    kind = settings.pop("kind")
    name = f"turkish {row} seed {seed}".replace(",", "").replace(" ", "-")
    if kind in ("VarEmbed", "SumEmbed"):
        found = models.trained_ours(kind, settings, seed, where / name, text, None)
    else:
        found = models.trained_gensim(kind, settings, seed, where / name, text)
    features = {part: tagging.windows(found, each) for part, each in parts.items()}
    tags = {part: np.array([t for s in each for t in s.tags]) for part, each in parts.items()}
    model = MLPClassifier(hidden=tagging.HIDDEN, epochs=8, seed=seed, scale="none")
    model.fit(features["train"], tags["train"], features["dev"], tags["dev"])
    wrong = model.predict(features["test"]) != tags["test"]
    words = [word for sentence in parts["test"] for word in sentence.words]
    unseen = np.array([word not in text.vocabulary for word in words])
    return {
        "test": 100 - 100 * float(wrong.mean()),
        "seen": 100 - 100 * float(wrong[~unseen].mean()),
        "unseen": 100 - 100 * float(wrong[unseen].mean()),
        "unseen tokens": int(unseen.sum()),
    }


def main() -> None:
    options: argparse.Namespace = common.arguments(__doc__, "0-2").parse_args()
    log = common.logger("varembed", options.cache)
    cells = common.Cells(options.cache, "varembed-turkish")
    read = {part: lower(sentences("IMST", part)) for part in ("train", "dev", "test")}
    words = [s.words for s in read["train"]]
    text = Corpus.from_sentences(words, min_count=MIN_COUNT, digits=True)
    rows = []
    for row in common.chosen(ROWS, options.only):
        found = []
        for seed in options.seeds:
            key = common.cell_key(row=row, seed=seed)
            cell = cells.measure(
                key,
                lambda: measure(row, seed, text, read, options.cache / "varembed"),  # noqa: B023
            )
            log.info("%s: %s", key, cell)
            found.append(cell)
        rows.append({"row": row, **{k: common.spread([c[k] for c in found]) for k in found[0]}})
    protocol = {
        "text": f"training part of IMST, {text.n_tokens} tokens, "
        f"{len(text.vocabulary)} types that occur at least {MIN_COUNT} times, lower case",
        "task": "UPOS of IMST, accuracy in per cent on its test part; unseen: not among the types",
        "classifier": f"window of five words, {tagging.HIDDEN} hidden units, 8 epochs, best on dev",
        "VarEmbed, SumEmbed": "400 unigram pieces, counts within 2 words to begin with: chosen on dev",
        "gensim": "window 5, 20 epochs, one thread; a word without a vector has zeros",
        "seeds": options.seeds,
    }
    if not options.no_save:
        reporting.save("varembed-turkish", protocol, rows, keep="row")


if __name__ == "__main__":
    main()
