"""Lagged co-occurrence counts that can be saved: counted in one pass, added, discounted.

For every lag k = 1 .. r, N_k[i, j] is the number of places t of a circular stream with w_{t+k} = i
and w_t = j: row = later word, column = earlier word, so that N_k / T estimates
Psi_k = E[w_{t+k} w_t^T] (Belanger and Kakade 2015, equation 3; their equations 14 and 16 print the
transpose). Because the stream is circular, row and column sums of every N_k are the unigram counts.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse

from tacenda.arrays import Array, Float32, Float64, Int32, Int64, Offsets, at_least, below, take
from tacenda.corpus.pair_counts import RunStore, block_length, count_stream
from tacenda.errors import ArtifactError, ConfigurationError, CorpusError, check_whole
from tacenda.estimator import Estimator
from tacenda.kernels.counts import Counts
from tacenda.progress import Progress, track
from tacenda.vocabulary import Vocabulary
from tacenda_embeddings.lds import N_LAGS

DEFAULT_BUDGET = 2 << 30  # bytes
#: Names of the facts about a text that do not depend on its length.
TEXT_FACTS = "max_vocabulary", "min_count", "sources", "tokenizer"

_SMALLEST, _LARGEST = (float(x) for x in (np.finfo(np.float32).tiny, np.finfo(np.float32).max))


class Storage(NamedTuple):
    """The memory, and beyond it the folder, in which sums of counts are made."""

    memory_budget: int = DEFAULT_BUDGET  # bytes
    scratch: Path | None = None  # a folder for temporary files; the system's default if None


class LaggedCounts(Estimator):
    """Co-occurrence counts of a circular stream for the lags 1 .. n_lags.

    Counts of two texts add up: ``a + b`` counts two separate circular streams, which differ from the
    concatenated text in 2k pairs of lag k, at the two seams. `scaled` lowers the weight of old text, so
    ``old.scaled(0.5) + new`` forgets exponentially.

    Attributes
    ----------
    lags
        `Counts` of lag k at index k - 1, each (vocabulary, vocabulary); int32 data, or float32 after `scaled`.
        Memory-mapped and read-only where they did not fit the memory budget.
    unigram
        int64 (vocabulary,), occurrences of each word in the stream; float64 after `scaled`.
    n_tokens
        T, the length of the stream, boundaries included; a float after `scaled`.
    """

    kind = "counts"
    name = "lagged_counts"
    distribution = "tacenda-embeddings"

    def __init__(
        self,
        vocabulary: Vocabulary,
        lags: Sequence[Counts],
        unigram: npt.NDArray[Any],
        *,
        origin: dict[str, Any] | None = None,
        storage: Storage = Storage(),  # noqa: B008 - immutable
    ) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.lags = list(lags)
        self.unigram = unigram
        self.n_tokens: int | float = unigram.sum().item()
        self.fitted_on = {"n_tokens": self.n_tokens, "vocabulary": vocabulary.fingerprint}
        self.fitted_on |= {name: value for name, value in (origin or {}).items() if value}
        self._storage = storage

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__}: {self.n_lags} lags, {len(self.vocabulary):,} words, "
            f"{self.n_tokens:,.0f} tokens>"
        )

    @classmethod
    def from_corpus(
        cls,
        corpus: Any,
        n_lags: int = N_LAGS,
        memory_budget: float = DEFAULT_BUDGET,
        threads: int = 1,
        scratch: str | os.PathLike[str] | None = None,
        backwards: bool = False,
    ) -> Self:
        """Count a corpus in one pass.

        Parameters
        ----------
        corpus
            A `tacenda.Corpus`, or an object with the same ``vocabulary`` and ``stream``. The stream has a boundary
            before every sentence and is circular: the first sentence follows the last.
        n_lags
            r: subspace identification with a Hankel matrix of s x s blocks needs 2s - 1 lags.
        memory_budget
            Bytes of memory for counting, however large the corpus is. Counts that do not fit are written to
            temporary files, from which `lags` are then mapped. A few arrays of the vocabulary's length are not
            included.
        threads
            Number of threads; the result does not depend on it.
        scratch
            Where to create the temporary files; the system's default if None.
        backwards
            Whether to read the stream from its end, which gives the transposes of all counts.

        Raises
        ------
        ConfigurationError
            A number is out of range.
        CorpusError
            The corpus is empty, or is none.
        """
        check_whole("n_lags", n_lags)
        check_whole("threads", threads)
        if not (isinstance(memory_budget, Real) and 1 <= memory_budget < math.inf):
            raise ConfigurationError(
                f"memory_budget is {memory_budget!r:.40}; it must be a number of bytes, at least 1"
            )
        memory_budget = int(memory_budget)  # such as 2e9
        if not hasattr(corpus, "stream"):
            raise CorpusError(f"{corpus!r:.80} is no Corpus: make one with Corpus.from_text")
        folder = Path(scratch) if scratch is not None else None
        total = (getattr(corpus, "n_tokens", 0) + getattr(corpus, "n_sentences", 0)) or None
        progress: Progress[Any] = track(None, "counting pairs", total=total, unit="token")
        # a stream need not have the option
        direction = {"backwards": True} if backwards else {}
        block = block_length(memory_budget, n_lags, threads)
        with closing(progress):
            counted = count_stream(
                _advance(corpus.stream(block, **direction), progress),
                len(corpus.vocabulary),
                n_lags,
                memory_budget=memory_budget,
                threads=threads,
                scratch=folder,
            )
        if not counted.unigram.any():
            raise CorpusError("cannot count an empty corpus: it has no sentence with a token")
        return cls(
            corpus.vocabulary,
            counted.lags,
            counted.unigram,
            origin=getattr(corpus, "origin", {}),
            storage=Storage(memory_budget, folder),
        )

    @classmethod
    def from_settings(cls, settings: Any) -> Self:
        """Raise ConfigurationError: counts have no settings."""
        raise ConfigurationError(
            "counts have no settings: count a text with LaggedCounts.from_corpus"
        )

    @property
    def n_lags(self) -> int:
        """r, the number of lags that were counted."""
        return len(self.lags)

    def matrix(self, k: int) -> scipy.sparse.csr_array:
        """Return N_k, k = 1 .. n_lags, as a (vocabulary, vocabulary) array that shares its memory."""
        if k not in range(1, self.n_lags + 1):
            raise ConfigurationError(f"there is no lag {k}: lags 1 to {self.n_lags} were counted")
        indptr, indices, data = self.lags[int(k) - 1]
        size = len(self.vocabulary)
        return scipy.sparse.csr_array((data, indices, indptr), shape=(size, size))

    def __add__(self, other: LaggedCounts) -> LaggedCounts:
        """Return the sum of the counts of two streams, each of them circular.

        Raises ConfigurationError if the numbers of lags or the tokenizers differ, CorpusError if the vocabularies do,
        and KernelError if a sum exceeds int32: scale the counts first.
        """
        if not isinstance(other, LaggedCounts):
            return NotImplemented
        self.vocabulary.require_same(other.vocabulary, "the counts to be added")
        if self.n_lags != other.n_lags:
            raise ConfigurationError(
                f"cannot add counts of {other.n_lags} lags to counts of {self.n_lags}: "
                "count both with the same n_lags"
            )
        tokenizer, other_tokenizer = (x.fitted_on.get("tokenizer") for x in (self, other))
        if tokenizer and other_tokenizer and tokenizer != other_tokenizer:
            raise ConfigurationError(
                f"cannot add counts of text that was split by the tokenizer {other_tokenizer!r} to counts of text "
                f"split by {tokenizer!r}: count both with the same tokenizer"
            )
        files = [file for x in (self, other) for file in x.fitted_on.get("sources") or ()]
        # a fact about the sum is unknown unless both agree
        origin = {
            fact: self.fitted_on.get(fact)
            for fact in TEXT_FACTS
            if self.fitted_on.get(fact) == other.fitted_on.get(fact)
        }
        origin["sources"] = list(dict.fromkeys(files))
        budget = min(self._storage.memory_budget, other._storage.memory_budget)
        storage = Storage(budget, self._storage.scratch)
        store = RunStore(len(self.vocabulary), storage.memory_budget // 3, storage.scratch)
        store.add(self.lags)
        store.add(other.lags)
        unigram = self.unigram + other.unigram
        return LaggedCounts(
            self.vocabulary, store.finish(), unigram, origin=origin, storage=storage
        )

    def scaled(self, factor: float) -> LaggedCounts:
        """Return all counts times ``factor``, lags as float32 in memory.

        Raises ConfigurationError unless ``factor``, and the number of tokens times it, are positive and finite in
        float32.
        """
        # the lags would be zero or infinite, and the unigrams, which are float64, would not
        least, most = _SMALLEST / min(1, self.n_tokens), _LARGEST / max(1, self.n_tokens)
        if not isinstance(factor, Real) or not least <= factor <= most:
            raise ConfigurationError(
                f"cannot scale counts of {self.n_tokens:,.6g} tokens by {factor!r:.40}: it must be positive, and "
                f"neither it nor their product may be outside {_SMALLEST:.2g} to {_LARGEST:.2g}"
            )
        factor = float(factor)  # such as a Fraction, which NumPy does not multiply by
        lags = [
            lag._replace(data=np.multiply(lag.data, factor, dtype=np.float32)) for lag in self.lags
        ]
        origin = {fact: self.fitted_on.get(fact) for fact in TEXT_FACTS}
        unigram = self.unigram * factor
        return LaggedCounts(self.vocabulary, lags, unigram, origin=origin, storage=self._storage)

    # -- artifact ----------------------------------------------------------------------------------

    def config_dict(self) -> dict[str, Any]:
        """Return the number of lags and the settings of the vocabulary."""
        return {"n_lags": self.n_lags, "vocabulary": self.vocabulary.config_dict()}

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays of the vocabulary, ``unigram``, and ``lag<k>.indptr``, ``.indices``, ``.data``."""
        arrays = {**self.vocabulary.arrays(), "unigram": self.unigram}
        for k, lag in enumerate(self.lags, start=1):
            arrays |= {f"lag{k}.{part}": array for part, array in lag._asdict().items()}
        return arrays

    @classmethod
    def from_arrays(cls, config: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Self:
        vocabulary = Vocabulary.from_arrays(config["vocabulary"], arrays)
        n_lags = config["n_lags"]
        if not isinstance(n_lags, int) or n_lags < 1 or f"lag{n_lags}.indptr" not in arrays:
            raise ArtifactError(f"its n_lags is {n_lags!r}, which its arrays contradict")
        number: Any = Int64 if arrays.get("unigram", np.empty(0)).dtype == np.int64 else Float64
        declared = number[Array, "types", at_least(0)]
        unigram = take(arrays, "unigram", declared, {"types": len(vocabulary)})
        lags = [_read_lag(arrays, f"lag{k}", unigram) for k in range(1, n_lags + 1)]
        return cls(vocabulary, lags, unigram)


def _advance(pieces: Any, progress: Progress[Any]) -> Iterator[Any]:
    """Yield the pieces, and advance the progress bar by their tokens."""
    for piece in pieces:
        yield piece
        progress.update(len(piece))


def _read_lag(arrays: dict[str, npt.NDArray[Any]], name: str, unigram: npt.NDArray[Any]) -> Counts:
    """Return the counts of a lag of an artifact, after checking every index.

    Raises ArtifactError if the arrays are no such counts, or their sum is not that of ``unigram`` (types,).
    """
    sizes = {"types": len(unigram)}
    indices = take(arrays, f"{name}.indices", Int32[Array, "entries", below("types")], sizes)
    indptr = take(arrays, f"{name}.indptr", Offsets[Array, "types entries"], sizes)
    number: Any = Int32 if unigram.dtype == np.int64 else Float32
    data = take(arrays, f"{name}.data", number[Array, "entries", at_least(0)], sizes)
    # columns ascend within a row; the first column of a row may be smaller than the last one of the row before it
    ascending = np.diff(indices) > 0
    starts = indptr[1:-1]
    ascending[starts[(starts > 0) & (starts < len(indices))] - 1] = True
    if not ascending.all():
        raise ArtifactError(f"the columns of a row of '{name}.indices' do not ascend")
    if not math.isclose(data.sum(dtype=np.float64), unigram.sum(), rel_tol=1e-4):
        raise ArtifactError(f"the counts of '{name}.data' do not sum to those of 'unigram'")
    return Counts(indptr, indices, data)
