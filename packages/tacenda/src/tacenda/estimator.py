"""`Estimator`, the base of every model: options, arrays, to disk and back; `load` finds the class of a saved one.

A model with one option:

    @dataclass(frozen=True, kw_only=True)
    class ScaleSettings(Settings):
        power: float = option(1.0, "exponent of the factor", at_least=0)

    class Scale(Estimator):
        kind, name, distribution = "embedders", "scale", "my-plugin"  # as in the entry point
        settings: ScaleSettings

        @configured_by(ScaleSettings)
        def __init__(self, settings: ScaleSettings) -> None:
            super().__init__(settings)
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any, ClassVar, Self, TypeAlias, TypeVar

import numpy.typing as npt

from tacenda import plugins
from tacenda.arrays import Arrays
from tacenda.artifact.arrays import PRECISIONS, Precision, compact, restore
from tacenda.artifact.folder import Artifact, read, write
from tacenda.errors import (
    ArtifactError,
    ConfigurationError,
    KernelError,
    NotFittedError,
    PluginError,
    PluginLoadError,
    TacendaError,
    describe,
    is_of_compiler,
)
from tacenda.settings import Settings

T = TypeVar("T")

#: The arrays of a saved model, and the models that one is made of, by name.
Saved: TypeAlias = dict[str, npt.NDArray[Any]]
Parts: TypeAlias = Mapping[str, Any]
NO_PARTS: Parts = MappingProxyType({})

#: The kinds of plugins that can be saved and loaded.
MODEL_KINDS = ("embedders", "language_models", "recommenders")


class Estimator:
    """A model with declared options, which a fit completes and which can be saved.

    A class sets ``kind``, ``name`` and ``distribution`` as in its entry point, and its constructor says which options
    it has. What a fit finds begins as None and is read through `_learned`. A class whose fit finds one object of
    declared arrays says which, ``learned_class``, and sets ``learned`` to it in ``fit``; `_sizes` tells the dimensions
    that follow from the settings, and ``indexes`` what numbers the rows, such as a vocabulary. Then it can be saved.

    A class with more than that overrides `arrays` and `_read_arrays`. A model made of models overrides `nested` and
    `from_arrays`, which takes them as the keyword ``nested``, a dictionary of loaded models by the same names.

    Attributes
    ----------
    settings
        The options it was made with.
    figures
        Measurements (a list of dictionaries of JSON values); saved and restored.
    fitted_on
        Facts about the fit (JSON values); saved and restored. A model is fitted once this is not empty.
    precision
        That of the saved model it was loaded from; it is saved in this again unless another is named.
    """

    kind: ClassVar[str]
    name: ClassVar[str]
    distribution: ClassVar[str] = plugins.RUNTIME
    settings_class: ClassVar[type[Settings]] = Settings
    #: Names of arrays that are mapped when a saved model is loaded: large ones of which it needs a few places at a
    #: time. Their contents are not verified on load; the model must tolerate any values.
    mapped_arrays: ClassVar[frozenset[str]] = frozenset()
    #: Arrays (rows, columns) of floats that tolerate rounding: they can be saved in 8 or 16 bits a number.
    roundable: ClassVar[tuple[str, ...]] = ()
    #: The class of ``learned``: what a fit finds, as one object of declared arrays.
    learned_class: ClassVar[type[Arrays] | None] = None
    #: What numbers the rows of the arrays, by name: classes with ``config_dict``, ``arrays`` and ``from_arrays`` as a
    #: model has, such as ``{"vocabulary": Vocabulary}``. The object itself is in the attribute ``_vocabulary``.
    indexes: ClassVar[Mapping[str, type[Any]]] = MappingProxyType({})
    #: The call that fits a model, as the error of an unfitted one names it.
    _made_by: ClassVar[str] = "fit(corpus)"

    precision: Precision = "full"
    learned: Any = None
    settings: Any
    figures: list[dict[str, Any]]
    fitted_on: dict[str, Any]

    def __init__(self, settings: Any = None) -> None:
        self.settings = self.settings_class() if settings is None else settings
        self.figures = []
        self.fitted_on = {}

    def __init_subclass__(cls, **more: Any) -> None:
        """Add the options to the docstring of a class that declares settings."""
        super().__init_subclass__(**more)
        if declared := getattr(vars(cls).get("__init__"), "settings_class", None):
            cls.settings_class = declared
        if "settings_class" in vars(cls):
            about = inspect.cleandoc(cls.__doc__ or "")
            cls.__doc__ = f"{about}\n\n{cls.settings_class.document()}\n"

    @classmethod
    def from_settings(cls, settings: Settings | Mapping[str, Any]) -> Self:
        """Make one with these settings, which may be JSON values.

        Raises `ConfigurationError` if an option is unknown, of the wrong type or out of bounds.
        """
        if isinstance(settings, Settings):
            settings = {one.name: getattr(settings, one.name) for one in fields(settings)}
        make: Any = cls
        made: Self = make(**settings)
        return made

    # -- what a fit finds --------------------------------------------------------------------------

    @property
    def is_fitted(self) -> bool:
        """Whether it was fitted, or loaded."""
        return bool(self.fitted_on)

    def _learned(self, part: T | None) -> T:
        """Return ``part``, which a fit or a saved model has set. Raises NotFittedError where neither has."""
        if part is None:
            raise NotFittedError(
                f"this {type(self).__name__} is not fitted: call {self._made_by}, or load one with tacenda.load"
            )
        return part

    def config_dict(self) -> dict[str, Any]:
        """Return what `from_arrays` needs besides the arrays, as JSON values; the settings do not name the device."""
        settings = self.settings.to_dict()
        settings.pop("device", None)
        indexes = {name: index.config_dict() for name, index in self._numbering().items()}
        return {"settings": settings, **indexes}

    def arrays(self) -> Saved:
        """Return the fitted state as numpy arrays. Raises NotFittedError where there is none."""
        found: Saved = self._learned(self.learned).to_arrays()
        for index in self._numbering().values():
            found |= index.arrays()
        return found

    @classmethod
    def from_arrays(cls, config: dict[str, Any], arrays: Saved) -> Self:
        """Rebuild a fitted model from what `config_dict` and `arrays` gave. Raises ArtifactError for what is unfit."""
        model = cls.from_settings(config["settings"])
        for name, index in cls.indexes.items():
            setattr(model, f"_{name}", index.from_arrays(config[name], arrays))
        model._read_arrays(config, arrays)
        return model

    def _read_arrays(self, config: dict[str, Any], arrays: Saved) -> None:
        """Take what a fit found from a saved model; settings and indexes are already set."""
        if self.learned_class is None:
            raise ConfigurationError(
                f"{type(self).__name__} has no learned_class: set it to the class of what fit puts into `learned`"
            )
        self.learned = self.learned_class.from_arrays(arrays, **self._sizes())

    def _sizes(self) -> dict[str, Any]:
        """Return sizes of dimensions of ``learned_class``, and its fields that are no arrays, by name."""
        return {}

    def _numbering(self) -> dict[str, Any]:
        parts = {name: getattr(self, f"_{name}", None) for name in self.indexes}
        unset = [name for name, part in parts.items() if part is None]
        if unset and self.learned is not None:
            raise ConfigurationError(
                f"{type(self).__name__} is fitted, but its _{unset[0]}, which `indexes` names, is None: set it in fit"
            )
        return {name: self._learned(part) for name, part in parts.items()}

    def compact_arrays(self) -> Saved:
        """Return the part of `arrays` that a compact form keeps; ``from_arrays`` computes the rest."""
        return self.arrays()

    def nested(self) -> Mapping[str, Estimator]:
        """Return the models this one is made of, by name; none unless overridden."""
        return {}

    # -- to disk and back --------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str], *, precision: Precision | None = None) -> None:
        """Save the model into the folder ``path``, replacing an existing model in one step.

        ``precision`` is ``"full"``, or ``"float16"`` or ``"int8"`` for a smaller folder of a model with large tables,
        which are rounded (`tacenda.artifact.arrays`); by default that of the saved model it was loaded from.

        The model is rebuilt from what is to be written, before anything on disk is replaced.

        Raises `ArtifactError` if nothing in the model can be rounded so, if it could not be loaded again, or if it
        cannot be written.
        """
        artifact = self.to_artifact(precision)
        try:
            type(self).from_artifact(artifact)
        except TacendaError as error:
            raise ArtifactError(
                f"cannot save {os.fspath(path)}: it could not be loaded again: {error}"
            ) from error
        write(path, artifact)

    def to_artifact(self, precision: Precision | None = None) -> Artifact:
        """Return the model as tensors and metadata; ``precision`` as in `save`."""
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
            version=plugins.version_of(self.distribution),
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

    def rounded(self, precision: Precision) -> Self:
        """Return the model as it is when it was saved with a precision and loaded again; raises what `save` raises."""
        return (
            self if precision == self.precision else self.from_artifact(self.to_artifact(precision))
        )

    def can_be_compact(self) -> bool:
        """Whether anything in it, or in the models it is made of, can be saved in 8 or 16 bits a number."""
        return bool(self.roundable) or any(m.can_be_compact() for m in self.nested().values())

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> Self:
        """Rebuild the model of an artifact; raise `ArtifactError` if it is of another class or unfit."""
        if (artifact.kind, artifact.name) != (cls.kind, cls.name):
            raise ArtifactError(
                f"it holds a model {artifact.name!r} ({artifact.kind}), not {cls.name!r} "
                f"({cls.kind}): tacenda.load finds the class"
            )
        nested = {name: resolve(part) for name, part in artifact.nested.items()}
        config = dict(artifact.config)
        try:
            if isinstance(config.get("settings"), Mapping):
                config["settings"] = cls.settings_class.without_retired(config["settings"])
            more: dict[str, Any] = {"nested": nested} if nested else {}
            arrays, precision = restore(artifact.arrays)
            model = cls.from_arrays(config, arrays, **more)
        except NotFittedError as error:
            raise ConfigurationError(
                f"{cls.__name__} needs more than it saves, such as its vocabulary: name it in `indexes`"
            ) from error
        except TacendaError:
            raise
        except Exception as error:  # whatever damaged arrays provoke in a model's own code
            if is_of_compiler(error):
                raise KernelError(
                    f"the kernels of {cls.__name__} cannot be compiled here: {describe(error)}"
                ) from error
            raise ArtifactError(
                f"{cls.__name__} cannot be rebuilt from it: {describe(error)}"
            ) from error
        model.figures = list(artifact.figures)
        model.fitted_on = dict(artifact.fitted_on)
        parts = (getattr(part, "precision", "full") for part in nested.values())
        stored: list[Any] = [precision, *parts]
        model.precision = next((each for each in stored if each != "full"), "full")
        return model

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Load a saved model of this very class; `tacenda.load` loads any."""
        artifact = read(path)
        try:
            return cls.from_artifact(artifact)
        except ArtifactError as error:
            raise ArtifactError(f"cannot load {os.fspath(path)}: {error}") from error

    def __repr__(self) -> str:
        shown = []
        for one in self.settings.options():
            value = getattr(self.settings, one.name)
            if isinstance(value, Settings):  # a group shows what was changed in it, if anything
                given, plain = value.to_dict(), one.default.to_dict()
                value = {name: given[name] for name in given if given[name] != plain[name]}
                if not value:
                    continue
            shown.append(f"{one.name}={value!r}")
        state = "fitted" if self.is_fitted else "not fitted"
        return f"<{type(self).__name__}({', '.join(shown)}), {state}>"


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
    """Rebuild the model of an artifact in memory, whose class the registry finds."""
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
            f"the plugin {artifact.name!r} of {artifact.distribution} loads no artifacts"
        )
    return found.from_artifact(artifact)
