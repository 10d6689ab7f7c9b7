"""Models made from settings: the constructor, and what an unfitted one says."""

from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

from tacenda.artifact import Configured
from tacenda.errors import ConfigurationError, NotFittedError
from tacenda.fitting import Checkpointed


@dataclass(frozen=True)
class ScaleConfig:
    power: float = 1.0
    seed: int = 0

    def to_dict(self):
        return asdict(self)

    @classmethod
    def from_dict(cls, values):
        if unknown := set(values) - {"power", "seed"}:
            raise ConfigurationError(f"there is no setting {min(unknown)!r}")
        return cls(**values)


class Scale(Checkpointed, Configured[ScaleConfig]):
    kind, name = "embedders", "test_scale"
    settings = ScaleConfig
    _factor = None

    @property
    def factor(self):
        return self._learned(self._factor)


def test_keyword_arguments_replace_single_settings():
    assert Scale().config == ScaleConfig()
    assert Scale(ScaleConfig(power=2.0, seed=1), seed=3).config == ScaleConfig(power=2.0, seed=3)


def test_a_setting_there_is_not_is_refused_by_the_settings():
    with pytest.raises(ConfigurationError, match="there is no setting 'width'"):
        Scale(width=3)


def test_models_share_no_notes():
    first, second = Scale(), Scale()
    first.figures.append({"value": 1.0})
    first.fitted_on["n_tokens"] = 3
    assert second.figures == []
    assert second.fitted_on == {}


def test_what_fitting_finds_is_asked_for_by_name_of_the_class():
    model = Scale()
    with pytest.raises(NotFittedError, match=r"this Scale is not fitted: call fit\(corpus\)"):
        _ = model.factor
    model._factor = 0.0  # not missing, though false
    assert model.factor == 0.0


def test_checkpoints_are_of_one_model_alone(tmp_path):
    model, other = Scale(), Scale()
    assert model.checkpointed(str(tmp_path), resume=True) is model
    assert (model._checkpoints, model._resume) == (Path(tmp_path), True)
    assert (other._checkpoints, other._resume) == (None, "auto")
