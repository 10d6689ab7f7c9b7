"""Initial vectors of words and morphemes: from co-occurrence counts, word2vec, given vectors, or chance."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import scipy.sparse

from tacenda.corpus import Corpus
from tacenda.errors import ConfigurationError
from tacenda.progress import announce
from tacenda_embeddings.varembed.count_matrices import StoredRows, balanced_counts
from tacenda_embeddings.varembed.morphemes import Inventory
from tacenda_embeddings.varembed.settings import WordVectorSettings

__all__ = ["factorized_counts", "fitted_morphemes", "initial_words"]

Float32 = npt.NDArray[np.float32]

_OVERSAMPLING = 20
_POWERS = 3  # power iterations of the randomised factorisation
# which block is the transpose of each: the window's counts are symmetric, before and after are a pair
_TRANSPOSES = (0, 2, 1)
_NEGLIGIBLE = 1e-6  # of the largest squared singular value: rounding
_CG_STEPS = 30
_RANDOM = 0.1  # standard deviation of a random start
_WORD2VEC_EPOCHS = 5


def initial_words(settings: WordVectorSettings, corpus: Corpus, given: Float32 | None) -> Float32:
    """Return initial vectors of the vocabulary (types, width), of the root mean square that is set.

    ``given`` (types, width) replaces what the options say; a row of zeros says nothing about its word. Raises
    ConfigurationError if it has another shape, or if gensim is needed and not installed.
    """
    shape = (len(corpus.vocabulary), settings.width)
    if given is None and settings.start == "random":
        drawn = np.random.default_rng([settings.seed, 2]).standard_normal(shape, np.float32)
        return drawn * np.float32(_RANDOM)
    if given is not None:
        found = np.array(given, np.float32)
        if found.shape != shape or not np.isfinite(found).all():
            raise ConfigurationError(
                f"the vectors to start from have shape {found.shape}; they must be finite and {shape}, "
                "a row for every type of the vocabulary"
            )
    elif settings.start == "counts":
        found = factorized_counts(
            corpus,
            settings.width,
            settings.advanced.start_window,
            settings.seed,
            settings.advanced.start_adjacent,
        )
    else:
        found = _word2vec(corpus, settings.width, settings.seed)
    size = float(np.sqrt(np.mean(np.square(found, dtype=np.float64))))
    return found * np.float32(settings.advanced.start_scale / size) if size > 0 else found


def factorized_counts(
    corpus: Corpus, width: int, window: int, seed: int, adjacent: float = 0.0
) -> Float32:
    """Return vectors (types, width) from a factorisation of co-occurrence counts (Stratos et al. 2015).

    Let C_ij be the counts within ``window`` words to both sides, a word at distance d counting
    (window - d + 1) / window, with row sums r_i and column sums c_j. The matrix sqrt(C_ij) / (r_i c_j)^{1/4}
    tells of topics. The same matrix of how often j stands directly after i, and directly before i, tells of
    syntax. The three matrices side by side, the latter two times ``adjacent``, are U S V^T.

    The vectors are U S^{1/2}, turned at random: an LSTM and a sigmoid work on each column by itself, and the
    first singular vectors would be large everywhere, the last ones hardly anything. Each vector is divided
    by the root of its length, of which frequent words have thirty times as much as rare ones: otherwise
    their bits would be settled before training begins, and the morphemes would be theirs alone. Columns
    without a singular value are zero.
    """
    types = len(corpus.vocabulary)
    vectors = np.zeros((types, width), np.float32)
    U, S = _leading(balanced_counts(corpus, window, adjacent), min(width, types), seed)
    turn = np.linalg.qr(np.random.default_rng([seed, 4]).standard_normal((len(S), len(S))))[0]
    vectors[:, : len(S)] = (U * np.sqrt(S)) @ turn.astype(np.float32)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.sqrt(np.maximum(lengths, 1e-12)), np.float32)


def _leading(blocks: list[StoredRows], n: int, seed: int) -> tuple[Float32, Float32]:
    """Return the leading left singular vectors (types, n) and values of square matrices side by side.

    By randomised subspace iteration; the first matrix is symmetric, the other two are a transposed pair.
    """
    rng = np.random.default_rng([seed, 3])
    types = blocks[0].shape[0]
    transposes = [blocks[i] for i in _TRANSPOSES[: len(blocks)]]
    Q = rng.standard_normal((types, min(n + _OVERSAMPLING, types)), np.float32)
    for _ in range(_POWERS + 1):
        Q = np.linalg.qr(sum(a @ (b @ Q) for a, b in zip(blocks, transposes, strict=True)))[0]
    gram = sum(np.asarray((b @ Q).T @ (b @ Q), np.float64) for b in transposes)
    squares, U = np.linalg.eigh(gram)
    largest = np.argsort(-squares)[:n]
    squares = np.where(squares > _NEGLIGIBLE * squares.max(), squares, 0)[largest]
    return Q @ U[:, largest].astype(np.float32), np.sqrt(squares).astype(np.float32)


class _Words:
    """A corpus as gensim reads it: lists of words, unknown ones as the types that stand for them."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self._words = np.array(corpus.vocabulary.words, dtype=object)

    def __iter__(self) -> Iterator[list[str]]:
        for ids in self._corpus:
            yield list(self._words[ids])


def _word2vec(corpus: Corpus, width: int, seed: int) -> Float32:
    """Train CBOW vectors with gensim's defaults in one thread; types that the text lacks have zeros."""
    try:
        from gensim.models import Word2Vec
    except ImportError as error:
        raise ConfigurationError(
            "start='word2vec' needs the package gensim: install it with "
            "pip install 'tacenda-embeddings[word2vec]', or choose start='counts'"
        ) from error
    announce("word2vec: training the initial vectors")
    model = Word2Vec(
        _Words(corpus),
        vector_size=width,
        min_count=1,
        workers=1,
        epochs=_WORD2VEC_EPOCHS,
        seed=seed + 1,
    )
    words = corpus.vocabulary.words
    vectors = np.zeros((len(words), width), np.float32)
    for i, word in enumerate(words):
        if word in model.wv.key_to_index:
            vectors[i] = model.wv[word]
    return vectors


def fitted_morphemes(
    inventory: Inventory, words: Float32, weights: npt.NDArray[np.float64], ridge: float
) -> Float32:
    """Return morpheme vectors (morphemes, width) whose sums are nearest to the word vectors (types, width).

    By ridge regression with conjugate gradients; ``weights`` (types,) say how much each word counts.
    """
    shape = (len(words), len(inventory))
    ones = np.ones(len(inventory.ids), np.float32)
    A = scipy.sparse.csr_array((ones, inventory.ids, inventory.offsets), shape=shape)
    W = weights.astype(np.float32)[:, None]
    At = A.T.tocsr()
    X = np.zeros((len(inventory), words.shape[1]), np.float32)
    R = np.asarray(At @ (W * words), np.float32)
    P, size = R.copy(), np.square(R).sum(0)
    floor = 1e-10 * np.maximum(size, 1e-30)
    for _ in range(_CG_STEPS):
        product = At @ (W * (A @ P)) + np.float32(max(ridge, 1e-6)) * P
        step = size / np.maximum((P * product).sum(0), 1e-30)
        X += step * P
        R -= step * product
        before, size = size, np.square(R).sum(0)
        if (size <= floor).all():
            break
        P = R + size / np.maximum(before, 1e-30) * P
    return X
