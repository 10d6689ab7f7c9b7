"""What is installed: entry points that load, stay light, and build a component with default settings."""

from importlib.metadata import entry_points

import spacy

from support.processes import imports_of
from tacenda_lm import KneserNey, Mixture


def test_entry_points_resolve():
    found = {
        point.name: point
        for group in ("spacy_factories", "spacy_scorers")
        for point in entry_points(group=group)
        if point.value.startswith("tacenda_lm.")
    }
    assert set(found) == {"lm_scorer", "tacenda.lm_scorer.v1"}
    for point in found.values():
        assert callable(point.load())


def test_importing_the_entry_points_imports_no_model():
    """A factory that fails to import would break every pipeline of the environment."""
    modules = {"tacenda_lm.spacy.factories", "tacenda_lm.spacy.scorers"}
    assert imports_of(modules) == {
        "tacenda",
        "tacenda.lazy",
        "tacenda_lm",
        "tacenda_lm.spacy",
        *modules,
    }


def test_no_figure_is_maximised_unless_asked_for():
    nlp = spacy.blank("en")
    assert nlp.add_pipe("lm_scorer").scorer is not None
    weights = nlp.get_pipe_meta("lm_scorer").default_score_weights
    assert set(weights) >= {"lm_perplexity", "lm_logprob_per_token", "lm_bpc"}
    assert set(weights.values()) == {None}


def test_packaged_pipeline_requires_the_distributions_of_a_mixture(pipeline, monkeypatch):
    class Foreign(KneserNey):
        distribution = "numpy"

    sentences = [["the", "cat"]]
    mixture = Mixture([KneserNey(order=1).fit(sentences), Foreign(order=2).fit(sentences)])
    nlp = pipeline(artifact=mixture)
    assert [each.split(">")[0] for each in nlp.meta["requirements"]] == ["tacenda-lm", "numpy"]
