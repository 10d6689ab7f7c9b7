"""What is installed: entry points that load, stay light, and build components with default settings."""

from importlib.metadata import distribution

import spacy

from support.processes import imports_of

FACTORIES = ("lds_embeddings", "token_embeddings")
ARCHITECTURES = ("tacenda.DocTensor.v1", "tacenda.ConcatEmbed.v1")


def list_entry_points():
    points = distribution("tacenda-embeddings").entry_points
    return {point.name: point for point in points if point.group.startswith("spacy_")}


def test_entry_points_resolve():
    found = list_entry_points()
    assert set(found) >= {*FACTORIES, *ARCHITECTURES}
    for point in found.values():
        assert callable(point.load())
    for name in ARCHITECTURES:
        assert spacy.registry.architectures.get(name) is found[name].load()


def test_importing_the_entry_points_imports_no_model():
    """A factory that fails to import would break every pipeline of the environment."""
    modules = {point.module for point in list_entry_points().values()}
    assert imports_of(modules) == {
        "tacenda",
        "tacenda.errors",
        "tacenda.lazy",
        "tacenda_embeddings",
        "tacenda_embeddings.spacy",
        "tacenda_embeddings.spacy.targets",
        "tacenda_embeddings.spacy.training_input",
        *modules,
    }


def test_lds_factory_asks_for_our_lds_whoever_else_claims_the_name():
    component = spacy.blank("en").add_pipe("lds_embeddings")
    assert (component.embedder, component.distribution) == ("lds", "tacenda-embeddings")


def test_packaged_pipeline_requires_the_distribution_of_its_embedder(toy, tmp_path, monkeypatch):
    nlp = spacy.blank("en")
    component = nlp.add_pipe("token_embeddings")
    component.initialize(artifact=toy)
    assert len(nlp.meta["requirements"]) == 1  # the toy belongs to none
    monkeypatch.setattr(type(toy), "distribution", "numpy")
    component.initialize(artifact=toy)
    required = [each.split(">")[0] for each in nlp.meta["requirements"]]
    assert required == ["tacenda-embeddings", "numpy"]
    nlp.meta["requirements"] = ["Tacenda_Embeddings>=0.1", "NumPy"]
    component.initialize(artifact=toy)
    assert nlp.meta["requirements"] == ["Tacenda_Embeddings>=0.1", "NumPy"]
