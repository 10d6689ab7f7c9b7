"""What the conformance kits of all models begin with: one unfitted, one fitted, its class registered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tacenda import plugins


class ModelCases:
    """Inherited by the kits; a test file defines ``make_model``, a kit `training_data`."""

    _fitted: Any

    def make_model(self) -> Any:
        """A new unfitted model, small enough to fit in a second on `training_data`."""
        raise NotImplementedError("define make_model() in your test class")

    def training_data(self) -> Any:
        """What the model is fitted on."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it fits models on")

    @pytest.fixture
    def model(self) -> Any:
        """The fitted model that all tests of a class share, for applying must not change it."""
        cls = type(self)
        if "_fitted" not in cls.__dict__:
            cls._fitted = self.make_model().fit(self.training_data())
        return cls._fitted

    @pytest.fixture(autouse=True)
    def _registered(self) -> Iterator[None]:
        """Put the class where `tacenda.load` looks, unless it is installed."""
        cls = type(self.make_model())
        claims = [r for r in plugins.available(cls.kind) if r.name == cls.name]
        if cls.distribution in {claim.distribution for claim in claims}:
            yield
            return
        plugins.register(cls.kind, cls.name, cls, distribution=cls.distribution)
        try:
            yield
        finally:
            plugins.unregister(cls.kind, cls.name, distribution=cls.distribution)
