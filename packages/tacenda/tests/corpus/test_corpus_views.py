import copy
import pickle
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.texts import decode
from tacenda.corpus import Corpus, as_corpus
from tacenda.errors import CorpusError

lengths = st.lists(st.integers(1, 9), min_size=1, max_size=15)


def corpus_of(sizes):
    words = iter(f"w{i % 7}" for i in range(sum(sizes)))
    return Corpus.from_sentences([[next(words) for _ in range(size)] for size in sizes])


@given(lengths, st.integers(1, 30))
def test_blocks_are_whole_sentences_within_the_limit(sizes, n_tokens):
    corpus = corpus_of(sizes)
    sentences = []
    blocks = list(corpus.blocks(n_tokens))
    for ids, offsets in blocks:
        assert offsets[0] == 0
        assert offsets[-1] == len(ids)
        assert len(ids) <= n_tokens or len(offsets) == 2
        sentences += [ids[a:b].tolist() for a, b in pairwise(offsets)]
    assert sentences == [sentence.tolist() for sentence in corpus]
    # no block could have taken the next block's first sentence as well
    for (ids, _), (_, offsets) in pairwise(blocks):
        assert len(ids) + offsets[1] > n_tokens


@given(lengths, st.integers(1, 40))
def test_the_stream_has_a_boundary_before_every_sentence(sizes, n_tokens):
    corpus = corpus_of(sizes)
    pieces = list(corpus.stream(n_tokens))
    assert all(len(piece) == n_tokens for piece in pieces[:-1])
    assert all(piece.dtype == np.int32 for piece in pieces)
    boundary = corpus.vocabulary.boundary_id
    expected = [i for sentence in corpus for i in (boundary, *sentence.tolist())]
    assert np.concatenate(pieces).tolist() == expected
    assert np.bincount(expected, minlength=len(corpus.vocabulary)).tolist() == (
        corpus.vocabulary.counts.tolist()
    )
    backwards = list(corpus.stream(n_tokens, backwards=True))
    assert np.concatenate(backwards).tolist() == expected[::-1]
    assert max(map(len, backwards)) <= n_tokens


@given(lengths, st.integers(1, 20))
def test_the_head_is_the_first_sentences(sizes, n):
    corpus = corpus_of(sizes)
    head = corpus.head(n)
    assert [s.tolist() for s in head] == [s.tolist() for s in corpus][:n]
    assert head.n_tokens == sum(sizes[:n])
    assert head.vocabulary is corpus.vocabulary


@given(st.lists(st.integers(1, 9), min_size=2, max_size=15), st.floats(0, 1), st.integers(0, 3))
def test_a_split_parts_the_sentences_in_order(sizes, fraction, seed):
    corpus = corpus_of(sizes)
    if not 0 < round(fraction * len(corpus)) < len(corpus):
        with pytest.raises(CorpusError, match="leaves one part empty"):
            corpus.split(fraction, seed)
        return
    rest, held_out = corpus.split(fraction, seed)
    assert held_out.n_sentences == round(fraction * len(corpus))
    whole = [s.tolist() for s in corpus]
    parts = [[s.tolist() for s in part] for part in (rest, held_out)]
    assert sorted(map(tuple, parts[0] + parts[1])) == sorted(map(tuple, whole))
    for part in parts:  # in the order of the whole
        remaining = iter(whole)
        assert all(sentence in remaining for sentence in part)
    again = corpus.split(fraction, seed)[1]
    assert [s.tolist() for s in again] == parts[1]


@pytest.mark.parametrize("fraction", [float("nan"), float("inf"), -float("inf"), 1.0, "0.5", None])
def test_a_fraction_that_is_none_is_refused(fraction):
    with pytest.raises(CorpusError, match=f"a fraction of {fraction} of 3 sentences"):
        corpus_of([1, 2, 3]).split(fraction)


@pytest.mark.parametrize("wrong", [-1, 1.5, "1", None])
def test_a_wrong_seed_or_number_of_words_is_refused(wrong):
    with pytest.raises(CorpusError, match=f"seed is {wrong!r}; .* whole number of at least 0"):
        corpus_of([1, 2, 3]).split(0.5, seed=wrong)
    with pytest.raises(CorpusError, match=f"n_words is {wrong!r}; .* whole number of at least 0"):
        corpus_of([1]).describe(wrong)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda c: pickle.loads(pickle.dumps(c))])  # noqa: S301
