"""Models that save themselves, models made of models, and the way back through the registry."""

import inspect
from dataclasses import dataclass, replace

import numba
import numpy as np
import pytest

import tacenda
from support.plugins import registered
from support.scale import Pair
from tacenda import artifact
from tacenda.arrays import Array, Arrays, Float32, Float64, Int64, below, up_to
from tacenda.artifact import Artifact
from tacenda.errors import (
    ArtifactError,
    ConfigurationError,
    KernelError,
    NotFittedError,
    PluginError,
    PluginLoadError,
    TacendaError,
)
from tacenda.estimator import Estimator
from tacenda.settings import Settings, configured_by, option
from tacenda.vocabulary import Vocabulary


@dataclass(frozen=True, kw_only=True)
class ScaleSettings(Settings):
    power: float = option(1.0, "exponent of the factors")
    seed: int = option(0, "of the random numbers", at_least=0)


class Factors(Arrays):
    factors: Float64[Array, "n"]


class Scale(Estimator):
    """Factors."""

    kind, name = "embedders", "test_scale"
    settings_class, learned_class = ScaleSettings, Factors

    @configured_by(ScaleSettings)
    def __init__(self, settings):
        super().__init__(settings)


class Sum(Pair):
    kind, name = "language_models", "test_sum"

    def __init__(self, **parts):
        super().__init__(parts)

    @classmethod
    def from_arrays(cls, config, arrays, nested=None):
        return cls(**(nested or {}))


@pytest.fixture(autouse=True)
def _registered():
    with registered("embedders", Scale.name, Scale), registered("language_models", Sum.name, Sum):
        yield


def a_scale(*factors):
    model = Scale(power=0.5)
    model.learned = Factors(np.array(factors))
    return model


def test_the_signature_is_that_of_the_settings_and_keyword_only():
    parameters = list(inspect.signature(Scale).parameters.values())
    assert [(p.name, p.default) for p in parameters] == [("power", 1.0), ("seed", 0)]
    assert {p.kind for p in parameters} == {inspect.Parameter.KEYWORD_ONLY}
    assert "Exponent of the factors." in (Scale.__doc__ or "")


def test_settings_come_as_arguments_as_an_object_or_as_json():
    wanted = ScaleSettings(power=2.0, seed=3)
    assert Scale(power=2.0, seed=3).settings == wanted
    assert Scale.from_settings(wanted).settings == wanted
    assert Scale.from_settings({"power": 2.0, "seed": 3}).settings == wanted


def test_an_option_there_is_not_or_without_its_name_is_refused():
    said = r"Scale has no option 'powr' \(did you mean 'power'"
    with pytest.raises(ConfigurationError, match=said):
        Scale(powr=3)
    with pytest.raises(ConfigurationError, match=r"Scale takes options by name, such as power="):
        Scale(3)


def test_models_share_no_notes():
    first, second = Scale(), Scale()
    first.figures.append({"value": 1.0})
    first.fitted_on["n_tokens"] = 3
    assert second.figures == []
    assert second.fitted_on == {}


def test_repr_says_the_settings_and_whether_it_is_fitted():
    model = Scale(power=2.0)
    assert repr(model) == "<Scale(power=2.0, seed=0), not fitted>"
    model.fitted_on = {"n_tokens": 3}
    assert repr(model) == "<Scale(power=2.0, seed=0), fitted>"


def test_what_fitting_finds_is_asked_for_by_name_of_the_class():
    model = Scale()
    with pytest.raises(NotFittedError, match=r"this Scale is not fitted: call fit\(corpus\)"):
        model._learned(model.learned)
    assert model._learned(0.0) == 0.0  # not missing, though false


def test_a_constructor_need_not_call_that_of_the_base():
    class Own(Scale):
        def __init__(self):
            pass

    assert not Own().is_fitted
    assert repr(Own()).endswith("not fitted>")


