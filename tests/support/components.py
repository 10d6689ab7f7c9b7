"""What every component of spaCy that holds a fitted model promises: where it comes from, and that nothing is lost."""

import json
import pickle

import pytest
import spacy
from spacy.cli.package import get_meta
from spacy.util import load_config_from_str, load_model_from_config

from tacenda.errors import ConfigurationError, NotFittedError, TacendaError

CONFIG = """
[paths]
model = null
text = null

[nlp]
lang = "en"
pipeline = ["{factory}"]

[components]

[components.{factory}]
factory = "{factory}"
{options}
[initialize]

[initialize.components]

[initialize.components.{factory}]
artifact = ${{paths.model}}
corpus = ${{paths.text}}
"""
TEXT = "The cat saw a zebra ."


class ComponentTests:
    """Subclasses say which component, give a model by the fixture ``fitted``, and what to compare of a document."""

    factory, options = "", {}  # a component with a model
    factories, assigns, distribution = (), "", ""  # components without one, what each assigns

    def values(self, doc):
        raise NotImplementedError

    @pytest.fixture
    def nlp(self, fitted):
        nlp = spacy.blank("en")
        nlp.add_pipe(self.factory, config=self.options).initialize(artifact=fitted)
        return nlp

    def assert_same(self, loaded, nlp):
        assert self.values(loaded(TEXT)) == self.values(nlp(TEXT))

    def test_pipeline_survives_the_disk(self, nlp, tmp_path):
        nlp.to_disk(tmp_path / "pipeline")
        self.assert_same(spacy.load(tmp_path / "pipeline"), nlp)
        assert not list((tmp_path / "pipeline").rglob("*.pkl"))

    def test_pipeline_survives_bytes(self, nlp):
        self.assert_same(spacy.blank("en").from_config(nlp.config).from_bytes(nlp.to_bytes()), nlp)

    def test_component_without_a_model_survives_and_still_has_none(self, tmp_path):
        for factory in self.factories:
            nlp = spacy.blank("en")
            nlp.add_pipe(factory)
            nlp.to_disk(tmp_path / factory)
            copy = spacy.blank("en").from_config(nlp.config).from_bytes(nlp.to_bytes())
            for loaded in (spacy.load(tmp_path / factory), copy):
                with pytest.raises(NotFittedError):
                    loaded(TEXT)

    def test_model_can_be_excluded(self, nlp, tmp_path):
        component, before = nlp.get_pipe(self.factory), self.values(nlp(TEXT))
        assert len(component.to_bytes(exclude=["model"])) < 100
        component.to_disk(tmp_path / "component", exclude=["model"])
        assert not (tmp_path / "component" / "model").exists()
        component.to_disk(tmp_path / "whole")
        component.from_disk(tmp_path / "whole", exclude=["model"])
        component.from_bytes(component.to_bytes(), exclude=["model"])
        assert self.values(nlp(TEXT)) == before
        without_model = component.to_bytes(exclude=["model"])
        with pytest.raises(NotFittedError):
            component.from_bytes(without_model).fitted  # noqa: B018

    def test_damaged_model_on_disk_is_refused_in_one_sentence(self, nlp, tmp_path):
        nlp.to_disk(tmp_path / "pipeline")
        for cfg in ("{}", '{"fitted": "no"}', "[]"):
            nlp.get_pipe(self.factory).to_disk(tmp_path / "component")
            (tmp_path / "component" / "cfg.json").write_text(cfg)
            with pytest.raises(TacendaError, match=r"cfg\.json"):
                nlp.get_pipe(self.factory).from_disk(tmp_path / "component")
        tensors = next((tmp_path / "pipeline").rglob("*.safetensors"))
        tensors.write_bytes(tensors.read_bytes()[:-8])
        with pytest.raises(TacendaError):
            spacy.load(tmp_path / "pipeline")

    def test_pickled_component_does_the_same(self, nlp):
        component = nlp.get_pipe(self.factory)
        copy = pickle.loads(pickle.dumps(component))  # noqa: S301 - what spaCy does to spawn a process
        assert copy.name == component.name
        assert self.values(copy(nlp.make_doc(TEXT))) == self.values(nlp(TEXT))

    def test_component_can_be_sourced_from_another_pipeline(self, nlp, tmp_path):
        other = spacy.blank("en")
        other.add_pipe(self.factory, name="other", source=nlp)
        self.assert_same(other, nlp)
        other.to_disk(tmp_path / "other")
        self.assert_same(spacy.load(tmp_path / "other"), nlp)

    def test_saved_model_is_loaded_from_its_folder(self, nlp, fitted, tmp_path):
        fitted.save(tmp_path / "model")
        loaded = spacy.blank("en")
        component = loaded.add_pipe(self.factory, config=self.options)
        component.initialize(artifact=str(tmp_path / "model"))
        self.assert_same(loaded, nlp)
        assert str(tmp_path) not in loaded.config.to_str()

    @pytest.mark.parametrize("source", [3, object()])
    def test_what_is_no_model_is_refused(self, nlp, tmp_path, source):
        component = nlp.get_pipe(self.factory)
        with pytest.raises(ConfigurationError, match="folder of a saved model"):
            component.initialize(artifact=source)
        with pytest.raises(TacendaError, match="nothing_here"):
            component.initialize(artifact=tmp_path / "nothing_here")

    @pytest.mark.parametrize("source", ["model", "text"])
    def test_configuration_initializes_the_component(self, fitted, tmp_path, source):
        fitted.save(tmp_path / "model")
        (tmp_path / "text").write_text("the cat saw .\na dog saw the cat .\n", encoding="utf8")
        options = "".join(f"{name} = {json.dumps(value)}\n" for name, value in self.options.items())
        config = CONFIG.format(factory=self.factory, options=options)
        overrides = {f"paths.{source}": str(tmp_path / source)}
        nlp = load_model_from_config(
            load_config_from_str(config, overrides=overrides), auto_fill=True
        )
        nlp.initialize()
        values = self.values(nlp(TEXT))
        assert str(tmp_path) not in str(nlp.config["components"])
        nlp.config["initialize"]["components"][self.factory] = {}
        nlp.initialize()  # keeps the model there is
        assert self.values(nlp(TEXT)) == values

    @pytest.mark.parametrize(
        ("name", "value"), [("artefact", "folder"), ("min_count", "many"), ("settings", 3)]
    )
    def test_wrong_line_in_the_initialize_block_is_refused_by_spacy(self, nlp, name, value):
        nlp.config["initialize"]["components"][self.factory] = {"corpus": "text", name: value}
        with pytest.raises(ValueError, match=name):
            nlp.initialize()

    def test_default_configuration_builds_components(self):
        for factory in self.factories:
            nlp = spacy.blank("en")
            component = nlp.add_pipe(factory)
            assert self.assigns in nlp.get_pipe_meta(factory).assigns
            assert (component.name, component.is_trainable) == (factory, False)
            rebuilt = load_model_from_config(nlp.config, auto_fill=False)
            assert rebuilt.pipe_names == [factory]
            assert nlp.analyze_pipes()["problems"][factory] == []

    def test_packaged_pipeline_requires_this_distribution_once(self, tmp_path):
        nlp = spacy.blank("en")
        for factory in self.factories:
            nlp.add_pipe(factory)
        nlp.to_disk(tmp_path / "pipeline")
        spacy.load(tmp_path / "pipeline").to_disk(tmp_path / "again")
        meta = {"name": "x", "version": "1", "spacy_version": ">=3.8", "vectors": {}}
        for folder in ("pipeline", "again"):
            requirements = get_meta(tmp_path / folder, meta)["requirements"]
            (found,) = [each for each in requirements if "tacenda" in each]
            assert found.startswith(f"{self.distribution}>=")
