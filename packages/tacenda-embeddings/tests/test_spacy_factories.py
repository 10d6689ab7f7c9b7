"""What is installed: entry points that load, stay light, and build components with default
settings.
"""

import ast
from importlib.metadata import entry_points

import pytest
import spacy

from support.processes import output_of

FACTORIES = ("lds_embeddings", "token_embeddings")
ARCHITECTURES = ("tacenda.DocTensor.v1", "tacenda.ConcatEmbed.v1")


def test_entry_points_resolve():
    found = {
        point.name: point
        for group in ("spacy_factories", "spacy_architectures")
        for point in entry_points(group=group)
        if point.value.startswith("tacenda_embeddings.")
    }
    assert set(found) >= {*FACTORIES, *ARCHITECTURES}
    for point in found.values():
        assert callable(point.load())
    for name in ARCHITECTURES:
        assert spacy.registry.architectures.get(name) is found[name].load()


def test_importing_the_entry_points_imports_no_model():
    """A factory that fails to import would break every pipeline of the environment."""
    code = (
        "import sys, spacy; before = set(sys.modules)\n"
        "import tacenda_embeddings.spacy.factories, tacenda_embeddings.spacy.concat_embed\n"
        "new = {name for name in set(sys.modules) - before if 'tacenda' in name or name in "
        "{'numba', 'scipy', 'safetensors', 'typer'}}\n"
        "print(sorted(new))"
    )
    imported = set(ast.literal_eval(output_of("-c", code)))
    allowed = {"factories", "concat_embed", "linear_algebra"}
    assert imported == {
        "tacenda_embeddings",
        "tacenda_embeddings.spacy",
        *(f"tacenda_embeddings.spacy.{name}" for name in allowed),
    }


@pytest.mark.parametrize("factory", FACTORIES)
def test_default_configuration_builds_a_component(factory):
    nlp = spacy.blank("en")
    component = nlp.add_pipe(factory)
    assert nlp.get_pipe_meta(factory).assigns == ["doc.tensor"]
    assert not component.is_trainable
    assert component.name == factory
    rebuilt = spacy.util.load_model_from_config(nlp.config, auto_fill=False)
    assert rebuilt.pipe_names == [factory]
    assert nlp.analyze_pipes()["problems"][factory] == []


def test_lds_factory_asks_for_our_lds_whoever_else_claims_the_name():
    component = spacy.blank("en").add_pipe("lds_embeddings")
    assert (component.embedder, component.distribution) == ("lds", "tacenda-embeddings")


def requirements(folder):
    """What ``spacy package`` would write into the package of a saved pipeline."""
    from spacy.cli.package import get_meta

    meta = {"name": "x", "version": "1", "spacy_version": ">=3.8", "vectors": {}}
    return get_meta(folder, meta)["requirements"]


def test_packaged_pipeline_requires_this_distribution_once(tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe("lds_embeddings")
    nlp.add_pipe("token_embeddings")
    nlp.to_disk(tmp_path / "pipeline")
    loaded = spacy.load(tmp_path / "pipeline")
    loaded.to_disk(tmp_path / "again")
    for folder in ("pipeline", "again"):
        (found,) = [each for each in requirements(tmp_path / folder) if "tacenda" in each]
        assert found.startswith("tacenda-embeddings>=")


def test_packaged_pipeline_requires_the_distribution_of_its_embedder(toy, tmp_path, monkeypatch):
    nlp = spacy.blank("en")
    component = nlp.add_pipe("token_embeddings")
    component.initialize(artifact=toy)
    assert len(nlp.meta["requirements"]) == 1  # the toy belongs to none
    monkeypatch.setattr(type(toy), "distribution", "numpy")
    component.initialize(artifact=toy)
    assert [each.split(">")[0] for each in nlp.meta["requirements"]] == [
        "tacenda-embeddings",
        "numpy",
    ]
