"""Benchmarks of the embeddings: what they score, and what is in a row."""

import numpy as np
import pytest

from benchmarks.embeddings import labelled
from benchmarks.reporting import Options

unseen = pytest.importorskip("benchmarks.embeddings.unseen")
spacy_rows = pytest.importorskip("benchmarks.embeddings.spacy_rows")


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


def test_a_row_has_the_mean_of_its_seeds_for_every_size_and_score(tmp_path, monkeypatch):
    monkeypatch.setenv("TACENDA_BENCH_CACHE", str(tmp_path))
    options = Options(only=[], tasks=["task"], sizes=["250", "all"], seeds=[0, 1])
    asked = []

    def measure(task, row, size, seed):
        asked.append((row, size, seed))
        return {"dev": 50.0, "test": {"tags": 40.0 + 2 * seed, "F": 1.0}, "width": 7}

    [row, other] = spacy_rows.rows_of(options, "rows", {"a": "made so", "b": "made so"}, measure)
    assert asked[:4] == [("made so", size, seed) for size in (250, None) for seed in (0, 1)]
    assert (row["what"], row["task"], row["row"], row["width"]) == ("task, a", "task", "a", 7)
    assert row["test tags 250"] == {"mean": 41.0, "sd": pytest.approx(2**0.5), "n": 2}
    assert row["dev all"] == {"mean": 50.0, "sd": 0.0, "n": 2}
    again = list(spacy_rows.rows_of(options, "rows", {"a": "made so", "b": "otherwise"}, measure))
    assert again == [row, other]
    assert len(asked) == 12  # what is made otherwise is measured again
