"""Random indexing (Kanerva, Kristofersson and Holst, CogSci 2000; Sahlgren, 2005).

Every word j has a fixed random row r_j of -1, 0 and 1. If N[i, j] is the number of times that j occurs next to i,
the vector of word i is

    v_i = sum_j log(1 + N[i, j]) r_j,   scaled to length 1

The vector of a token consists of the vector of its word and a decaying sum over the words around it,

    sum_{s < t} decay^(t-s) v_s + sum_{s > t} decay^(s-t) v_s .
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from tacenda import Corpus, Vocabulary
from tacenda.arrays import Array, Arrays, Float32
from tacenda.estimator import Estimator
from tacenda.kernels.counts import lagged_counts
from tacenda.settings import Settings, configured_by, option
from tacenda_classics.decayed_sums import decayed_sum


class Rows(Arrays):
    """The saved arrays: a row for each type of the vocabulary, as long as the option ``dimensions`` says."""

    table: Float32[Array, "types dimensions"]


@dataclass(frozen=True, kw_only=True)
class RandomIndexingSettings(Settings):
    """Settings of `RandomIndexing`, each with its default, meaning and bounds."""

    dimensions: int = option(100, "length of the random rows", at_least=1)
    decay: float = option(
        0.5, "factor on the influence of a word for each token of distance", at_least=0, below=1
    )
    seed: int = option(0, "seed of the random rows", at_least=0)


class RandomIndexing(Estimator):
    """Token embeddings of twice ``dimensions`` columns: for the word and for its context."""

    # The registry and saved models find the class by these: see the entry point in pyproject.toml.
    kind: ClassVar[str] = "embedders"
    name: ClassVar[str] = "random_indexing"
    distribution: ClassVar[str] = "tacenda-classics"
    api_version: ClassVar[int] = 1
    settings: RandomIndexingSettings
    settings_class = RandomIndexingSettings
    learned_class = Rows
    indexes: ClassVar[dict[str, Any]] = {
        "vocabulary": Vocabulary
    }  # the words that the rows belong to

    _vocabulary: Vocabulary | None = None

    @configured_by(RandomIndexingSettings)
    def __init__(self, settings: RandomIndexingSettings) -> None:
        super().__init__(settings)

    @property
    def width(self) -> int:
        """Number of columns of the vectors."""
        return 2 * self.settings.dimensions

    @property
    def vocabulary(self) -> Vocabulary:
        """The words of the training text. Raises NotFittedError."""
        return self._learned(self._vocabulary)

    def fit(self, corpus: Corpus) -> Self:
        """Count neighbors in one pass over the corpus, and project the counts."""
        size = len(corpus.vocabulary)
        N = csr_array((size, size), dtype=np.float64)
        before = np.empty(0, np.int32)
        for block in corpus.stream():
            stream = np.concatenate([before, block])
            [counts] = lagged_counts(stream, 1, size, n_history=len(before))
            N += csr_array((counts.data, counts.indices, counts.indptr), shape=(size, size))
            before = stream[-1:]
        N = (N + N.T).log1p()
        rows = np.random.default_rng(self.settings.seed).integers(
            -1, 2, (size, self.settings.dimensions)
        )
        table = N @ rows
        length = np.linalg.norm(table, axis=1, keepdims=True)
        self.learned = Rows((table / np.where(length > 0, length, 1)).astype(np.float32))
        self._vocabulary = corpus.vocabulary
        self.fitted_on = {"tokens": int(corpus.n_tokens), "types": size}
        return self

    def transform(self, sentences: Iterable[Sequence[str]]) -> list[npt.NDArray[np.float32]]:
        """Return token vectors, one float32 array (tokens, width) for each sentence."""
        table, encode, decay = (
            self._learned(self.learned).table,
            self.vocabulary.encode,
            self.settings.decay,
        )
        arrays = []
        for sentence in sentences:
            own = table[encode(sentence)]
            left = decayed_sum(own, decay) - own
            right = decayed_sum(own[::-1], decay)[::-1] - own
            arrays.append(np.hstack([own, left + right]))
        return arrays
