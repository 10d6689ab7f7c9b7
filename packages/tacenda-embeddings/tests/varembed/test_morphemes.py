"""The inventory: which morphemes words have, base and capitals and unknown ones included."""

import numpy as np
import pytest

from tacenda import Corpus
from tacenda.offsets import pack_words
from tacenda.vocabulary import Vocabulary
from tacenda_embeddings.varembed import segmenters
from tacenda_embeddings.varembed.morphemes import BASE, Inventory


def vocabulary(words, **settings):
    return Corpus.from_sentences([words], **settings).vocabulary


def learned(words, *, segmenter="unigram", n=30, base=True, **settings):
    return Inventory.learn(vocabulary(words, **settings), segmenter, n, base)


def ids_of(inventory, word):
    return inventory.morphemes([word])[0].indices.tolist()


STEMS = ["walk", "talk", "jump", "look", "play"]
WORDS = [stem + end for stem in STEMS for end in ("", "s", "ed", "ing")]


def test_every_word_has_its_pieces_and_the_base():
    inventory = learned(WORDS)
    i = inventory.vocabulary.id_of("walked")
    ids = inventory.ids[inventory.offsets[i] : inventory.offsets[i + 1]]
    assert [inventory.names[m] for m in ids] == [BASE, *inventory.pieces(["walked"])[0]]
    assert ids_of(inventory, "walked") == ids.tolist()


def test_without_a_base_nobody_has_it():
    inventory = learned(WORDS, base=False)
    assert 0 not in inventory.ids
    assert 0 not in ids_of(inventory, "walker")


def test_special_types_are_made_of_nothing_but_the_base():
    inventory = learned(WORDS)
    for word in ("</s>", "<unk>"):
        assert inventory.pieces([word])[0] == ()
        assert ids_of(inventory, word) == [0]


def test_an_unknown_morpheme_is_counted_and_not_another_one():
    inventory = learned(WORDS)
    counts, n_unknown = inventory.morphemes(["qxqxed", "中文", "walked"])
    names = [[inventory.names[m] for m in counts[[i]].indices] for i in range(3)]
    assert "qx" not in "".join(names[0])
    assert names[1:] == [[BASE], [BASE, *inventory.pieces(["walked"])[0]]]
    assert n_unknown.min() == n_unknown[2] == 0
    assert (n_unknown[:2] >= 1).all()


def test_unknown_ngrams_say_nothing():
    inventory = learned(WORDS, segmenter="ngrams")
    assert inventory.morphemes(["中文"])[1] == 0


def test_a_long_word_keeps_most_pieces_and_the_last_takes_the_rest(monkeypatch):
    monkeypatch.setattr(segmenters, "MAX_PIECES", 3)
    inventory = learned(WORDS)
    word = "ab" * 20
    pieces = inventory.pieces([word])[0]
    assert len(pieces) <= 3
    assert "".join(pieces).removeprefix("▁") == word
    i = inventory.offsets
    assert np.diff(i).max() <= 3 + 1


def test_capitals_are_a_morpheme_where_case_is_kept():
    inventory = learned([*WORDS, "Walk", "WALK", "wAlk"])
    plain = inventory.pieces(["walk"])[0]
    assert inventory.pieces(["Walk"])[0] == (*plain, "<Xx>")
    assert inventory.pieces(["WALK"])[0] == (*plain, "<XX>")
    assert inventory.pieces(["wAlk"])[0] == (*plain, "<xX>")
    assert inventory.pieces(["Talking"])[0] == (*inventory.pieces(["talking"])[0], "<Xx>")


def test_case_and_digits_follow_the_vocabulary():
    inventory = learned([*WORDS, "1990", "1990s"], lowercase=True, digits=True)
    assert inventory.pieces(["WALKED"])[0] == inventory.pieces(["walked"])[0]
    assert inventory.pieces(["1234"])[0] == inventory.pieces(["1990"])[0]
    assert not any("NUM" in name for name in inventory.names)


@pytest.mark.parametrize("known", [["NUMBER", "NUMB", "MP7", "H2O", "3D", "UTF8"], []])
@pytest.mark.parametrize(
    ("word", "letters"),
    [
        ("NUMBER", "number"), ("PLATINUM", "platinum"), ("NUMB", "numb"), ("MP3", "mp0"),
        ("H2O", "h0o"), ("3D", "0d"), ("UTF8", "utf0"), ("UTF16", "utf0"),
    ],
)  # fmt: skip
def test_num_is_a_digit_only_where_a_number_was(known, word, letters):
    pieces = learned([*WORDS, *known], digits=True).pieces([word])[0]
    assert "".join(pieces).replace("▁", "") == f"{letters}<XX>"


def test_sums_are_those_of_the_morphemes():
    inventory = learned(WORDS)
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((len(inventory), 4)).astype(np.float32)
    for word, row in zip(inventory.vocabulary.words, inventory.sum(vectors), strict=True):
        np.testing.assert_allclose(
            row, vectors[ids_of(inventory, word)].sum(0), rtol=1e-5, atol=1e-6
        )


@pytest.mark.parametrize("named", ["<BASE>", "<base>"])
def test_the_ngram_of_a_word_is_not_the_base_also_after_loading(named):
    inventory = learned(
        ["<base>", "a<base>", "<base>b", "a<base>b"], segmenter="ngrams", base=False
    )
    text, offsets = pack_words([named, *inventory.names[1:]])
    renamed = {"morphemes.names.text": text, "morphemes.names.offsets": offsets}
    known = {name: getattr(inventory, name) for name in ("vocabulary", "segmenter", "base")}
    loaded = Inventory.from_arrays(inventory.to_arrays() | renamed, **known)
    for found in (inventory, loaded):
        assert 0 not in found.ids
        assert 0 not in ids_of(found, "<base>c")
        assert "<base>" in found.pieces(["<base>c"])[0]
        assert found.names[0] == BASE


def test_type_counts_count_words_and_not_occurrences():
    inventory = learned(["aaa", "aab", "abb"], segmenter="ngrams")
    assert inventory.type_counts()[0] == len(inventory.vocabulary)
    assert inventory.type_counts().max() == len(inventory.vocabulary)


@pytest.mark.parametrize("segmenter", ["unigram", "ngrams"])
def test_a_vocabulary_without_words_has_an_inventory(segmenter):
    empty = Vocabulary(["</s>", "<unk>"], [1, 0])
    inventory = Inventory.learn(empty, segmenter, 10, True)
    assert inventory.names == (BASE,)
    assert ids_of(inventory, "word") == [0]
