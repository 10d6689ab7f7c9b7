import gc
import warnings
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacenda import Corpus, kernels
from tacenda.artifact import Artifact, read, write
from tacenda.corpus import pair_counts as counting
from tacenda.errors import (
    ArtifactError,
    ConfigurationError,
    CorpusError,
    DataError,
    KernelError,
)
from tacenda.kernels.dispatch import choose
from tacenda.vocabulary import Vocabulary
from tacenda_embeddings import LDS
from tacenda_embeddings.lds.lagged_counts import LaggedCounts


def vocabulary_of(size):
    return Vocabulary(["</s>", "<unk>", *(f"w{i}" for i in range(size - 2))], np.ones(size, int))


class Text:
    """A stream of ids that comes in pieces of any length."""

    def __init__(self, ids, size, pieces=None):
        self.ids = np.array(ids, np.int32)
        self.vocabulary = vocabulary_of(size)
        self.pieces = pieces

    def stream(self, n_tokens):
        n_tokens = self.pieces or n_tokens
        for start in range(0, len(self.ids), n_tokens):
            yield self.ids[start : start + n_tokens]


def zipf(n, size, seed=0):
    return np.minimum(np.random.default_rng(seed).zipf(1.3, n) - 1, size - 1)


def circular(ids, k):
    """The definition: pairs (w_{t+k}, w_t) of a ring."""
    return Counter((int(ids[(t + k) % len(ids)]), int(ids[t])) for t in range(len(ids)))


def entries(counts, k):
    matrix = counts.matrix(k).tocoo()
    pairs = zip(matrix.row.tolist(), matrix.col.tolist(), strict=True)
    return Counter(dict(zip(pairs, matrix.data.tolist(), strict=True)))


def assert_equal(a, b):
    assert a.n_tokens == b.n_tokens
    np.testing.assert_array_equal(a.unigram, b.unigram)
    for x, y in zip(a.lags, b.lags, strict=True):
        for p, q in zip(x, y, strict=True):
            assert p.dtype == q.dtype
            np.testing.assert_array_equal(p, q)


ids_of_size = st.sampled_from([2, 3, 63, 64, 200]).flatmap(
    lambda size: st.tuples(
        st.just(size), st.lists(st.integers(0, size - 1), min_size=1, max_size=40)
    )
)


@settings(max_examples=60)
@given(ids_of_size, st.integers(1, 8), st.integers(1, 50))
def test_counts_are_those_of_a_ring_whatever_the_pieces(stream, n_lags, pieces):
    size, ids = stream  # shorter than the lags too: the ring goes round more than once
    counts = LaggedCounts.from_corpus(Text(ids, size, pieces), n_lags)
    assert counts.n_lags == n_lags
    assert counts.n_tokens == len(ids)
    for k in range(1, n_lags + 1):
        assert entries(counts, k) == circular(ids, k)


@pytest.mark.parametrize("threads", [1, 2])
def test_an_empty_stream_has_matrices_of_zeros(threads):
    found = counting.count_stream([], 5, 2, memory_budget=1 << 20, threads=threads)
    assert [(len(lag.indptr), len(lag.data)) for lag in found.lags] == [(6, 0)] * 2
    assert not found.unigram.any()


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(counting, "_MIN_BLOCK_IDS", 100)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("budget", [1, 100_000, 1 << 30])
def test_row_and_column_sums_of_every_lag_are_the_unigram_counts(budget):
    ids = zipf(3000, 500)
    counts = LaggedCounts.from_corpus(Text(ids, 500), 5, memory_budget=budget)
    np.testing.assert_array_equal(counts.unigram, np.bincount(ids, minlength=500))
    for k in range(1, 6):
        np.testing.assert_array_equal(counts.matrix(k).sum(axis=0), counts.unigram)
        np.testing.assert_array_equal(counts.matrix(k).sum(axis=1), counts.unigram)


def test_the_row_is_the_later_word():
    corpus = Corpus.from_sentences([["a", "b"]])  # </s> a b, and round again
    counts = LaggedCounts.from_corpus(corpus, 1)
    later, earlier = corpus.vocabulary.id_of("b"), corpus.vocabulary.id_of("a")
    assert counts.matrix(1)[later, earlier] == 1
    assert counts.matrix(1)[earlier, later] == 0
    assert counts.n_tokens == 3
    assert counts.vocabulary is corpus.vocabulary


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("budget", [1, 60_000, 200_000])
def test_spilling_to_disk_changes_nothing(budget, tmp_path):
    text = Text(zipf(8000, 600), 600)
    expected = LaggedCounts.from_corpus(text, 4)
    assert not isinstance(expected.lags[0].data, np.memmap)
    spilled = LaggedCounts.from_corpus(text, 4, memory_budget=budget, scratch=tmp_path)
    assert isinstance(spilled.lags[0].data, np.memmap)
    assert_equal(spilled, expected)
    assert not list(tmp_path.iterdir())  # files without names, which go with the counts


