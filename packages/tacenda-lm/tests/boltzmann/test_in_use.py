"""The machines where the other language models are used: on the command line, in mixtures, in spaCy."""

import pytest

import tacenda
import tacenda_lm.spacy.factories  # noqa: F401 - an installation made before the entry point knows it not
from tacenda_lm import FRBM, TemporalFRBM

LINES = ["the cat saw a dog .", "a dog saw the cat .", "the bird ate a red mouse ."] * 9
SMALL = {"features": 4, "hidden": 5, "epochs": 1, "batch_words": 64}


@pytest.fixture(scope="module")
def model():
    return TemporalFRBM(**SMALL, frbm_epochs=1).fit([line.split() for line in LINES])


@pytest.mark.parametrize("kind", ["frbm", "temporal_frbm"])
def test_the_command_line_fits_keeps_checkpoints_and_scores(kind, printed, write_file, tmp_path):
    text = write_file("text.txt", "\n".join(LINES))
    settings = {**SMALL, "learning": "mean_field"}
    options = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    more = ("--checkpoints", tmp_path / "progress")
    printed("fit", "--model", kind, "--text", text, "--output", tmp_path / "m", *options, *more)
    assert list((tmp_path / "progress").rglob("checkpoint.json"))
    loaded = tacenda.load(tmp_path / "m")
    assert (loaded.name, loaded.settings.learning) == (kind, "mean_field")
    out = printed("perplexity", tmp_path / "m", text, "--context", "stream")
    assert f"{loaded.perplexity(text, context='stream').value:.4f}" in out


def test_its_card_says_how_it_was_trained(model):
    assert model.card["settings"]["learning"] == "likelihood"
    assert {"frbm", "training"} <= set(model.fitted_on)
    assert FRBM(**SMALL).fit(LINES).own_context == "stream"
