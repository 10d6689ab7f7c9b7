"""Word classes: every move is the best one, by brute force; what comes of awkward texts."""

import numpy as np
import pytest

from tacenda_lm.hidden_markov.word_classes import word_classes


def stream(n=400, types=14, seed=0):
    """Words of a few kinds, each kind followed by another; word 0 ends sentences."""
    rng = np.random.default_rng(seed)
    ids = [0]
    for _ in range(n):
        kind = ids[-1] % 4
        ids.append(int(rng.choice([w for w in range(types - 2) if w % 4 == (kind + 1) % 4])))
        if rng.random() < 0.1:
            ids.append(0)
    return np.array([*ids, 0], np.int32)


def class_likelihood(stream, classes, method):
    """F of the docstring of `word_classes`, in nats, but for a constant of the text."""
    M, before = int(classes.max()) + 1, stream[:-1].astype(np.int64)
    after = classes[stream[1:]].astype(np.int64)
    left = before if method == "predictive" else classes[before]
    _, joint = np.unique(left.astype(np.int64) * M + after, return_counts=True)
    found = terms(joint) - terms(np.bincount(after))
    return found - (0.0 if method == "predictive" else terms(np.bincount(left)))


def terms(counts):
    some = counts[counts > 0].astype(np.float64)
    return float((some * np.log(some)).sum())


@pytest.mark.parametrize("method", ["exchange", "predictive"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_no_single_move_makes_the_text_more_probable(method, seed):
    text = stream(seed=seed)
    classes = word_classes(text[1:], 14, 5, boundary=0, method=method, passes=100)
    best = class_likelihood(text, classes, method)
    counts = np.bincount(text, minlength=14)
    for word in range(1, 14):
        if not counts[word] or (classes == classes[word]).sum() == 1:
            continue
        for target in range(1, 5):
            moved = classes.copy()
            moved[word] = target
            if np.bincount(moved, minlength=5).all():
                assert class_likelihood(text, moved, method) <= best + 1e-6


@pytest.mark.parametrize("method", ["exchange", "predictive"])
def test_passes_never_make_the_text_less_probable(method):
    text = stream(2000, 40)
    found = [
        class_likelihood(
            text, word_classes(text[1:], 40, 6, boundary=0, method=method, passes=n), method
        )
        for n in range(6)
    ]
    assert found == sorted(found)
    assert found[-1] > found[0] + 10


def test_kinds_of_words_are_found():
    """Four kinds, of which one holds the end of a sentence, which is kept apart."""
    text = stream(6000)
    classes = word_classes(text[1:], 14, 5, boundary=0)
    for kind in range(4):
        words = [w for w in range(1, 12) if w % 4 == kind]
        assert len(set(classes[words])) == 1


@pytest.mark.parametrize("method", ["exchange", "predictive", "brown"])
@pytest.mark.parametrize("n_classes", [2, 7, 14])
def test_no_class_is_empty_and_the_end_is_alone(method, n_classes):
    classes = word_classes(stream()[1:], 14, n_classes, boundary=0, method=method)
    assert np.bincount(classes, minlength=n_classes).all()
    assert (classes == classes[0]).sum() == 1
    assert classes.dtype == np.int32


def test_words_that_do_not_occur_have_a_class():
    text = np.zeros(5, np.int32)
    classes = word_classes(text[1:], 9, 3, boundary=0)
    assert set(classes) == {0, 1, 2}
