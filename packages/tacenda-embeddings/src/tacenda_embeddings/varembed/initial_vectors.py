"""Vectors of words and morphemes from co-occurrence counts, word2vec, given vectors, or chance.

They are all that a `SumEmbed` is, and where the training of a `VarEmbed` starts.
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
from tacenda.corpus.pair_counts import stack
from tacenda.corpus.storage import forget_pages
from tacenda.errors import ConfigurationError
from tacenda.kernels.sequences import Counts
from tacenda.offsets import runs
from tacenda.progress import announce
from tacenda_embeddings.lds.lagged_counts import LaggedCounts
from tacenda_embeddings.varembed.morphemes import Inventory
from tacenda_embeddings.varembed.settings import (
    SumEmbedAdvanced,
    VarEmbedSettings,
    WordVectorSettings,
)

Float32 = npt.NDArray[np.float32]

# words to each side that are counted, without training and with it; fewer tell more of syntax, 10 of topics
_WINDOW, _TRAINED_WINDOW = 5, 10
# of lengths: at unit length, rare words say as much of their morphemes as frequent ones. Training needs to know which
# words are certain, and columns of similar size: there the singular values have the same power
_POWER, _TRAINED_POWER = 1.0, 0.5
_OVERSAMPLING = 20
_POWERS = 3  # power iterations of the randomized factorization
# which block is the transpose of each: the window's counts are symmetric, before and after are a pair
_TRANSPOSES = (0, 2, 1)
_NEGLIGIBLE = 1e-6  # of the largest squared singular value: rounding
_CG_STEPS = 30
_RANDOM = 0.1  # standard deviation of a random start
_RATIO = 0.3  # pieces for every word type (section 3.1: 14,000 for 48,986)
_RIDGE, _NGRAM_RIDGE = 10.0, 100.0  # of the regression of morphemes; a word has many n-grams
_WORD2VEC_EPOCHS = 5
_COUNTING: Final = 256 << 20  # bytes for counting; the rest goes to a file
_ENTRIES: Final = 1 << 20  # of a block of rows


class Start(NamedTuple):
    """Words and their morphemes before any training."""

    inventory: Inventory
    words: Float32  # (types, width), shrunk towards the sums of their morphemes
    morphemes: Float32  # (morphemes, width)
    ridge: float  # of the regression that found the morphemes


def find_start(
    settings: WordVectorSettings,
    corpus: Corpus,
    counts: npt.NDArray[np.int64],
    given: Float32 | None,
) -> Start:
    """Segment the vocabulary, and return the vectors of its words (see `initial_words`) and morphemes.

    ``counts`` (types,) say how well each word is known.
    """
    advanced, vocabulary = settings.advanced, corpus.vocabulary
    n_morphemes = advanced.n_morphemes or max(1, round(_RATIO * len(vocabulary)))
    inventory = Inventory.learn(vocabulary, settings.segmenter, n_morphemes, advanced.base)
    words = initial_words(settings, corpus, given)
    ridge = _NGRAM_RIDGE if settings.segmenter == "ngrams" else _RIDGE
    # the square root balances the many rare words, which tell morphemes apart, with the few frequent
    # ones, which are known best
    morphemes = fit_morphemes(inventory, words, np.sqrt(counts + 1.0), ridge)
    share = (counts / (counts + max(advanced.start_shrinkage, 1e-12))).astype(np.float32)[:, None]
    words = share * words + (1 - share) * inventory.sum(morphemes)
    return Start(inventory, words, morphemes, ridge)


def initial_words(settings: WordVectorSettings, corpus: Corpus, given: Float32 | None) -> Float32:
    """Return initial vectors of the vocabulary (types, width), of root mean square 1 (0.1 for a random start).

    ``given`` (types, width) replaces what the options say; a row of zeros says nothing about its word. Raises
    ConfigurationError if it has another shape, or if gensim is needed and not installed.
    """
    shape = (len(corpus.vocabulary), settings.width)
    trained = isinstance(settings, VarEmbedSettings)
    start = settings.start if isinstance(settings, VarEmbedSettings) else "counts"
    if given is None and start == "random":
        drawn = np.random.default_rng([settings.seed, 2]).standard_normal(shape, np.float32)
        return drawn * np.float32(_RANDOM)
    if given is not None:
        found = np.array(given, np.float32)
        if found.shape != shape or not np.isfinite(found).all():
            raise ConfigurationError(
                f"the vectors to start from have shape {found.shape}; they must be finite and {shape}, "
                "a row for every type of the vocabulary"
            )
    elif start == "counts":
        advanced = settings.advanced
        window, power = (_TRAINED_WINDOW, _TRAINED_POWER) if trained else (_WINDOW, _POWER)
        of_values = advanced.power if isinstance(advanced, SumEmbedAdvanced) else None
        found = factorize_counts(
            corpus, settings.width, window, settings.seed, advanced.start_adjacent, power, of_values
        )
    else:
        found = _word2vec(corpus, settings.width, settings.seed)
    size = float(np.sqrt(np.mean(np.square(found, dtype=np.float64))))
    return found * np.float32(1 / size) if size > 0 else found


def factorize_counts(
    corpus: Corpus,
    width: int,
    window: int,
    seed: int,
    adjacent: float = 0.0,
    power: float = 0.5,
    of_values: float | None = None,
) -> Float32:
    """Return vectors (types, width) from a factorization of co-occurrence counts (Stratos et al. 2015).

    Let C_ij be the counts within ``window`` words to both sides, a word at distance d counting
    (window - d + 1) / window, with row sums r_i and column sums c_j. The matrix sqrt(C_ij) / (r_i c_j)^{1/4}
    tells of topics. The same matrix of how often j stands directly after i, and directly before i, tells of
    syntax. The three matrices side by side, the latter two times ``adjacent``, are U S V^T.

    The vectors are U S^p, p the ``power``, turned at random: an LSTM and a sigmoid work on each column by
    itself, and the first singular vectors would be large everywhere, the last ones hardly anything. Each vector is
    divided by its length to the same power. Frequent words are thirty times as long as rare ones: where nothing is
    done about it, the morphemes are theirs alone. Then the power of the singular values becomes ``of_values`` where
    it is given: the smaller it is, the less the first of them decide which words are similar. Columns without a
    singular value are zero.
    """
    types = len(corpus.vocabulary)
    vectors = np.zeros((types, width), np.float32)
    blocks, n = balance_counts(corpus, window, adjacent), min(width, types)
    transposes = [blocks[i] for i in _TRANSPOSES[: len(blocks)]]
    # Randomized subspace iteration. M M^T = sum of block times transpose, so the subspace is turned without M^T ever
    # being formed.
    rng = np.random.default_rng([seed, 3])
    Q = rng.standard_normal((types, min(n + _OVERSAMPLING, types)), np.float32)
    for _ in range(_POWERS + 1):
        Q = np.linalg.qr(sum(a @ (b @ Q) for a, b in zip(blocks, transposes, strict=True)))[0]
    gram = sum(np.asarray((b @ Q).T @ (b @ Q), np.float64) for b in transposes)
    squares, turned = np.linalg.eigh(gram)
    largest = np.argsort(-squares)[:n]
    squares = np.where(squares > _NEGLIGIBLE * squares.max(), squares, 0)[largest]
    U, S = Q @ turned[:, largest].astype(np.float32), np.sqrt(squares).astype(np.float32)
    turn = np.linalg.qr(np.random.default_rng([seed, 4]).standard_normal((len(S), len(S))))[0]
    scaled = U * S**power
    scaled /= np.maximum(np.linalg.norm(scaled, axis=1, keepdims=True), 1e-12) ** power
    if of_values is not None:
        scaled *= np.where(S > 0, S, 1) ** (of_values - power)
    vectors[:, : len(S)] = scaled @ turn.astype(np.float32)
    return vectors


def _word2vec(corpus: Corpus, width: int, seed: int) -> Float32:
    """Train CBOW vectors with gensim's defaults in one thread; types that the text lacks have zeros."""
    try:
        from gensim.models import Word2Vec
    except ImportError as error:
        raise ConfigurationError(
            f"start='word2vec' needs the package gensim ({error}): install it with "
            "pip install 'tacenda-embeddings[word2vec]', or choose start='counts'"
        ) from error
    announce("word2vec: training the initial vectors")
    words = corpus.vocabulary.words
    by_id = np.array(words, dtype=object)

    class Sentences:  # gensim iterates once per epoch
        def __iter__(self) -> Iterator[list[str]]:
            return (list(by_id[ids]) for ids in corpus)

    how: dict[str, Any] = {"vector_size": width, "min_count": 1, "workers": 1}
    trained = Word2Vec(Sentences(), **how, epochs=_WORD2VEC_EPOCHS, seed=seed + 1).wv
    vectors = np.zeros((len(words), width), np.float32)
    for i, word in enumerate(words):
        if word in trained.key_to_index:
            vectors[i] = trained[word]
    return vectors


