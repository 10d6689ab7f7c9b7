"""What the package needs, and that its host works beside it."""

from importlib.metadata import requires, version

import surprise
from packaging.requirements import Requirement

import tacenda
import tacenda_surprise


def test_versions_are_in_lock_step():
    assert tacenda_surprise.__version__ == version("tacenda-surprise") == tacenda.__version__


def test_neither_a_sibling_but_the_core_nor_torch_is_needed():
    needed = [Requirement(text) for text in requires("tacenda-surprise")]
    ours = [r for r in needed if r.name.startswith(("tacenda", "torch")) and r.marker is None]
    assert [(r.name, r.extras) for r in ours] == [("tacenda", set())]


def test_the_host_works_beside_it():
    """Surprise older than 1.1.5 cannot be imported with the numpy that the core needs."""
    trainset = surprise.Dataset(surprise.Reader(rating_scale=(1, 5))).construct_trainset(
        [("ann", "film", 1.0, None), ("ann", "book", 5.0, None)]
    )
    model = surprise.BaselineOnly(verbose=False).fit(trainset)
    assert model.predict("ann", "film").est < model.predict("ann", "book").est
