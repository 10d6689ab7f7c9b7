"""Models made from settings: what the constructor shows, what an unfitted one says."""

import inspect
from dataclasses import dataclass

import pytest

from tacenda.errors import ConfigurationError, NotFittedError
from tacenda.estimator import Estimator
from tacenda.settings import Settings, configured_by, option


@dataclass(frozen=True, kw_only=True)
class ScaleSettings(Settings):
    power: float = option(1.0, "exponent of the factor", at_least=0)
    seed: int = option(0, "of the random numbers", at_least=0)


class Scale(Estimator):
    """A factor."""

    kind, name = "embedders", "test_scale"
    settings: ScaleSettings
    settings_class = ScaleSettings
    _factor = None

    @configured_by(ScaleSettings)
    def __init__(self, settings: ScaleSettings) -> None:
        super().__init__(settings)

    @property
    def factor(self):
        return self._learned(self._factor)


def test_the_signature_is_that_of_the_settings_and_keyword_only():
    parameters = list(inspect.signature(Scale).parameters.values())
    assert [(p.name, p.default) for p in parameters] == [("power", 1.0), ("seed", 0)]
    assert {p.kind for p in parameters} == {inspect.Parameter.KEYWORD_ONLY}
    assert "Exponent of the factor." in (Scale.__doc__ or "")


def test_settings_come_as_arguments_as_an_object_or_as_json():
    wanted = ScaleSettings(power=2.0, seed=3)
    assert Scale(power=2.0, seed=3).settings == wanted
    assert Scale.from_settings(wanted).settings == wanted
    assert Scale.from_settings({"power": 2.0, "seed": 3}).settings == wanted


def test_an_option_there_is_not_or_without_its_name_is_refused():
    with pytest.raises(
        ConfigurationError, match=r"Scale has no option 'powr' \(did you mean 'power'"
    ):
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
        _ = model.factor
    model._factor = 0.0  # not missing, though false
    assert model.factor == 0.0


def test_a_constructor_need_not_call_that_of_the_base():
    class Own(Scale):
        def __init__(self):
            pass

    assert not Own().is_fitted
    assert repr(Own()).endswith("not fitted>")
