"""The way to disk and back, for the conformance kits of models whose artefacts hold nothing but the model."""

from __future__ import annotations

import dataclasses
import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import tacenda
from tacenda.artifact import Artifact
from tacenda.errors import ArtifactError
from tacenda.testing.model_cases import ModelCases
from tacenda.testing.refusals import assert_refuses


class ArtifactTests(ModelCases):
    """Inherited by the kits, which say what makes two models the same."""

    may_hold_nan: frozenset[str] = frozenset()

    def assert_same_model(self, model: Any, original: Any) -> None:
        """Equal in settings, description and output, bit for bit."""
        raise NotImplementedError(f"{type(self).__name__} does not say how models are compared")

    def test_comes_back_from_disk_bit_for_bit(self, model: Any, tmp_path: Path) -> None:
        model.save(tmp_path / "model")
        loaded = tacenda.load(tmp_path / "model")
        assert type(loaded) is type(model)
        self.assert_same_model(loaded, model)
        loaded.save(tmp_path / "again")
        first, again = (
            {path.name: path.read_bytes() for path in (tmp_path / name).iterdir() if path.is_file()}
            for name in ("model", "again")
        )
        assert first == again, "a loaded model saves other bytes than it was loaded from"

    def test_comes_back_from_bytes_bit_for_bit(self, model: Any) -> None:
        data = model.to_artifact().to_bytes()
        self.assert_same_model(type(model).from_artifact(Artifact.from_bytes(data)), model)

    def test_its_settings_are_json(self, model: Any) -> None:
        config = model.config_dict()
        assert json.loads(json.dumps(config, allow_nan=False)) == config

    def test_a_damaged_artifact_is_refused(self, model: Any) -> None:
        artifact = model.to_artifact()
        for name, array in artifact.arrays.items():
            others = {key: value for key, value in artifact.arrays.items() if key != name}
            damaged: dict[str, Any] = {"missing": {}, "of another rank": {name: array[None]}}
            if array.dtype.kind == "f" and array.size and name not in self.may_hold_nan:
                bad = array.copy()
                bad.flat[0] = np.nan
                damaged["holding NaN"] = {name: bad}
            for damage, change in damaged.items():
                spoilt = dataclasses.replace(artifact, arrays={**others, **change})
                action = f"loading with the array {name!r} {damage}"
                assert_refuses(partial(type(model).from_artifact, spoilt), ArtifactError, action)
