"""The packed table: what is put in comes out, and a damaged one is refused, or harmless where it is not read."""

import dataclasses
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacenda import artifact
from tacenda.artifact import folder
from tacenda.errors import ArtifactError
from tacenda_lm import KneserNey, State
from tacenda_lm.ngram import lookup, plain, spooling
from tacenda_lm.ngram import table as table_module
from tacenda_lm.ngram.packing import TableWriter
from tacenda_lm.ngram.spooling import Scratch
from tacenda_lm.ngram.table import LAYOUT


@pytest.fixture(scope="module")
def model():
    return KneserNey(order=3).fit(["a b c", "b c a", "c", "a b"])


def test_the_words_of_every_order_are_those_of_the_text(model):
    marked = [("</s>", *line.split(), "</s>") for line in ("a b c", "b c a", "c", "a b")]
    for n in (1, 2, 3):
        rows = {tuple(model.vocabulary.decode(row)) for row in model.table.words_of(n)}
        expected = {line[i : i + n] for line in marked for i in range(len(line) - n + 1)}
        assert rows == (expected | {("<unk>",)} if n == 1 else expected)


def changed(array, place, value):
    array = array.copy()
    array[place] = value
    return array


def orders_of(table):
    """What `table_of` takes, from a table."""
    unpacked = [table.unpack(n) for n in range(1, table.order + 1)]
    prefixes = [np.zeros(table.n_types, np.int64)]
    prefixes += [np.repeat(np.arange(len(o.n_after)), o.n_after) for o in unpacked[:-1]]
    return (
        prefixes,
        [o.word.astype(np.int64) for o in unpacked],
        [o.log_prob.astype(np.float64) for o in unpacked],
        [o.backoff.astype(np.float64) for o in unpacked[:-1]],
    )


def table_of(prefixes, words, log_probs, backoffs):
    """Pack the n-grams of all orders, each sorted by (prefix, word); a prefix is a number in the order below."""
    writer = TableWriter(len(words), len(words[0]), Scratch(1 << 30))
    for n in range(1, len(words) + 1):
        writer.add_ngrams(n, words[n - 1], log_probs[n - 1])
        if n > 1:
            n_after = np.bincount(prefixes[n - 1], minlength=len(words[n - 2]))
            writer.add_contexts(n - 1, n_after, backoffs[n - 2])
            writer.end_order(n - 1)
    writer.end_order(len(words))
    return writer.finish()


# -- what is packed ------------------------------------------------------------------------------------


