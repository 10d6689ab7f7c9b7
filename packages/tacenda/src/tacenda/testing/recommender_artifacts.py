"""The part of `RecommenderTests` about artefacts: a host may keep more in them than the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tacenda
from tacenda.errors import TacendaError
from tacenda.testing.recommender_cases import RecommenderCases


class RecommenderArtifactTests(RecommenderCases):
    """Inherited by `RecommenderTests`."""

    def test_comes_back_from_disk_as_it_was(self, model: Any, tmp_path: Path) -> None:
        model.save(tmp_path / "model")
        again = tacenda.load(tmp_path / "model")
        assert type(again) is type(model)
        assert again.fitted_on == model.fitted_on
        np.testing.assert_array_equal(
            again.score_pairs(*self.some_pairs()), model.score_pairs(*self.some_pairs())
        )
        np.testing.assert_array_equal(
            again.deviations(*self.some_pairs()), model.deviations(*self.some_pairs())
        )
        items, values = self.ratings().of_user(0)
        np.testing.assert_allclose(
            again.fold_in(items, values).score(),
            model.fold_in(items, values).score(),
            atol=self.atol,
        )
        assert again.catalogue.users.raw.tolist() == model.catalogue.users.raw.tolist()

    def test_arrays_of_others_are_of_no_concern(self, model: Any) -> None:
        """A host may keep more in the folder of a model."""
        arrays = {**model.arrays(), "host.more": np.arange(3)}
        again = type(model).from_arrays({**model.config_dict(), "host": {"more": 1}}, arrays)
        np.testing.assert_array_equal(
            again.score_pairs(*self.some_pairs()), model.score_pairs(*self.some_pairs())
        )

    def test_damaged_arrays_are_refused(self, model: Any) -> None:
        for name, array in model.arrays().items():
            for damaged in (array[:-1] if array.ndim and len(array) else None, _with_nan(array)):
                if damaged is None:
                    continue
                arrays = {**model.arrays(), name: damaged}
                with pytest.raises(TacendaError):
                    type(model).from_arrays(model.config_dict(), arrays)


def _with_nan(array: Any) -> Any:
    if array.dtype.kind != "f" or not array.size:
        return None
    damaged = array.copy()
    damaged.flat[0] = np.nan
    return damaged
