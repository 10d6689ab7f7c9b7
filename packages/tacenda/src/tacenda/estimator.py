"""`Estimator`, the base class of models: options, arrays, saving and loading; `load` loads a model of any class.

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
from collections.abc import Iterator, Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any, ClassVar, Self, TypeAlias, TypeVar

import numpy.typing as npt

from tacenda import plugins
from tacenda.arrays import Arrays
from tacenda.artifact.folder import Artifact, read, write
from tacenda.artifact.precision import PRECISIONS, Precision, compact, restore
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
from tacenda.settings import Settings, resetting_idle_options

T = TypeVar("T")

#: The arrays of a saved model by name.
Saved: TypeAlias = dict[str, npt.NDArray[Any]]
#: The nested models of a saved model by name.
Parts: TypeAlias = Mapping[str, Any]
NO_PARTS: Parts = MappingProxyType({})

#: The kinds of plugins that can be saved and loaded.
MODEL_KINDS = ("embedders", "language_models", "recommenders")


class Estimator:
    """A model with declared options that can be fitted, saved and loaded.

    A subclass sets ``kind``, ``name`` and ``distribution`` as in its entry point. Its constructor declares the options
    with `tacenda.settings.configured_by`, and its ``fit`` sets ``fitted_on`` and the fitted state. Override:

    1. Nothing, if the state is one object of declared arrays: name its class in ``learned_class`` and set ``learned``
       in ``fit``. If rows are numbered by an object such as a vocabulary, name its class in ``indexes``.
    2. `_sizes`, if a dimension of ``learned_class`` that the settings determine does not have the name of an option.
    3. `arrays` and `_read_arrays`, if there is more state than that.
    4. `nested` and `from_arrays`, if the model is made of models; `from_arrays` takes the loaded ones as ``nested``.
    5. `compact_arrays`, if some arrays can be computed from others.

    Attributes
    ----------
    settings
        The options of the model.
    figures
        Measurements (a list of dictionaries of JSON values); saved and restored.
    fitted_on
        Facts about the fit (a dictionary of JSON values); saved and restored. The model is fitted if it is not empty.
    precision
        The precision in which the model was saved; `save` uses it again by default. After a new fit it is ``"full"``:
        every fit sets a new object as ``learned`` or, in a class without one, a new dictionary as ``fitted_on``.
    """

    kind: ClassVar[str]
    name: ClassVar[str]
    distribution: ClassVar[str] = plugins.RUNTIME
    settings_class: ClassVar[type[Settings]] = Settings
    #: Names of arrays that are memory-mapped when a saved model is loaded: large arrays of which the model reads few
    #: values at a time. Their contents are not verified on load; the model must tolerate any values.
    mapped_arrays: ClassVar[frozenset[str]] = frozenset()
    #: Names of float arrays (rows, columns) that may be rounded, to be saved in 8 or 16 bits a number.
    roundable: ClassVar[tuple[str, ...]] = ()
    #: The class of ``learned``, the fitted state as one object of declared arrays.
    learned_class: ClassVar[type[Arrays] | None] = None
    #: Classes of the objects that number the rows of the arrays, such as ``{"vocabulary": Vocabulary}`` for the object
    #: in ``_vocabulary``. They have ``config_dict``, ``arrays`` and ``from_arrays`` as a model has, possibly ``sizes``.
    indexes: ClassVar[Mapping[str, type[Any]]] = MappingProxyType({})
    #: The call that fits a model, for the error of an unfitted one.
    _fit_call: ClassVar[str] = "fit(corpus)"

    learned: Any = None
    settings: Any = Settings()
    figures: list[dict[str, Any]]
    # the constructor of a plugin's class need not call the one of this class
    fitted_on: dict[str, Any] = MappingProxyType({})  # type: ignore[assignment]
    #: The precision of a saved model, and the ``learned`` and ``fitted_on`` that it was loaded with.
    _loaded: tuple[Precision, Any, Mapping[str, Any]] = ("full", None, fitted_on)

    def __init__(self, settings: Any = None) -> None:
        self.settings = self.settings_class() if settings is None else settings
        self.figures = []
        self.fitted_on = {}

    @property
    def precision(self) -> Precision:
        """The precision in which the model was saved, if it was loaded and not fitted again."""
        precision, learned, facts = self._loaded
        is_loaded = facts is self.fitted_on if learned is None else learned is self.learned
        # a new fit is not on the grid of numbers that the model before it was rounded to
        return precision if is_loaded else "full"

    @precision.setter
    def precision(self, precision: Precision) -> None:
        self._loaded = precision, self.learned, self.fitted_on

    def __init_subclass__(cls, **keywords: Any) -> None:
        """Add the options to the docstring of a class that declares settings."""
        super().__init_subclass__(**keywords)
        if declared := getattr(vars(cls).get("__init__"), "settings_class", None):
            cls.settings_class = declared
        if "settings_class" in vars(cls):
            description = inspect.cleandoc(cls.__doc__ or "")
            cls.__doc__ = f"{description}\n\n{cls.settings_class.document()}\n"

    @classmethod
    def from_settings(cls, settings: Settings | Mapping[str, Any]) -> Self:
        """Make an unfitted model with these settings, an object or a mapping of JSON values.

        Raises `ConfigurationError` if an option is unknown, of the wrong type or out of bounds.
        """
        if isinstance(settings, Settings):
            settings = {field.name: getattr(settings, field.name) for field in fields(settings)}
        constructor: Any = cls
        model: Self = constructor(**settings)
        return model

    # -- the fitted state --------------------------------------------------------------------------

    @property
    def is_fitted(self) -> bool:
        """Whether it was fitted, or loaded."""
        return bool(self.fitted_on)

    def _learned(self, part: T | None) -> T:
        """Return a part of the fitted state. Raises NotFittedError if it is None."""
        if part is None:
            raise NotFittedError(
                f"this {type(self).__name__} is not fitted: call {self._fit_call}, or load one with tacenda.load"
            )
        return part

    def config_dict(self) -> dict[str, Any]:
        """Return settings, without the device, and the configuration of the indexes, as JSON values."""
        settings = self.settings.to_dict()
        settings.pop("device", None)
        indexes = {name: index.config_dict() for name, index in self._collect_indexes().items()}
        return {"settings": settings, **indexes}

    def arrays(self) -> Saved:
        """Return the fitted state and the indexes as numpy arrays by name. Raises NotFittedError."""
        arrays: Saved = self._learned(self.learned).to_arrays()
        for index in self._collect_indexes().values():
            arrays |= index.arrays()
        return arrays

    @classmethod
    def from_arrays(cls, config: dict[str, Any], arrays: Saved) -> Self:
        """Rebuild a fitted model from what `config_dict` and `arrays` returned. Raises ArtifactError if invalid."""
        constructor: Any = cls
        model: Self = constructor(**config["settings"])
        for name, index in cls.indexes.items():
            setattr(model, f"_{name}", index.from_arrays(config[name], arrays))
        model._read_arrays(config, arrays)
        return model

    def _read_arrays(self, config: dict[str, Any], arrays: Saved) -> None:
        """Set the fitted state from the arrays of a saved model; settings and indexes are already set."""
        if self.learned_class is None:
            raise ConfigurationError(
                f"{type(self).__name__} has no learned_class: set it to the class of the object that fit puts into "
                "`learned`"
            )
        self.learned = self.learned_class.from_arrays(arrays, **self._sizes())

    def _sizes(self) -> dict[str, Any]:
        """Return known sizes of dimensions of ``learned_class``, and its fields that are no arrays, by name.

        Unless overridden, they are the options that are whole numbers, and the ``sizes`` of the indexes.
        """
        sizes = {name: value for name, value in vars(self.settings).items() if type(value) is int}
        for name in self.indexes:
            sizes |= getattr(getattr(self, f"_{name}"), "sizes", {})
        return sizes

    def _collect_indexes(self) -> dict[str, Any]:
        """Return the objects of ``indexes`` by name. Raises NotFittedError, and ConfigurationError if fit set none."""
        found = {name: getattr(self, f"_{name}", None) for name in self.indexes}
        unset = [name for name, index in found.items() if index is None]
        if unset and self.learned is not None:
            raise ConfigurationError(
                f"{type(self).__name__} is fitted, but its _{unset[0]}, which `indexes` names, is None: set it in fit"
            )
        return {name: self._learned(index) for name, index in found.items()}

    def compact_arrays(self) -> Saved:
        """Return the arrays that a compact form has; `from_arrays` must compute the others from them."""
        return self.arrays()

    def nested(self) -> Mapping[str, Estimator]:
        """Return the models that this model is made of, by name; none unless overridden."""
        return {}

    # -- saving and loading ------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str], *, precision: Precision | None = None) -> None:
        """Save the model into the folder ``path``, replacing an existing model in one step.

        ``precision`` is ``"full"``, ``"float16"`` or ``"int8"``. The last two round the large tables of a model, which
        makes the folder smaller (`tacenda.artifact.precision`). By default a loaded model, and each loaded model within
        this one, is saved in the precision in which it was stored.

        Before anything on disk is replaced, the model is rebuilt from the data to be written.

        Raises `ArtifactError` if the precision is unknown or the model has no tables to round, if it could not be
        loaded again, or if it cannot be written.
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
        own_precision = precision or self.precision
        if own_precision not in PRECISIONS:
            raise ArtifactError(
                f"precision must be one of {', '.join(PRECISIONS)}, not {own_precision!r}"
            )
        if own_precision != "full" and not self.can_be_compact():
            raise ArtifactError(
                f"{type(self).__name__} has no tables to round: save it with precision='full'"
            )
        if own_precision == "full" or not self.roundable:
            arrays = self.arrays()
        else:
            arrays = compact(self.compact_arrays(), self.roundable, own_precision)
        return Artifact(
            kind=self.kind,
            name=self.name,
            distribution=self.distribution,
            version=plugins.version_of(self.distribution),
            config=self.config_dict(),
            arrays=arrays,
            figures=list(getattr(self, "figures", [])),
            fitted_on=dict(self.fitted_on),
            nested={
                name: model.to_artifact(precision if model.can_be_compact() else None)
                for name, model in self.nested().items()
            },
            mapped=self.mapped_arrays,
        )

    def rounded(self, precision: Precision) -> Self:
        """Return the model as it is after it was saved with a precision and loaded. Raises ArtifactError as `save`."""
        if {self.precision, *self._precisions()} == {precision}:
            return self
        return self.from_artifact(self.to_artifact(precision))

    def _precisions(self) -> Iterator[Precision]:
        """Yield the precision of every model with tables to round: of this one, and of those that it is made of."""
        if self.roundable:
            yield self.precision
        for model in self.nested().values():
            yield from model._precisions()

    def can_be_compact(self) -> bool:
        """Return whether the model, or one that it is made of, has tables that can be rounded."""
        return bool(list(self._precisions()))

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> Self:
        """Rebuild the model of an artifact.

        Raises `ArtifactError` if the artifact is of another class or its contents are invalid, and what `resolve`
        raises for the models within it.
        """
        if (artifact.kind, artifact.name) != (cls.kind, cls.name):
            known = artifact.kind in MODEL_KINDS
            loader = "tacenda.load, which finds the class" if known else "the class that saved it"
            raise ArtifactError(
                f"it holds a model {artifact.name!r} ({artifact.kind}), not {cls.name!r} "
                f"({cls.kind}): load it with {loader}"
            )
        nested = {name: resolve(part) for name, part in artifact.nested.items()}
        config = dict(artifact.config)
        try:
            if isinstance(config.get("settings"), Mapping):
                config["settings"] = cls.settings_class.without_retired(config["settings"])
            arrays, precision = restore(artifact.arrays)
            keywords: dict[str, Any] = {"nested": nested} if nested else {}
            with resetting_idle_options():
                model = cls.from_arrays(config, arrays, **keywords)
        except NotFittedError as error:
            raise ConfigurationError(
                f"{cls.__name__} needs more than it saves, such as its vocabulary: name it in `indexes`"
            ) from error
        except (ArtifactError, KernelError, PluginError):
            raise
        except Exception as error:  # damaged settings and arrays may cause any error in a model
            if is_of_compiler(error):
                raise KernelError(
                    f"the kernels of {cls.__name__} cannot be compiled here: {describe(error)}"
                ) from error
            raise ArtifactError(
                f"{cls.__name__} cannot be rebuilt from it: {describe(error)}"
            ) from error
        model.figures = list(artifact.figures)
        model.fitted_on = dict(artifact.fitted_on)
        # a model without tables of its own has the precision of the first rounded model within it
        parts: list[Any] = [getattr(part, "precision", "full") for part in nested.values()]
        model.precision = next((each for each in (precision, *parts) if each != "full"), "full")
        return model

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Load a saved model of this class from a folder, or an installed one by name.

        Raises `ArtifactError` if it is missing, damaged or of another class.
        """
        artifact = read(path)
        try:
            return cls.from_artifact(artifact)
        except (ArtifactError, PluginError) as error:
            raise type(error)(f"cannot load {os.fspath(path)}: {error}") from error

    def __repr__(self) -> str:
        texts = []
        for option in self.settings.options():
            value = getattr(self.settings, option.name)
            # of a group of options, only those that differ from their defaults are shown
            if isinstance(value, Settings):
                values, defaults = value.to_dict(), option.default.to_dict()
                value = {name: values[name] for name in values if values[name] != defaults[name]}
                if not value:
                    continue
            texts.append(f"{option.name}={value!r}")
        state = "fitted" if self.is_fitted else "not fitted"
        return f"<{type(self).__name__}({', '.join(texts)}), {state}>"


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
    """Rebuild the model of an artifact, whose class is looked up in the registry. Raises as `load`."""
    if artifact.kind not in MODEL_KINDS:
        raise ArtifactError(
            f"it is of the kind {artifact.kind!r}; models are {', '.join(MODEL_KINDS)}"
        )
    try:
        found = plugins.get(artifact.kind, artifact.name, distribution=artifact.distribution)
    except PluginError as error:
        saved_by = f"it was saved by {artifact.distribution} {artifact.version}".rstrip()
        if not isinstance(error, PluginLoadError):
            saved_by += ", which is not installed or no longer provides it"
        raise type(error)(f"{saved_by}: {error}") from error
    if not hasattr(found, "from_artifact"):
        raise PluginError(
            f"the plugin {artifact.name!r} of {artifact.distribution} loads no artifacts"
        )
    return found.from_artifact(artifact)
