"""Initial vectors: against dense algebra; the stream and the tables of training against plain twins."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tacenda import Corpus
from tacenda.kernels.shared import adagrad
from tacenda_embeddings import SumEmbed
from tacenda_embeddings.varembed.initial_vectors import (
    Factorization,
    factorize_counts,
    fit_morphemes,
)
from tacenda_embeddings.varembed.morphemes import Inventory

torch = pytest.importorskip("torch", reason="training needs torch")
from tacenda_embeddings.varembed.training import (  # noqa: E402 - it imports torch
    RowTable,
    StreamBatches,
    concatenate,
)


def _counted(stream: np.ndarray, types: int, window: int) -> np.ndarray:
    """How often j stands within ``window`` words after i, nearer ones counting more."""
    C = np.zeros((types, types))
    for d in range(1, window + 1):
        np.add.at(C, (stream, np.roll(stream, -d)), (window - d + 1) / window)
    return C


def _balanced(C: np.ndarray) -> np.ndarray:
    rows, columns = (np.maximum(C.sum(axis), 1e-12) for axis in (1, 0))
    return np.sqrt(C) / np.outer(rows, columns) ** 0.25


@pytest.mark.parametrize(
    ("adjacent", "power", "value_power"),
    [(0.0, 0.5, 0.5), (0.5, 0.5, 0.5), (0.5, 1.0, 1.0), (0.5, 1.0, 0.25), (0.5, 1.0, 0.0)],
)
def test_factorize_counts_are_the_leading_singular_vectors(corpus, adjacent, power, value_power):
    """Against a count by hand of the circular stream with boundaries, and a dense decomposition."""
    window, width = 3, 6
    types, boundary = len(corpus.vocabulary), corpus.vocabulary.boundary_id
    stream = np.concatenate([[*sentence.tolist(), boundary] for sentence in corpus])
    near, next_one = (_counted(stream, types, n) for n in (window, 1))
    sides = [_balanced(next_one) * adjacent, _balanced(next_one.T) * adjacent]
    U, S, _ = np.linalg.svd(np.hstack([_balanced(near + near.T), *sides]), full_matrices=False)
    expected = (U * S**power)[:, :width]
    lengths = np.linalg.norm(expected, axis=1, keepdims=True)
    expected = (U * S**value_power)[:, :width]
    options = Factorization(window, adjacent, power, value_power)
    found = factorize_counts(corpus, width, 0, options)
    if value_power == power == 1.0:
        assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-5)
    # what a rare word's row lacks of the whole is compared as it is
    found = found * lengths**power
    # columns are known up to a rotation where values are close: compare what they span, weighted
    assert_allclose(found @ found.T, expected @ expected.T, atol=0.05 * np.abs(expected).max() ** 2)


def test_adjacent_words_tell_apart_what_the_window_does_not():
    """Two kinds of words in turn: the words around are the same, those before and after are not."""
    rng = np.random.default_rng(0)
    text = [
        [word for _ in range(6) for word in ("the", f"n{rng.integers(4)}", f"v{rng.integers(4)}")]
        for _ in range(300)
    ]
    corpus = Corpus.from_sentences(text)

    def likeness(adjacent):
        found = factorize_counts(corpus, 4, 0, Factorization(2, adjacent, 0.5, 0.5))
        found /= np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-9)
        nouns, verbs = (
            found[[corpus.vocabulary.id_of(f"{kind}{i}") for i in range(4)]] for kind in "nv"
        )
        return float((nouns @ verbs.T).mean())

    assert likeness(1.0) < likeness(0.0) - 0.1


def test_more_columns_than_words_are_zero():
    small = Corpus.from_sentences([["a", "b"], ["b", "a"]])
    found = factorize_counts(small, 10, 0, Factorization(2, 0.0, 0.5, 0.5))
    assert found.shape == (4, 10)
    assert np.isfinite(found).all()
    assert not found[:, 4:].any()


def test_morphemes_begin_at_the_ridge_regression(corpus):
    inventory = Inventory.learn(corpus.vocabulary, "unigram", 120, True)
    rng = np.random.default_rng(0)
    words = rng.standard_normal((len(corpus.vocabulary), 3)).astype(np.float32)
    counts = corpus.type_counts
    A = np.zeros((len(words), len(inventory)))
    for w in range(len(words)):
        np.add.at(A[w], inventory.ids[inventory.offsets[w] : inventory.offsets[w + 1]], 1)
    weights = np.diag(np.sqrt(counts + 1.0))
    ridge = 5.0
    expected = np.linalg.solve(
        A.T @ weights @ A + ridge * np.eye(A.shape[1]), A.T @ weights @ words
    )
    found = fit_morphemes(inventory, words, np.sqrt(counts + 1.0), ridge)
    assert_allclose(found, expected, atol=2e-3)


@pytest.mark.parametrize("size", [1.0, 1e-42, 1e37])
def test_given_vectors_of_zeros_say_nothing_about_their_words(corpus, size):
    """Against the dense regression to the other words, in units of all given numbers."""
    given = np.random.default_rng(0).standard_normal((len(corpus.vocabulary), 3)).round() * size
    given[::2] = 0
    model = SumEmbed(width=3, advanced={"n_morphemes": 120}).fit(corpus, vectors=given)
    known, A = given.any(axis=1), model.inventory.incidence.toarray().astype(float)
    weights = np.sqrt(corpus.type_counts + 1.0) * known
    scaled = given / np.sqrt(np.mean((given / size) ** 2)) / size
    morphemes = np.linalg.solve(
        A.T @ (weights[:, None] * A) + 10 * np.eye(A.shape[1]), A.T @ (weights[:, None] * scaled)
    )
    assert_allclose(model.learned.morphemes, morphemes, atol=2e-3)
    assert_allclose(model.learned.words[~known], (A @ morphemes)[~known], atol=5e-3)


def test_joined_text_has_a_boundary_after_every_sentence():
    corpus = Corpus.from_sentences([["a", "b"], ["c"]])
    words = corpus.vocabulary.decode(concatenate(corpus))
    assert words == ["</s>", "a", "b", "</s>", "c", "</s>"]


@pytest.mark.parametrize(
    ("n", "batch", "length"), [(2, 4, 8), (3, 4, 8), (50, 4, 8), (65, 8, 3), (7, 1, 2)]
)
def test_streams_read_the_text_in_order_and_every_target_follows_its_input(n, batch, length):
    ids = np.arange(n, dtype=np.int32)
    source = StreamBatches(ids, streams=batch, length=length)
    pairs = list(source.batches(0))
    assert len(pairs) == source.n_batches(0)
    inputs = np.concatenate([each for each, _ in pairs])
    targets = np.concatenate([each for _, each in pairs])
    assert_array_equal(targets, inputs + 1)
    assert_array_equal(np.diff(inputs, axis=0), 1)
    flat = inputs.T.ravel()
    assert_array_equal(flat, np.arange(len(flat)))
    assert n - 1 - len(flat) < source.n_streams
    for skip in range(len(pairs) + 1):
        for (a, b), (c, d) in zip(source.batches(1, skip), pairs[skip:], strict=True):
            assert_array_equal(a, c)
            assert_array_equal(b, d)


def test_rows_of_a_table_step_as_the_kernel_does():
    rng = np.random.default_rng(0)
    start = rng.standard_normal((9, 4)).astype(np.float32)
    table = RowTable(torch.from_numpy(start.copy()))
    weights, sums = start.copy(), np.full(9, 1e-6, np.float32)
    for ids in ([3, 1, 3, 8], [1], [0, 8, 8, 8]):
        factors = rng.standard_normal((len(ids), 4)).astype(np.float32)
        rows = table.rows(torch.tensor(ids))
        (rows.values[rows.places] * torch.from_numpy(factors)).sum().backward()
        table.step(rows, 0.1)
        gradient = np.zeros_like(start)
        np.add.at(gradient, ids, factors)
        used = np.unique(ids).astype(np.int32)
        adagrad(weights, sums, used, gradient[used], 0.1)
    assert_allclose(table.values, weights, rtol=1e-5, atol=1e-6)
    assert_allclose(table.sums[:, 0], sums, rtol=1e-5)
