"""examples/pos_tagging: its scripts and its configurations, on a few invented sentences."""

import shutil
from pathlib import Path

import pytest
import spacy
from spacy.cli.evaluate import evaluate
from spacy.cli.train import train

from support.processes import run_here

EXAMPLE = Path(__file__).parents[1] / "examples" / "pos_tagging"
SHORT = {"training.max_steps": 2, "training.eval_frequency": 2, "training.patience": 0}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("example") / "pos_tagging"
    ignored = shutil.ignore_patterns("assets", "corpus", "metrics", "packages", "training")
    shutil.copytree(EXAMPLE, folder, ignore=ignored)
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        run_here("scripts/convert.py", "corpus", "--source", "synthetic", "--n-train", 20,
                 "--raw-tokens", 4000)  # fmt: skip
        run_here("scripts/fit_lds.py", "corpus/raw.txt", "assets/lds", "--n-states", 5,
                 "--max-vocabulary", 200)  # fmt: skip
    return folder


@pytest.mark.parametrize("name", ["lds_no_cnn", "cnn"])
def test_configuration_trains_a_tagger_that_loads(folder, name, monkeypatch):
    monkeypatch.chdir(folder)
    output = Path("training", name)
    train(Path("configs", f"{name}.cfg"), output, overrides=SHORT)
    nlp = spacy.load(output / "model-best")
    assert all(token.tag_ for token in nlp("kirk is here"))
    scores = evaluate(str(output / "model-best"), "corpus/test.spacy", gold_preproc=True)
    assert scores["token_acc"] == 1.0
    assert scores["tag_acc"] > 0.1


def test_configurations_differ_only_where_the_comments_say():
    plain, ours = (
        (EXAMPLE / "configs" / f"{name}.cfg").read_text(encoding="utf8").split("[corpora]")[1]
        for name in ("cnn", "lds_no_cnn")
    )
    added = [line for line in ours.splitlines() if line and line not in plain.splitlines()]
    assert added[0].startswith("# (*)")
    assert added[1] == 'annotating_components = ["lds_embeddings"]'
    assert all("initialize" in line or "(*)" in line or "paths.lds" in line for line in added[2:])