def test_a_model_comes_back_with_its_settings_arrays_figures_and_provenance(tmp_path):
    model = a_scale(1.0, 2.0)
    model.figures = [{"measure": "accuracy", "value": 0.9, "protocol": "dev"}]
    model.fitted_on = {"tokens": 10}
    model.save(tmp_path / "m")
    for loaded in (tacenda.load(tmp_path / "m"), Scale.load(tmp_path / "m")):
        assert type(loaded) is Scale
        assert loaded.settings.power == 0.5
        np.testing.assert_array_equal(loaded.learned.factors, model.learned.factors)
        assert (loaded.figures, loaded.fitted_on) == (model.figures, model.fitted_on)


def test_a_model_made_of_models_gets_them_back(tmp_path):
    Sum(first=a_scale(1.0), second=Sum(deep=a_scale(2.0))).save(tmp_path / "m")
    loaded = tacenda.load(tmp_path / "m")
    assert loaded.parts["first"].learned.factors.tolist() == [1.0]
    assert loaded.parts["second"].parts["deep"].learned.factors.tolist() == [2.0]


def test_what_numbers_the_rows_is_saved_with_the_arrays():
    class Neighbors(Arrays):
        nearest: Int64[Array, "types", below("types")]

    class Nearest(Scale):
        name, learned_class, indexes = "test_nearest", Neighbors, {"vocabulary": Vocabulary}

        def _sizes(self):
            return {"types": len(self._vocabulary)}

    model = Nearest(power=2.0)
    with pytest.raises(NotFittedError):
        model.config_dict()
    model._vocabulary = Vocabulary.from_words(["a", "b"])
    model.learned = Neighbors(np.array([1, 0, 3, 2]))
    loaded = Nearest.from_artifact(model.to_artifact())
    assert loaded._vocabulary == model._vocabulary
    assert loaded.learned.nearest.tolist() == [1, 0, 3, 2]
    model.learned = Neighbors(np.array([1, 0]))
    with pytest.raises(
        ArtifactError, match=r"'nearest' has shape \(2,\) and must have \(types=4\)"
    ):
        Nearest.from_artifact(model.to_artifact())


def test_what_a_class_forgot_to_declare_is_named(tmp_path):
    class Bare(Scale):
        name, learned_class = "test_bare", None

    class Numbered(Scale):
        name, indexes = "test_numbered", {"vocabulary": Vocabulary}

    class Unnumbered(Scale):
        name = "test_unnumbered"

        def _read_arrays(self, config, arrays):
            self._learned(getattr(self, "_vocabulary", None))

    for cls, said in (
        (Bare, "Bare has no learned_class: set it to the class"),
        (Numbered, "its _vocabulary, which `indexes` names, is None: set it in fit"),
        (Unnumbered, "Unnumbered needs more than it saves, .* name it in `indexes`"),
    ):
        model = cls()
        model.learned = Factors(np.array([1.0]))
        with pytest.raises(TacendaError, match=said):
            model.save(tmp_path / "m")
    assert not (tmp_path / "m").exists()


def test_the_version_that_saved_a_model_is_recorded(monkeypatch):
    assert a_scale(1.0).to_artifact().version == ""  # <runtime> has none
    monkeypatch.setattr(Scale, "distribution", "tacenda")
    assert a_scale(1.0).to_artifact().version == tacenda.__version__


def test_an_unfitted_model_saves_nothing(tmp_path):
    with pytest.raises(NotFittedError):
        Scale().save(tmp_path / "m")
    assert not (tmp_path / "m").exists()


def test_a_model_of_another_class_is_refused(tmp_path):
    a_scale(1.0).save(tmp_path / "m")
    with pytest.raises(ArtifactError, match=r"m: it holds a model 'test_scale' \(embedders\), not"):
        Sum.load(tmp_path / "m")


IMPLAUSIBLE = r"'factors' holds NaN, infinite or implausibly large \(above 1e\+15\) values"


