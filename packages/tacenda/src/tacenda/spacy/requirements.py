"""What a packaged pipeline must have installed, noted in ``nlp.meta["requirements"]``.

``spacy package`` looks for requirements of its own, but knows a distribution only by a
``top_level.txt``, which neither an editable install nor a wheel of today has.
"""

from importlib.metadata import PackageNotFoundError, version
from typing import Any

from spacy.util import get_minor_version_range, split_requirement

__all__ = ["note_requirement"]


def note_requirement(nlp: Any, distribution: str) -> None:
    """Add an installed distribution, in a range about its version; one that is noted stays as it
    is.
    """
    try:
        wanted = f"{distribution}{get_minor_version_range(version(distribution))}"
    except (PackageNotFoundError, ValueError):
        return  # registered by hand, or run from a source tree: there is nothing to install
    noted = nlp.meta.setdefault("requirements", [])
    if distribution not in {split_requirement(each)[0] for each in noted}:
        noted.append(wanted)
