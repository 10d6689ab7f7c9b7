"""What is installed: entry points that load, stay light, and build a component with default settings."""

import ast
from importlib.metadata import entry_points

import pytest
import spacy

from support.processes import output_of
from tacenda_lm import KneserNey, Mixture


def test_entry_points_resolve():
    found = {
        point.name: point
        for group in ("spacy_factories", "spacy_scorers")
        for point in entry_points(group=group)
        if point.value.startswith("tacenda_lm.")
    }
    if not found:
        pytest.skip("tacenda-lm was installed before it had these entry points: install it again")
    assert set(found) == {"lm_scorer", "tacenda.lm_scorer.v1"}
    for point in found.values():
        assert callable(point.load())


def test_importing_the_entry_points_imports_no_model():
    """A factory that fails to import would break every pipeline of the environment."""
    code = (
        "import sys, spacy; before = set(sys.modules)\n"
        "import tacenda_lm.spacy.factories, tacenda_lm.spacy.scorers\n"
        "new = {name for name in set(sys.modules) - before if 'tacenda' in name or name in "
        "{'numba', 'scipy', 'safetensors', 'typer'}}\n"
        "print(sorted(new))"
    )
    assert set(ast.literal_eval(output_of("-c", code))) == {
        "tacenda_lm",
        "tacenda_lm.spacy",
        "tacenda_lm.spacy.factories",
        "tacenda_lm.spacy.scorers",
    }


def test_default_configuration_builds_a_component():
    nlp = spacy.blank("en")
    component = nlp.add_pipe("lm_scorer")
    assert "doc._.perplexity" in nlp.get_pipe_meta("lm_scorer").assigns
    assert not component.is_trainable
    rebuilt = spacy.util.load_model_from_config(nlp.config, auto_fill=False)
    assert rebuilt.pipe_names == ["lm_scorer"]
    assert rebuilt.get_pipe("lm_scorer").scorer is component.scorer is not None
    assert nlp.analyze_pipes()["problems"]["lm_scorer"] == []


def test_no_figure_is_maximised_unless_asked_for():
    nlp = spacy.blank("en")
    nlp.add_pipe("lm_scorer")
    weights = nlp.get_pipe_meta("lm_scorer").default_score_weights
    assert set(weights) >= {"lm_perplexity", "lm_logprob_per_token", "lm_bpc"}
    assert set(weights.values()) == {None}


def requirements(folder):
    """What ``spacy package`` would write into the package of a saved pipeline."""
    from spacy.cli.package import get_meta

    meta = {"name": "x", "version": "1", "spacy_version": ">=3.8", "vectors": {}}
    return get_meta(folder, meta)["requirements"]


def test_packaged_pipeline_requires_this_distribution_once(pipeline, tmp_path):
    pipeline().to_disk(tmp_path / "pipeline")
    spacy.load(tmp_path / "pipeline").to_disk(tmp_path / "again")
    for folder in ("pipeline", "again"):
        (found,) = [each for each in requirements(tmp_path / folder) if "tacenda" in each]
        assert found.startswith("tacenda-lm>=")


def test_packaged_pipeline_requires_the_distributions_of_a_mixture(pipeline, monkeypatch):
    class Foreign(KneserNey):
        distribution = "numpy"

    sentences = [["the", "cat"]]
    mixture = Mixture([KneserNey(order=1).fit(sentences), Foreign(order=2).fit(sentences)])
    nlp = pipeline(artifact=mixture)
    assert [each.split(">")[0] for each in nlp.meta["requirements"]] == ["tacenda-lm", "numpy"]
