"""Brown clustering: every merger is the cheapest one, by recomputed mutual information; the tree; the files."""

import copy
import pickle
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacenda import Corpus
from tacenda.errors import ConfigurationError, CorpusError, DataError
from tacenda_lm import BrownClusters, brown_clusters
from tacenda_lm.hidden_markov import agglomeration

TYPES = 9  # 0 is </s>
SENTENCES = st.lists(st.lists(st.integers(1, TYPES - 1), max_size=8), min_size=1, max_size=12)


def stream_of(sentences):
    ids = [0]
    for sentence in sentences:
        ids += [*sentence, 0]
    return np.array(ids, np.int32)


def drawn(n, types, seed=0):
    rng = np.random.default_rng(seed)
    words = np.minimum(rng.zipf(1.4, n), types - 1)
    return stream_of(np.array_split(words, n // 9))


def replayed(stream, found, types):
    """Before each merger: the class of every word (leaders by rank), and the pair that was merged."""
    rank = {word: n for n, word in enumerate(found.order.tolist())}
    group = dict.fromkeys(range(types), -1)  # waiting
    group[0] = -2
    leaders, mergers = set(), iter(found.merged.tolist())
    for n, word in enumerate(found.order.tolist()):
        group[word] = rank[word]
        leaders.add(rank[word])
        if n >= found.n_classes:
            pair = next(mergers)
            yield group, leaders, pair
            merge(group, leaders, pair)
    for pair in mergers:
        yield group, leaders, pair
        merge(group, leaders, pair)


def merge(group, leaders, pair):
    first, second = pair
    leaders.remove(second)
    for word, own in group.items():
        if own == second:
            group[word] = first


def information(stream, group):
    """But for a constant, in nats of the text, from nothing but the classes."""
    classes = np.array([group[word] + 2 for word in range(len(group))])
    pairs = classes[stream[:-1]].astype(np.int64), classes[stream[1:]].astype(np.int64)
    joint = np.unique(np.stack(pairs), axis=1, return_counts=True)[1]
    terms = [counts[counts > 0] for counts in (joint, *map(np.bincount, pairs))]
    both, left, right = (float((n * np.log(n)).sum()) for n in terms)
    return both - left - right


@settings(max_examples=25)
@given(SENTENCES, st.integers(1, 6))
def test_every_merger_loses_least_mutual_information(sentences, n_classes):
    """By brute force over all pairs, and of equal ones it is that of the most frequent words."""
    stream = stream_of(sentences)
    found = agglomeration.agglomerate(stream[1:], TYPES, n_classes, boundary=0)
    for group, leaders, (first, second) in replayed(stream, found, TYPES):
        losses = {}
        for one, two in combinations(sorted(leaders), 2):
            trial = {word: one if own == two else own for word, own in group.items()}
            losses[one, two] = information(stream, group) - information(stream, trial)
        least = min(losses.values())
        assert (first, second) == next(pair for pair in losses if losses[pair] <= least + 1e-9)


def test_losses_kept_up_to_date_are_those_of_the_counts():
    found = _window_of(drawn(3000, 60), 60, 20)
    kept = found.loss.copy()
    for place in np.flatnonzero(found.leader >= 0):
        agglomeration._set_losses(place, found)
    np.testing.assert_allclose(kept, found.loss, atol=1e-8)
    assert np.isfinite(kept).sum() == 20 * 19 / 2


def _window_of(stream, types, n_classes):
    """The window when all words are taken in."""
    seen = []

    def kept(done, n, window, slack):
        seen.append(window)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(agglomeration, "_merge_all", kept)
        agglomeration.agglomerate(stream[1:], types, n_classes, boundary=0)
    return seen[0]


def test_large_counts_are_as_exact_as_small_ones(monkeypatch):
    stream = drawn(2000, 40)
    expected = agglomeration.agglomerate(stream[1:], 40, 7, boundary=0)
    monkeypatch.setattr(agglomeration, "_TABLE_SIZE", 2)
    found = agglomeration.agglomerate(stream[1:], 40, 7, boundary=0)
    np.testing.assert_array_equal(found.merged, expected.merged)


@settings(max_examples=40)
@given(SENTENCES, st.integers(1, 12))
def test_classes_and_paths_are_those_of_one_tree(sentences, n_classes):
    found = agglomeration.agglomerate(stream_of(sentences)[1:], TYPES, n_classes, boundary=0)
    classes, paths = found.classes(), found.paths()
    occurring = {word for sentence in sentences for word in sentence}
    assert set(found.order.tolist()) == occurring
    assert set(classes.tolist()) == set(range(min(n_classes, len(occurring))))
    assert len(paths) == min(n_classes, len(occurring)) == len(set(paths))
    assert not any(two.startswith(one) for one, two in pairwise(sorted(paths)))
    if paths:  # every inner node has both branches
        assert sum(2.0 ** -len(path) for path in paths) == 1


def test_words_in_the_same_places_are_together():
    rng = np.random.default_rng(0)
    kinds = [["a", "the"], ["cat", "dog", "cow"], ["eats", "sees"]]
    sentences = [[str(rng.choice(kind)) for kind in kinds] for _ in range(500)]
    found = brown_clusters(sentences, 3)
    for kind in kinds:
        assert len({found.paths[word] for word in kind}) == 1
    assert found.n_classes == 3
    assert found.counts["cat"] == sum(sentence.count("cat") for sentence in sentences)


def test_it_is_the_same_every_time():
    text = [["a", "b", "c", "d"], ["b", "a", "d", "c"], ["e"]] * 3
    assert brown_clusters(text, 3) == brown_clusters(iter(text), 3) == brown_clusters(text, 3)


# -- the files -------------------------------------------------------------------------------------


@pytest.fixture
def clusters():
    text = [["the", "cat", "sees"], ["a", "dog", "sees"], ["the", "dog"]]
    return brown_clusters(text, 4)


def test_saved_clusters_are_read_again(clusters, tmp_path):
    clusters.save(tmp_path / "paths")
    assert BrownClusters.load(tmp_path / "paths") == clusters
    assert pickle.loads(pickle.dumps(clusters)) == copy.deepcopy(clusters) == clusters  # noqa: S301
    lines = (tmp_path / "paths").read_text().splitlines()
    assert [line.split("\t") for line in lines] == sorted(
        [path, word, str(clusters.counts[word])] for word, path in clusters.paths.items()
    )


def test_files_of_other_programs_are_read(write_file):
    lines = "0\tthe\t11\r\n10\tnaïve\t2\r\n11\tcat\t5\r\n\r\n"
    found = BrownClusters.load(write_file("paths", lines))
    assert dict(found.paths) == {"the": "0", "naïve": "10", "cat": "11"}
    assert found.words("1") == ["cat", "naïve"]
    assert found.prefixes("cat", (1, 6)) == ["1", "11"]
    assert found.prefixes("zebra") == []
    assert "cat" in found
    assert "zebra" not in found


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("01\tcat", "line 2"),
        ("01\tcat\tmany", "line 2"),
        ("01 cat 3", "line 2"),
        ("012\tcat\t3", "line 2: the path '012' of 'cat' is no string of 0 and 1"),
        ("01\tthe\t3", "line 2: the word 'the' is in the clusters twice"),
        ("cat\t01\t3", "line 2: the path 'cat' of '01'"),
        ("01\tcat\t-3", "line 2"),
        ("101\tcat\t3", "paths: the paths '10' and '101' are not leaves of one tree"),
    ],
)
def test_a_damaged_file_is_refused(write_file, line, said):
    with pytest.raises(DataError, match=said):
        BrownClusters.load(write_file("paths", f"10\tthe\t11\n{line}\n"))


