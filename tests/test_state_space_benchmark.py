"""The benchmark of letters: its excerpts, its measure of perplexity, and that it goes on where it stopped."""

import itertools

import numpy as np
import pytest

from benchmarks.language_models.state_space import fits, studies
from tacenda_lm import KneserNey, StateSpaceLM

SMALL = {"sparse": 60, "dense": 400, "development": 120, "test": 130}


@pytest.fixture(autouse=True)
def _a_small_book(monkeypatch, tmp_path):
    rng = np.random.default_rng(0)
    book = "".join(rng.choice(list("aaaiiitns_"), 6_000))
    monkeypatch.setattr(fits, "letters", lambda: book)
    for name, size in SMALL.items():
        monkeypatch.setattr(fits, name.upper(), size)
    monkeypatch.setenv("TACENDA_BENCH_CACHE", str(tmp_path))


def test_an_excerpt_is_one_piece_of_the_book_and_its_sparse_text_the_end_of_the_dense_one():
    found = fits.Excerpt.at(700)
    assert {name: len(getattr(found, name)) for name in SMALL} == SMALL
    whole = "".join([*found.dense, *found.development, *found.test])
    assert whole == fits.letters()[700 : 700 + len(whole)]
    assert found.dense[-SMALL["sparse"] :] == found.sparse
    with pytest.raises(SystemExit, match="no excerpt begins"):
        fits.Excerpt.at(5_500)


def test_excerpts_of_the_tables_and_of_the_choices_share_no_letter(monkeypatch):
    monkeypatch.undo()
    length = fits.DENSE + fits.DEVELOPMENT + fits.TEST
    begins = sorted([*fits.OFFSETS, *fits.TUNING])
    assert len(fits.OFFSETS) >= 5
    assert all(b - a >= length for a, b in itertools.pairwise(begins))


def test_the_perplexity_is_the_papers_and_leaves_unknown_letters_out():
    excerpt = fits.Excerpt.at(0)
    excerpt.development[5] = excerpt.development[50] = "ø"
    model = KneserNey(order=3).fit(excerpt.corpus("dense"))
    scores = fits._known(model, excerpt.development)
    assert len(scores) == len(excerpt.development) - 2
    expected = model.perplexity([excerpt.development]).without_oov_and_eos
    assert fits.perplexity(scores) == pytest.approx(expected, rel=1e-9)


def test_what_was_found_is_not_fitted_again(monkeypatch):
    plan = fits.Plan(
        "state-space", "sparse", {"order": 2, "internal": 3, "features": 2, "epochs": 1}
    )
    first = fits.found(plan, 100)
    monkeypatch.setattr(fits, "_fitted", lambda *_: pytest.fail("fitted again"))
    again = fits.found(plan, 100)
    assert again.perplexities == first.perplexities
    assert again[2:] == first[2:]


def test_a_mixture_has_weights_of_the_development_text():
    found = [fits.found(plan, 0) for plan in fits.ngrams("dense")[:3]]
    mixture, weights = fits.mixed(found)
    assert sum(weights) == pytest.approx(1)
    best = min(each.perplexities["development"] for each in found)
    assert mixture.perplexities["development"] <= best * (1 + 1e-9)
    by_hand = sum(w * np.exp(each.test) for w, each in zip(weights, found, strict=True))
    np.testing.assert_allclose(np.exp(mixture.test), by_hand, rtol=1e-6)


def test_every_plan_is_a_model():
    for size in fits.SIZES:
        for plan in fits.ngrams(size):
            KneserNey(**plan.settings)
        for order in fits.ORDERS:
            for pair in [(40, 25), *fits.dimensions(size, order)]:
                if order > 1 or pair[0]:
                    for make in (fits.gradient, fits.rules):
                        plan = make(size, order, pair)
                        assert StateSpaceLM(**plan.settings).settings.order == plan.order
        StateSpaceLM(**fits.runs(size).settings)


def test_the_tables_are_those_of_the_paper(monkeypatch):
    few = {"epochs": 1, "advanced": {"streams": 4}}
    for settings in (fits._GRADIENT, fits._RULES, fits._RUNS):
        for size in fits.SIZES:
            advanced = {**settings[size].get("advanced", {}), **few["advanced"]}
            monkeypatch.setitem(settings, size, {**settings[size], **few, "advanced": advanced})
    monkeypatch.setattr(studies, "SEEDS", (0, 1))
    rows = [
        row
        for study in ("dense", "test-dense", "rules-dense")
        for row in studies.STUDIES[study](studies.Measured((0, 900)))
    ]
    tables = {row["part"] for row in rows}
    assert tables == {"development, dense", "test, dense", "rules, dense"}
    assert [row["order"] for row in rows if row["part"] == "development, dense"] == [2, 3, 5]
    best = next(row for row in rows if row["part"] == "test, dense")
    assert best["ratio"]["mean"] == pytest.approx(1)
