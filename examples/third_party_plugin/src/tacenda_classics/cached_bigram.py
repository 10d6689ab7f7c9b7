"""A bigram model with a cache of recent words (Witten and Bell, 1991; Kuhn and De Mori, 1990).

A bigram model forgets the topic of a text, but words of the topic recur. Let v be the previous word, c(v, w) how often
w follows v, T(v) the number of different words that follow v, and x the recent words, the last at distance 1:

    p(w | h) = (1 - cache) p(w | v) + cache sum_k decay^k [x_k = w] / sum_k decay^k
    p(w | v) = (c(v, w) + T(v) p(w)) / (c(v) + T(v)),   p(w) = (c(w) + T / V) / (c + T)

Without recent words, the model is p(w | v). The end of a sentence is not stored in the cache, and does not clear it.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from tacenda import Corpus, Vocabulary
from tacenda.arrays import Array, Int32, Int64, Offsets, take
from tacenda.errors import ArtifactError, PluginUnavailableError
from tacenda.settings import Settings, configured_by, option

try:
    from tacenda_lm import LanguageModel, State
    from tacenda_lm.sequences import check_ids, check_word
except ImportError as error:  # the registry lists the model as unavailable, with this reason
    raise PluginUnavailableError(
        "cached_bigram needs tacenda-lm: install tacenda-classics[lm]"
    ) from error

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class CachedBigramSettings(Settings):
    """Settings of `CachedBigram`."""

    cache: float = option(0.1, "weight of the cache", at_least=0, below=1)
    decay: float = option(
        0.99, "factor on the weight of a cached word after each new word", above=0, at_most=1
    )
    memory: int = option(200, "number of words in the cache", at_least=1)


class CachedBigram(LanguageModel):
    """Bigrams with a cache of recent words."""

    name: ClassVar[str] = "cached_bigram"
    distribution: ClassVar[str] = "tacenda-classics"
    settings: CachedBigramSettings
    settings_class = CachedBigramSettings

    _words: Vocabulary | None = None
    _counts: csr_array | None = None

    @configured_by(CachedBigramSettings)
    def __init__(self, settings: CachedBigramSettings) -> None:
        super().__init__(settings)

    def _fit(self, corpus: Corpus, valid: Corpus | None, fitting: Any) -> None:
        size = len(corpus.vocabulary)
        counts = csr_array((size, size), dtype=np.int64)
        before = np.array([corpus.vocabulary.boundary_id], np.int32)
        for block in corpus.stream():  # with </s> after every sentence
            stream = np.concatenate([before, block])
            ones = np.ones(len(block), np.int64)
            counts += csr_array((ones, (stream[:-1], stream[1:])), shape=(size, size))
            before = stream[-1:]
        counts.sort_indices()
        self._words = corpus.vocabulary
        self._learn(counts)

    def _learn(self, counts: csr_array) -> None:
        """Counts (types, types), the word before by row."""
        self._counts = counts
        numbers = counts.astype(np.float64)
        self._total = numbers.sum(axis=1)  # c(v)
        self._different = np.diff(counts.indptr).astype(np.float64)  # T(v)
        occurrences = numbers.sum(axis=0)
        n_types = np.count_nonzero(occurrences)
        uniform = n_types / len(occurrences)
        self._unigram = (occurrences + uniform) / (occurrences.sum() + n_types)

    # -- states and probabilities --------------------------------------------------------------------

    @property
    def vocabulary(self) -> Vocabulary:
        """The words of the training text. Raises NotFittedError."""
        return self._learned(self._words)

    @property
    def own_context(self) -> Any:
        """Score a text as one stream by default, because the cache remembers earlier sentences."""
        return "stream"

    def start(self) -> State:
        """Return the state at the beginning of a text: after ``</s>``, with an empty cache."""
        return State((self.vocabulary.boundary_id, ()))

    def advance(self, state: State, word: int) -> State:
        """Return the state after one more word."""
        check_word(word, len(self.vocabulary))
        _, recent = state.parts()
        if word != self.vocabulary.boundary_id:
            recent = (*recent, int(word))[-self.settings.memory :]
        return State((int(word), recent))

    def log_probs(self, states: Any) -> Floats:
        """Return the natural log-probabilities of all next words, float64 (states, types)."""
        counts = self._learned(self._counts)
        rows = np.empty((len(states), len(self.vocabulary)))
        for row, state in zip(rows, states, strict=True):
            before, recent = state.parts()
            row[:] = self._smoothing(before) * self._unigram
            span = slice(counts.indptr[before], counts.indptr[before + 1])
            row[counts.indices[span]] += counts.data[span] / self._mass(before)
            if recent:
                row *= 1 - self.settings.cache
                np.add.at(row, np.array(recent), self.settings.cache * self._weights(recent))
        return np.log(rows)

    def log_prob(self, states: Any, words: Any) -> Floats:
        """Return the natural log-probability of one word after each state, float64 (states,)."""
        ids = check_ids(words, len(self.vocabulary))
        counts = self._learned(self._counts)
        found = np.empty(len(ids))
        for i, (state, word) in enumerate(zip(states, ids.tolist(), strict=True)):
            before, recent = state.parts()
            start, stop = counts.indptr[before : before + 2]
            place = start + np.searchsorted(counts.indices[start:stop], word)
            seen = place < stop and counts.indices[place] == word
            p = self._smoothing(before) * self._unigram[word]
            p += counts.data[place] / self._mass(before) if seen else 0.0
            if recent:
                again = self._weights(recent)[np.array(recent) == word].sum()
                p = (1 - self.settings.cache) * p + self.settings.cache * again
            found[i] = np.log(p)
        return found

    def _mass(self, before: int) -> float:
        return float(max(self._total[before] + self._different[before], 1.0))

    def _smoothing(self, before: int) -> float:
        """Return the weight of the unigram in p(. | v): 1 after a word that nothing followed."""
        different = float(self._different[before])
        return different / self._mass(before) if different else 1.0

    def _weights(self, recent: tuple[int, ...]) -> Floats:
        """Return the weights of the words in the cache (words,), which sum to 1."""
        weights = self.settings.decay ** np.arange(len(recent), 0, -1.0)
        return np.asarray(weights / weights.sum())

    # -- saving and loading ------------------------------------------------------------------

    def config_dict(self) -> dict[str, Any]:
        """Return the settings and the configuration of the vocabulary, as JSON values."""
        return {"settings": self.settings.to_dict(), "vocabulary": self.vocabulary.config_dict()}

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the words, and the counts of pairs as a sparse matrix."""
        counts = self._learned(self._counts)
        return {
            "bigrams.offsets": counts.indptr.astype(np.int64),
            "bigrams.words": counts.indices.astype(np.int32),
            "bigrams.counts": counts.data,
            **self.vocabulary.arrays(),
        }

    @classmethod
    def from_arrays(cls, config: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Self:
        """Rebuild the model of an artifact, after checking everything that was read."""
        model = cls.from_settings(config["settings"])
        model._words = Vocabulary.from_arrays(config["vocabulary"], arrays)
        size = len(model._words)
        sizes = {"types": size}
        words = take(arrays, "bigrams.words", Int32[Array, "pairs"], sizes)
        counts = take(arrays, "bigrams.counts", Int64[Array, "pairs"], sizes)
        offsets = take(arrays, "bigrams.offsets", Offsets[Array, "types pairs"], sizes)
        rows = np.repeat(np.arange(size), np.diff(offsets))
        ascending = np.diff(rows * size + words) > 0
        in_range = (words >= 0).all() and (words < size).all()
        if not in_range or not ascending.all() or not ((counts > 0) & (counts < 2**40)).all():
            raise ArtifactError("its bigrams are not in order, or some were counted less than once")
        model._learn(csr_array((counts, words, offsets), shape=(size, size)))
        return model
