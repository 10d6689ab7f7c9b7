"""`Settings`: each option of a model is declared, documented and bounded once, in one place.

A model declares its options as fields of a frozen dataclass and takes them in its constructor::

    @dataclass(frozen=True, kw_only=True)
    class HMMSettings(Settings):
        states: int = option(64, "number of hidden states", at_least=1)
        start: Literal["random", "classes"] = option("classes", "what fitting begins with")
        advanced: HMMAdvanced = group(HMMAdvanced)

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
import sys
import textwrap
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from types import MappingProxyType
from typing import (
    Any,
    ClassVar,
    Concatenate,
    Literal,
    ParamSpec,
    Self,
    TypeVar,
    Union,
    get_args,
    get_origin,
)
from typing import get_type_hints as hints_of

import numpy as np

from tacenda.errors import ConfigurationError

P = ParamSpec("P")
S = TypeVar("S")
M = TypeVar("M")

_QUOTED = 80  # characters of a wrong value that a message repeats


@dataclass(frozen=True)
class Option:
    """What is known of one option.

    Attributes
    ----------
    name, kind, default
        Its name, its type as annotated, and its default value.
    doc
        What it means, and the value of the paper where the default is another.
    at_least, at_most
        Bounds that the value may reach.
    above, below
        Bounds that it may not reach.
    last
        Whether it is shown after the options of subclasses too.
    """

    name: str
    kind: Any
    default: Any
    doc: str
    at_least: float | None = None
    at_most: float | None = None
    above: float | None = None
    below: float | None = None
    last: bool = False

    def wanted(self) -> str:
        """What the option may be, as an error message says it."""
        return _described(self.kind, self._range())

    def admits(self, value: Any) -> bool:
        """Whether ``value`` is of the right type and within the bounds."""
        return _admits(self.kind, value, self._within)

    def _within(self, value: float) -> bool:
        # compared exactly: an integer may be larger than any float
        return (
            abs(value) <= sys.float_info.max
            and (self.at_least is None or value >= self.at_least)
            and (self.at_most is None or value <= self.at_most)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
        )

    def _range(self) -> str:
        bounds = (
            ("at least", self.at_least),
            ("above", self.above),
            ("at most", self.at_most),
            ("below", self.below),
        )
        return " and ".join(f"{word} {bound:g}" for word, bound in bounds if bound is not None)


def option(
    default: Any,
    doc: str,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    above: float | None = None,
    below: float | None = None,
    last: bool = False,
) -> Any:
    """Declare an option: its default, its meaning, its bounds; the annotation is its type."""
    bounds = {"at_least": at_least, "at_most": at_most, "above": above, "below": below}
    return field(default=default, metadata={"doc": " ".join(doc.split()), "last": last, **bounds})


def group(settings: Callable[[], Any], doc: str = "options that few need to change") -> Any:
    """Declare a nested group of options, all at their defaults; a mapping is taken for one too."""
    return field(default_factory=functools.cache(settings), metadata={"doc": doc})


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Base of the frozen, keyword-only dataclasses that hold the options of a model.

    Raises
    ------
    ConfigurationError
        A value is of the wrong type or out of bounds, or an option was set that has no effect
        beside the others; the message names the model and the option.
    """

    #: Options of earlier releases -> the constant that each became, or ``...`` for one that mattered only while
    #: fitting. They are dropped from saved models, so that these still load, and refused everywhere else.
    retired: ClassVar[Mapping[str, Any]] = MappingProxyType({})

    def __post_init__(self) -> None:
        """Check every value, and make groups of mappings, tuples of lists, numbers of numpy's."""
        changed = False
        for one in _options_of(type(self)):  # type: ignore[arg-type]
            value = getattr(self, one.name)
            if value is one.default:  # nearly all are, and a model is made from its settings often
                continue
            changed = True
            if isinstance(value, np.generic):
                value = value.item()
            if isinstance(value, Mapping) and _is_group(one.kind):
                value = one.kind.from_dict(value)
            elif isinstance(value, list):
                value = tuple(value)
            if not one.admits(value):
                self.refuse(one.name, one.wanted())
            object.__setattr__(self, one.name, value)
        if changed:
            self._refuse_idle(self, self.idle(), "")
        self.check()

    def idle(self) -> Mapping[str, str]:
        """Say which options have no effect beside the others, and why; subclasses override it.

        A key is the name of an option, or its path (``advanced.rate_decay``); a value completes the
        sentence "it has no effect ...". Such an option is refused unless it has its default.
        """
        return {}

    def _refuse_idle(self, settings: Settings, reasons: Mapping[str, str], prefix: str) -> None:
        for one in settings.options() if reasons else []:
            value = getattr(settings, one.name)
            if isinstance(value, Settings):
                self._refuse_idle(value, reasons, f"{prefix}{one.name}.")
                continue
            reason = reasons.get(prefix + one.name)
            if reason and value != one.default:
                raise ConfigurationError(
                    f"{self.model()}: {prefix}{one.name} has no effect {reason}; leave it out"
                )

    def check(self) -> None:
        """Check what involves several options; subclasses call `refuse` from here."""

    def refuse(self, name: str, wanted: str) -> None:
        """Raise ConfigurationError: the option ``name`` must be ``wanted``."""
        value = repr(getattr(self, name))
        shown = value if len(value) <= _QUOTED else value[:_QUOTED] + "..."
        raise ConfigurationError(f"{self.model()}: {name} must be {wanted}, not {shown}")

    @classmethod
    def model(cls) -> str:
        """Whose settings these are: the name of the class without ``Settings`` or ``Advanced``."""
        return cls.__name__.removesuffix("Settings").removesuffix("Advanced")

    @classmethod
    def options(cls) -> list[Option]:
        """Every option, in the order of the signature."""
        return list(_options_of(cls))  # type: ignore[arg-type] # classes can be hashed

    def to_dict(self) -> dict[str, Any]:
        """The values as JSON: tuples are lists, groups are dictionaries."""
        return {one.name: _plain(getattr(self, one.name)) for one in fields(self)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Settings from what `to_dict` gave, or from part of it.

        Raises
        ------
        ConfigurationError
            An option is unknown, of the wrong type or out of bounds.
        """
        cls.require_known(values)
        return cls(**values)

    @classmethod
    def without_retired(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return what `to_dict` gave in an earlier release, without options that are retired by now.

        Raises ConfigurationError for a retired option whose value is not the constant it became.
        """
        for name, constant in cls.retired.items():
            given = values.get(name, constant)
            given = tuple(given) if isinstance(given, list) else given
            if constant is not ... and given != constant:
                raise ConfigurationError(
                    f"{cls.model()} no longer has the option {name}: it is always {constant!r}, not {given!r}"
                )
        kept = {name: value for name, value in values.items() if name not in cls.retired}
        for one in cls.options():
            if _is_group(one.kind) and isinstance(kept.get(one.name), Mapping):
                kept[one.name] = one.kind.without_retired(kept[one.name])
        return kept

    @classmethod
    def require_known(cls, names: Mapping[str, Any]) -> None:
        """Raise ConfigurationError for a name that is no option, with the nearest one that is."""
        known = cls.__dataclass_fields__
        for name in names:
            if name in cls.retired:
                raise ConfigurationError(
                    f"{cls.model()} no longer has the option {name}; leave it out"
                )
            if name not in known:
                raise ConfigurationError(
                    f"{cls.model()} has no option {str(name)[:_QUOTED]!r}{cls._hint(str(name))}; its "
                    f"options are {', '.join(known)}"
                )

    @classmethod
    def _hint(cls, name: str) -> str:
        for one in cls.options():
            inner = [each.name for each in fields(one.kind)] if _is_group(one.kind) else []
            if name in inner:
                return f" (it is one of {one.name}={{{name!r}: ...}})"
        near = difflib.get_close_matches(name, [one.name for one in fields(cls)], 1)
        return f" (did you mean {near[0]!r}?)" if near else ""

    @classmethod
    def described(cls) -> str:
        """The options as the section "Parameters" of a docstring."""
        lines = ["Parameters", "----------"]
        for one in cls.options():
            lines.append(one.name)
            text = one.doc[:1].upper() + one.doc[1:] + "."
            lines += textwrap.wrap(text, 100, initial_indent="    ", subsequent_indent="    ")
            inner_options = one.kind.options() if _is_group(one.kind) else []
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

    Raises
    ------
    ConfigurationError
        From the constructor: an option is unknown, of the wrong type or out of bounds.
    """

    def decorate(initialise: Callable[[M, S], None]) -> Callable[Concatenate[M, P], None]:
        declared = (
            settings if isinstance(settings, type) and issubclass(settings, Settings) else None
        )

        @functools.wraps(initialise)
        def constructor(self: M, *args: P.args, **options: P.kwargs) -> None:
            if declared is not None:
                declared.require_known(options)
            initialise(self, settings(*args, **options))

        own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        given = [
            each.replace(default=_MadeAnew(getattr(each.annotation, "__name__", each.annotation)))
            if repr(each.default) == "<factory>"
            else each
            for each in inspect.signature(settings).parameters.values()
        ]
        if declared is not None:
            places = [one.name for one in declared.options()]
            given.sort(key=lambda parameter: places.index(parameter.name))
        shown = inspect.Signature([own, *given], return_annotation=None)
        constructor.__signature__ = shown  # type: ignore[attr-defined]
        return constructor  # type: ignore[return-value]

    return decorate


class _MadeAnew:
    """How a signature shows a group of options at their defaults: ``HMMAdvanced()``."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"{self._name}()"


@functools.cache
def _options_of(cls: type[Settings]) -> tuple[Option, ...]:
    hints = hints_of(cls)
    found = []
    for one in fields(cls):
        default = one.default if one.default_factory is MISSING else one.default_factory()
        found.append(Option(one.name, hints[one.name], default, **one.metadata))
    return tuple(sorted(found, key=lambda one: one.last))


def _is_group(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Settings)


def _parts(kind: Any) -> Iterator[Any]:
    """The alternatives of a union, without None."""
    if get_origin(kind) in (Union, types.UnionType):
        yield from (part for part in get_args(kind) if part is not type(None))
    else:
        yield kind


def _admits(kind: Any, value: Any, within: Callable[[float], bool]) -> bool:
    if value is None:
        return kind is Any or type(None) in get_args(kind)
    for part in _parts(kind):
        if get_origin(part) is Literal:
            fits = any(
                value is one or (type(value), value) == (type(one), one) for one in get_args(part)
            )
        elif get_origin(part) is tuple:
            inner = get_args(part)[0]
            fits = isinstance(value, tuple) and all(_admits(inner, one, within) for one in value)
        elif part is int:
            fits = type(value) is int and within(value)
        elif part is float:
            fits = type(value) in (int, float) and within(value)
        elif part is Any:
            fits = True
        else:
            fits = isinstance(value, get_origin(part) or part)
        if fits:
            return True
    return False


def _described(kind: Any, bounds: str) -> str:
    words = []
    for part in _parts(kind):
        if get_origin(part) is Literal:
            words.append(f"one of {', '.join(map(str, get_args(part)))}")
        elif get_origin(part) is tuple:
            words.append(f"a list, each element {_described(get_args(part)[0], bounds)}")
        elif part in (int, float):
            number = "a whole number" if part is int else "a number"
            words.append(f"{number} ({bounds})" if bounds else number)
        else:
            name = (get_origin(part) or part).__name__
            article = "an" if name[0].upper() in "AEIOU" else "a"
            words.append({bool: "true or false", str: "text"}.get(part, f"{article} {name}"))
    return " or ".join(words + ["None"] * (type(None) in get_args(kind)))


def _plain(value: Any) -> Any:
    if isinstance(value, Settings):
        return value.to_dict()
    return list(value) if isinstance(value, tuple) else value
