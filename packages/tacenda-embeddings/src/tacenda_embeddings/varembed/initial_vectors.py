"""Vectors of words and morphemes from co-occurrence counts, word2vec, given vectors, or random numbers.

A `SumEmbed` consists of them, and the training of a `VarEmbed` starts from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from operator import add
from typing import Any, Final, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse

from tacenda.corpus import Corpus
from tacenda.corpus.pair_counts import stack_row_blocks
from tacenda.corpus.storage import forget_pages
from tacenda.errors import ConfigurationError, importing
from tacenda.kernels.counts import Counts
from tacenda.offsets import runs
from tacenda.progress import announce
from tacenda_embeddings.lds.lagged_counts import LaggedCounts
from tacenda_embeddings.settings import WordVectorSettings
from tacenda_embeddings.varembed.morphemes import Inventory

Float32 = npt.NDArray[np.float32]

_OVERSAMPLING = 20  # columns of the randomized factorization on top of the width
_POWER_ITERATIONS = 3  # of the randomized factorization
_ROUNDING_SHARE = 1e-6  # a smaller share of the largest squared singular value is rounding
_CG_STEPS = 30
_RANDOM_STD = 0.1  # standard deviation of a random start
_MORPHEMES_PER_TYPE = 0.3  # section 3.1: 14,000 for 48,986
_RIDGE, _NGRAM_RIDGE = 10.0, 100.0  # of the regression of morphemes; a word has many n-grams
_WORD2VEC_EPOCHS = 5
_COUNTING_BYTES: Final = 256 << 20  # of memory for counting; further counts go to a file
_ENTRIES_PER_BLOCK: Final = 1 << 20  # of a block of rows


class WordVectors(NamedTuple):
    """Vectors of words and of their morphemes."""

    inventory: Inventory
    words: Float32  # (types, width); those of `find_vectors` are shrunk towards the sums of their morphemes
    morphemes: Float32  # (morphemes, width)
    ridge: float  # of the regression that found the morphemes


class Factorization(NamedTuple):
    """Options of `factorize_counts`."""

    window: int  # words to each side that are counted; few tell more about syntax, 10 about topics
    adjacent: float  # weight of the words directly before and after
    # every vector is divided by this power of its length: at 1, rare words say as much about their morphemes as
    # frequent ones; below, training can tell which words are certain
    length_power: float
    value_power: float  # power of the singular values; training needs columns of similar size


def find_vectors(
    settings: WordVectorSettings,
    corpus: Corpus,
    counts: npt.NDArray[np.int64],
    factorization: Factorization,
    given: Float32 | None = None,
    source: str = "counts",
) -> WordVectors:
    """Segment the vocabulary and find vectors of its words and morphemes.

    Parameters
    ----------
    counts
        (types,) occurrences of each word; the fewer, the nearer its vector is to the sum of its morphemes.
    given
        (types, width) vectors to use instead of a ``source``; a row of zeros says nothing about its word.
    source
        ``"counts"``, factorized with ``factorization``; ``"word2vec"``; or ``"random"``.

    Raises
    ------
    ConfigurationError
        ``given`` has another shape or is not finite, or a package that an option needs is missing.
    """
    advanced, vocabulary = settings.advanced, corpus.vocabulary
    n_morphemes = advanced.n_morphemes or max(1, round(_MORPHEMES_PER_TYPE * len(vocabulary)))
    inventory = Inventory.learn(vocabulary, settings.segmenter, n_morphemes, advanced.base)
    words = _find_words(settings, corpus, factorization, given, source)
    ridge = _NGRAM_RIDGE if settings.segmenter == "ngrams" else _RIDGE
    known = words.any(axis=1)
    # the square root balances the many rare words, which tell morphemes apart, with the few frequent
    # ones, which are known best
    morphemes = fit_morphemes(inventory, words, known * np.sqrt(counts + 1.0), ridge)
    share = known * counts / (counts + max(advanced.start_shrinkage, 1e-12))
    share = share.astype(np.float32)[:, None]
    words = share * words + (1 - share) * inventory.sum(morphemes)
    return WordVectors(inventory, words, morphemes, ridge)


def _find_words(
    settings: WordVectorSettings,
    corpus: Corpus,
    factorization: Factorization,
    given: Float32 | None,
    source: str,
) -> Float32:
    """Return initial vectors of the vocabulary (types, width), of root mean square 1 (0.1 if they are random)."""
    seed, shape = settings.seed, (len(corpus.vocabulary), settings.width)
    if given is not None:
        try:
            words = np.array(given, np.float32)
        except (TypeError, ValueError):  # rows of several lengths, or no numbers
            words = np.empty(0, np.float32)
        if words.shape != shape or not np.isfinite(words).all():
            raise ConfigurationError(
                f"the vectors to start from must be finite numbers of shape {shape}: a row for each vocabulary type"
            )
    elif source == "random":
        drawn = np.random.default_rng([seed, 2]).standard_normal(shape, np.float32)
        return drawn * np.float32(_RANDOM_STD)
    elif source == "counts":
        words = factorize_counts(corpus, settings.width, seed, factorization)
    else:
        words = _train_word2vec(corpus, settings.width, seed)
    size = float(np.sqrt(np.mean(np.square(words, dtype=np.float64))))
    return words / np.float32(size) if size > 0 else words


def factorize_counts(corpus: Corpus, width: int, seed: int, options: Factorization) -> Float32:
    """Return vectors (types, width) from a factorization of co-occurrence counts (Stratos et al. 2015).

    Let C_ij be the counts within the window to both sides, a word at distance d counting (window - d + 1) / window,
    with row sums r_i and column sums c_j. The matrix sqrt(C_ij) / (r_i c_j)^{1/4} tells about topics. The same matrices
    of how often j is directly after i, and directly before i, tell about syntax. The three matrices side by side, the
    latter two times ``adjacent``, are U S V^T.

    The vectors are the rows of U S^p, p the ``length_power``, each divided by its length to the power p: frequent words
    are thirty times as long as rare ones, and would determine the morphemes alone. Then the power of S becomes
    ``value_power``: the smaller it is, the less the first singular values decide which words are similar.

    The columns are rotated at random, because an LSTM and a sigmoid treat each column by itself, and the first singular
    vectors are large everywhere, the last ones nearly zero. Columns without a singular value are zero.
    """
    types = len(corpus.vocabulary)
    n = min(width, types)
    matrices = balance_counts(corpus, options.window, options.adjacent)
    # Randomized subspace iteration. M M^T is the sum of matrix times transpose, so M^T is never formed.
    rng = np.random.default_rng([seed, 3])
    Q = rng.standard_normal((types, min(n + _OVERSAMPLING, types)), np.float32)
    for _ in range(_POWER_ITERATIONS + 1):
        Q = np.linalg.qr(sum(matrix @ (transpose @ Q) for matrix, transpose in matrices))[0]
    products = (transpose @ Q for _, transpose in matrices)
    gram = sum(np.asarray(product.T @ product, np.float64) for product in products)
    squares, vectors = np.linalg.eigh(gram)
    largest = np.argsort(-squares)[:n]
    squares = np.where(squares > _ROUNDING_SHARE * squares.max(), squares, 0)[largest]
    U, S = Q @ vectors[:, largest].astype(np.float32), np.sqrt(squares).astype(np.float32)
    scaled = U * S**options.length_power
    lengths = np.maximum(np.linalg.norm(scaled, axis=1, keepdims=True), 1e-12)
    scaled /= lengths**options.length_power
    scaled *= np.where(S > 0, S, 1) ** (options.value_power - options.length_power)
    square = np.random.default_rng([seed, 4]).standard_normal((len(S), len(S)))
    rotation = np.linalg.qr(square)[0].astype(np.float32)
    words = np.zeros((types, width), np.float32)
    words[:, : len(S)] = scaled @ rotation
    return words


def _train_word2vec(corpus: Corpus, width: int, seed: int) -> Float32:
    """Train CBOW vectors (types, width) with gensim's defaults in one thread; types that the text lacks have zeros."""
    need = "start='word2vec' needs the package gensim"
    with importing(need, "tacenda-embeddings[word2vec]", ", or choose start='counts'"):
        from gensim.models import Word2Vec
    announce("word2vec: training the initial vectors")
    words = corpus.vocabulary.words
    options: dict[str, Any] = {"vector_size": width, "min_count": 1, "workers": 1}
    trained = Word2Vec(_Sentences(corpus), **options, epochs=_WORD2VEC_EPOCHS, seed=seed + 1).wv
    vectors = np.zeros((len(words), width), np.float32)
    for i, word in enumerate(words):
        if word in trained.key_to_index:
            vectors[i] = trained[word]
    return vectors