@st.composite
def tables(draw):
    """n-grams of up to three words with any values, sorted, and closed under leaving out the last word."""
    n_types = draw(st.integers(2, 300))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    words = [np.arange(n_types)]
    prefixes = [np.zeros(n_types, np.int64)]
    for _ in range(draw(st.integers(0, 2))):
        size = draw(st.integers(0, 400))
        # a few contexts have most of what follows
        prefix = np.minimum(rng.zipf(1.3, size) - 1, len(words[-1]) - 1) if len(words[-1]) else []
        keys = np.unique(
            np.array(prefix, np.int64) * n_types + rng.integers(n_types, size=len(prefix))
        )
        prefixes.append(keys // n_types)
        words.append(keys % n_types)
    log_probs = [-rng.exponential(3, len(each)) for each in words]
    few = rng.normal(size=draw(st.integers(1, 5)))
    backoffs = [
        rng.choice(few, len(each)) if rng.random() < 0.5 else rng.normal(size=len(each))
        for each in words[:-1]
    ]
    return prefixes, words, log_probs, backoffs


@settings(max_examples=80)
@given(orders=tables())
def test_what_is_packed_comes_out(orders):
    prefixes, words, log_probs, backoffs = orders
    table = table_of(*orders)
    assert table.sizes == list(map(len, words))
    for n in range(1, table.order + 1):
        found = table.unpack(n)
        np.testing.assert_array_equal(found.word, words[n - 1])
        np.testing.assert_array_equal(found.log_prob, log_probs[n - 1].astype(np.float32))
        if n < table.order:
            np.testing.assert_array_equal(found.backoff, backoffs[n - 1].astype(np.float32))
            expected = np.bincount(prefixes[n], minlength=len(words[n - 1]))
            np.testing.assert_array_equal(found.n_after, expected)
        rows = table.words_of(n)
        np.testing.assert_array_equal(rows[:, -1], words[n - 1])
        if n > 1:
            np.testing.assert_array_equal(rows[:, :-1], table.words_of(n - 1)[prefixes[n - 1]])
        some = np.arange(len(rows))[::7]
        for i in some.tolist():
            np.testing.assert_array_equal(table.words_of(n, i, i + 1), rows[i : i + 1])
        for begin, end in ((0, 10**6), (1, 10**6), (10**6, 10**7), (2, 1), (-2, None)):
            np.testing.assert_array_equal(table.words_of(n, begin, end), rows[begin:end])
            np.testing.assert_array_equal(table.unpack(n, begin, end).word, rows[begin:end, -1])


def test_a_context_that_many_words_continue_has_a_list_of_places():
    """Four bigrams of twenty thousand begin a thousand trigrams each, the others one."""
    n_types, rng = 1500, np.random.default_rng(0)
    bigrams = np.sort(rng.choice(n_types**2, 20_000, replace=False))
    n_after = np.where(np.arange(len(bigrams)) % 5000 == 77, 1000, 1)
    prefix = np.repeat(np.arange(len(bigrams)), n_after)
    word = np.concatenate([np.sort(rng.permutation(n_types)[:n]) for n in n_after])
    words = [np.arange(n_types), bigrams % n_types, word]
    table = table_of(
        [np.zeros(n_types, np.int64), bigrams // n_types, prefix],
        words,
        [np.full(len(each), -1.0) for each in words],
        [np.zeros(n_types), np.zeros(len(bigrams))],
    )
    assert dict(zip(LAYOUT, table.layout[1], strict=True))["lists"] == 4
    np.testing.assert_array_equal(table.unpack(2).n_after, n_after)
    np.testing.assert_array_equal(table.unpack(3).word, word)


def test_a_table_is_the_same_whatever_memory_it_was_made_in(monkeypatch):
    """A budget so small that all is sorted on disk, in runs that are merged, some of them twice."""
    rng = np.random.default_rng(1)
    text = [[f"w{w}" for w in np.minimum(rng.zipf(1.3, 12), 500)] for _ in range(4000)]
    for options in ({}, {"smoothing": "good_turing", "min_count": 2}, {"order": 3, "min_count": 3}):
        whole = KneserNey(**{"order": 5, **options}).fit(text)
        with monkeypatch.context() as patch:
            patch.setattr(spooling, "_MIN_BLOCK_ROWS", 1 << 8)
            patch.setattr(spooling, "_MAX_RUNS", 4)
            small = KneserNey(**{"order": 5, **options}, memory_gb=1e-5).fit(text)
        np.testing.assert_array_equal(small.table.data, whole.table.data)
        np.testing.assert_array_equal(small.table.layout, whole.table.layout)
        assert small.fitted_on == whole.fitted_on


# -- what is damaged -----------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(2, 0), (0, 0), (2, 5), (2, 7)])
def test_a_layout_with_another_number_of_columns_is_refused(model, shape):
    artifact = model.to_artifact()
    arrays = {**artifact.arrays, "ngrams.layout": np.ones(shape, np.int64)}
    with pytest.raises(ArtifactError, match=f"'ngrams.layout' has {shape[1]} columns"):
        KneserNey.from_artifact(dataclasses.replace(artifact, arrays=arrays))


def test_every_wrong_number_of_the_layout_is_refused_or_harmless(model):
    artifact = model.to_artifact()
    layout = artifact.arrays["ngrams.layout"]
    n_refused = 0
    for place in np.ndindex(layout.shape):
        for value in (-1, 0, 1, 2, 7, 31, 32, 33, 64, 1 << 20, 1 << 40, 1 << 62, -(1 << 63)):
            arrays = {**artifact.arrays, "ngrams.layout": changed(layout, place, value)}
            try:
                spoilt = KneserNey.from_artifact(dataclasses.replace(artifact, arrays=arrays))
            except ArtifactError:
                n_refused += 1
                continue
            assert spoilt.score("a b c") == model.score("a b c")
    assert n_refused > 10 * layout.size


def test_every_bit_of_a_small_table_is_checked_when_it_is_loaded(model):
    """A flipped bit is refused, or changes no answer by more than rounding: it lies where nothing is."""
    artifact = model.to_artifact()
    data = artifact.arrays["ngrams.data"]
    n_refused = 0
    for place in range(64 * len(data)):
        flipped = changed(data, place // 64, data[place // 64] ^ np.uint64(1 << place % 64))
        arrays = {**artifact.arrays, "ngrams.data": flipped}
        try:
            spoilt = KneserNey.from_artifact(dataclasses.replace(artifact, arrays=arrays))
        except ArtifactError:
            n_refused += 1
            continue
        assert spoilt.check_normalized(["a b c", "c b a", "b"], tolerance=2e-3) < 2e-3
    assert n_refused > 0


@pytest.mark.parametrize("seed", range(10))
def test_a_large_table_that_nobody_has_checked_harms_nothing(model, monkeypatch, seed):
    """Words of random bits, as in a mapped file that was damaged: an error or numbers, no place outside the table."""
    monkeypatch.setattr(table_module, "_MAX_NGRAMS_TO_CHECK", 0)
    rng = np.random.default_rng(seed)
    artifact = model.to_artifact()
    data = artifact.arrays["ngrams.data"].copy()
    n = [1, 3, len(data)][seed % 3]
    data[rng.integers(len(data), size=n)] = rng.integers(2**64, size=n, dtype=np.uint64)
    arrays = {**artifact.arrays, "ngrams.data": data}
    spoilt = KneserNey.from_artifact(dataclasses.replace(artifact, arrays=arrays))
    states = [spoilt.start(), spoilt.null(), spoilt.state_after("a b")]
    for act in (
        lambda: spoilt.score_batch(["a b c", "c b a", "x"]),
        lambda: spoilt.score("a b c b"),
        lambda: spoilt.log_probs(states),
        lambda: [spoilt.advance(states[2], w) for w in range(5)],
        lambda: spoilt.table.words_of(3),
        lambda: spoilt.table.check(),
        lambda: [spoilt.BaseScore(states[0], w, State()) for w in "abc"],
    ):
        with suppress(ArtifactError):
            act()


@pytest.mark.parametrize("is_plain", [True, False])
def test_an_impossible_probability_is_refused_in_a_line_that_is_improbable(monkeypatch, is_plain):
    model = KneserNey(order=2).fit([["a", "b", "c"], ["b", "c", "a"], ["c"], ["a", "b"]])
    *ngrams, backoffs = orders_of(model.table)
    raised = changed(backoffs[0], model.vocabulary.id_of("a"), 3.0)
    model.learned = table_of(*ngrams, [raised])
    if is_plain:
        monkeypatch.setattr(table_module, "_import_compiled", lambda strings: plain)
    line = "b b b b b b a c"  # p(c | a) is above one
    for use in (model.score, model.perplexity, model.surprisal):
        with pytest.raises(ArtifactError, match="impossible probability"):
            use(line)


def test_a_saved_table_is_mapped_and_its_bytes_can_be_verified(model, tmp_path, monkeypatch):
    monkeypatch.setattr(folder, "_HASHED_BYTES", 0)
    model.save(tmp_path / "m")
    again = KneserNey.load(tmp_path / "m")
    assert isinstance(again.table.data.base.base, np.memmap)
    assert again.score("a b c") == model.score("a b c")
    artifact.read(tmp_path / "m", whole=True)
    [file] = (tmp_path / "m").glob("mapped-*")
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(ArtifactError, match="altered"):
        artifact.read(tmp_path / "m", whole=True)
    again.save(tmp_path / "m")  # the file is mapped while it is replaced
    KneserNey.load(tmp_path / "m")


@pytest.mark.parametrize("order", [2, 3, 5])
def test_a_probability_above_one_is_found_wherever_it_is(order):
    """Against all distributions: one back-off at a time is raised, of models that list words of every probability."""
    rng = np.random.default_rng(order)
    text = [" ".join(rng.choice(list("aaaaaabbcdefghij"), 6)) for _ in range(30)]
    model = KneserNey(order=order, smoothing="good_turing").fit(text)
    *ngrams, backoffs = orders_of(model.table)
    contexts = [row for n in range(1, order) for row in model.table.words_of(n).tolist()]
    states = [State(()), *(State(tuple(row)) for row in contexts)]
    n_found = n = 0
    for level, place in ((i, j) for i, each in enumerate(backoffs) for j in range(len(each))):
        raised = changed(backoffs[level], place, backoffs[level][place] + rng.uniform(0, 6))
        model.learned = table_of(*ngrams, [*backoffs[:level], raised, *backoffs[level + 1 :]])
        rows = np.empty((len(states), model.table.n_types))
        lookup.conditionals(*model.table.arguments, *model._stack_contexts(states), rows)
        found = model.learned.sums().above_one
        n += 1
        assert (found is not None) == (rows.max() > 1e-3)
        if found is not None:
            n_found += 1
            context, word = found
            assert rows[states.index(State(tuple(context))), word] > 1e-3
    assert 0 < n_found < n
