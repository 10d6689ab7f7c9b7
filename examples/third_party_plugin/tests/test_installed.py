"""What a user sees once the plugin is installed: in the registry, on the command line, in spaCy."""

import re
from pathlib import Path

import pytest
import spacy
from typer.testing import CliRunner

import tacenda
from tacenda import plugins
from tacenda.cli.main import app

PLUGINS = {
    "embedders": "random_indexing",
    "language_models": "cached_bigram",
    "recommenders": "slope_one",
    "kernels": "classics",
    "commands": "classics",
}
TEXT = """the cat sat on the mat
the dog sat on the mat
shares fell on the market
bonds fell on the market
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")
    return tmp_path


def run(*arguments):
    """What ``tacenda ARGUMENTS`` prints; fails unless it ends well."""
    done = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.parametrize("kind", PLUGINS)
def test_the_registry_finds_every_plugin(kind):
    [record] = [r for r in plugins.available(kind) if r.distribution == "tacenda-classics"]
    assert record.name == PLUGINS[kind]
    assert plugins.get(kind, record.name) is not None


def test_the_command_line_lists_all_as_sound():
    lines = [line for line in run("plugins").splitlines() if "tacenda-classics" in line]
    assert len(lines) == 5
    assert all(line.endswith("loaded") for line in lines)


def test_the_embedder_is_fitted_searched_with_and_put_into_spacy(folder):
    run("embed", "fit", "--model", "random_indexing", "--text", "text.txt", "--output", "vectors")
    best = run("classics", "search", "vectors", "text.txt", "bonds fell", "-n", "2").splitlines()
    assert sorted(line.split("\t")[1] for line in best) == ["3", "4"]  # shares are like bonds
    nlp = spacy.blank("en")
    nlp.add_pipe("token_embeddings").initialize(artifact="vectors")
    nlp.to_disk("pipeline")
    assert spacy.load("pipeline")("the cat fell").tensor.shape == (3, 200)


def test_search_refuses_other_models(folder):
    run("lm", "fit", "--model", "cached_bigram", "--text", "text.txt", "--output", "bigrams")
    with pytest.raises(tacenda.errors.ConfigurationError, match="search needs an embedder"):
        run("classics", "search", "bigrams", "text.txt", "bonds")


def test_the_language_model_is_fitted_measured_and_put_into_spacy(folder):
    run("lm", "fit", "--model", "cached_bigram", "--set", "cache=0.2",
        "--text", "text.txt", "--output", "bigrams")  # fmt: skip
    assert "perplexity" in run("lm", "perplexity", "bigrams", "text.txt")
    nlp = spacy.blank("en")
    nlp.add_pipe("lm_scorer").initialize(artifact="bigrams")
    doc = nlp("the cat sat on the cat")
    assert doc[5]._.surprisal > 0


def test_the_recommender_is_evaluated_fitted_and_asked(folder):
    ratings = [f"u{u}\ti{i}\t{1 + (u + i) % 5}" for u in range(20) for i in range(9) if (u * i) % 4]
    (folder / "ratings.tsv").write_text("\n".join(ratings), encoding="utf-8")
    assert "slope_one" in run("ratings", "evaluate", "ratings.tsv", "--model", "slope_one")
    run("ratings", "fit", "ratings.tsv", "--model", "slope_one", "--output", "differences")
    assert "new user:" in run("ratings", "recommend", "differences", "--rate", "i1=5", "--n", "3")


def test_the_readme_tells_the_truth(folder):
    """Its Python runs, and so do its commands, in their order."""
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    names: dict[str, object] = {}
    for language, block in re.findall(r"```(python|console)\n(.*?)```", readme, re.DOTALL):
        if language == "python":
            exec(compile(block, "README.md", "exec"), names)
            continue
        for line in block.splitlines():
            if line.startswith("$ tacenda "):
                run(*line.removeprefix("$ tacenda ").replace('"', "").split())
    assert names["vectors"]
