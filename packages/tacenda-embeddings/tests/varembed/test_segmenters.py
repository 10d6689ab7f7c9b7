"""Segmenters: against enumeration, on strange words, to arrays and back."""

import importlib.util
import itertools
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacenda.errors import ArtifactError, ConfigurationError
from tacenda.offsets import pack_words
from tacenda.testing.models import STRANGE
from tacenda_embeddings.varembed.segmenters import (
    BEGIN,
    MAX_LETTERS,
    SEGMENTERS,
    MorfessorSegmenter,
    build_lattice,
    build_trie,
    compute_expected_counts,
    find_best_pieces,
)

STEMS = ["walk", "talk", "jump", "look", "play", "work", "call", "turn", "open", "paint"]
WORDS = [stem + end for stem in STEMS for end in ("", "s", "ed", "ing", "er", "ers", "able")]
WORDS += ["un" + word for word in WORDS]
HAS_MORFESSOR = importlib.util.find_spec("morfessor") is not None
NAMES = ["unigram", "ngrams", *(["morfessor"] if HAS_MORFESSOR else [])]
STRANGE_WORDS = [*STRANGE, "x" * 10_000, "e\u0301\u0323", "\ud800", "12,5%", "▁", "<>"]


def learn(name, words, n_morphemes):
    return SEGMENTERS[name].learn(words, n_morphemes)[0]


@pytest.fixture(scope="module", params=NAMES)
def segmenter(request):
    return learn(request.param, WORDS, 40)


def splits(word):
    for cuts in itertools.product([False, True], repeat=max(len(word) - 1, 0)):
        pieces, start = [], 0
        for i, cut in enumerate(cuts, 1):
            if cut:
                pieces.append(word[start:i])
                start = i
        yield [*pieces, word[start:]]


COSTS = {
    "a": -2.0,
    "b": -2.5,
    "ab": -3.0,
    "ba": -4.6,
    "aba": -7.1,
    "bb": -4.0,
    "aé\U0001f600": -3.0,
}


@given(st.text("abcé\U0001f600", max_size=9), st.booleans())
def test_viterbi_finds_the_best_of_all_segmentations(word, whole):
    letter, trie = -9.0, build_trie(list(COSTS), np.array([*COSTS.values()]))
    costs = {piece: cost for piece, cost in COSTS.items() if whole or piece != word}

    def price(pieces):
        return sum(costs.get(piece, letter * len(piece)) for piece in pieces)

    found, score = find_best_pieces(word, trie, letter, whole=whole)
    assert "".join(found) == word
    assert price(found) == pytest.approx(score)
    # pieces of the lexicon and single letters
    allowed = [way for way in splits(word) if all(p in costs or len(p) < 2 for p in way)]
    assert score == pytest.approx(max(map(price, allowed)))


def test_of_equal_segmentations_the_last_piece_is_the_longer_one():
    trie = build_trie(["aa", "a"], np.array([-1.0, -1.0]))
    assert find_best_pieces("aaa", trie, -9.0)[0] == ("a", "aa")


def test_letters_that_no_piece_covers_become_one_unknown_piece():
    lexicon = MorfessorSegmenter(*pack_words(["a", "b", "ab"]), np.array([-2.0, -2.0, -3.0]))
    assert lexicon.segment(["abxyzab"])[0] == ("ab", "xyz", "ab")
    assert lexicon.segment(["xyz"])[0] == ("xyz",)
    assert lexicon.segment([""])[0] == ()


def test_expected_counts_are_those_of_enumeration():
    words = ["ab", "aba", "bb", "a"]
    pieces = ["a", "b", "ab", "ba", "aba", "bb"]
    rng = np.random.default_rng(0)
    log_probs = np.log(rng.dirichlet(np.ones(len(pieces))))
    by_name = dict(zip(pieces, log_probs, strict=True))
    expected = dict.fromkeys(pieces, 0.0)
    for word in words:
        ways = [way for way in splits(word) if all(piece in by_name for piece in way)]
        weights = np.exp([sum(by_name[piece] for piece in way) for way in ways])
        for way, weight in zip(ways, weights / weights.sum(), strict=True):
            for piece in way:
                expected[piece] += weight
    found = compute_expected_counts(build_lattice(words, pieces, 3), log_probs)
    np.testing.assert_allclose(found, list(expected.values()))


def test_unigram_finds_stems_and_endings():
    segmenter = learn("unigram", WORDS, 60)
    assert segmenter.segment(["walking"])[0] == (f"{BEGIN}walk", "ing")
    assert segmenter.segment(["rewalkable"])[0][-1] == "able"
    assert len(segmenter.pieces) <= 60


def test_learning_is_deterministic_whatever_the_order():
    one = learn("unigram", WORDS, 40)
    other = learn("unigram", WORDS[::-1], 40)
    assert one.pieces == other.pieces
    np.testing.assert_array_equal(one.log_probs, other.log_probs)


@pytest.mark.parametrize("name", NAMES)
def test_pieces_of_a_known_word_spell_it(name):
    for word, pieces in zip(WORDS, SEGMENTERS[name].learn(WORDS, 40)[1], strict=True):
        if name == "ngrams":
            assert all(piece in f"<{word}>" for piece in pieces)
        else:
            assert "".join(pieces).removeprefix(BEGIN) == word


@pytest.mark.parametrize("word", STRANGE_WORDS)
def test_any_string_can_be_segmented(segmenter, word):
    pieces = segmenter.segment([word])[0]
    assert all(isinstance(piece, str) and piece for piece in pieces)
    assert sum(map(len, pieces)) <= (MAX_LETTERS + 2) * 20


@pytest.mark.parametrize("words", [WORDS, [*filter(None, STRANGE_WORDS)]], ids=["plain", "strange"])
@pytest.mark.parametrize("name", NAMES)
def test_a_saved_segmenter_segments_as_before(name, words):
    segmenter = learn(name, words, 40)
    again = SEGMENTERS[name].from_arrays(segmenter.to_arrays())
    strings = [*WORDS, *STRANGE_WORDS, "rewalked", "zzz"]
    assert again.segment(strings) == segmenter.segment(strings)


@pytest.mark.parametrize("name", NAMES)
def test_no_words_give_an_empty_inventory(name):
    assert len(learn(name, [], 20).segment(["word"])[0]) <= 1


def test_damaged_pieces_are_refused():
    arrays = learn("unigram", WORDS, 40).to_arrays()
    offsets = arrays["segmenter.pieces.offsets"].copy()
    offsets[1] = offsets[2] + 1
    with pytest.raises(ArtifactError, match="damaged"):
        SEGMENTERS["unigram"].from_arrays({**arrays, "segmenter.pieces.offsets": offsets})


def test_a_segmenter_that_is_not_installed_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "morfessor", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'tacenda-embeddings\[morfessor\]'"):
        learn("morfessor", WORDS, 10)


@pytest.mark.skipif(not HAS_MORFESSOR, reason="needs morfessor")
def test_words_never_seen_are_cut_much_as_morfessor_would():
    import morfessor

    random.seed(3)  # train_batch visits the words in an order drawn from here
    model = morfessor.BaselineModel()
    model.load_data([(1, word) for word in sorted(WORDS)], count_modifier=lambda _: 1)
    model.train_batch()
    ours = learn("morfessor", WORDS, 0)
    same = [ours.segment([word])[0] == tuple(model.viterbi_segment(word)[0]) for word in WORDS]
    assert np.mean(same) > 0.9
