"""`Settings`: each option of a model is declared, documented and bounded once, in one place.

A model declares its options as fields of a frozen dataclass and takes them in its constructor::

    @dataclass(frozen=True, kw_only=True)
    class HMMSettings(Settings):
        states: int = option(64, "number of hidden states", at_least=1)
        start: Literal["random", "classes"] = option("classes", "what fitting begins with")
        advanced: Group[HMMAdvanced] = group(HMMAdvanced)

    class HMM(Estimator):
        @configured_by(HMMSettings)
        def __init__(self, settings: HMMSettings) -> None:
            super().__init__(settings)

`HMM(states=10)` then has an explicit keyword-only signature for `help`, an editor and mypy. The type of a
field says what it may hold: ``int``, ``float``, ``bool``, ``str``, ``Literal``, ``tuple[X, ...]``, another
`Settings`, or one of these or None.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import re
import sys
import textwrap
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import MISSING, dataclass, field, fields
from types import MappingProxyType
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Concatenate,
    Generic,
    Literal,
    ParamSpec,
    Self,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np

from tacenda.errors import ConfigurationError

P = ParamSpec("P")
S = TypeVar("S")
M = TypeVar("M")

if TYPE_CHECKING:

    class Group(Generic[S]):
        """A nested group of options: read as the settings declared, given as these or as a mapping."""

        def __get__(self, owner: object, kind: type | None = None) -> S: ...

        def __set__(self, owner: object, value: S | Mapping[str, Any]) -> None: ...

else:

    class Group:
        """A nested group of options; type checkers accept a mapping for it: ``Group[Advanced]``."""

        def __class_getitem__(cls, settings):
            """Return the class of the group, as which the option is annotated."""
            return settings


_MAX_QUOTED_LENGTH = 80  # characters of a wrong value that a message repeats


@dataclass(frozen=True)
class Option:
    """One option: its name, type as annotated, default value, meaning and bounds.

    ``at_least`` and ``at_most`` may be reached, ``above`` and ``below`` not; ``matches`` is a regular expression for a
    text, and the same in words. ``last`` shows it after the options of subclasses too. ``group`` is the class of a
    nested group of options.
    """

    name: str
    kind: Any
    default: Any
    doc: str
    at_least: float | None = None
    at_most: float | None = None
    above: float | None = None
    below: float | None = None
    matches: tuple[str, str] | None = None
    last: bool = False
    group: type[Settings] | None = None

    def read(self, value: Any, kind: Any = None) -> Any:
        """Return ``value`` as the option holds it: numbers for those of NumPy, and tuples for lists.

        Raises TypeError if it is not of the type ``kind``, by default that of the option, or out of bounds.
        """
        kind = self.kind if kind is None else kind
        origin = get_origin(kind)
        value = value.item() if isinstance(value, np.generic) else value
        value = tuple(value) if isinstance(value, list) else value
        if origin in (Union, types.UnionType):
            for part in get_args(kind):
                with suppress(TypeError):
                    return self.read(value, part)
            raise TypeError
        if origin is tuple and isinstance(value, tuple):
            return tuple(self.read(one, get_args(kind)[0]) for one in value)
        if origin is Literal:
            is_right = any(type(value) is type(one) and value == one for one in get_args(kind))
        elif kind in (int, float):
            # integers are not converted, because they may be larger than any float; a bool is not a number
            is_right = (
                (type(value) is int or (kind is float and type(value) is float))
                and abs(value) <= sys.float_info.max
                and (self.at_least is None or value >= self.at_least)
                and (self.at_most is None or value <= self.at_most)
                and (self.above is None or value > self.above)
                and (self.below is None or value < self.below)
            )
        else:
            is_right = kind is Any or isinstance(value, origin or kind)
            if kind is str and is_right and self.matches is not None:
                is_right = re.fullmatch(self.matches[0], value) is not None
        if not is_right:
            raise TypeError
        return value

    def describe_allowed(self, kind: Any = None) -> str:
        """Return the allowed types and bounds in words, for error messages."""
        kind = self.kind if kind is None else kind
        origin = get_origin(kind)
        if self.group is not None:
            return "a dictionary of options"
        if origin in (Union, types.UnionType):
            return " or ".join(map(self.describe_allowed, get_args(kind)))
        if origin is Literal:
            return f"one of {', '.join(map(str, get_args(kind)))}"
        if origin is tuple:
            return f"a list, each element {self.describe_allowed(get_args(kind)[0])}"
        words = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
        if kind in (int, float):
            bounds = " and ".join(
                f"{name.replace('_', ' ')} {bound if isinstance(bound, int) else f'{bound:.10g}'}"
                for name in ("at_least", "above", "at_most", "below")
                if (bound := getattr(self, name)) is not None
            )
            return f"{words[kind]} ({bounds})" if bounds else words[kind]
        if kind is type(None):
            return "None"
        if kind is str and self.matches is not None:
            return self.matches[1]
        name = (origin or kind).__name__
        return words.get(kind) or f"{'an' if name[0].upper() in 'AEIOU' else 'a'} {name}"


def option(
    default: Any,
    doc: str,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    above: float | None = None,
    below: float | None = None,
    matches: tuple[str, str] | None = None,
    last: bool = False,
) -> Any:
    """Declare an option: its default, its meaning, its bounds as in `Option`; the annotation is its type."""
    bounds = {"at_least": at_least, "at_most": at_most, "above": above, "below": below}
    about = {"doc": " ".join(doc.split()), "matches": matches, "last": last}
    return field(default=default, metadata={**about, **bounds})


def group(settings: Callable[[], Any], doc: str = "options that few need to change") -> Any:
    """Declare a nested group of options, all at their defaults; a mapping is taken for one too.

    Groups are shown after all other options.
    """
    return field(default_factory=functools.cache(settings), metadata={"doc": doc})


_resets_idle = ContextVar("_resets_idle", default=False)


@contextmanager
def resetting_idle_options() -> Iterator[None]:
    """Reset options without effect within the block instead of refusing them: earlier releases may have saved some."""
    before = _resets_idle.set(True)
    try:
        yield
    finally:
        _resets_idle.reset(before)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Base of the frozen, keyword-only dataclasses that hold the options of a model.

    Raises ConfigurationError, which names the model and the option, for a value of the wrong type or out of bounds, and
    for an option that has no effect with the others, except within `resetting_idle_options`.
    """

    #: Options of earlier releases -> the constant that each became, or ``...`` for one that mattered only while
    #: fitting. They are dropped from saved models, so that these still load, and refused everywhere else.
    retired: ClassVar[Mapping[str, Any]] = MappingProxyType({})

    def __post_init__(self) -> None:
        """Convert mappings to groups, lists to tuples and numpy scalars to numbers, and check every value.

        A subclass that has conditions on several options calls this first, and then `refuse`.
        """
        changed = False
        for one in _options_of(type(self)):  # type: ignore[arg-type]
            value = getattr(self, one.name)
            # the usual case, and fast, because a model is often made from its settings
            if value is one.default:
                continue
            changed = True
            if isinstance(value, Mapping) and one.group is not None:
                value = one.group.from_dict(value)
            try:
                object.__setattr__(self, one.name, one.read(value))
            except TypeError:
                self.refuse(one.name, one.describe_allowed())
        for path, reason in (self.idle() if changed else {}).items():
            *groups, name = path.split(".")
            owner = functools.reduce(getattr, groups, self)
            default = getattr(type(owner), name)
            if getattr(owner, name) == default:
                continue
            if not _resets_idle.get():
                raise ConfigurationError(
                    f"{self.model()}: {path} has no effect {reason}; leave it out"
                )
            object.__setattr__(owner, name, default)

    def idle(self) -> Mapping[str, str]:
        """Return which options have no effect with the others, and why; subclasses override it.

        A key is the name of an option, or its path (``advanced.rate_decay``); a value completes the
        sentence "it has no effect ...". Such an option is refused unless it has its default.
        """
        return {}

    def refuse(self, name: str, wanted: str) -> None:
        """Raise ConfigurationError: the option ``name`` must be ``wanted``."""
        value = repr(getattr(self, name))
        shown = value if len(value) <= _MAX_QUOTED_LENGTH else value[:_MAX_QUOTED_LENGTH] + "..."
        raise ConfigurationError(f"{self.model()}: {name} must be {wanted}, not {shown}")

    @classmethod
    def model(cls) -> str:
        """Return the name of the model with these settings: the class's, without ``Settings`` or ``Advanced``."""
        return cls.__name__.removesuffix("Settings").removesuffix("Advanced")

    @classmethod
    def options(cls) -> list[Option]:
        """Return every option, in the order of the signature."""
        return list(_options_of(cls))  # type: ignore[arg-type]

    def to_dict(self) -> dict[str, Any]:
        """Return the values as JSON: tuples are lists, groups are dictionaries."""
        return {one.name: _as_json(getattr(self, one.name)) for one in fields(self)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return settings from the result of `to_dict`, or from part of it.

        Raises ConfigurationError if an option is unknown, of the wrong type or out of bounds.
        """
        try:
            return cls(**values)
        except TypeError:
            cls.require_known(values)
            raise

    @classmethod
    def without_retired(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the result of `to_dict` of an earlier release, without options that are retired by now.

        Raises ConfigurationError for a retired option whose value is not the constant it became.
        """
        for name, constant in cls.retired.items():
            given = values.get(name, constant)
            given = tuple(given) if isinstance(given, list) else given
            if constant is not ... and given != constant:
                raise ConfigurationError(
                    f"{cls.model()} no longer has the option {name}: it is always {constant!r}, not {given!r}"
                )
        options = _options_of(cls)  # type: ignore[arg-type] # classes can be hashed
        names = {one.name for one in options}
        current = {name: value for name, value in values.items() if name not in cls.retired}
        for given in (values.get(name) for name in cls.retired):
            # options of a retired group may belong to the class itself now
            if isinstance(given, Mapping):
                current = {name: value for name, value in given.items() if name in names} | current
        for one in options:
            if isinstance(current.get(one.name), Mapping) and one.group is not None:
                current[one.name] = one.group.without_retired(current[one.name])
        return current

    @classmethod
    def require_known(cls, names: Mapping[str, Any]) -> None:
        """Raise ConfigurationError for a name that is no option, with the nearest one that is."""
        known = {one.name: one for one in _options_of(cls)}  # type: ignore[arg-type]
        for name in names:
            if name in cls.retired:
                raise ConfigurationError(
                    f"{cls.model()} no longer has the option {name}; leave it out"
                )
            if name in known:
                continue
            near = difflib.get_close_matches(str(name), known, 1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            for one in known.values():
                if one.group is not None and any(each.name == name for each in fields(one.group)):
                    hint = f" (it is one of {one.name}={{{name!r}: ...}})"
            raise ConfigurationError(
                f"{cls.model()} has no option {str(name)[:_MAX_QUOTED_LENGTH]!r}{hint}; its "
                f"options are {', '.join(known)}"
            )

    @classmethod
    def document(cls) -> str:
        """Return the options as the section "Parameters" of a docstring."""
        lines = ["Parameters", "----------"]
        for one in cls.options():
            lines.append(one.name)
            text = one.doc[:1].upper() + one.doc[1:] + "."
            lines += textwrap.wrap(text, 100, initial_indent="    ", subsequent_indent="    ")
            inner_options = one.group.options() if one.group else []
            if inner_options:
                lines.append("")
            for inner in inner_options:
                text = f"* {inner.name} = {inner.default!r}: {inner.doc}."
                lines += textwrap.wrap(text, 100, initial_indent="    ", subsequent_indent="      ")
        return "\n".join(lines)


def configured_by(
    settings: Callable[P, S],
) -> Callable[[Callable[[M, S], None]], Callable[Concatenate[M, P], None]]:
    """Make a constructor that takes an object of settings take its options instead.

    The constructor raises ConfigurationError if an option is unknown, of the wrong type or out of bounds.
    """
    declared: Any = settings

    def decorate(initialize: Callable[[M, S], None]) -> Callable[Concatenate[M, P], None]:
        @functools.wraps(initialize)
        def constructor(self: M, *args: P.args, **options: P.kwargs) -> None:
            try:
                chosen = settings(*args, **options)
            except TypeError:
                declared.require_known(options)
                if not args:
                    raise
                raise ConfigurationError(
                    f"{declared.model()} takes options by name, such as {declared.options()[0].name}=..., and was "
                    f"given {args[0]!r:.80} without one"
                ) from None
            initialize(self, chosen)

        given = inspect.signature(settings).parameters
        shown = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
        for one in declared.options():
            each = given[one.name]
            if one.group:
                name = one.group.__name__
                each = each.replace(default=_New(name), annotation=f"{name} | Mapping[str, Any]")
            shown.append(each)
        about: Any = constructor
        about.__signature__ = inspect.Signature(shown, return_annotation=None)
        about.settings_class = declared  # `Estimator` makes it that of the class
        return constructor  # type: ignore[return-value]

    return decorate


class _New:
    """The default of a group of options in a signature, shown as ``HMMAdvanced()``."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"{self._name}()"


def _as_json(value: Any) -> Any:
    if isinstance(value, Settings):
        return value.to_dict()
    return list(map(_as_json, value)) if isinstance(value, tuple) else value


@functools.cache
def _options_of(cls: type[Settings]) -> tuple[Option, ...]:
    hints = get_type_hints(cls)
    found = []
    for one in fields(cls):
        default = one.default if one.default_factory is MISSING else one.default_factory()
        inner = type(default) if isinstance(default, Settings) else None
        found.append(Option(one.name, hints[one.name], default, group=inner, **one.metadata))
    return tuple(sorted(found, key=lambda one: (one.group is not None, one.last)))
