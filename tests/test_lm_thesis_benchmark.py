"""The benchmark of the thesis's language models: its mixtures, and the rows of its tables."""

import numpy as np
import pytest

from benchmarks.language_models import contexts
from benchmarks.language_models.thesis import __main__ as thesis
from tacenda import Corpus
from tacenda_lm import KneserNey, Mixture


def text(n_sentences, seed, vocabulary=None):
    rng = np.random.default_rng(seed)
    lines = [
        [f"w{i}" for i in rng.integers(40, size=rng.integers(2, 9))] for _ in range(n_sentences)
    ]
    return Corpus.from_sentences(lines, vocabulary=vocabulary)


@pytest.fixture
def texts(tmp_path, monkeypatch):
    class Made(contexts.Texts):
        def __init__(self):
            self.name, self.train = "ptb", text(150, 0)
            self.valid, self.test = (text(30, seed, self.train.vocabulary) for seed in (1, 2))

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
        monkeypatch.setattr(
            thesis,
            name,
            lambda *given, make=make, few=settings, **more: make(*given[:1], **more | few),
        )
    rows = list(thesis.STUDIES[study](texts))
    found = {(row["model"], row["scored"], row.get("context")) for row in rows}
    assert len(found) == len(rows) == {"flat": 14, "machines": 11, "trees": 12}[study]
    assert sum(row.get("perplexity APNews") is not None for row in rows) >= 7