@pytest.mark.parametrize(
    ("factors", "message"),
    [
        (np.array([1.0, np.nan]), IMPLAUSIBLE),
        (np.array([1.0, -1e300]), IMPLAUSIBLE),
        (np.ones(2, np.float32), "'factors' is float32 and must be float64"),
        (np.ones((2, 2)), r"'factors' has shape \(2, 2\) and must have \(n\)"),
    ],
)
def test_arrays_that_do_not_fit_the_model_are_refused_naming_the_path(tmp_path, factors, message):
    model = a_scale()
    model.learned = Factors(factors)
    artifact.write(tmp_path / "m", model.to_artifact())
    with pytest.raises(ArtifactError, match=message) as caught:
        tacenda.load(tmp_path / "m")
    assert str(tmp_path / "m") in str(caught.value)


def test_what_could_not_be_loaded_again_is_not_saved_and_replaces_nothing(tmp_path):
    a_scale(1.0, 2.0).save(tmp_path / "m")
    for parts in ({}, {"only": a_scale(np.inf)}):
        broken = Sum(**parts) if parts else a_scale(1e16)
        with pytest.raises(ArtifactError, match=r"m: it could not be loaded again: .* 'factors'"):
            broken.save(tmp_path / "m")
    assert tacenda.load(tmp_path / "m").learned.factors.tolist() == [1.0, 2.0]


class Squares(Arrays):
    squares: Float64[Array, "n", up_to(1e30)]


def test_numbers_that_are_declared_large_are_taken_up_to_their_own_bound():
    assert Squares.from_arrays({"squares": np.array([1e29])}).squares[0] == 1e29
    with pytest.raises(ArtifactError, match=r"implausibly large \(above 1e\+30\)"):
        Squares.from_arrays({"squares": np.array([1e31])})


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "KeyError: 'settings'"),
        ({"settings": []}, "TypeError"),
        ({"settings": {"power": "high"}}, "Scale: power must be a number, not 'high'"),
        ({"settings": {"powr": 1.0}}, "Scale has no option 'powr'"),
    ],
)
def test_whatever_a_models_code_makes_of_a_damaged_artifact_is_an_artifact_error(
    tmp_path, config, message
):
    artifact.write(tmp_path / "m", replace(a_scale().to_artifact(), config=config))
    for load in (tacenda.load, Scale.load):
        with pytest.raises(ArtifactError, match=f"m: Scale cannot be rebuilt from it: {message}"):
            load(tmp_path / "m")


def test_an_error_of_compiling_is_not_reported_as_damage(tmp_path, monkeypatch):
    def compile_in_vain(*_, **__):
        numba.njit(lambda x: x.nothing)(1)

    a_scale(1.0).save(tmp_path / "m")
    monkeypatch.setattr(Scale, "from_arrays", compile_in_vain)
    with pytest.raises(KernelError, match=r"kernels of Scale cannot be compiled here: TypingError"):
        tacenda.load(tmp_path / "m")


def test_a_missing_plugin_names_the_distribution_that_saved_the_model(tmp_path):
    artifact.write(tmp_path / "m", Artifact("embedders", "who", "some-dist", "2.1", {}, {}))
    missing = r"m: it was saved by some-dist 2\.1, which is not inst"
    with pytest.raises(PluginError, match=missing):
        tacenda.load(tmp_path / "m")
    whole = replace(Sum().to_artifact(), nested={"part": artifact.read(tmp_path / "m")})
    artifact.write(tmp_path / "m", whole)
    for load in (tacenda.load, Sum.load):
        with pytest.raises(PluginError, match=missing):
            load(tmp_path / "m")
    artifact.write(tmp_path / "m", whole.nested["part"])
    assert artifact.read(tmp_path / "m").name == "who"  # tensors are there without the plugin


def test_a_broken_plugin_keeps_its_cause(tmp_path, monkeypatch):
    artifact.write(tmp_path / "m", Artifact("embedders", "test_bad", "<runtime>", "", {}, {}))
    with (
        registered("embedders", "test_bad", type("Bad", (), {"api_version": 7})),
        pytest.raises(PluginLoadError, match="api_version is 7"),
    ):
        tacenda.load(tmp_path / "m")


