"""What becomes of a model, and of what is made of it, when it or a part of it is fitted again."""

import numpy as np
import pytest

from tacenda import Corpus
from tacenda.errors import ConfigurationError, FittingError
from tacenda_lm import FRBM, KneserNey, Mixture, RecurrentLM, TemporalFRBM

SENTENCES = [f"w{i % 5} w{i % 3} w{i % 7}" for i in range(40)]
SMALL = {"width": 3, "epochs": 1, "streams": 2}


def test_a_fit_that_fails_leaves_what_was_known_of_the_fit_before(tmp_path):
    corpus = Corpus.from_text("a\u00a0b c\nc a\u00a0b\n" * 5, tokenizer="ascii_whitespace")
    lm = RecurrentLM(**SMALL).fit(corpus, valid=corpus)
    told, figures, scores = lm.fitted_on, lm.figures, lm.surprisal("a\u00a0b c")
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(FittingError):
        lm.fit([["x"]], checkpoints=tmp_path / "file" / "below")
    assert lm.is_fitted
    assert (lm.fitted_on, lm.figures) == (told, figures)
    np.testing.assert_array_equal(lm.surprisal("a\u00a0b c"), scores)


def test_a_model_of_an_arpa_file_that_is_fitted_again_forgets_the_file(write_file):
    lm = KneserNey(order=2).fit(SENTENCES)
    lm.to_arpa(path := write_file("m.arpa", ""))
    path.write_text(path.read_text().replace("-99\t<s>", "0\t<s>"))
    again = KneserNey.from_arpa(path)
    assert again.score("<s>") > lm.score("<s>")
    assert again.fit(SENTENCES).score("<s>") == lm.score("<s>")


@pytest.mark.parametrize("resume", ["never", "no", None, 1])
def test_a_word_that_is_no_way_of_resuming_is_refused(resume, tmp_path):
    with pytest.raises(ConfigurationError, match='resume is "auto", True or False, not'):
        RecurrentLM(**SMALL).fit(SENTENCES, checkpoints=tmp_path, resume=resume)


@pytest.mark.parametrize("name", ["../above", "a/b", "", 1])
def test_names_that_no_folder_can_have_are_refused_before_the_fit(name):
    with pytest.raises(ConfigurationError, match="cannot name a nested model"):
        Mixture({name: KneserNey(order=2)}).fit(SENTENCES)
    with pytest.raises(ConfigurationError, match=f"weights are for x and the models are {name}"):
        Mixture({name: KneserNey(order=2)}, {"x": 1.0})
    assert Mixture({name: KneserNey(order=2).fit(SENTENCES)}).score("w1 w2") < 0


def test_a_temporal_machine_may_learn_in_another_way_than_the_plain_one():
    how = {"learning": "mean_field", "gibbs_steps": 2}
    plain = FRBM(features=3, hidden=4, epochs=1, **how).fit(SENTENCES)
    temporal = TemporalFRBM.starting_from(plain, epochs=1, learning="likelihood")
    assert temporal.settings.learning == "likelihood"
    assert temporal.fit(SENTENCES, valid=None).is_fitted is True
