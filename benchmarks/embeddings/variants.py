"""Other vectors for the recommended configuration, compared on the dev part of EWT.

    python -m benchmarks.embeddings.variants [--only ...] [--sizes 250] [--seeds 0 1 2]

What the configuration reads is chosen here: a row changes one thing of the recommended tagger, and no test part is
looked at. Pipelines and training are those of `spacy_rows`. An LDS and a SumEmbed that are not kept are fitted first;
one training is one cell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

import tacenda
from benchmarks import kept
from benchmarks.embeddings import labelled, models, pipelines, spacy_rows, text
from benchmarks.reporting import Row, Table, main
from tacenda import Corpus
from tacenda_embeddings import LDS
from tacenda_embeddings.morphological_lds import MorphologicalLDS

N_CLASSES, CLASS_TOKENS, SAMPLE = 500, 10e6, 200_000  # of the second reading
PROTOCOL = {
    **{key: spacy_rows.PROTOCOL[key] for key in ("tokens", "training", "layers")},
    "measure": "UPOS accuracy on the dev part of EWT, percent; no test part was looked at",
    "second reading": f"{N_CLASSES} classes of tokens in context (k-means of the vectors of the first LDS), and an LDS "
    f"of 100 states fitted to the classes of the first {CLASS_TOKENS / 1e6:.0f} million tokens",
}


@dataclass(frozen=True)
class Variant:
    """What a row reads: makers of an LDS and of word vectors; and its layers of convolution."""

    lds: Callable[[], Any] = models.fitted
    words: Callable[[], Any] = pipelines.words
    depth: int = 1


class TwoReadings:
    """The vectors of an LDS, and beside them those of a second one, which has read classes of the first's."""

    def __init__(self) -> None:
        self.first = models.fitted()
        corpus = text.corpus(CLASS_TOKENS / 1e6)

        def make(folder: Path) -> None:
            self._centres = self._clustered(islice(text.word_sentences(corpus), 2500))
            np.save(folder / "centres.npy", self._centres)
            read = Corpus.from_sentences(self._read(text.word_sentences(corpus)))
            LDS(n_states=100).fit(read).save(folder / "lds")

        folder, _ = kept.folder("two-readings", [N_CLASSES, CLASS_TOKENS, SAMPLE], make)
        self._centres = np.load(folder / "centres.npy")
        self.second: LDS = tacenda.load(folder / "lds")

    def _clustered(self, sentences: Iterator[list[str]]) -> np.ndarray:
        """Centres (1 + classes, columns) of the classes; the first row is the deviation of each column."""
        from sklearn.cluster import MiniBatchKMeans

        vectors = np.concatenate(self.first.transform(sentences, output="own_context"))[:SAMPLE]
        scale = vectors.std(axis=0)
        found = MiniBatchKMeans(N_CLASSES, random_state=0, n_init=1).fit(vectors / scale)
        return np.vstack([scale, found.cluster_centers_]).astype(np.float32)

    def _classes(self, vectors: np.ndarray) -> list[str]:
        """The class of each token as a word."""
        scale, centres = self._centres[0], self._centres[1:]
        nearest = (vectors / scale) @ centres.T - 0.5 * (centres**2).sum(axis=1)
        return [f"c{k}" for k in nearest.argmax(axis=1)]

    def _read(self, sentences: Any) -> Iterator[list[str]]:
        sentences = iter(sentences)
        while batch := list(islice(sentences, 500)):
            for vectors in self.first.transform(batch, output="own_context"):
                yield self._classes(vectors)

    def transform(self, sentences: Sequence[Sequence[str]], *, output: str) -> list[np.ndarray]:
        """Vectors (tokens, columns of both) of each sentence."""
        first = self.first.transform(sentences, output=output)
        second = self.second.transform(self._read(sentences), output=output)
        return [np.hstack(pair) for pair in zip(first, second, strict=True)]


ROWS = {
    pipelines.RECOMMENDED: Variant(),
    "LDS of 300 states": Variant(lambda: models.fitted("h300")),
    "morphological LDS": Variant(
        lambda: MorphologicalLDS.join(models.fitted(), pipelines.words().model)
    ),
    "43 million tokens": Variant(lambda: models.fitted(millions=43), lambda: pipelines.words(43)),
    "two layers of convolution": Variant(depth=2),
    "second reading": Variant(TwoReadings),
}


def measure(_: str, name: str, size: int | None, seed: int) -> Row:
    variant, task = ROWS[name], labelled.load("ewt-upos")
    task = replace(task, test=task.dev)
    row = replace(pipelines.ROWS[pipelines.RECOMMENDED], depth=variant.depth)
    nlp = pipelines.build("tagger", row, variant.words().model)
    docs = pipelines.documents(nlp, task, row, variant.lds())
    found = spacy_rows.measure(task, size, seed, nlp, docs)
    return {key: found[key] for key in ("dev", "step", "steps", "seconds")}


def rows(options: Any) -> Iterator[Row]:
    options.tasks = ["ewt-upos"]
    for row in spacy_rows.rows_of(options, "variants", {name: name for name in ROWS}, measure):
        yield {**row, "what": row["row"]}


if __name__ == "__main__":
    table = Table(
        "embeddings-variants", PROTOCOL, rows, key="what", seeds=lambda options: options.seeds
    )
    main(__doc__, table, sizes=["250"], seeds=spacy_rows.SEEDS)