@pytest.mark.usefixtures("small_blocks")
def test_spilled_counts_leave_no_open_files(tmp_path):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        LaggedCounts.from_corpus(Text(zipf(8000, 600), 600), 4, memory_budget=1, scratch=tmp_path)
        gc.collect()
    assert not caught


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("entries_at_once", [1, 50])
def test_many_spilled_runs_are_gathered_on_the_way(monkeypatch, tmp_path, entries_at_once):
    monkeypatch.setattr(counting, "_MIN_ENTRIES_AT_ONCE", entries_at_once)
    monkeypatch.setattr(counting, "_MAX_DISK_RUNS", 3)
    real, on_disk = counting.RunStore.add, []

    def add(self, run):
        real(self, run)
        on_disk.append(len(self._disk))

    monkeypatch.setattr(counting.RunStore, "add", add)
    text = Text(zipf(3000, 100), 100)
    spilled = LaggedCounts.from_corpus(text, 3, memory_budget=1.5, scratch=tmp_path)
    assert max(on_disk) == 2
    assert_equal(spilled, LaggedCounts.from_corpus(text, 3))


def test_counts_that_cannot_be_written_are_a_clear_error(tmp_path):
    text, gone = Text(zipf(3000, 100), 100), tmp_path / "gone"
    with pytest.raises(DataError, match=r"cannot write .*: No such file .* room as scratch"):
        LaggedCounts.from_corpus(text, 3, memory_budget=1, scratch=gone)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("budget", [1, 1 << 30])
def test_threads_change_nothing(budget):
    text = Text(zipf(5000, 300), 300)
    alone = LaggedCounts.from_corpus(text, 4, memory_budget=budget)
    assert_equal(LaggedCounts.from_corpus(text, 4, memory_budget=budget, threads=3), alone)


def test_the_choice_of_kernels_reaches_the_threads(monkeypatch):
    seen = []
    real = counting.lagged_counts

    def spy(*arguments):
        seen.append(choose("lagged_counts")[0].__module__)
        return real(*arguments)

    monkeypatch.setattr(counting, "lagged_counts", spy)
    with kernels.use("reference"):
        LaggedCounts.from_corpus(Text([0, 1, 2], 3), 2, threads=2)
    assert set(seen) == {"tacenda.kernels.counts"}


@settings(max_examples=30)
@given(
    st.lists(st.integers(0, 8), min_size=1, max_size=30),
    st.lists(st.integers(0, 8), min_size=1, max_size=30),
)
def test_a_sum_is_the_count_of_two_rings(a, b):
    both = LaggedCounts.from_corpus(Text(a, 9), 3) + LaggedCounts.from_corpus(Text(b, 9), 3)
    assert both.n_tokens == len(a) + len(b)
    for k in (1, 2, 3):
        assert entries(both, k) == circular(a, k) + circular(b, k)


@pytest.mark.usefixtures("small_blocks")
def test_spilled_counts_add_up_too():
    a, b = Text(zipf(2000, 200, 1), 200), Text(zipf(1000, 200, 2), 200)
    expected = LaggedCounts.from_corpus(a, 3) + LaggedCounts.from_corpus(b, 3)
    spilled = LaggedCounts.from_corpus(a, 3, 20_000) + LaggedCounts.from_corpus(b, 3, 20_000)
    assert isinstance(spilled.lags[0].data, np.memmap)
    assert_equal(spilled, expected)


def test_adding_leaves_the_addends_alone():
    text = Text(zipf(500, 50), 50)
    a, b, fresh = (LaggedCounts.from_corpus(text, 3) for _ in range(3))
    _ = a + b
    assert_equal(a, fresh)
    assert_equal(b, fresh)


@pytest.fixture
def old_and_new():
    return [LaggedCounts.from_corpus(Text(zipf(500, 50, seed), 50), 2) for seed in (1, 2)]


