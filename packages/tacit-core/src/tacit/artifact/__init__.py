"""Saved models: folders of safetensors files and one ``model.json``, validated; never pickle.

`read` and `write` handle an `Artifact`, which is tensors and metadata and needs no plugin; a model
class inherits `Saveable`, or `Configured` if it is made from settings; `load` finds the class of a
saved model through the registry; `require` is how a model checks the arrays it is given.
"""

from tacit.artifact.checks import require
from tacit.artifact.configured import Configured
from tacit.artifact.folder import read, write
from tacit.artifact.manifest import FORMAT_VERSION
from tacit.artifact.model import Artifact
from tacit.artifact.saveable import Saveable, load
from tacit.artifact.settings import ModelSettings

__all__ = [
    "FORMAT_VERSION",
    "Artifact",
    "Configured",
    "ModelSettings",
    "Saveable",
    "load",
    "read",
    "require",
    "write",
]
