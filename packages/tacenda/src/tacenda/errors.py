"""Tacenda's errors and warnings: each is one sentence that says what is wrong, where, and what to do."""

import sys
import warnings
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral
from typing import Any, get_args

_MAX_MESSAGE_LENGTH = 800  # characters of a message; what it quotes may be a whole hostile file


class TacendaError(Exception):
    """Base class of the errors that a user can fix; the command line shows them in one line.

    A message may quote a hostile file or argument: characters that are not printable are escaped, and the middle of a
    very long message is left out.
    """

    def __init__(self, message: object = "") -> None:
        super().__init__(_make_printable(str(message)))


class PluginError(TacendaError):
    """A plugin is unknown, ambiguous or registered twice."""


class PluginLoadError(PluginError):
    """A plugin was found but cannot be loaded; ``__cause__`` holds the reason."""


class PluginUnavailableError(PluginLoadError):
    """A plugin is valid but cannot work here, because a device or an optional package is missing."""


class ArtifactError(TacendaError):
    """A saved model is missing, damaged, hostile or of a version this release does not read."""


class CorpusError(TacendaError, ValueError):
    """A text or a vocabulary cannot be used as given."""


class DataError(TacendaError):
    """A dataset is unknown, cannot be fetched, or fails its checks."""


class KernelError(TacendaError):
    """No backend offers an operation on this device, or a backend broke its contract."""


class ConfigurationError(TacendaError, ValueError):
    """A setting of a model or component is out of its range."""


class FittingError(TacendaError, RuntimeError):
    """A fit cannot start, resume or continue; the model keeps the best parameters it has seen."""


class NotFittedError(TacendaError, RuntimeError):
    """A model or component is used before it was fitted or loaded."""


class TacendaWarning(UserWarning):
    """The call works, but probably does not do what the user means."""


#: Packages whose stack frames are not the user's: Tacenda, its hosts and what runs them, context managers and wrappers.
_HOSTS = ("tacenda", "spacy", "thinc", "surprise", "lenskit", "joblib", "contextlib", "functools")
_given_warnings: dict[int, set[str]] = {}  # topics by the ids of objects that still exist


def warn(
    message: str,
    category: type[Warning] = TacendaWarning,
    *,
    once: tuple[object, str] | None = None,
) -> None:
    """Give a warning at the line of the user's code that called Tacenda or its host.

    Parameters
    ----------
    message
        What is wrong, where, and what to do.
    category
        The class of the warning.
    once
        An object, such as a model or a component, and a topic: only the first warning of the topic is given for this
        object, even if later messages differ. Without it, Python shows equal messages from one line once.
    """
    if once is not None:
        owner, topic = once
        # not a WeakKeyDictionary: models of plugins may define equality
        if id(owner) not in _given_warnings:
            _given_warnings[id(owner)] = set()
            weakref.finalize(owner, _given_warnings.pop, id(owner), None).atexit = False
        if topic in _given_warnings[id(owner)]:
            return
        _given_warnings[id(owner)].add(topic)
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None:
        package = frame.f_globals.get("__name__", "").partition(".")[0]
        if package not in _HOSTS and not package.startswith("tacenda_"):
            break
        level, frame = level + 1, frame.f_back
    warnings.warn(_make_printable(message), category, stacklevel=level)


def check_whole(
    name: str, value: object, least: int = 1, error: type[TacendaError] = ConfigurationError
) -> None:
    """Raise ``error`` for the value of an argument that is not a whole number of at least ``least``."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise error(f"{name} is {value!r:.40}; it must be a whole number of at least {least}")


def check_choice(name: str, value: Any, choices: Any) -> Any:
    """Return the value of an argument. Raises ConfigurationError if it is none of the ``choices``, a `Literal`."""
    *others, last = map(repr, get_args(choices))
    if value not in get_args(choices):
        raise ConfigurationError(f"{name} must be {', '.join(others)} or {last}, not {value!r}")
    return value


@contextmanager
def importing(
    need: str, install: str, advice: str = "", error: type[TacendaError] = ConfigurationError
) -> Iterator[None]:
    """Raise ``error`` if an import in the block fails; ``need`` is a clause such as "a cluster needs Dask"."""
    try:
        yield
    except ImportError as cause:
        raise error(f"{need} ({cause}): install it with pip install '{install}'{advice}") from cause


def is_of_compiler(error: BaseException) -> bool:
    """Return whether numba raised an error while it compiled, which is no fault of a model or a file."""
    return type(error).__module__.partition(".")[0] in ("numba", "llvmlite")


def describe(error: BaseException) -> str:
    """Return an exception in one line: the message of a TacendaError, type and message of any other."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # the ``__str__`` of a foreign error may fail
        text = ""
    if isinstance(error, TacendaError):
        return text
    return _make_printable(f"{type(error).__name__}: {text}" if text else type(error).__name__)


def _make_printable(text: str) -> str:
    """Return a text with all but printable characters and line feeds escaped, and shortened if it is very long."""
    text = "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)
    if len(text) <= _MAX_MESSAGE_LENGTH:
        return text
    # without what is put between, so that no error shortens it again
    half = (_MAX_MESSAGE_LENGTH - 40) // 2
    return f"{text[:half]} ... ({len(text) - 2 * half} characters) ... {text[-half:]}"
