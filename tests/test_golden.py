"""Models saved by earlier code load today, and predict what they did."""

import json
import sys
from pathlib import Path

import pytest
from numpy.testing import assert_allclose

sys.path.insert(0, str(Path(__file__).parent / "golden"))
import golden_uses


@pytest.mark.parametrize("name", golden_uses.saved())
def test_a_saved_folder_loads_and_predicts_as_when_it_was_written(name):
    assert_allclose(golden_uses.predictions(name), golden_uses.golden()[name], rtol=1e-5, atol=1e-7)


def test_every_model_that_can_be_saved_has_a_golden_folder():
    from tacenda import plugins

    have = {
        (made["kind"], made["name"])
        for file in golden_uses.HERE.rglob("model.json")
        if (made := json.loads(file.read_text("utf-8"))).get("format")
    }
    kinds = "embedders", "language_models", "recommenders"
    offered = {
        (kind, each.name)
        for kind in kinds
        for each in plugins.available(kind)
        if each.distribution.startswith("tacenda")
    }
    assert offered <= have
