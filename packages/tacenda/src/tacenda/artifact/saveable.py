"""`Saveable` and `Configured`, the bases of models that can be saved, and `load`, which finds the class of one."""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Mapping
from typing import Any, ClassVar, Self, TypeVar

import numpy.typing as npt

from tacenda import plugins
from tacenda.artifact.folder import read, write
from tacenda.artifact.manifest import Artifact
from tacenda.artifact.precision import PRECISIONS, Precision, compact, precision_of, restored
from tacenda.errors import (
    ArtifactError,
    NotFittedError,
    PluginError,
    PluginLoadError,
    TacendaError,
    describe,
)
from tacenda.settings import HasSettings, Settings

__all__ = ["MODEL_KINDS", "Configured", "Saveable", "load"]

S = TypeVar("S", bound=Settings)
T = TypeVar("T")

#: The kinds of plugins that can be saved and loaded.
MODEL_KINDS = ("embedders", "language_models", "recommenders")


class Saveable:
    """A mixin for fitted models: they give settings and arrays, and get ``save`` and ``load``.

    A class sets ``kind``, ``name`` and ``distribution`` to those of its entry point and implements
    `config_dict`, `arrays` and `from_arrays`. Attributes ``figures`` (a list of dictionaries) and
    ``fitted_on`` (a dictionary) of an instance are saved and restored with it.

    A model made of models overrides `nested` too, and its ``from_arrays`` takes them as the keyword
    ``nested``, a dictionary of loaded models by the same names.

    A model with large tables of floats may name them in ``roundable``: it can then be saved in 8 or 16 bits a number.
    Its ``precision`` is that of the artefact it was loaded from, and it is saved in this again unless another is named.
    """

    kind: ClassVar[str]
    name: ClassVar[str]
    distribution: ClassVar[str] = plugins.RUNTIME
    #: Names of arrays that are mapped when a saved model is loaded: large ones of which it needs a few places at a
    #: time. Their contents are not verified on load; the model must tolerate any values.
    mapped_arrays: ClassVar[frozenset[str]] = frozenset()
    #: Arrays (rows, columns) of floats that bear to be rounded.
    roundable: ClassVar[tuple[str, ...]] = ()
    precision: Precision = "full"

    figures: list[dict[str, Any]]
    fitted_on: dict[str, Any]

    def config_dict(self) -> dict[str, Any]:
        """The settings, in JSON values."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it is configured")

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The fitted state as numpy arrays; raises `NotFittedError` where there is none."""
        raise NotImplementedError(f"{type(self).__name__} does not say what is fitted")

    @classmethod
    def from_arrays(cls, config: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Self:
        """A fitted model from what the other two gave, checked by `tacenda.artifact.require`."""
        raise NotImplementedError(f"{cls.__name__} does not say how it is rebuilt")

    def compact_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Those of `arrays` that a compact form keeps; ``from_arrays`` finds the others from them."""
        return self.arrays()

    def nested(self) -> Mapping[str, Saveable]:
        """The models this one is made of, by name; none unless overridden."""
        return {}

    def save(self, path: str | os.PathLike[str], *, precision: Precision | None = None) -> None:
        """Save the model into the folder ``path``, replacing in one step a model that is there.

        ``precision`` is ``"full"``, or ``"float16"`` or ``"int8"`` for a smaller folder of a model with large tables,
        which are rounded (`tacenda.artifact.precision`); by default that of the artefact it was loaded from.

        Raises `ArtifactError` if nothing in the model can be rounded so, or if it cannot be written.
        """
        write(path, self.to_artifact(precision))

    def to_artifact(self, precision: Precision | None = None) -> Artifact:
        """The model as tensors and metadata; ``precision`` as in `save`."""
        precision = precision or self.precision
        if precision not in PRECISIONS:
            raise ArtifactError(
                f"precision must be one of {', '.join(PRECISIONS)}, not {precision!r}"
            )
        if precision != "full" and not self.can_be_compact():
            raise ArtifactError(
                f"{type(self).__name__} has no tables to round: save it with precision='full'"
            )
        if precision == "full" or not self.roundable:
            arrays = self.arrays()
        else:
            arrays = compact(self.compact_arrays(), self.roundable, precision)
        return Artifact(
            kind=self.kind,
            name=self.name,
            distribution=self.distribution,
            version=_version(self.distribution),
            config=self.config_dict(),
            arrays=arrays,
            figures=list(getattr(self, "figures", [])),
            fitted_on=dict(getattr(self, "fitted_on", {})),
            nested={
                name: model.to_artifact(precision if model.can_be_compact() else "full")
                for name, model in self.nested().items()
            },
            mapped=self.mapped_arrays,
        )

    def can_be_compact(self) -> bool:
        """Whether anything in it, or in the models it is made of, can be saved in 8 or 16 bits a number."""
        return bool(self.roundable) or any(m.can_be_compact() for m in self.nested().values())

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> Self:
        """The model of an artefact; raises `ArtifactError` if it is of another class or unfit."""
        if (artifact.kind, artifact.name) != (cls.kind, cls.name):
            raise ArtifactError(
                f"it holds a model {artifact.name!r} ({artifact.kind}), not {cls.name!r} "
                f"({cls.kind}): tacenda.load finds the class"
            )
        more: dict[str, Any] = {}
        if artifact.nested:
            more["nested"] = {name: resolve(part) for name, part in artifact.nested.items()}
        try:
            model = cls.from_arrays(artifact.config, restored(artifact.arrays), **more)
        except TacendaError:
            raise
        except Exception as error:  # whatever a damaged artefact provokes in a model's own code
            raise ArtifactError(
                f"{cls.__name__} cannot be rebuilt from it: {describe(error)}"
            ) from error
        model.figures = list(artifact.figures)
        model.fitted_on = dict(artifact.fitted_on)
        model.precision = _precision(artifact)
        return model

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """A saved model of this very class; `tacenda.load` loads any."""
        artifact = read(path)
        try:
            return cls.from_artifact(artifact)
        except ArtifactError as error:
            raise ArtifactError(f"cannot load {os.fspath(path)}: {error}") from error


class Configured(Saveable, HasSettings[S]):
    """A mixin for models with `Settings`, which a fit completes and which can be saved.

    See `HasSettings` for the constructor. What a fit finds begins as None and is read through `_learned`.

    Attributes
    ----------
    settings
        The options it was made with.
    figures, fitted_on
        What was measured, and what it was fitted to; see `Saveable`.
    """

    #: What ``fit`` takes, as the message of an unfitted model names it.
    _fitted_to: ClassVar[str] = "corpus"

    def __init__(self, settings: S) -> None:
        super().__init__(settings)
        self.figures: list[dict[str, Any]] = []
        self.fitted_on: dict[str, Any] = {}

    @property
    def is_fitted(self) -> bool:
        """Whether it was fitted, or loaded from an artefact."""
        return bool(self.fitted_on)

    def _learned(self, part: T | None) -> T:
        """``part``, which a fit or an artefact has set. Raises NotFittedError where neither has."""
        if part is None:
            raise NotFittedError(
                f"this {type(self).__name__} is not fitted: call fit({self._fitted_to}), or load one with tacenda.load"
            )
        return part


def load(path: str | os.PathLike[str]) -> Any:
    """Load a saved model with the plugin that saved it.

    ``path`` is its folder, or the name of an installed model, which ``tacenda models`` lists.

    Raises `ArtifactError` if the folder is missing, damaged or does not fit its model, and
    `PluginError` if its plugin is not installed or cannot be loaded.
    """
    artifact = read(path)
    try:
        return resolve(artifact)
    except (ArtifactError, PluginError) as error:
        raise type(error)(f"cannot load {os.fspath(path)}: {error}") from error


def resolve(artifact: Artifact) -> Any:
    """The model of an artefact in memory, through the registry."""
    if artifact.kind not in MODEL_KINDS:
        raise ArtifactError(
            f"it is of the kind {artifact.kind!r}; models are {', '.join(MODEL_KINDS)}"
        )
    try:
        found = plugins.get(artifact.kind, artifact.name, distribution=artifact.distribution)
    except PluginError as error:
        saved_by = f"it was saved by {artifact.distribution} {artifact.version}".rstrip()
        if not isinstance(error, PluginLoadError):
            saved_by += ", which is not installed here or has it no more"
        raise type(error)(f"{saved_by}: {error}") from error
    if not hasattr(found, "from_artifact"):
        raise PluginError(
            f"the plugin {artifact.name!r} of {artifact.distribution} loads no artefacts"
        )
    return found.from_artifact(artifact)


def _precision(artifact: Artifact) -> Precision:
    """The precision of an artefact or, where its own arrays are whole, of what it is made of."""
    found = precision_of(artifact.arrays)
    parts = [_precision(part) for part in artifact.nested.values()] if found == "full" else []
    return next((part for part in parts if part != "full"), found)


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return ""