def test_scaled_counts_forget_old_text(old_and_new):
    old, new = old_and_new
    mixed = old.scaled(0.5) + new
    assert mixed.lags[0].data.dtype == np.float32
    assert mixed.n_tokens == 750.0
    expected = 0.5 * old.matrix(2).toarray() + new.matrix(2).toarray()
    np.testing.assert_allclose(mixed.matrix(2).toarray(), expected)
    np.testing.assert_allclose(mixed.matrix(2).sum(axis=1), mixed.unigram)
    np.testing.assert_allclose((mixed.scaled(2.0)).unigram, 2 * mixed.unigram)
    half, same = old.scaled(Fraction(1, 2)), old.scaled(0.5)
    np.testing.assert_array_equal(half.lags[0].data, same.lags[0].data)
    np.testing.assert_array_equal(half.unigram, same.unigram)


def test_sums_remember_the_facts_of_both_texts_that_agree_and_all_sources(old_and_new):
    old, new = old_and_new
    old.fitted_on |= {"sources": ["a.txt"], "tokenizer": "words"}
    new.fitted_on |= {"sources": ["b.txt", "a.txt"], "tokenizer": "words"}
    old.fitted_on |= {"max_vocabulary": 50, "min_count": 2}
    new.fitted_on |= {"max_vocabulary": 50, "min_count": 3}
    assert old.scaled(0.5).fitted_on == {**old.fitted_on, "n_tokens": 250.0}
    mixed = old.scaled(0.5) + new
    assert mixed.fitted_on["tokenizer"] == "words"
    assert mixed.fitted_on["sources"] == ["a.txt", "b.txt"]
    assert mixed.fitted_on["max_vocabulary"] == 50
    assert "min_count" not in mixed.fitted_on
    del new.fitted_on["tokenizer"]
    assert "tokenizer" not in (old + new).fitted_on
    new.fitted_on["tokenizer"] = "whitespace"
    with pytest.raises(ConfigurationError, match="the same tokenizer"):
        old + new


def test_counts_that_do_not_fit_together_are_not_added():
    a = LaggedCounts.from_corpus(Text([0, 1, 2], 3), 2)
    with pytest.raises(CorpusError, match="counts to be added"):
        a + LaggedCounts.from_corpus(Text([0, 1, 2], 4), 2)
    with pytest.raises(ConfigurationError, match="3 lags"):
        a + LaggedCounts.from_corpus(Text([0, 1, 2], 3), 3)
    with pytest.raises(TypeError):
        a + 1
    many = [lag._replace(data=lag.data * np.int32(2**31 - 1)) for lag in a.lags]
    with pytest.raises(KernelError, match="exceeds int32: scale the counts"):
        LaggedCounts(a.vocabulary, many, a.unigram) + a


def test_a_lag_is_a_number_from_one_to_how_many_were_counted(old_and_new):
    counts = old_and_new[0]
    np.testing.assert_array_equal(counts.matrix(2.0).toarray(), counts.matrix(2).toarray())
    for k in (0, -1, 3, 1.5, np.nan, "1", None):
        with pytest.raises(ConfigurationError, match="lags 1 to 2 were counted"):
            counts.matrix(k)


@pytest.mark.parametrize("budget", [1, 1 << 30])
def test_save_and_load_and_go_on_counting(tmp_path, budget):
    counts = LaggedCounts.from_corpus(Text(zipf(3000, 100), 100), 3, memory_budget=budget)
    for saved in (counts, counts.scaled(0.9)):
        saved.save(tmp_path / "counts")
        loaded = LaggedCounts.load(tmp_path / "counts")
        assert_equal(loaded, saved)
        assert loaded.vocabulary == saved.vocabulary
        assert loaded.fitted_on == saved.fitted_on
        assert_equal(loaded + counts, saved + counts)