@pytest.mark.parametrize("kind", ["commands", "kernels", "nonsense"])
def test_an_artifact_cannot_have_any_plugin_but_a_model_loaded(tmp_path, kind):
    artifact.write(tmp_path / "m", Artifact(kind, "embed", "tacenda-embeddings", "1", {}, {}))
    with pytest.raises(ArtifactError, match=f"of the kind '{kind}'; models are embedders"):
        tacenda.load(tmp_path / "m")


def test_a_plugin_that_loads_no_artifacts_says_so(tmp_path):
    artifact.write(tmp_path / "m", Artifact("embedders", "test_bare", "<runtime>", "", {}, {}))
    with (
        registered("embedders", "test_bare", type("Bare", (), {"kind": "embedders"})),
        pytest.raises(PluginError, match="loads no artifacts"),
    ):
        tacenda.load(tmp_path / "m")


class Table(Arrays):
    table: Float32[Array, "rows columns"]


class Lookup(Scale):
    """A model whose table may be rounded; its fit draws the table."""

    name, learned_class, roundable = "test_lookup", Table, ("table",)

    def fit(self, seed):
        self.learned = Table(np.random.default_rng(seed).random((3, 4), np.float32))
        self.fitted_on = {"seed": seed}
        return self


def test_a_new_fit_of_a_rounded_model_is_saved_unrounded(tmp_path):
    Lookup().fit(0).save(tmp_path / "small", precision="int8")
    model = Lookup.load(tmp_path / "small")
    assert model.precision == "int8"
    assert model.rounded("int8") is model
    model.fit(1)
    assert model.precision == "full"
    assert not np.array_equal(model.rounded("int8").learned.table, model.learned.table)
    model.save(tmp_path / "again")
    np.testing.assert_array_equal(
        Lookup.load(tmp_path / "again").learned.table, model.learned.table
    )


def test_a_note_added_to_the_facts_of_a_rounded_model_leaves_its_precision():
    model = Lookup().fit(0).rounded("int8")
    model.fitted_on = {**model.fitted_on, "note": "checked"}
    assert model.precision == "int8"


def test_a_new_fit_of_a_model_without_learned_is_saved_unrounded():
    class Plain(Lookup):
        learned_class = None

        def arrays(self):
            return {"table": self.table}

        def _read_arrays(self, config, arrays):
            self.table = arrays["table"]

        def fit(self, seed):
            self.table, self.fitted_on = np.full((3, 4), 1 / 3, np.float32), {"seed": seed}
            return self

    model = Plain().fit(0).rounded("int8")
    assert (model.precision, model.fit(0).precision) == ("int8", "full")


def test_each_model_within_a_model_keeps_the_precision_in_which_it_was_stored(tmp_path):
    Lookup().fit(0).save(tmp_path / "small", precision="int8")
    with registered("embedders", Lookup.name, Lookup):
        joined = Sum(loaded=Lookup.load(tmp_path / "small"), new=Lookup().fit(1))
        joined.save(tmp_path / "joined")
        parts = tacenda.load(tmp_path / "joined").parts
        small = tacenda.load(tmp_path / "joined").rounded("int8")
    assert {name: part.precision for name, part in parts.items()} == {
        "loaded": "int8",
        "new": "full",
    }
    np.testing.assert_array_equal(parts["new"].learned.table, joined.parts["new"].learned.table)
    assert {part.precision for part in small.parts.values()} == {"int8"}
    assert small.rounded("int8") is small


def test_a_model_without_settings_can_be_shown():
    class Bare(Estimator):
        kind, name = "embedders", "test_bare"

        def __init__(self):
            self.fitted_on = {"tokens": 1}

    assert repr(Bare()) == "<Bare(), fitted>"
