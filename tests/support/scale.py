"""The smallest models that can be saved: numbers, and a pair of such models."""

import pytest

from support.plugins import registered
from tacenda.arrays import Array, Float64, take
from tacenda.estimator import Estimator


class Scale(Estimator):
    kind, name = "embedders", "test_scale_of_support"

    def __init__(self, factors=None):
        self.factors = factors

    def config_dict(self):
        return {"settings": {"power": 0.5}}

    def arrays(self):
        return {"factors": self.factors}

    @classmethod
    def from_arrays(cls, config, arrays):
        return cls(take(arrays, "factors", Float64[Array, "n"], {}))


class Pair(Estimator):
    kind, name = "embedders", "test_pair_of_support"

    def __init__(self, parts):
        self.parts = parts

    def config_dict(self):
        return {}

    def arrays(self):
        return {}

    def nested(self):
        return self.parts

    @classmethod
    def from_arrays(cls, config, arrays, nested=None):
        return cls(nested)


@pytest.fixture(autouse=True)
def registered_models():
    with registered("embedders", Scale.name, Scale), registered("embedders", Pair.name, Pair):
        yield
