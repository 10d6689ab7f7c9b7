"""Saved models: folders of safetensors files and one ``model.json``, validated; never pickle.

`read` and `write` handle an `Artifact`, which is tensors and metadata and needs no plugin; a model class inherits
`tacenda.estimator.Estimator`; `tacenda.load` finds the class of a saved model through the registry;
`tacenda.artifact.by_name` finds installed ones by name, and `tacenda.artifact.packaging` makes a wheel of one.
"""

from tacenda.artifact.folder import FORMAT_VERSION, Artifact, read, write

__all__ = ["FORMAT_VERSION", "Artifact", "read", "write"]
