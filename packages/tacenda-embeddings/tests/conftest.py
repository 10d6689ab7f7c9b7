"""Shared by the tests: a tiny embedder that the registry knows as ``toy``, and the command line.

The toy needs no fitting loop, and its vectors are easy to predict.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import support.timeless  # noqa: F401
from support.files import write_file  # noqa: F401
from support.plugins import registered
from support.processes import command_line, no_child_left  # noqa: F401
from tacenda import Vocabulary
from tacenda.arrays import Array, Float32, take
from tacenda.estimator import Estimator
from tacenda.vocabulary import Normalization


class Toy(Estimator):
    """A word's own random row beside the mean row of its context: width is twice ``n_states``."""

    kind, name = "embedders", "toy"

    def __init__(self, n_states: int = 4, seed: int = 0) -> None:
        self.n_states, self.seed = n_states, seed
        self.calls: list[int] = []  # pieces per call
        self.explosive = False  # the word "explode" does

    def fit(self, corpus: Any) -> "Toy":
        self.vocabulary = corpus.vocabulary
        rng = np.random.default_rng(self.seed)
        self.table = rng.normal(size=(len(self.vocabulary), self.n_states)).astype(np.float32)
        return self

    @property
    def width(self) -> int:
        return 2 * self.table.shape[1]

    def _embed(self, ids: Any) -> np.ndarray:
        own = self.table[np.asarray(ids)]
        if self.explosive and self.vocabulary.id_of("explode") in ids:
            raise RuntimeError("this word explodes")
        context = np.broadcast_to(own.mean(axis=0), own.shape)
        return np.concatenate([own, context], axis=1)

    def transform(self, sentences: Any) -> list[np.ndarray]:
        sentences = list(sentences)
        self.calls.append(len(sentences))
        empty = np.zeros((0, self.width), dtype=np.float32)
        ids = ([self.vocabulary.id_of(word) for word in words] for words in sentences)
        return [self._embed(row) if row else empty for row in ids]

    def config_dict(self) -> dict[str, Any]:
        return {"n_states": self.n_states, "vocabulary": self.vocabulary.config_dict()}

    def arrays(self) -> dict[str, np.ndarray]:
        return {"table": self.table, **self.vocabulary.arrays()}

    @classmethod
    def from_arrays(cls, config: dict[str, Any], arrays: dict[str, np.ndarray]) -> "Toy":
        toy = cls(config["n_states"])
        toy.vocabulary = Vocabulary.from_arrays(config["vocabulary"], arrays)
        toy.table = take(arrays, "table", Float32[Array, "types states"], {})
        return toy


class ToyIds(Toy):
    """The same, taking packed ids and writing into given arrays, as a fast model would."""

    name = "toy_ids"

    def transform_into(self, ids: np.ndarray, offsets: np.ndarray, arrays: Any) -> None:
        self.calls.append(len(arrays))
        for array, (start, stop) in zip(arrays, pairwise(offsets.tolist()), strict=True):
            if start < stop:
                array[...] = self._embed(ids[start:stop])


@pytest.fixture(scope="module")
def toy_class() -> Iterator[type[Toy]]:
    with registered("embedders", "toy", Toy), registered("embedders", "toy_ids", ToyIds):
        yield Toy


WORDS = ["the", "a", "cat", "dog", "mouse", "bird", "saw", "ate", "red", ".", "explode"]


class _Corpus:
    """As much of a corpus as the toy looks at."""

    def __init__(self, words: list[str]) -> None:
        counts = np.arange(len(words), 0, -1, dtype=np.int64)
        self.vocabulary = Vocabulary(words, counts, normalization=Normalization(), oov="single")


@pytest.fixture(scope="session")
def toy_corpus() -> Any:
    return _Corpus(["<unk>", "</s>", *WORDS])


@pytest.fixture(params=[Toy, ToyIds])
def any_toy(request: pytest.FixtureRequest, toy_class: type[Toy], toy_corpus: Any) -> Toy:
    """Both ways a model can take its input."""
    return request.param().fit(toy_corpus)


@pytest.fixture
def toy(toy_class: type[Toy], toy_corpus: Any) -> Toy:
    return toy_class().fit(toy_corpus)


@pytest.fixture
def run(monkeypatch, capsys, toy_class):
    """Run a command line; returns exit status, standard output and standard error."""
    return command_line(monkeypatch, capsys, "embed")
