"""Turkish: vectors from the training text of a treebank, tags of words that it does not have.

    python -m benchmarks.varembed.turkish [--treebanks BOUN] [--seeds 0 1 2]

IMST: all vectors are trained on the words of its training part (37,500 tokens); a classifier reads the vectors of
five words, as in `tagging`, and learns UPOS from the same part.

BOUN, in the state that is in the data folder, has no usable training part: in every column stands the number of the
token, and its raw text has lost all letters that are not ASCII (`ylndayz` for `yılındayız`). Its other two parts are
whole. The classifier learns from four fifths of the sentences of its development part (9,700 tokens) and stops by the
last fifth; the vectors are trained on these words and those of IMST's training part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks import kept
from benchmarks.embeddings import labelled
from benchmarks.local_classifier import MLPClassifier
from benchmarks.reporting import Row, Table, main
from benchmarks.varembed import models, tagging
from tacenda import Corpus
from tacenda.datasets import conllu

ROWS = {
    "word2vec CBOW": models.Row("Word2Vec", {"epochs": 20}),
    "word2vec skip-gram": models.Row("Word2Vec", {"sg": 1, "epochs": 20}),
    "FastText skip-gram": models.Row("FastText", {"sg": 1, "epochs": 20}),
    "SumEmbed": models.Row("SumEmbed", {"advanced": {"n_morphemes": 400}}),
    "VarEmbed": models.Row("VarEmbed", {"advanced": {"n_morphemes": 400}}),
    "VarEmbed, n-grams": models.Row("VarEmbed", {"segmenter": "ngrams"}),
    "VarEmbed, Morfessor": models.Row("VarEmbed", {"segmenter": "morfessor"}),
}
MIN_COUNT = 2


def sentences(treebank: str, part: str) -> list[labelled.Sentence]:
    folder = labelled.data_folder() / "ud" / f"UD_Turkish-{treebank}"
    (path,) = (p for p in folder.glob(f"*-ud-{part}.conllu*") if p.suffix in (".conllu", ".xz"))
    return [labelled.Sentence(list(s.words), list(s.upos)) for s in conllu.read(path)]


def lowered(word: str) -> str:
    """Turkish lower case: a dotless I has no dot."""
    return word.replace("I", "ı").replace("İ", "i").lower()


def lower(found: Sequence[labelled.Sentence]) -> list[labelled.Sentence]:
    return [labelled.Sentence([lowered(w) for w in s.words], s.tags) for s in found]


def measure(
    found: models.Vectors, seed: int, text: Corpus, parts: dict[str, list[labelled.Sentence]]
) -> Row:
    features = {part: tagging.windows(found, each) for part, each in parts.items()}
    tags = {part: np.array([t for s in each for t in s.tags]) for part, each in parts.items()}
    model = MLPClassifier(hidden=tagging.HIDDEN, epochs=8, seed=seed, scale="none")
    model.fit(features["train"], tags["train"], features["dev"], tags["dev"])
    wrong = model.predict(features["test"]) != tags["test"]
    words = [word for sentence in parts["test"] for word in sentence.words]
    unseen = np.array([word not in text.vocabulary for word in words])
    return {
        "dev": 100 * model.score(features["dev"], tags["dev"]),
        "test": 100 - 100 * float(wrong.mean()),
        "seen": 100 - 100 * float(wrong[~unseen].mean()),
        "unseen": 100 - 100 * float(wrong[unseen].mean()),
        "unseen tokens": int(unseen.sum()),
        **found.facts(),
    }


def imst() -> tuple[dict[str, list[labelled.Sentence]], list[labelled.Sentence]]:
    """Labelled parts, and what the vectors are trained on."""
    read = {part: lower(sentences("IMST", part)) for part in ("train", "dev", "test")}
    return read, read["train"]


def boun() -> tuple[dict[str, list[labelled.Sentence]], list[labelled.Sentence]]:
    """The same of BOUN, from the two parts that are whole."""
    known, test = (lower(sentences("BOUN-2020", part)) for part in ("dev", "test"))
    parts = {
        "train": [s for i, s in enumerate(known) if i % 5 != 4],
        "dev": [s for i, s in enumerate(known) if i % 5 == 4],
        "test": test,
    }
    return parts, [*imst()[1], *parts["train"]]


TREEBANKS = {"IMST": imst, "BOUN": boun}


def read(treebank: str) -> tuple[dict[str, list[labelled.Sentence]], Corpus]:
    parts, unlabelled = TREEBANKS[treebank]()
    words = [s.words for s in unlabelled]
    return parts, Corpus.from_sentences(words, min_count=MIN_COUNT, digits=True)


def protocol(_: Any) -> dict[str, Any]:
    texts = {name: read(name)[1] for name in TREEBANKS}
    about = {name: f"{t.n_tokens} tokens, {len(t.vocabulary)} types" for name, t in texts.items()}
    return {
        "text": f"training part of IMST; for BOUN four fifths of its development part too; lower case, types that "
        f"occur at least {MIN_COUNT} times: {about}",
        "task": "UPOS, accuracy in per cent on the test part; unseen: not among the types",
        "classifier": f"window of five words, {tagging.HIDDEN} hidden units, 8 epochs, best on dev",
        "VarEmbed, SumEmbed": "400 unigram pieces: chosen on the development part of IMST",
        "gensim": "20 epochs, one thread; a word without a vector has zeros",
        "seeds": "of the vectors and of the classifier",
    }


def rows(options: Any) -> Iterator[Row]:
    cells = kept.Cells("varembed-turkish")
    for treebank in options.treebanks:
        parts, text = read(treebank)
        for row in options.chosen(ROWS):
            found = []
            for seed in options.seeds:
                vectors = models.fitted(ROWS[row], seed, text)
                key = kept.cell_key(treebank=treebank, row=row, seed=seed, model=vectors.key)
                found.append(cells.measure(key, lambda: measure(vectors, seed, text, parts)))  # noqa: B023
            about = {"treebank": treebank, "row": row, "key": f"{treebank} {row}"}
            yield {**about, **models.combined(found)}


if __name__ == "__main__":
    table = Table(
        "varembed-turkish", protocol, rows, key="key", seeds=lambda options: options.seeds
    )
    main(__doc__, table, treebanks=tuple(TREEBANKS), seeds=[0, 1, 2])
