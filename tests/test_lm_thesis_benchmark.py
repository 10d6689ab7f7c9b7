"""What the benchmark of the thesis's language models learns from, tests and reports."""

import json

import numpy as np
import pytest

from benchmarks import reporting
from benchmarks.language_models.thesis import fits, published, recipes, studies, texts
from benchmarks.language_models.thesis.fits import Study
from benchmarks.language_models.thesis.recipes import (
    PLANS,
    Flat,
    Hierarchical,
    Machine,
    NGrams,
    Plan,
    Shape,
)
from benchmarks.reporting import Options
from tacenda import Corpus
from tacenda_lm import FRBM, HLBL, KneserNey, Mixture, TemporalFRBM

PLAN = Plan(
    flat=(2,), exact=(), repeats={1: 2}, widths=(25,), copies=2, replicas=1, windows=(1, 2), across=(2,),
    windows_tree=recipes.ADAPTIVE, eighths_tree=recipes.RANDOM, longer=False,
    machines=(Machine(hidden=4, epochs=2), Machine(True, hidden=4, epochs=1, begin=2)),
)  # fmt: skip


def text(n_sentences, seed, vocabulary=None):
    """Words that say something about the next one."""
    rng = np.random.default_rng(seed)
    words = [f"w{i}" for i in range(40)]
    lines = []
    for _ in range(n_sentences):
        at, line = int(rng.integers(40)), []
        for _ in range(int(rng.integers(2, 9))):
            line.append(words[at])
            at = int(at * 0.7 + rng.integers(12)) % 40
        lines.append(line)
    return Corpus.from_sentences(lines, vocabulary=vocabulary)


@pytest.fixture(scope="module")
def small():
    train = text(400, 0)
    return texts.Texts("ptb", train, text(60, 1, train.vocabulary), text(60, 2, train.vocabulary))