@pytest.mark.parametrize(
    ("row", "said"),
    [
        *((("a", "0", n), f"count of 'a' is {n!r}, and must be a whole") for n in (1.5, True, -1, "2")),
        (("a", 10, 1), "the path 10 of 'a' is no string of 0 and 1"),
        ((float("nan"), "0", 1), "the word nan is not a string"),
        *((row, "is not a word, its path and its count") for row in (("a", "0"), 5)),
    ],
)  # fmt: skip
def test_rows_of_other_types_are_refused(row, said):
    """Such as those of a table that another library read: digits as a number, and the word "nan" as one."""
    with pytest.raises(DataError, match=said):
        BrownClusters([row])


def test_what_cannot_be_written_or_read_is_said(clusters, tmp_path):
    with pytest.raises(DataError, match="no file"):
        BrownClusters.load(tmp_path / "none")
    with pytest.raises(DataError, match="cannot write"):
        clusters.save(tmp_path / "none" / "paths")
    for word in ("a\tb", ""):
        with pytest.raises(DataError, match="are not empty, and contain no tabs"):
            BrownClusters([(word, "0", 1)]).save(tmp_path / "paths")
    with pytest.raises(DataError, match=r"'\\udc80', half of a surrogate pair"):
        BrownClusters([("a\udc80", "0", 1)]).save(tmp_path / "paths")
    assert list(tmp_path.iterdir()) == []


def test_rare_words_get_no_class():
    text = [["a", "b", "rare"], ["a", "c", "b"], ["b", "a", "c"]]
    found = brown_clusters(text, 2, min_count=2)
    assert set(found.paths) == {"a", "b", "c"}
    assert found.n_classes == 2
    for wrong in (-3, 1.5):
        with pytest.raises(ConfigurationError, match=f"min_count is {wrong}; it must be a whole"):
            brown_clusters(text, 2, min_count=wrong)
    with pytest.raises(
        ConfigurationError, match="n_classes is 4, and 3 words occur at least 2 times"
    ):
        brown_clusters(text, 4, min_count=2)


@pytest.mark.parametrize("n_classes", [0, 1.5, 4])
def test_more_classes_than_words_are_refused(n_classes):
    with pytest.raises(ConfigurationError, match=f"n_classes is {n_classes}"):
        brown_clusters([["a", "b"], ["c"]], n_classes)


def test_a_text_without_words_is_refused():
    with pytest.raises(CorpusError, match="no tokens"):
        brown_clusters(Corpus.from_sentences([], vocabulary=Corpus.from_sentences([["a"]]).vocabulary))  # fmt: skip


def test_one_class_has_no_bits():
    assert dict(brown_clusters([["a", "b"]], 1).paths) == {"a": "", "b": ""}
