"""Random indexing (Kanerva, Kristofersson and Holst, CogSci 2000; Sahlgren, 2005).

Every word j has a fixed random row r_j of -1, 0 and 1. With N[i, j] the number of times that j stands
beside i, a word's vector is

    v_i = sum_j log(1 + N[i, j]) r_j,   scaled to length 1

and a token's vector is that of its word beside what the words around it leave behind,

    sum_{s < t} decay^(t-s) v_s + sum_{s > t} decay^(s-t) v_s .
"""

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from tacenda import Corpus, Vocabulary, kernels
from tacenda.artifact import Saveable, require
from tacenda.errors import ConfigurationError, NotFittedError
from tacenda.kernels.dynamics.lagged_counts import lagged_counts

Float32 = npt.NDArray[np.float32]


class RandomIndexing(Saveable):
    """Token embeddings of twice ``dimensions`` columns: the word's own, and its context's.

    Parameters
    ----------
    dimensions
        Length of the random rows.
    decay
        What is left of a word's influence one token further on, from 0 to below 1.
    seed
        Of the random rows.

    """

    # What the registry and the artefact know this class by: the entry point in pyproject.toml.
    kind: ClassVar[str] = "embedders"
    name: ClassVar[str] = "random_indexing"
    distribution: ClassVar[str] = "tacenda-random-indexing"
    api_version: ClassVar[int] = 1

    def __init__(self, dimensions: int = 100, decay: float = 0.5, seed: int = 0) -> None:
        if dimensions < 1 or not 0 <= decay < 1:
            raise ConfigurationError(
                f"RandomIndexing needs dimensions >= 1 and 0 <= decay < 1, not {dimensions}, {decay}"
            )
        self.dimensions, self.decay, self.seed = dimensions, decay, seed
        self.figures: list[dict[str, Any]] = []
        self.fitted_on: dict[str, Any] = {}
        self._vocabulary: Vocabulary | None = None
        self._table: Float32 = np.empty((0, dimensions), np.float32)

    @property
    def width(self) -> int:
        """Columns of what `transform` returns."""
        return 2 * self.dimensions

    @property
    def vocabulary(self) -> Vocabulary:
        """The words of the text it was fitted on; raises `NotFittedError` before that."""
        if self._vocabulary is None:
            raise NotFittedError("this RandomIndexing is not fitted: call fit, or tacenda.load")
        return self._vocabulary

    def fit(self, corpus: Corpus) -> Self:
        """Count neighbours in one pass over the corpus, and project the counts."""
        size = len(corpus.vocabulary)
        N = csr_array((size, size), dtype=np.float64)
        before = np.empty(0, np.int32)
        for block in corpus.stream():
            stream = np.concatenate([before, block])
            [counts] = lagged_counts(stream, 1, size, n_history=len(before))
            N += csr_array((counts.data, counts.indices, counts.indptr), shape=(size, size))
            before = stream[-1:]
        N = (N + N.T).log1p()
        rows = np.random.default_rng(self.seed).integers(-1, 2, (size, self.dimensions))
        table = N @ rows
        length = np.linalg.norm(table, axis=1, keepdims=True)
        self._table = (table / np.where(length > 0, length, 1)).astype(np.float32)
        self._vocabulary = corpus.vocabulary
        self.fitted_on = {"tokens": int(corpus.n_tokens), "types": size}
        return self

    def transform(self, sentences: Iterable[Sequence[str]]) -> list[Float32]:
        """Vectors of tokens: one float32 array (tokens, width) a sentence."""
        encode = self.vocabulary.encode
        decayed_sum = kernels.resolve("decayed_sum")
        arrays = []
        for sentence in sentences:
            own = self._table[encode(sentence)]
            left = decayed_sum(own, self.decay) - own
            right = decayed_sum(own[::-1], self.decay)[::-1] - own
            arrays.append(np.hstack([own, left + right]))
        return arrays

    # What `Saveable` asks for; save, load and bytes come from it.

    def config_dict(self) -> dict[str, Any]:
        """The settings, and how the vocabulary looks words up."""
        settings = {"dimensions": self.dimensions, "decay": self.decay, "seed": self.seed}
        return {"settings": settings, "vocabulary": self.vocabulary.config_dict()}

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The word vectors, and the words."""
        return {"table": self._table, **self.vocabulary.arrays()}

    @classmethod
    def from_arrays(cls, config: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Self:
        """The model again; nothing that was read is trusted before it is checked."""
        model = cls(**config["settings"])
        model._vocabulary = Vocabulary.from_arrays(config["vocabulary"], arrays)
        shape = (len(model._vocabulary), model.dimensions)
        model._table = require(arrays, "table", shape=shape, dtype=np.float32, finite=True)
        return model
