"""What the benchmarks of language models share: contexts and models that are kept."""

import pytest

from benchmarks.language_models import contexts, recurrent
from benchmarks.reporting import Options
from support.texts import random_text
from tacenda_lm import HLBL, KneserNey, Mixture

SMALL = {"width": 8, "copies": 1, "epochs": 1, "context": 3}


@pytest.fixture(scope="module")
def texts():
    train = random_text(120, 20, 0)
    return {"train": train, "valid": random_text(30, 20, 1, train.vocabulary)}


def test_a_model_that_begins_anew_has_one_row_and_another_one_a_row_for_each_context(texts):
    valid = {"valid": texts["valid"]}
    [row] = contexts.perplexities(KneserNey(order=2).fit(texts["train"]), valid)
    assert row["context"] == "either"
    model = HLBL(**SMALL).fit(texts["train"])
    rows = list(contexts.perplexities(model, valid))
    assert [row["context"] for row in rows] == ["sentence", "stream"]
    for row in rows:
        assert row["valid"] == model.perplexity(texts["valid"], context=row["context"]).value
    assert rows[0]["valid"] != rows[1]["valid"]


def test_a_mixture_has_the_weights_of_the_context_of_the_row(texts):
    train, valid = texts["train"], texts["valid"]
    models = {"hlbl": HLBL(**SMALL).fit(train), "ngrams": KneserNey(order=2).fit(train)}
    for row in contexts.perplexities(Mixture(models), {"valid": valid}, weights_on=valid):
        alone = Mixture(models).fit_weights(valid, context=row["context"])
        assert row["weights"] == pytest.approx(alone.weights, abs=1e-3)


def test_a_model_that_wrongly_says_it_begins_anew_is_noticed(texts, monkeypatch):
    model = HLBL(**SMALL).fit(texts["train"])
    monkeypatch.setattr(HLBL, "own_context", "sentence")
    with pytest.raises(SystemExit, match="says that it sees no word before"):
        list(contexts.perplexities(model, {"valid": texts["valid"]}))


@pytest.fixture
def kept_here(tmp_path, monkeypatch):
    monkeypatch.setenv("TACENDA_BENCH_CACHE", str(tmp_path))


def test_a_kept_model_is_fitted_once_and_anew_for_other_settings(texts, kept_here, monkeypatch):
    fitted, fit = [], KneserNey.fit
    monkeypatch.setattr(KneserNey, "fit", lambda *given: fitted.append(1) or fit(*given))
    first, row = contexts.fitted(KneserNey(order=2), "made-up", texts["train"])
    again, same = contexts.fitted(KneserNey(order=2), "made-up", lambda: pytest.fail("read"))
    assert len(fitted) == 1
    assert row == same
    assert row["fit s"] > 0 < row["CPU s"]
    assert row["on disk GB"] > 0
    assert again.perplexity(texts["valid"]) == first.perplexity(texts["valid"])
    contexts.fitted(KneserNey(order=3), "made-up", texts["train"])
    contexts.fitted(KneserNey(order=2), "other", texts["train"])
    assert len(fitted) == 3


def test_a_fit_that_went_on_from_a_checkpoint_states_no_seconds(texts, kept_here, monkeypatch):
    fit = HLBL.fit

    def break_off(model, train, valid, checkpoints):
        checkpoints.mkdir(parents=True)
        raise KeyboardInterrupt

    monkeypatch.setattr(HLBL, "fit", break_off)
    with pytest.raises(KeyboardInterrupt):
        contexts.fitted(HLBL(**SMALL), "made-up", texts["train"], texts["valid"])
    monkeypatch.setattr(HLBL, "fit", fit)
    _, row = contexts.fitted(HLBL(**SMALL), "made-up", texts["train"], texts["valid"])
    assert (row["fit s"], row["CPU s"]) == (None, None)


def test_a_network_has_its_course_and_its_perplexities_from_every_start(
    texts, kept_here, monkeypatch
):
    class Texts(contexts.Texts):
        name, train, valid, test = "made-up", texts["train"], texts["valid"], texts["valid"]

        def __init__(self):
            pass

    small = {"width": 4, "streams": 2, "window_words": 8}
    for name, value in (("Texts", Texts), ("RUNS", {"paper": small}), ("WIDTH", 4), ("MOST", 2)):
        monkeypatch.setattr(recurrent, name, value)
    rows = list(recurrent.rows(Options(only=[], runs=["paper"], starts=recurrent.STARTS)))
    assert len({row["what"] for row in rows}) == len(rows) == 15
    curves = {row["what"]: row for row in rows if row["part"] == "curve"}
    assert [row["epoch"] for row in curves.values()] == [0, 1, 2] * 3
    whole = recurrent.RecurrentLM(**small, epochs=2).fit(Texts.train, Texts.valid)
    values = [value for *_, value in whole.fitted_on["training"]["evaluations"]]
    assert [curves[f"paper, random, epoch {epoch}"]["valid"] for epoch in (1, 2)] == values
    assert list(recurrent.rows(Options(only=[], runs=["paper"], starts=["EM"]))) == rows[10:]