def test_a_copy_is_the_same_text_and_cannot_be_changed_either(copied):
    corpus = Corpus.from_text(["a b", "c"])
    again = copied(corpus)
    assert (decode(again), again.origin) == (decode(corpus), corpus.origin)
    for array in (again.ids, again.offsets):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_a_corpus_may_be_empty_but_nothing_is_fitted_to_it():
    empty = Corpus(np.empty(0, np.int32), np.zeros(1, np.int64), corpus_of([1]).vocabulary)
    about = empty.describe()
    assert (about["n_tokens"], about["oov_rate"], about["longest_sentence"]) == (0, 0.0, 0)
    assert about["top_words"] == [*empty.blocks(), *empty.stream(), *empty] == []
    assert len(empty.head(3)) == 0
    with pytest.raises(CorpusError, match="there are no tokens in the corpus"):
        as_corpus(empty)


def test_another_seed_gives_another_split():
    corpus = Corpus.from_sentences([[f"w{i}"] for i in range(100)])
    splits = {tuple(corpus.split(0.5, seed)[1].ids.tolist()) for seed in range(4)}
    assert len(splits) == 4


def test_sentences_are_indexed_from_both_ends():
    corpus = corpus_of([2, 3, 1])
    assert corpus.sentence(-1).tolist() == corpus.sentence(2).tolist()
    assert corpus.sentence(0).tolist() == corpus.ids[:2].tolist()
    for i in (3, -4):
        with pytest.raises(IndexError, match=f"no sentence {i} in a corpus of 3"):
            corpus.sentence(i)


@pytest.mark.parametrize("wrong", [0, 1.5, "1"])
def test_wrong_sizes_are_refused(wrong):
    corpus = corpus_of([2])
    for use in (corpus.blocks, corpus.stream, corpus.head):
        with pytest.raises(CorpusError, match=f"is {wrong!r}; .* whole number of at least 1"):
            next(iter(use(wrong)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ids": [0, 1]}, "ids of a corpus must be an array of int32"),
        ({"ids": np.zeros(2)}, "ids of a corpus must be an array of int32"),
        ({"offsets": np.zeros((1, 2), np.int64)}, "offsets of a corpus must be an array of int64"),
        ({"ids": np.array([0, 99], np.int32)}, "ids are beyond the 4 types of the vocabulary"),
        ({"ids": np.array([-1, 0], np.int32)}, "ids are beyond the 4 types of the vocabulary"),
        ({"offsets": np.array([0, 5])}, "sentence offsets must ascend from 0 to 2, and run .* 5$"),
        ({"offsets": np.array([0, 2, 1, 2])}, "sentence offsets must ascend from 0 to 2"),
        ({"offsets": np.array([0, 0, 2])}, "sentence offsets must ascend from 0 to 2"),
        ({"offsets": np.empty(0, np.int64)}, "sentence offsets must ascend from 0 to 2"),
        ({"vocabulary": ["a"]}, "vocabulary is a list; give a Vocabulary"),
    ],
)
def test_arrays_that_are_no_text_are_refused(change, message):
    corpus = corpus_of([2])
    parts = {"ids": corpus.ids, "offsets": corpus.offsets, "vocabulary": corpus.vocabulary}
    with pytest.raises(CorpusError, match=message):
        Corpus(**(parts | change))


def test_the_description_counts_this_text_and_not_the_vocabularys():
    v = Corpus.from_text(["the cat the dog"]).vocabulary
    description = Corpus.from_text(["the the bird", "dog"], vocabulary=v).describe()
    assert description == {
        "n_tokens": 4,
        "n_sentences": 2,
        "n_types": 5,
        "oov_rate": 0.25,
        "longest_sentence": 3,
        "top_words": [("the", 2), ("dog", 1), ("<unk>", 1)],
        "sources": [],
        "tokenizer": "whitespace",
    }
