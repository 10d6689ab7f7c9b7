"""The benchmark of the thesis's language models: its mixtures, and the rows of its tables."""

import pytest

from benchmarks.language_models import contexts
from benchmarks.language_models.thesis import __main__ as thesis
from support.texts import random_text
from tacenda_lm import KneserNey, Mixture


@pytest.fixture
def texts(tmp_path, monkeypatch):
    class Made(contexts.Texts):
        def __init__(self):
            self.name, self.train = "ptb", random_text(150, 40, 0)
            known = self.train.vocabulary
            self.valid, self.test = (random_text(30, 40, seed, known) for seed in (1, 2))

    monkeypatch.setattr(thesis, "WIDTH", 6)
    monkeypatch.setattr(thesis, "EPOCHS", {"ptb": (1, 1)})
    monkeypatch.setenv("TACENDA_BENCH_CACHE", str(tmp_path))
    return Made()


def test_a_row_has_the_model_alone_and_in_the_mixture_of_the_library(texts):
    [row] = thesis.of(texts, "LBL", thesis.lbl(2), "trees", (117.0, 94.0))
    model = thesis.lbl(2).fit(texts.train, texts.valid)
    mixture = Mixture([model, KneserNey(order=6).fit(texts.train)]).fit_weights(texts.valid)
    assert row["perplexity"] == pytest.approx(model.perplexity(texts.test).value, rel=1e-6)
    assert row["fitted"] == pytest.approx(mixture.perplexity(texts.test).value, rel=1e-4)
    assert (row["perplexity APNews"], row["fitted APNews"]) == (117.0, 94.0)


@pytest.mark.parametrize("study", thesis.STUDIES)
def test_a_study_has_the_rows_of_its_table(study, texts, monkeypatch):
    few = {"hlbl": {"epochs": 1}, "lbl": {"epochs": 1}}
    for name, settings in few.items():
        make = getattr(thesis, name)

        def shorten(*given, make=make, few=settings, **more):
            return make(*given[:1], **more | few)

        monkeypatch.setattr(thesis, name, shorten)
    rows = list(thesis.rows(study, texts, []))
    found = {(row["model"], row["scored"], row.get("context")) for row in rows}
    assert len(found) == len(rows) == {"flat": 14, "machines": 11, "trees": 12}[study]
    assert sum(row.get("perplexity APNews") is not None for row in rows) >= 7


def test_a_study_measures_the_models_that_are_named(texts):
    [row] = thesis.rows("trees", texts, ["KN2"])
    assert (row["model"], row["perplexity APNews"]) == ("KN2", 174.2)
    found = [
        (row["model"], row["context"])
        for row in thesis.rows("flat", texts, ["KN3", "LBL by NCE, 2"])
    ]
    assert found == [("LBL by NCE", 2), ("KN3", 2)]
