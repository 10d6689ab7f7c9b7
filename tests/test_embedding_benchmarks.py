"""Benchmarks of the embeddings: what they score, and which models and cells count for a table."""

import json

import numpy as np
import pytest

from benchmarks import freshness
from benchmarks.embeddings import common, labelled, models

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


@pytest.fixture
def cells(tmp_path):
    cells = common.Cells(tmp_path, "rows")
    for size in labelled.SIZES:
        for seed in (0, 1):
            key = spacy_rows.key_of("task", "row", size, seed, "model")
            cell = {
                "dev": 50.0,
                "test": 40.0 + 2 * seed,
                "step": 200,
                "steps": 1800,
                "seconds": 9.0,
            }
            cells.measure(key, lambda: cell)  # noqa: B023
    return cells


def test_a_figure_is_the_mean_of_the_seeds_that_were_measured(cells):
    found = spacy_rows.row_of(cells, ("task", "row", "model"))
    assert found["test 250"] == {"mean": 41.0, "sd": pytest.approx(2**0.5), "n": 2}
    assert {f"{p} {s}" for p in ("dev", "test") for s in (250, 1000, "all")} <= set(found)


def test_a_row_is_complete_when_every_size_and_seed_was_measured(cells, monkeypatch):
    found = spacy_rows.row_of(cells, ("task", "row", "model"))
    assert not spacy_rows.complete(found)
    monkeypatch.setattr(common, "SEEDS", (0, 1))
    assert spacy_rows.complete(found)
    assert spacy_rows.row_of(cells, ("task", "row", "another model")) == {}
    assert not spacy_rows.complete({})


def test_cells_of_the_results_are_not_measured_again(cells, tmp_path, monkeypatch):
    found = spacy_rows.row_of(cells, ("task", "row", "model"))
    old = {**found, "what": "task, old", "row": "old", "training": "another"}
    monkeypatch.setattr(spacy_rows.reporting, "RESULTS", tmp_path)
    (tmp_path / "rows.json").write_text(json.dumps({"rows": [found, old]}))

    study = spacy_rows.Study("rows", {}, {}, {}, "rows")
    kept = study.cells(tmp_path / "elsewhere")

    assert spacy_rows.row_of(kept, ("task", "row", "model")) == found
    assert spacy_rows.row_of(kept, ("task", "old", "model")) == {}


def test_a_model_of_other_code_is_not_taken_for_one_of_this_code(tmp_path, monkeypatch):
    before = models.folder(tmp_path, "em")
    monkeypatch.setattr(freshness, "code", lambda measured: "other code")
    assert models.folder(tmp_path, "em") != before
