"""Trees over words: whole, bounded, of the shape their rule says, and the same for the same seed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from tacenda.errors import ArtifactError, ConfigurationError, DataError, KernelError
from tacenda.kernels.trees import Codes, Nodes, tree_softmax_distribution
from tacenda_lm import Tree, build_tree
from tacenda_lm.log_bilinear import tree_building

RULES = ["random", "balanced", "adaptive", "noisy"]
WRITTEN_OUT = Tree(Codes([0, 1, 2, 3], [0, 1, 3, 5], [0, 0, 1, 0, 1], [1, -1, 1, -1, -1]))


def vectors(n, width=6, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((max(4, n // 5), width))[rng.integers(0, max(4, n // 5), n)] + (
        0.3 * rng.standard_normal((n, width))
    )


def lengths(tree):
    return np.diff(tree.codes.code_steps)


@settings(max_examples=60)
@given(
    st.sampled_from(RULES), st.integers(1, 70), st.sampled_from([0.0, 0.2, 0.45]), st.integers(1, 5),
    st.integers(0, 5),
)  # fmt: skip
def test_every_word_has_its_codes_within_the_bounds(rule, n, overlap, copies, seed):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tree_building, "_MAX_CODES", 3)
        patch.setattr(tree_building, "_MAX_DEPTH", 9)
        how = {"overlap": overlap, "copies": copies, "seed": seed}
        tree = build_tree(rule, n, vectors=vectors(n), **how)
    assert tree.n_words == n
    codes = np.diff(tree.codes.word_codes)
    assert codes.min() >= copies
    assert codes.max() <= 3 * copies
    assert lengths(tree).max() <= 9 + np.ceil(np.log2(copies))
    assert tree.n_nodes == tree.codes.n_codes - 1


@pytest.mark.parametrize("rule", RULES)
def test_its_probabilities_sum_to_one(rule):
    tree = build_tree(rule, 37, vectors=vectors(37), overlap=0.3, copies=3)
    rng = np.random.default_rng(0)
    q = rng.standard_normal((tree.n_nodes, 4)).astype(np.float32)
    rows = tree_softmax_distribution(
        rng.standard_normal((5, 4)).astype(np.float32), tree.codes, Nodes(q, q[:, 0])
    )
    np.testing.assert_allclose(np.exp(rows.astype(np.float64)).sum(axis=1), 1, 1e-6)


@pytest.mark.parametrize("rule", ["random", "balanced"])
@pytest.mark.parametrize("n", [2, 5, 64, 100])
def test_halves_make_codes_of_the_logarithm(rule, n):
    tree = build_tree(rule, n, vectors=vectors(n))
    assert set(lengths(tree)) <= {int(np.floor(np.log2(n))), int(np.ceil(np.log2(n)))}


def test_random_halves_are_all_as_likely():
    """Chi-square over the 20 halves of six words at the root, which right ones fail for one in a million seeds."""
    halves = []
    for seed in range(1500):
        codes = build_tree("random", 6, seed=seed).codes
        halves.append(codes.signs[codes.code_steps[:-1]])
    _, counts = np.unique(halves, axis=0, return_counts=True)
    assert len(counts) == 20
    assert chisquare(counts).pvalue > 1e-6


def test_noisy_clusters_are_drawn_by_their_probabilities(monkeypatch):
    """At the root, words of responsibility p go left p of the time, in each of five ranges of p.

    Each of the five standard normal numbers is beyond 5.5 for one of a million seeds.
    """
    em, found = tree_building._em, []
    monkeypatch.setattr(tree_building, "_em", lambda *given: em(*given) or found.append(given[-1]))
    p, left = [], []
    for seed in range(200):
        found.clear()
        codes = build_tree("noisy", 42, vectors=vectors(42), seed=seed).codes
        p.append(1 / (1 + np.exp(-found[0].clip(-500, 500))))
        left.append(codes.signs[codes.code_steps[:-1]] > 0)
    p, left = np.concatenate(p), np.concatenate(left)
    for low in np.arange(0, 1, 0.2):
        chosen = (p >= low) & (p < low + 0.2)
        spread = np.sqrt((p * (1 - p))[chosen].sum())
        assert spread > 2
        assert abs((left - p)[chosen].sum()) < 5.5 * spread


@pytest.mark.parametrize("rule", ["balanced", "adaptive", "noisy"])
def test_two_clusters_far_apart_are_told_apart_at_the_root(rule):
    rng = np.random.default_rng(0)
    side = rng.permutation(np.repeat([0, 1], 20))
    x = rng.standard_normal((40, 5)) + 100 * side[:, None]
    tree = build_tree(rule, 40, vectors=x)
    first = tree.codes.signs[tree.codes.code_steps[:-1]]
    assert len({(s, t) for s, t in zip(first.tolist(), side.tolist(), strict=True)}) == 2


def test_words_between_two_clusters_get_two_codes():
    x = np.linspace(-1, 1, 61)[:, None]
    once = build_tree("adaptive", 61, vectors=x)
    twice = build_tree("adaptive", 61, vectors=x, overlap=0.4)
    assert once.codes.n_codes == 61
    assert 61 < twice.codes.n_codes <= 61 * 4


def test_words_that_are_all_the_same_are_halved():
    tree = build_tree("adaptive", 64, vectors=np.ones((64, 3)))
    assert set(lengths(tree)) == {6}


def test_copies_are_joined_under_one_top():
    one, four = (build_tree("adaptive", 20, vectors=vectors(20), copies=k) for k in (1, 4))
    assert four.codes.n_codes == 80
    assert four.n_nodes >= 3 + 4 * (20 - 1)
    assert one.codes.n_codes == 20
    assert (four.codes.nodes[four.codes.code_steps[:-1]] == 0).all()


def test_weights_pull_the_split_towards_frequent_words():
    x = np.arange(40.0)[:, None]
    weights = np.where(np.arange(40) < 4, 1e4, 1.0)
    counts = weights.astype(int)
    plain = build_tree("adaptive", 40, vectors=x).statistics(counts)
    weighted = build_tree("adaptive", 40, vectors=x, weights=weights).statistics(counts)
    assert weighted.weighted_code_length < plain.weighted_code_length


@pytest.mark.parametrize("rule", RULES)
def test_the_seed_decides_and_nothing_else(rule):
    trees = [build_tree(rule, 50, vectors=vectors(50), overlap=0.2, seed=s) for s in (3, 3, 4)]
    first, same, other = ([part.tolist() for part in tree.codes.arrays] for tree in trees)
    assert first == same != other


@pytest.mark.parametrize(
    "wrong",
    [
        {"rule": "huffman"},
        {"n_words": 0},
        {"n_words": 9.0},
        {"copies": 0},
        {"copies": 1.5},
        {"seed": -1},
        {"overlap": 0.5},
        {"overlap": "0.1"},
        {"vectors": [[1, 2], [3]]},
        {"weights": ["a"] * 9},
        {"vectors": None},
        {"vectors": np.ones((3, 2))},
        {"vectors": np.ones((9, 0))},
        {"vectors": np.ones(9)},
        {"vectors": np.full((9, 2), np.nan)},
        {"weights": np.zeros(9)},
        {"weights": np.ones(8)},
        {"weights": np.full(9, np.inf)},
    ],
)
def test_arguments_out_of_range_are_refused(wrong):
    good = {"rule": "adaptive", "n_words": 9, "vectors": vectors(9)}
    build_tree(**good)
    with pytest.raises(ConfigurationError):
        build_tree(**{**good, **wrong})


def test_statistics_of_a_tree_written_out():
    found = WRITTEN_OUT.statistics(np.array([8, 1, 1]))
    assert found == (5 / 3, pytest.approx(1.2), 1.0, pytest.approx(1.2), 2, 2)
    biases = WRITTEN_OUT.biases(np.array([8, 1, 1]))
    np.testing.assert_allclose(biases, [np.log(8.1 / 2.1), 0], 1e-6)
    # words that never occur all weigh the same
    assert WRITTEN_OUT.statistics(np.zeros(3, int)) == WRITTEN_OUT.statistics(np.full(3, 7))


@pytest.mark.parametrize(
    "counts",
    [np.ones(2), np.ones((3, 1)), 5, [1, -1, 1], [1, np.nan, 1], [1, np.inf, 1], ["a", "b", "c"]],
)
def test_counts_that_are_not_one_for_each_word_are_refused(counts):
    for act in (WRITTEN_OUT.statistics, WRITTEN_OUT.biases):
        with pytest.raises(DataError, match="give 3 counts of at least 0, one for each word"):
            act(counts)


def test_biases_make_it_the_unigram_model():
    counts = np.array([500, 300, 120, 80, 60, 40, 10])
    tree = build_tree("random", 7, copies=2)
    nothing = np.zeros((tree.n_nodes, 1), np.float32)
    rows = tree_softmax_distribution(
        np.zeros((1, 1), np.float32), tree.codes, Nodes(nothing, tree.biases(counts))
    )
    np.testing.assert_allclose(np.exp(rows[0]), counts / counts.sum(), 0.02)


def test_a_tree_comes_back_from_its_arrays():
    tree = build_tree("noisy", 30, vectors=vectors(30), overlap=0.4, copies=2)
    again = Tree.from_arrays(tree.arrays(), 30)
    assert all((a == b).all() for a, b in zip(tree.codes.arrays, again.codes.arrays, strict=True))


@pytest.mark.parametrize("damage", ["sign", "node", "words", "type"])
def test_damaged_arrays_are_refused(damage):
    tree = build_tree("balanced", 9, vectors=vectors(9))
    arrays = {name: array.copy() for name, array in tree.arrays().items()}
    if damage == "sign":
        arrays["tree.signs"][0] *= -1
    elif damage == "node":
        arrays["tree.nodes"][1] = 8
    elif damage == "type":
        arrays["tree.nodes"] = arrays["tree.nodes"].astype(np.int64)
    with pytest.raises(ArtifactError):
        Tree.from_arrays(arrays, 8 if damage == "words" else 9)


def test_codes_with_a_node_left_out_are_no_tree():
    with pytest.raises(KernelError):
        Tree(Codes([0, 1, 2], [0, 1, 2], [1, 1], [1, -1]))