def fit_morphemes(
    inventory: Inventory, words: Float32, weights: npt.NDArray[np.float64], ridge: float
) -> Float32:
    """Return morpheme vectors (morphemes, width) whose sums are nearest to the word vectors (types, width).

    By ridge regression with conjugate gradients; ``weights`` (types,) say how much each word counts.
    """
    # conjugate gradients on (A^T W A + ridge I) X = A^T W words, all columns at once, each with its own step
    A = inventory.incidence
    W = weights.astype(np.float32)[:, None]
    At = A.T.tocsr()
    X = np.zeros((len(inventory), words.shape[1]), np.float32)
    R = np.asarray(At @ (W * words), np.float32)
    P, size = R.copy(), np.square(R).sum(0)
    floor = 1e-10 * np.maximum(size, 1e-30)
    for _ in range(_CG_STEPS):
        product = At @ (W * (A @ P)) + np.float32(ridge) * P
        step = size / np.maximum((P * product).sum(0), 1e-30)
        X += step * P
        R -= step * product
        before, size = size, np.square(R).sum(0)
        if (size <= floor).all():
            break
        P = R + size / np.maximum(before, 1e-30) * P
    return X


# -- balanced matrices of counts -----------------------------------------------------------------------


class StoredRows:
    """A sparse float32 matrix (rows, columns), written and read in blocks of rows; in files where it is large."""

    def __init__(self, n_columns: int, blocks: Iterable[scipy.sparse.csr_array]) -> None:
        self._entries = stack(
            Counts(
                block.indptr.astype(np.int64),
                block.indices.astype(np.int32, copy=False),
                block.data,
            )
            for block in blocks
        )
        self.shape = len(self._entries.indptr) - 1, n_columns

    def blocks(self) -> Iterator[tuple[int, scipy.sparse.csr_array]]:
        """Yield blocks of rows, each with the number of its first row."""
        for first, last in runs(self._entries.indptr, _ENTRIES):
            yield first, _as_csr(self._entries.rows(first, last), self.shape[1])
            _forget(self._entries)

    def __matmul__(self, dense: Float32) -> Float32:
        """Multiply by (columns, width)."""
        dense = np.ascontiguousarray(dense)
        return np.concatenate([block @ dense for _, block in self.blocks()])

    def scale(
        self, rows: Float32, columns: Float32, factor: float = 1.0, *, turned: bool = False
    ) -> Self:
        """Return sqrt(x_ij) rows_i columns_j factor; where ``turned``, of a transpose x_ji, and transposed likewise."""

        def blocks() -> Iterator[scipy.sparse.csr_array]:
            for first, block in self.blocks():
                here = slice(first, first + block.shape[0])
                lengths = np.diff(block.indptr)
                if turned:
                    inner, outer = rows[block.indices], np.repeat(columns[here], lengths)
                else:
                    inner, outer = np.repeat(rows[here], lengths), columns[block.indices]
                block.data = np.sqrt(block.data) * inner * outer * np.float32(factor)
                yield block

        return type(self)(self.shape[1], blocks())

    def quarter_roots(self) -> list[Float32]:
        """Return the sums of rows and of columns to the power of -1/4."""
        of_rows, of_columns = (np.zeros(n, np.float32) for n in self.shape)
        for first, block in self.blocks():
            of_rows[first : first + block.shape[0]] = block.sum(axis=1)
            np.add.at(of_columns, block.indices, block.data)
        return [np.maximum(sums, 1e-12) ** np.float32(-0.25) for sums in (of_rows, of_columns)]