class _Sentences:
    """The sentences of a corpus as lists of words, which gensim iterates over once per epoch."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self._words = np.array(corpus.vocabulary.words, dtype=object)

    def __iter__(self) -> Iterator[list[str]]:
        return (list(self._words[ids]) for ids in self._corpus)


def fit_morphemes(
    inventory: Inventory, words: Float32, weights: npt.NDArray[np.float64], ridge: float
) -> Float32:
    """Fit morpheme vectors (morphemes, width), float32, whose sums are nearest to the word vectors (types, width).

    This is a ridge regression in which word i has the weight ``weights[i]`` (types,). With A the incidence of morphemes
    in words, conjugate gradients solve (A^T W A + ridge I) X = A^T W words for all columns at once.
    """
    A = inventory.incidence
    W = weights.astype(np.float32)[:, None]
    At = A.T.tocsr()
    X = np.zeros((len(inventory), words.shape[1]), np.float32)
    R = np.asarray(At @ (W * words), np.float32)
    P, squares = R.copy(), np.square(R).sum(0)
    tolerance = 1e-10 * np.maximum(squares, 1e-30)
    for _ in range(_CG_STEPS):
        product = At @ (W * (A @ P)) + np.float32(ridge) * P
        step = squares / np.maximum((P * product).sum(0), 1e-30)  # one for each column
        X += step * P
        R -= step * product
        previous, squares = squares, np.square(R).sum(0)
        if (squares <= tolerance).all():
            break
        P = R + squares / np.maximum(previous, 1e-30) * P
    return X


# -- balanced matrices of counts -----------------------------------------------------------------------


class StoredRows:
    """A sparse float32 matrix (rows, columns), written and read in blocks of rows; a large one is in files."""

    def __init__(self, n_columns: int, blocks: Iterable[scipy.sparse.csr_array]) -> None:
        self._entries = stack_row_blocks(
            Counts(
                block.indptr.astype(np.int64),
                block.indices.astype(np.int32, copy=False),
                block.data,
            )
            for block in blocks
        )
        self.shape = len(self._entries.indptr) - 1, n_columns

    def blocks(self) -> Iterator[tuple[int, scipy.sparse.csr_array]]:
        """Yield the number of the first row of each block, and the block."""
        for first, last in runs(self._entries.indptr, _ENTRIES_PER_BLOCK):
            yield first, _as_csr(self._entries.rows(first, last), self.shape[1])
            _forget_pages(self._entries)

    def __matmul__(self, dense: Float32) -> Float32:
        """Multiply by (columns, width)."""
        dense = np.ascontiguousarray(dense)
        return np.concatenate([block @ dense for _, block in self.blocks()])

    def scale(self, rows: Float32, columns: Float32, factor: float = 1.0) -> Self:
        """Return the matrix of sqrt(x_ij) rows_i columns_j factor, for ``rows`` (rows,) and ``columns`` (columns,)."""

        def scaled_blocks() -> Iterator[scipy.sparse.csr_array]:
            for first, block in self.blocks():
                by_row = np.repeat(rows[first : first + block.shape[0]], np.diff(block.indptr))
                # the factors of row and column first: so the result for a transpose is the exact transpose
                weights = by_row * columns[block.indices]
                block.data = np.sqrt(block.data) * weights * np.float32(factor)
                yield block

        return type(self)(self.shape[1], scaled_blocks())

    def compute_quarter_roots(self) -> tuple[Float32, Float32]:
        """Return the sums of rows (rows,) and of columns (columns,) to the power of -1/4."""
        row_sums, column_sums = (np.zeros(n, np.float32) for n in self.shape)
        for first, block in self.blocks():
            row_sums[first : first + block.shape[0]] = block.sum(axis=1)
            np.add.at(column_sums, block.indices, block.data)
        power = np.float32(-0.25)
        return np.maximum(row_sums, 1e-12) ** power, np.maximum(column_sums, 1e-12) ** power


def balance_counts(
    corpus: Corpus, window: int, adjacent: float
) -> list[tuple[StoredRows, StoredRows]]:
    """Return matrices sqrt(C_ij) / (r_i c_j)^{1/4}, (types, types), of counts C with row sums r and column sums c.

    Each comes with its transpose. The first counts words within ``window`` to both sides, a word at distance d as
    (window - d + 1) / window, and is symmetric. Unless ``adjacent`` is 0, two more follow, times ``adjacent``: of the
    words directly before each, and of the words directly after.

    A text is counted forwards and backwards: the circular stream read backwards has the transpose of every matrix of
    counts. So both a matrix and its transpose can be read row by row, and only a block of rows is in memory at a time.
    """
    forwards, backwards = (
        LaggedCounts.from_corpus(
            corpus, n_lags=window, memory_budget=_COUNTING_BYTES, backwards=backwards
        )
        for backwards in (False, True)
    )
    weights = [np.float32((window - d + 1) / window) for d in range(1, window + 1)]
    types = len(corpus.vocabulary)
    near = StoredRows(types, _sum_counts([forwards.lags, backwards.lags], weights))
    rows, columns = near.compute_quarter_roots()
    near = near.scale(rows, columns)
    if not adjacent:
        return [(near, near)]
    before, after = (
        StoredRows(types, _sum_counts([counts.lags[:1]], [np.float32(1)]))
        for counts in (forwards, backwards)
    )
    rows, columns = before.compute_quarter_roots()
    before, after = before.scale(rows, columns, adjacent), after.scale(columns, rows, adjacent)
    return [(near, near), (before, after), (after, before)]


def _sum_counts(
    groups: Sequence[Sequence[Counts]], weights: Sequence[np.float32]
) -> Iterator[scipy.sparse.csr_array]:
    """Yield the blocks of a sum of matrices, weighted by lag and first within each group, then over the groups."""
    matrices = [lag for lags in groups for lag in lags]
    n_columns = len(matrices[0].indptr) - 1
    for first, last in runs(np.sum([lag.indptr for lag in matrices], axis=0), _ENTRIES_PER_BLOCK):
        sums = []
        for lags in groups:
            blocks = [_as_csr(lag.rows(first, last), n_columns) for lag in lags]
            sums.append(reduce(add, (b * w for b, w in zip(blocks, weights, strict=True))))
        yield reduce(add, sums)
        for lag in matrices:
            _forget_pages(lag)


def _as_csr(counts: Counts, n_columns: int) -> scipy.sparse.csr_array:
    """Return a block of rows in float32."""
    parts = counts.data.astype(np.float32), counts.indices, counts.indptr.astype(np.int32)
    return scipy.sparse.csr_array(parts, shape=(len(counts.indptr) - 1, n_columns))


def _forget_pages(counts: Counts) -> None:
    """Let the system reuse the memory of counts that are mapped from a file."""
    forget_pages(counts.indices)
    forget_pages(counts.data)
