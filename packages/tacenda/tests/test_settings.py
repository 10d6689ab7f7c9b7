"""Settings: types and bounds are checked where an option is declared, and messages name it."""

import inspect
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacenda.errors import ConfigurationError
from tacenda.estimator import Estimator
from tacenda.settings import Settings, configured_by, group, option


@dataclass(frozen=True, kw_only=True)
class TreeAdvanced(Settings):
    far: bool = option(False, "whether far words differ")


@dataclass(frozen=True, kw_only=True)
class TreeSettings(Settings):
    width: int = option(8, "elements of a vector", at_least=1, at_most=64)
    rates: tuple[float, ...] = option((0.5,), "rates of the tails", above=0, below=1)
    start: Literal["random", "classes"] = option("classes", "what fitting begins with")
    kappa: float | None = option(None, "pseudo-counts", at_least=0)
    name: str = option("tree", "what it is called")
    seed: int = option(0, "seed of all random numbers", at_least=0, at_most=2**63 - 1)
    advanced: TreeAdvanced = group(TreeAdvanced)


REFUSED = {
    "width": (
        [0, 65, True, 1.0, "8", None, math.nan],
        "a whole number (at least 1 and at most 64)",
    ),
    "rates": ([0.5, (0.0,), (1.0,), (math.nan,), ("a",), None], "a list, each element a number"),
    "start": (["other", None, 1], "one of random, classes"),
    "kappa": ([-1, math.inf, 10**400, "1", True], "a number (at least 0) or None"),
    "name": ([1, None], "text"),
    "advanced": ([1, None], "a dictionary of options"),
    "seed": ([-1, 2**63], f"a whole number (at least 0 and at most {2**63 - 1})"),
}


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [(name, value, wanted) for name, (values, wanted) in REFUSED.items() for value in values],
)
def test_a_wrong_value_is_refused_by_name(name, value, wanted):
    with pytest.raises(ConfigurationError) as caught:
        TreeSettings(**{name: value})
    assert str(caught.value).startswith(f"Tree: {name} must be {wanted}")


def test_a_group_is_given_as_an_object_or_as_a_mapping_and_names_its_own_options():
    assert TreeSettings(advanced={"far": True}) == TreeSettings(advanced=TreeAdvanced(far=True))
    with pytest.raises(ConfigurationError, match="Tree: far must be true or false, not 3"):
        TreeSettings(advanced={"far": 3})
    with pytest.raises(ConfigurationError, match=r"no option 'far' \(it is one of advanced="):
        TreeSettings.from_dict({"far": True})


def test_a_long_wrong_value_is_cut_in_the_message():
    with pytest.raises(ConfigurationError) as caught:
        TreeSettings(start="x" * 100_000)
    assert len(str(caught.value)) < 300


@given(
    st.builds(
        TreeSettings,
        width=st.integers(1, 64),
        rates=st.lists(st.floats(0, 1, exclude_min=True, exclude_max=True)),
        kappa=st.none() | st.floats(0, 1e9),
        advanced=st.builds(TreeAdvanced, far=st.booleans()),
    )
)
def test_json_and_back_gives_the_same_settings(settings):
    assert TreeSettings.from_dict(json.loads(json.dumps(settings.to_dict()))) == settings


@dataclass(frozen=True, kw_only=True)
class StopperAdvanced(Settings):
    decay: float = option(1.0, "factor on the rate", above=0)


@dataclass(frozen=True, kw_only=True)
class StopperSettings(Settings):
    solver: Literal["slow", "exact"] = option("slow", "what finds the minimum")
    validation: float = option(0.0, "part held out; 0: none", at_least=0, below=1)
    patience: int = option(3, "epochs without improvement", at_least=1)
    advanced: StopperAdvanced = group(StopperAdvanced)

    def idle(self):
        found = {} if self.validation else {"patience": "without validation"}
        return found | ({"advanced.decay": "on an exact solver"} if self.solver == "exact" else {})


def test_an_option_without_effect_is_refused():
    assert StopperSettings(patience=3).patience == 3  # the default, said aloud
    assert StopperSettings(patience=5, validation=0.1).patience == 5
    with pytest.raises(
        ConfigurationError, match="Stopper: patience has no effect without validation; leave it out"
    ):
        StopperSettings(patience=5)
    with pytest.raises(ConfigurationError, match=r"advanced\.decay has no effect on an exact"):
        StopperSettings(solver="exact", advanced={"decay": 0.5})


