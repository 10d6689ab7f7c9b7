"""What the benchmark on unseen data counts: whole spans, and runs of words that two texts share."""

import numpy as np
import pytest

from benchmarks.embeddings import labelled

unseen = pytest.importorskip("benchmarks.embeddings.unseen")


def test_a_span_counts_only_if_both_ends_and_the_type_are_right():
    gold = [["B-NP", "I-NP", "O", "B-VP"]]
    assert labelled.span_f1(gold, gold) == 100
    assert labelled.span_f1([["B-NP", "O", "O", "B-VP"]], gold) == 50
    assert labelled.span_f1([["B-VP", "I-VP", "O", "B-VP"]], gold) == 50
    assert labelled.span_f1([["O", "O", "O", "O"]], gold) == 0


def test_an_inside_tag_that_follows_nothing_opens_a_span():
    assert labelled.spans(["I-NP", "I-NP", "I-VP", "O"]) == {(0, 2, "NP"), (2, 3, "VP")}


def test_runs_of_words_have_equal_codes_exactly_where_the_words_are_equal():
    ids = np.random.default_rng(0).integers(0, 3, 5000)
    codes = unseen._n_gram_codes(ids)
    runs = np.lib.stride_tricks.sliding_window_view(ids, unseen.N_GRAM)
    assert len(np.unique(codes)) == len(np.unique(runs, axis=0))
    assert np.array_equal(codes[100:108], unseen._n_gram_codes(ids[100:115]))
    assert len(unseen._n_gram_codes(ids[:5])) == 0
