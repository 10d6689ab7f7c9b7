"""Every option of every model: a value beyond its bounds or of another type is refused by its name."""

import math
import re
from typing import Any

import pytest

from tacenda import plugins
from tacenda.errors import ConfigurationError


def declared():
    """Return the options of all models of ours, those of groups too, as (class, group or None, option)."""
    found = []
    for kind in ("embedders", "language_models", "recommenders"):
        for record in plugins.available(kind):
            if not record.distribution.startswith("tacenda-"):
                continue
            settings = getattr(plugins.get(kind, record.name), "settings_class", None)
            for one in settings.options() if settings else []:
                inner = one.group.options() if one.group else []
                found += [(settings, one.name, x) for x in inner]
                found.append((settings, None, one))
    return [each for each in found if each[2].kind is not Any]


def wrong_values(option):
    """Return values just outside the bounds, and of no type that an option has."""
    kind = str(option.kind)
    yield object()
    if "float" in kind and "tuple" not in kind:
        yield math.nan
    if "int" in kind or "float" in kind:
        yield True if "bool" not in kind else 1.5
        step = 1 if "int" in kind else 1e-6
        for bound, value in (
            (option.at_least, lambda x: x - step),
            (option.at_most, lambda x: x + max(step, x * 1e-9)),
            (option.above, lambda x: x),
            (option.below, lambda x: x),
        ):
            if bound is not None and "tuple" not in kind:
                yield value(bound)
    if option.name == "device":
        yield from ("gpu", "CUDA", "cuda:", "cuda:-1", "mps", 0)
    if "Literal" in kind:
        yield "nothing of the kind"


@pytest.mark.parametrize(
    ("settings", "group", "option"),
    declared(),
    ids=lambda each: getattr(each, "name", getattr(each, "__name__", str(each))),
)
def test_a_value_that_an_option_may_not_have_is_refused_by_its_name(settings, group, option):
    for value in wrong_values(option):
        given = {option.name: value}
        with pytest.raises(ConfigurationError, match=re.escape(option.name)):
            settings.from_dict({group: given} if group else given)