def balance_counts(corpus: Corpus, window: int, adjacent: float) -> list[StoredRows]:
    """Return matrices sqrt(C_ij) / (r_i c_j)^{1/4}, (types, types), of counts C with row sums r and column sums c.

    The first counts words within ``window`` to both sides, a word at distance d as (window - d + 1) / window, and is
    symmetric. Unless ``adjacent`` is 0, two more follow, times ``adjacent``: of the words directly before each, and
    its transpose.

    A text is counted forwards and backwards: the circle of its words read backwards has every matrix of counts
    transposed, so that both a matrix and its transpose are there row by row, and no more than a block of rows is
    ever in memory.
    """
    forwards, backwards = (
        LaggedCounts.from_corpus(each, n_lags=window, memory_budget=_COUNTING)
        for each in (corpus, _Backwards(corpus))
    )
    weights = [np.float32((window - d + 1) / window) for d in range(1, window + 1)]
    near = _sum([(lags, weights) for lags in (forwards.lags, backwards.lags)])
    rows, columns = near.quarter_roots()
    found = [near.scale(rows, columns)]
    if adjacent > 0:
        one = [np.float32(1)]
        before, after = (_sum([(each.lags[:1], one)]) for each in (forwards, backwards))
        rows, columns = before.quarter_roots()
        found.append(before.scale(rows, columns, adjacent))
        found.append(after.scale(rows, columns, adjacent, turned=True))
    return found


