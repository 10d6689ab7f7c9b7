"""Benchmarks of the word vectors: models are found again by what made them."""

import numpy as np
import pytest

from tacenda import Corpus

pytest.importorskip("torch")
models = pytest.importorskip("benchmarks.varembed.models")


@pytest.fixture
def text():
    return Corpus.from_sentences([["unfriendly", "friend", "kind", "unkind"]] * 40)


@pytest.fixture
def narrow(monkeypatch, tmp_path):
    monkeypatch.setattr(models, "WIDTH", 4)
    monkeypatch.setenv("TACENDA_BENCH_CACHE", str(tmp_path))


def test_a_model_is_trained_once_and_found_again(text, narrow, monkeypatch):
    row = models.ROWS["VarEmbed"]
    made = models.fitted(row, 0, text)
    monkeypatch.setattr(models, "_train_ours", None)
    again = models.fitted(row, 0, text)
    assert again.key == made.key
    assert made.seconds is not None
    assert again.seconds == made.seconds
    np.testing.assert_array_equal(again.make(["kind"]), made.make(["kind"]))
    other = Corpus.from_sentences([["other", "words"]] * 40)
    for name, seed, corpus in (
        ("VarEmbed", 1, text), ("VarEmbed, no base", 0, text), ("VarEmbed", 0, other)
    ):  # fmt: skip
        with pytest.raises(TypeError):  # it would be trained
            models.fitted(models.ROWS[name], seed, corpus)


def test_every_option_of_a_row_is_told_but_for_the_seed(text, narrow):
    settings = models.fitted(models.ROWS["VarEmbed, no refit"], 0, text).settings
    assert settings["epochs"] == 1
    assert settings["learning_rate"] > 0
    assert settings["advanced"]["refit_morphemes"] is False
    assert "seed" not in settings


def test_rows_with_and_without_the_last_regression_share_one_training(text, narrow, tmp_path):
    refitted = models.fitted(models.ROWS["VarEmbed"], 0, text)
    shared = models.fitted(models.ROWS["VarEmbed, no refit"], 0, text)
    assert len(list(tmp_path.rglob("VarEmbed-training-*"))) == 1
    assert shared.seconds is None  # its own seconds would leave the training out
    both = [each.model.vectors(["kind"], output="logits") for each in (refitted, shared)]
    np.testing.assert_array_equal(*both)  # the words' own vectors
    unseen = [each.model.vectors(["unkindfriend"], output="logits") for each in (refitted, shared)]
    assert np.abs(unseen[0] - unseen[1]).max() > 1e-6


def test_gensim_gets_as_many_epochs_as_take_our_time(monkeypatch):
    seconds = {"VarEmbed": 48.0, "Word2Vec": 10.0}
    trained = []

    def fitted(row, seed, text):
        trained.append(row.settings.get("epochs"))
        return models.Vectors(None, None, {}, seconds[row.kind], "key")

    monkeypatch.setattr(models, "fitted", fitted)
    assert models.trained("word2vec CBOW, CPU time of VarEmbed", 2, None) is not None
    assert trained[-1] == 24
    seconds["Word2Vec"] = 60.0  # takes longer than ours already
    assert models.trained("word2vec CBOW, CPU time of VarEmbed", 2, None) is None