@pytest.fixture
def study(small, tmp_path, monkeypatch):
    monkeypatch.setattr(reporting, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(recipes, "WIDTH", 6)
    monkeypatch.setenv("TACENDA_BENCH_CACHE", str(tmp_path))
    return Study(fits.Bench(small), PLAN, Options(no_save=False, rows_to=None, whole=True))


def test_bins_hold_about_as_many_tokens_each_rarest_words_first():
    counts = np.random.default_rng(0).zipf(1.6, 5000)
    counts = np.minimum(counts, 400)
    bins = texts.frequency_bins(counts)
    mass = np.bincount(bins, counts, 10) / counts.sum()
    assert np.abs(mass - 0.1).max() < 400 / counts.sum() * 1.01
    for number in range(9):
        assert counts[bins == number].max() <= counts[bins == number + 1].min()


def test_every_eighth_is_left_out_once_and_nothing_else(small):
    whole = [tuple(sentence) for sentence in small.train]
    left_out = []
    for part in range(texts.PARTS):
        rest = [tuple(sentence) for sentence in texts.without_part(small.train, part)]
        first = 400 * part // 8
        assert rest == whole[:first] + whole[first + 50 :]
        left_out += whole[first : first + 50]
    assert left_out == whole


def test_words_before_do_not_reach_over_sentence_ends(small):
    boundary = small.test.vocabulary.boundary_id
    expected = []
    for sentence in small.test:
        expected += [
            (boundary, sentence[0]),
            *zip(sentence, [*sentence[1:], boundary], strict=True),
        ]
    assert list(zip(small.before, small.tested, strict=True)) == expected


def test_a_fit_has_the_perplexity_of_its_model_and_is_made_once(study, small):
    fit = study.bench.fit(NGrams(3))
    model = KneserNey(order=3).fit(small.train)
    assert fit.perplexity == pytest.approx(model.perplexity(small.test).value, abs=0.006)
    study.bench._fitted = None  # would fail if it were asked again
    again = study.bench.fit(NGrams(3))
    assert (again.test == fit.test).all()


def test_a_mixture_is_that_of_the_library(study, small):
    first, second = study.bench.fit(NGrams(3)), study.bench.fit(NGrams(1))
    found = fits.mixed(first, second)
    models = [KneserNey(order=n).fit(small.train) for n in (3, 1)]
    half, fitted = Mixture(models), Mixture(models).fit_weights(small.valid)
    assert found.halves == pytest.approx(half.perplexity(small.test).value, abs=0.006)
    assert found.fitted == pytest.approx(fitted.perplexity(small.test).value, abs=0.006)
    assert found.share == pytest.approx(fitted.weights["model-0"], abs=0.006)


def test_an_hlbl_on_a_given_tree_is_the_one_that_fit_makes(study, small):
    recipe = Hierarchical(recipes.RANDOM, width=6)
    fit = study.bench.fit(recipe)
    whole = HLBL.from_settings(recipe.settings).fit(small.train, small.valid)
    assert fit.perplexity == pytest.approx(whole.perplexity(small.test).value, abs=0.006)
    assert fit.facts["evaluations"] == fits.evaluations(whole.fitted_on["training"])


def test_a_temporal_machine_begins_with_the_plain_one_and_is_measured_in_both_contexts(
    study, small
):
    studies.machines(study)
    report = json.loads((reporting.RESULTS / "lm-thesis-machines-ptb.json").read_text())
    *rows, grams = report["rows"]
    assert [(row["model"], row["scored"]) for row in rows] == [
        (model, context)
        for model in ("FRBM", "temporal FRBM")
        for context in ("sentence", "stream")
    ]
    plain, recipe = PLAN.machines
    begun = TemporalFRBM.starting_from(
        FRBM.from_settings(plain.settings).fit(small.train, small.valid), epochs=1
    ).fit(small.train, small.valid)
    for row in rows[2:]:
        expected = begun.perplexity(small.test, context=row["scored"]).value
        assert row["perplexity"] == pytest.approx(expected, abs=0.006)
    assert recipe.plain == plain
    assert grams["perplexity"] == study.bench.fit(NGrams(5)).perplexity


def test_replicas_of_a_subtree_have_the_same_codes(study):
    tree = study.bench.tree(Shape("random", seeds=(3, 3)))
    single = study.bench.tree(Shape("random", seeds=(3,)))
    assert tree.n_nodes == 2 * single.n_nodes + 1
    lengths = np.diff(tree.codes.code_steps).reshape(-1, 2)
    assert (lengths == np.diff(single.codes.code_steps)[:, None] + 1).all()


def test_random_trees_of_one_kind_share_no_subtree():
    seeds = [seed for tree in studies.shapes(4, 3) for seed in tree.seeds]
    assert len(set(seeds)) == 12


def test_bias_and_variance_sum_to_the_mean_surprise():
    scores = np.log(np.random.default_rng(0).dirichlet(np.ones(7), 8))
    bias, spread = studies.bias_variance(scores)
    assert bias + spread == pytest.approx(-scores.mean())
    assert bias == pytest.approx(-np.log(np.exp(scores).mean(axis=0)).mean())
    assert spread > 0
    assert studies.bias_variance(scores[:1].repeat(8, 0))[1] == pytest.approx(0, abs=1e-12)


def test_studies_give_tables_without_running_text(study, small):
    for name in ("random_trees", "widths", "diversity", "variance", "frequency"):
        getattr(studies, name)(study)
    folder = reporting.RESULTS
    found = {path.stem: json.loads(path.read_text()) for path in folder.glob("*.json")}
    assert {name.removeprefix("lm-thesis-").removesuffix("-ptb") for name in found} == {
        "random-trees", "widths", "diversity", "bias-variance", "next-word", "last-word",
    }  # fmt: skip
    for report in found.values():
        assert published.DATA in report["protocol"]["published"]
        for row in report["rows"]:
            strings = [value for value in row.values() if isinstance(value, str)]
            assert not any(
                len(set(value.split()) & set(small.train.vocabulary.words)) > 1 for value in strings
            )
    bins = found["lm-thesis-next-word-ptb"]["rows"]
    total = (
        sum(row["% of test"] * np.log(row["LBL"]) for row in bins if row["LBL"] == row["LBL"]) / 100
    )
    assert np.exp(total) == pytest.approx(study.bench.fit(Flat()).perplexity, rel=0.02)


def test_plans_ask_only_for_what_the_thesis_reports():
    for plan in PLANS.values():
        assert set(plan.repeats) <= set(published.RANDOM)
        assert set(plan.widths) <= set(published.WIDTHS)
        assert set(plan.windows) | set(plan.across) <= set(published.CONTEXTS)
        assert plan.replicas <= 4
