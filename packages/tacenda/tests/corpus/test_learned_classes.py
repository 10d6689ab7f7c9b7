import itertools
from collections import Counter, defaultdict
from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacenda import Corpus, Vocabulary
from tacenda.learned_classes import N_CLASSES, count_neighbors, list_classes, merge_classes
from tacenda.word_classes import learned_names

VERBS, NOUNS = ["hafa", "sola"], ["ding", "dang"]


def inflected(n_stems=60, seed=0):
    """Sentences in which words in -ung follow "the" and words in -eln follow "to", and -s tells nothing."""
    rng = np.random.default_rng(seed)
    stems = ["".join(s) for s in itertools.product("bdfglmr", "aou", "bdfglmr", "aou")]
    stems = [stems[i] for i in rng.permutation(len(stems))[:n_stems]]
    for stem in stems:
        yield from (["the", stem + "ung", "sat"], ["to", stem + "eln", "now"])
        yield from (
            [["the", "to"][i], stem + ending, ["sat", "now"][i]] for i in (0, 1) for ending in "tk"
        )


def learned(sentences, **options):
    given = {"max_vocabulary": 4, "oov": "learned", "min_class_count": 20} | options
    return Corpus.from_sentences(list(sentences), **given)


def test_suffixes_become_classes_by_what_stands_around_them():
    v = learned(inflected()).vocabulary
    classes = [v.words[i] for i in v.oov_ids if v.words[i] != "<unk>"]
    assert v.class_of("Xylung") == "<unk>"  # no capitals were frequent
    assert v.class_of("xylung") != v.class_of("xyleln")
    assert {v.class_of("xylung")[-2], v.class_of("xyleln")[-2]} == {"g", "n"}
    # every word in -t and -k stands in both contexts equally often: no class tells them apart
    assert v.class_of("xylat") == v.class_of("xylok") == "<oov:x>"
    assert len(classes) == 3


def test_the_first_split_is_the_one_of_the_highest_likelihood():
    sentences = list(inflected(40, seed=1)) + [["the", "zum", "sat"]] * 3
    options = {"max_vocabulary": 4, "oov": "learned", "min_class_count": 10}
    types = Counter(word for s in sentences for word in s)
    full = Vocabulary.from_counts(types, len(sentences), **{k: options[k] for k in options})
    kept = {"the", "to", "sat", "now"}
    around = defaultdict(Counter)  # of each suffix, as pairs of side and word
    for before, word, after in sentences:
        for name in learned_names(word):
            around[name] += Counter([(0, before), (1, after)])

    def likelihood(counts):
        sums = Counter()
        for (side, _), n in counts.items():
            sums[side] += n
        return sum(n * log(n / sums[side]) for (side, _), n in counts.items() if n)

    whole = around["<oov:x>"]
    names = [full.words[i] for i in list_classes(full)]
    gains = {
        name: likelihood(around[name])
        + likelihood(whole - around[name])
        - likelihood(whole)
        - len(around[name]) / 2
        for name in names
        if name != "<oov:x>"
    }
    best = max(gains.values())
    ids = full.encode(list(itertools.chain(*sentences)))
    neighbors = count_neighbors([ids], np.arange(0, len(ids) + 1, 3), full)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tacenda.learned_classes.N_CLASSES", 2)
        found = merge_classes(full, neighbors, 10)
    new = {found.words[i] for i in found.oov_ids} - {"<oov:x>", "<unk>"}
    assert len(new) == 1
    assert gains[new.pop()] == pytest.approx(best)
    assert kept < set(found.words)


@given(
    st.lists(st.lists(st.sampled_from(["a", "b", "xing", "sing", "Xes"]), min_size=1), min_size=1),
    st.data(),
)
def test_neighbors_are_those_of_a_plain_loop_however_the_text_is_cut(sentences, data):
    words = list(itertools.chain(*sentences))
    v = Vocabulary.from_counts(
        Counter(words), 1, max_vocabulary=2, oov="learned", min_class_count=1
    )
    ids, offsets = v.encode(words), np.cumsum([0, *map(len, sentences)])
    cuts = sorted(data.draw(st.lists(st.integers(0, len(ids)), max_size=4)))
    found = count_neighbors(np.split(ids, cuts), offsets, v)
    order = {v.words[i]: row for row, i in enumerate(list_classes(v))}
    frequent = [word for word in v.words if not v.is_reserved(word)]
    expected = np.zeros(found.shape, int)
    for sentence in sentences:
        names = v.decode(v.encode(sentence))
        for side, pairs in ((0, itertools.pairwise(names)), (1, itertools.pairwise(names[::-1]))):
            for other, word in pairs:
                if word in order:
                    column = frequent.index(other) if other in frequent else -1
                    expected[order[word], side, column] += 1
    assert np.array_equal(found, expected)


@given(st.lists(st.lists(st.text("abX0 <>:", max_size=5), min_size=1), min_size=1, max_size=30))
def test_counts_are_those_of_the_encoded_text(sentences):
    corpus = learned(sentences, max_vocabulary=3, min_class_count=2, digits=True)
    assert corpus.type_counts.tolist() == corpus.vocabulary.counts.tolist()
    again = Vocabulary.from_arrays(corpus.vocabulary.config_dict(), corpus.vocabulary.arrays())
    words = list(itertools.chain(*sentences))
    assert again.encode(words).tolist() == corpus.vocabulary.encode(words).tolist()


def test_there_are_at_most_so_many_classes_and_each_is_frequent():
    rng = np.random.default_rng(0)
    letters = np.array(list("abcdefghij"))
    sentences = [
        ["the" if i % 2 else "to", "".join(rng.choice(letters, 6)), "sat" if i % 3 else "now"]
        for i in range(4000)
    ]
    v = learned(sentences, min_class_count=10).vocabulary
    classes = [i for i in v.oov_ids if i != v.unknown_id]
    assert 20 < len(classes) <= N_CLASSES
    assert v.counts[classes].min() >= 10


@pytest.mark.parametrize(
    ("word", "shape"),
    [("Wanderung", "Xx"), ("Μοσχα", "Xx"), ("москва", "x"), ("שלום", "hebrew"), ("-", "punct")],
)
def test_words_of_any_cased_script_have_the_shape_of_their_letters(word, shape):
    names = learned_names(word)
    assert names[-1] == f"<oov:{shape}>"
    assert names[:-1] == [
        f"<oov:{shape}:{word[2:][-n:]}>" for n in range(min(4, len(word[2:])), 0, -1)
    ]
    assert learned_names(names[0]) == names