DAMAGE = {
    "indptr falls": ("lag2.indptr", lambda a: a[::-1].copy(), "must ascend"),
    "indptr ends early": ("lag2.indptr", lambda a: np.minimum(a, a[-1] - 1), "must ascend"),
    "indptr short": ("lag1.indptr", lambda a: a[:-1], "indptr"),
    "column too large": ("lag1.indices", lambda a: a + 100, "must hold numbers from 0 to"),
    "column negative": ("lag1.indices", lambda a: a - 1, "must hold numbers from 0 to"),
    "columns unordered": ("lag1.indices", lambda a: a[::-1].copy(), "ascend"),
    "counts missing": ("lag1.data", lambda a: a[:-1], "entries"),
    "counts negative": ("lag1.data", lambda a: -a, "negative"),
    "counts of another text": ("lag1.data", lambda a: 3 * a, "do not sum"),
    "counts of another type": ("lag1.data", lambda a: a.astype(np.float64), "float64"),
    "a count is NaN": ("lag1.data", lambda a: np.append(np.float32(np.nan), a[1:]), "NaN"),
    "unigram negative": ("unigram", lambda a: -a, "negative"),
    "unigram short": ("unigram", lambda a: a[:-1], "unigram"),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_damaged_counts_are_refused(tmp_path, case):
    name, damage, message = DAMAGE[case]
    counts = LaggedCounts.from_corpus(Text(zipf(900, 60), 60), 2)
    artifact = (counts.scaled(0.5) if case == "a count is NaN" else counts).to_artifact()
    artifact.arrays[name] = damage(artifact.arrays[name])
    write(tmp_path / "counts", artifact)
    with pytest.raises(ArtifactError, match=message):
        LaggedCounts.load(tmp_path / "counts")


@pytest.mark.parametrize("config", [{}, {"n_lags": 9}, {"n_lags": 0}, {"n_lags": "2"}])
def test_a_damaged_configuration_is_refused(config):
    artifact = LaggedCounts.from_corpus(Text([0, 1, 2], 3), 2).to_artifact()
    settings = {"vocabulary": artifact.config["vocabulary"], **config}
    damaged = Artifact(**{**vars(artifact), "config": settings})
    with pytest.raises(ArtifactError):
        LaggedCounts.from_artifact(damaged)


def test_counts_are_not_taken_for_a_model(tmp_path):
    LaggedCounts.from_corpus(Text([0, 1, 2], 3), 2).save(tmp_path / "counts")
    foreign = read(tmp_path / "counts")
    write(tmp_path / "model", Artifact(**{**vars(foreign), "kind": "embedders", "name": "lds"}))
    with pytest.raises(ArtifactError, match="lagged_counts"):
        LaggedCounts.load(tmp_path / "model")
    with pytest.raises(ArtifactError, match="load it with the class that saved it"):
        LDS.load(tmp_path / "counts")


def test_bad_settings_are_clear_errors():
    text = Text([0, 1, 2], 3)
    wrong = {"n_lags": (0, "two"), "threads": (0,), "memory_budget": (0, float("nan"))}
    for name, values in wrong.items():
        for value in values:
            with pytest.raises(
                ConfigurationError, match=rf"{name} is .*; it must be a .*at least 1"
            ):
                LaggedCounts.from_corpus(text, **{name: value})
    with pytest.raises(ConfigurationError, match=r"no settings: .* LaggedCounts\.from_corpus"):
        LaggedCounts.from_settings({})
    with pytest.raises(ConfigurationError, match="no lag 3"):
        LaggedCounts.from_corpus(text, 2).matrix(3)
    counts = LaggedCounts.from_corpus(text, 2)
    for factor in (0.0, -1.0, float("nan"), float("inf"), 1e-300, 1e300, 2e38, "2"):
        with pytest.raises(ConfigurationError, match="positive"):
            counts.scaled(factor)
    with pytest.raises(ConfigurationError, match="positive"):
        counts.scaled(1e-30).scaled(1e-30)


def test_counts_are_shown_by_their_size():
    counts = LaggedCounts.from_corpus(Text(zipf(1300, 40), 40), 2)
    assert repr(counts) == "<LaggedCounts: 2 lags, 40 words, 1,300 tokens>"
    assert repr(counts.scaled(0.5)) == "<LaggedCounts: 2 lags, 40 words, 650 tokens>"


@pytest.mark.parametrize(
    ("text", "message"),
    [(Text([], 3), "empty corpus"), ("a text", "'a text' is no Corpus: make one with")],
)
def test_what_cannot_be_counted_is_a_clear_error(text, message):
    with pytest.raises(CorpusError, match=message):
        LaggedCounts.from_corpus(text, 2)


@pytest.mark.usefixtures("small_blocks")
def test_a_full_disk_is_a_clear_error_and_leaves_nothing_behind(tmp_path):
    resource, text = pytest.importorskip("resource"), Text(zipf(9000, 900), 900)
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, old[1]))
    try:
        with pytest.raises(DataError, match="memory_budget"):
            LaggedCounts.from_corpus(text, 3, memory_budget=1, scratch=tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
    assert not list(tmp_path.iterdir())
