"""The room for language models is empty yet: what can be relied on is that it installs and imports."""

from importlib.metadata import requires, version
from importlib.util import find_spec

from packaging.requirements import Requirement

import tacit
import tacit_lm


def test_versions_are_in_lock_step():
    assert tacit_lm.__version__ == version("tacit-lm") == tacit.__version__


def test_the_core_comes_with_torch_and_no_sibling_comes_with_it():
    needed = [Requirement(text) for text in requires("tacit-lm")]
    ours = [r for r in needed if r.name.startswith("tacit") and r.marker is None]
    assert [(r.name, r.extras) for r in ours] == [("tacit-core", {"torch"})]
    assert find_spec("torch") is not None
