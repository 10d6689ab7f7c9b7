"""Other vectors for the recommended configuration, compared on the dev part of EWT.

    python -m benchmarks.embeddings.variants [--only ...] [--sizes 250] [--seeds 0-2]

What the configuration reads is chosen here: a row changes one thing of the recommended tagger, and no test part is
looked at. Pipelines and training are those of `spacy_rows`. An LDS and a SumEmbed that are not in the cache are
fitted first; one training is one cell.
"""

from __future__ import annotations

import argparse
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

import tacenda
from benchmarks import reporting
from benchmarks.embeddings import common, labelled, models, pipelines, raw_text, spacy_rows, text
from benchmarks.varembed import models as word_models
from tacenda import Corpus
from tacenda_embeddings import LDS
from tacenda_embeddings.morphological_lds import MorphologicalLDS

NAME = "embeddings-variants"
TASK = "ewt-upos"
SIZES: tuple[int | None, ...] = (250,)
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

    lds: Callable[[Path], Any]
    words: Callable[[Path], Any]
    depth: int = 1


class TwoReadings:
    """The vectors of an LDS, and beside them those of a second one, which has read classes of the first's."""

    def __init__(self, cache: Path) -> None:
        self.first = models.fitted(cache)
        path = cache / f"two-readings-{models.code()}"
        corpus = text.corpus(cache, CLASS_TOKENS / 1e6)
        centres = path / "centres.npy"
        if not centres.exists():
            path.mkdir(exist_ok=True)
            np.save(centres, self._clustered(islice(text.WordSentences(corpus), 2500)))
        self._centres = np.load(centres)
        if not (path / "lds").exists():
            read = Corpus.from_sentences(self._read(text.WordSentences(corpus)))
            LDS(n_states=100).fit(read).save(path / "lds")
        self.second: LDS = tacenda.load(path / "lds")

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


@cache
def words(cache: Path, millions: float = 0, **settings: Any) -> Any:
    """A SumEmbed of the text of the LDS."""
    options = Namespace(cache=cache, tokens=millions, no_fit=False)
    row = word_models.Row("SumEmbed", {"epochs": 1, **settings})
    found = word_models.fitted(row, 0, cache / "varembed", word_models.corpus(options))
    assert found is not None
    return found


def lds_of(cache: Path, millions: float) -> LDS:
    return raw_text.fitted(Namespace(cache=cache), millions)


def morphological(cache: Path) -> MorphologicalLDS:
    return MorphologicalLDS.join(models.fitted(cache), words(cache).model)


ROWS = {
    pipelines.RECOMMENDED: Variant(models.fitted, words),
    "LDS of 300 states": Variant(lambda cache: models.fitted(cache, "h300"), words),
    "morphological LDS": Variant(morphological, words),
    "43 million tokens": Variant(lambda cache: lds_of(cache, 43), lambda cache: words(cache, 43)),
    "SumEmbed of 3 epochs": Variant(models.fitted, lambda cache: words(cache, epochs=3)),
    "two layers of convolution": Variant(models.fitted, words, depth=2),
    "second reading": Variant(TwoReadings, words),
}


def measure(
    options: argparse.Namespace, variant: Variant, size: int | None, seed: int
) -> dict[str, Any]:
    task = labelled.load(TASK)
    task = replace(task, test=task.dev)
    row = replace(pipelines.ROWS[pipelines.RECOMMENDED], depth=variant.depth)
    lds = variant.lds(options.cache)
    nlp = pipelines.build("tagger", row, variant.words(options.cache).model)
    dev = pipelines.documents(nlp, task, "dev", row, options.cache, lds)
    train = pipelines.documents(nlp, task, "train", row, options.cache, lds)
    found = spacy_rows.measure(task, size, seed, nlp, {"train": train, "dev": dev, "test": dev})
    return {key: found[key] for key in ("dev", "step", "steps", "seconds")}


def run(options: argparse.Namespace) -> None:
    log = common.logger("variants", options.cache)
    cells = common.Cells(options.cache, "variants")
    rows = []
    for name in common.chosen(ROWS, options.only):
        scores = {}
        for size in options.sizes:
            found = []
            for seed in options.seeds:
                version = f"{models.code()}+{words(options.cache).key}"
                key = spacy_rows.key_of(TASK, name, size, seed, version)
                cell = cells.measure(key, lambda: measure(options, ROWS[name], size, seed))  # noqa: B023
                log.info("%s: %.2f (%.0f s)", key, cell["dev"], cell["seconds"])
                found.append(cell["dev"])
            scores[f"dev {size or 'all'}"] = common.spread(found)
        rows.append({"what": name, "row": name, **scores})
        more = {"keep": "what", "dry": options.no_save}
        reporting.save(NAME, PROTOCOL, rows, seeds=options.seeds, **more)


def main() -> None:
    parser = common.arguments(__doc__)
    parser.add_argument("--sizes", nargs="*", type=spacy_rows.size_of, default=list(SIZES))
    run(parser.parse_args())


if __name__ == "__main__":
    main()