class _Backwards:
    """A corpus whose stream begins with its last word."""

    def __init__(self, corpus: Corpus) -> None:
        self.vocabulary = corpus.vocabulary
        self.n_tokens, self.n_sentences = corpus.n_tokens, corpus.n_sentences
        self._corpus = corpus

    def stream(self, n_tokens: int) -> Iterator[npt.NDArray[np.int32]]:
        """Iterate over the circular stream, boundaries in place, in int32 arrays."""
        return self._corpus.stream(n_tokens, backwards=True)


def _sum(groups: Sequence[tuple[Sequence[Counts], Sequence[np.float32]]]) -> StoredRows:
    """Return the sum of square matrices of counts, each times its weight: first of each group, then of the groups."""
    every = [lag for lags, _ in groups for lag in lags]
    n = len(every[0].indptr) - 1

    def blocks() -> Iterator[scipy.sparse.csr_array]:
        for first, last in runs(np.sum([lag.indptr for lag in every], axis=0), _ENTRIES):
            sums = (
                reduce(
                    add,
                    (_as_csr(lag.rows(first, last), n) * w for lag, w in zip(*group, strict=True)),
                )
                for group in groups
            )
            yield reduce(add, sums)
            for lag in every:
                _forget(lag)

    return StoredRows(n, blocks())


def _as_csr(counts: Counts, n_columns: int) -> scipy.sparse.csr_array:
    """Return a block of rows in float32."""
    parts = counts.data.astype(np.float32), counts.indices, counts.indptr.astype(np.int32)
    return scipy.sparse.csr_array(parts, shape=(len(counts.indptr) - 1, n_columns))


def _forget(counts: Counts) -> None:
    forget_pages(counts.indices)
    forget_pages(counts.data)