def test_numbers_of_numpy_become_numbers():
    found = StopperSettings(patience=np.int64(4), validation=np.float32(0.5))
    assert type(found.patience) is int
    assert found.to_dict()["validation"] == 0.5
    for rates in ([np.float32(0.5), 0.25], (np.float32(0.5), 0.25)):
        for found in (TreeSettings(rates=rates).rates, LooseSettings(steps=rates).steps):
            assert json.dumps(found) == "[0.5, 0.25]"


@dataclass(frozen=True, kw_only=True)
class LooseSettings(Settings):
    pairs: Iterable[int] | None = option(None, "anything to go through")
    steps: tuple[float, ...] | None = option(None, "sizes of steps", above=0)
    table: tuple[tuple[int | None, ...], ...] = option((), "rows")
    whatever: Any = option(None, "anything at all")


def test_abstract_types_and_any():
    assert LooseSettings(pairs=range(3)).whatever is None
    with pytest.raises(ConfigurationError, match="pairs must be an Iterable or None, not 3"):
        LooseSettings(pairs=3)
    with pytest.raises(ConfigurationError, match=r"steps must be a list, each .* or None, not "):
        LooseSettings(steps=[0.5, 0])


def test_lists_in_lists_come_back_from_json():
    rows = LooseSettings(table=[[np.int64(1), None], []])
    assert rows.table == ((1, None), ())
    assert rows.to_dict()["table"] == [[1, None], []]
    assert LooseSettings.from_dict(rows.to_dict()) == rows


def test_the_description_lists_the_options_of_a_group_with_their_defaults():
    found = TreeSettings.document()
    for one in TreeAdvanced.options():
        assert f"    * {one.name} = {one.default!r}: " in found


class Tree(Estimator):
    is_fitted = False

    @configured_by(TreeSettings)
    def __init__(self, settings: TreeSettings) -> None:
        super().__init__(settings)


def test_a_group_is_short_in_signature_and_repr():
    assert repr(inspect.signature(Tree).parameters["advanced"].default) == "TreeAdvanced()"
    assert "advanced" not in repr(Tree())
    assert "advanced={'far': True}" in repr(Tree(advanced=TreeAdvanced(far=True)))


def test_an_option_may_be_shown_after_those_of_subclasses():
    @dataclass(frozen=True, kw_only=True)
    class BaseSettings(Settings):
        verbose: bool = option(False, "print", last=True)
        width: int = option(3, "width")

    @dataclass(frozen=True, kw_only=True)
    class WideSettings(BaseSettings):
        height: int = option(4, "height")

    class Wide(Estimator):
        is_fitted = False

        @configured_by(WideSettings)
        def __init__(self, settings: WideSettings) -> None:
            super().__init__(settings)

    assert list(inspect.signature(Wide).parameters) == ["width", "height", "verbose"]
    assert repr(Wide(height=5)) == "<Wide(width=3, height=5, verbose=False), not fitted>"


@dataclass(frozen=True, kw_only=True)
class OakAdvanced(Settings):
    retired: ClassVar = MappingProxyType({"window": ...})
    depth: int = option(2, "meters", at_least=1)


@dataclass(frozen=True, kw_only=True)
class OakSettings(Settings):
    retired: ClassVar = MappingProxyType({"rate": 0.5, "patience": ...})
    height: int = option(3, "meters", at_least=1)
    advanced: OakAdvanced = group(OakAdvanced)


def test_retired_options_of_a_saved_model_are_dropped_unless_their_value_mattered():
    saved = {"height": 4, "rate": 0.5, "patience": 9, "advanced": {"window": 7, "depth": 3}}
    assert OakSettings.from_dict(OakSettings.without_retired(saved)) == OakSettings(
        height=4, advanced={"depth": 3}
    )
    with pytest.raises(
        ConfigurationError, match=r"no longer has the option rate: it is always 0\.5"
    ):
        OakSettings.without_retired({"rate": 0.7})


@pytest.mark.parametrize("given", [{"patience": 9}, {"advanced": {"window": 7}}])
def test_a_retired_option_that_a_user_gives_is_refused(given):
    with pytest.raises(ConfigurationError, match=r"no longer has the option (patience|window)"):
        OakSettings.from_dict(given)
