"""The command ``tacenda`` as a process.

The errors in `_EXPECTED` are one line on standard error, or a traceback with ``TACENDA_DEBUG=1``. The exit status is 1
after an error, 2 after wrong usage, and 128 plus its number after a signal.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import time
import warnings
from contextlib import suppress
from threading import Thread
from types import FrameType
from typing import Any

from tacenda.errors import TacendaError, describe

#: Errors that are shown in one line. Any other is a bug, as is a NotImplementedError without a message.
_EXPECTED = TacendaError, OSError, UnicodeEncodeError, MemoryError, NotImplementedError, Warning
#: Arguments of Python that are options of commands; error messages name them as Python has them.
_PYTHON_ARGUMENTS = re.compile(
    r"\b(blank_lines|duplicates|encoding|errors|marks|split|text_field|tokenizer)=([\"'])([\w:-]+)\2"
)


def start() -> None:
    """Run the command line and exit, quietly too if it is interrupted while it is imported."""
    received: list[int] = []

    def interrupt(number: int, _: Any) -> None:
        received.append(number)
        # this exception removes temporary files on its way, and no handler of plugins' errors catches it
        raise KeyboardInterrupt

    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        # nohup ignores SIGHUP, and so do we then
        if number is not None and signal.getsignal(number) == signal.SIG_DFL:
            with suppress(ValueError):  # in a thread
                signal.signal(number, interrupt)
    previous_hook, sys.unraisablehook = sys.unraisablehook, _send_lost_interrupt_again
    try:
        from tacenda.cli.main import app

        with warnings.catch_warnings():
            warnings.showwarning = _show_warning  # type: ignore[assignment]
            try:
                app(prog_name="tacenda")
            finally:
                sys.unraisablehook = previous_hook
                _flush_output()
    except BaseException as error:
        if received or _was_interrupted(error):
            raise SystemExit(128 + (received or [signal.SIGINT])[-1]) from None
        is_silent = isinstance(error, NotImplementedError) and not str(error)
        is_debugging = os.environ.get("TACENDA_DEBUG", "0") not in ("", "0")
        if is_silent or is_debugging or not isinstance(error, _EXPECTED):
            raise
        _print_error(_describe_in_one_line(error))
        raise SystemExit(1) from None


def _show_warning(message: Warning | str, *place: Any) -> None:
    """Print a warning in one line, without the place in our code."""
    _print_error("note: " + " ".join(str(message).split()))


def _send_lost_interrupt_again(lost: sys.UnraisableHookArgs) -> None:
    """Send a Ctrl-C again that was raised where Python drops exceptions, such as in a callback of C code."""
    if issubclass(lost.exc_type, KeyboardInterrupt):
        Thread(target=_interrupt_after, args=[sys._getframe()], daemon=True).start()
    else:
        sys.__unraisablehook__(lost)


def _interrupt_after(frame: FrameType) -> None:
    """Send Ctrl-C when a function has returned, in which it would be lost."""
    while True:
        with suppress(RuntimeError):  # the function is running
            frame.clear()
            break
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)


def _was_interrupted(error: BaseException | None) -> bool:
    """Return whether an error is a Ctrl-C, or was raised by a library that it interrupted."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _print_error(text: str) -> None:
    """Print a line on standard error, unless it is closed or full: no fit ends because of that."""
    # without a file, print would use standard output
    if sys.stderr is not None:
        with suppress(OSError):
            print("tacenda:", as_options(text), file=sys.stderr)


def as_options(message: str) -> str:
    """Return a message with the arguments that it advises as options: ``--errors replace`` for ``errors="replace"``."""
    return _PYTHON_ARGUMENTS.sub(
        lambda found: f"--{found[1].replace('_', '-')} {found[3]}", message
    )


def _flush_output() -> None:
    """Flush standard output; if that fails, close it, so that the interpreter does not try again at exit."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except (OSError, ValueError) as error:
        with suppress(OSError, ValueError):  # it may have no file
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        # the reader of the output, such as head, has ended
        if isinstance(error, BrokenPipeError):
            raise SystemExit(1) from None
        if isinstance(error, OSError):
            raise


def _describe_in_one_line(error: BaseException) -> str:
    """Return the message of an expected error, as a user should read it."""
    if isinstance(error, UnicodeEncodeError):
        return (
            f"the output cannot be written in the encoding {error.encoding}, which has no "
            f"{error.object[error.start]!a}: set PYTHONIOENCODING=utf-8"
        )
    if isinstance(error, OSError):
        where = (
            f"{error.filename} cannot be used" if error.filename else "reading or writing failed"
        )
        return f"{where}: {error.strerror or describe(error)}"
    if isinstance(error, MemoryError):
        return f"there is not enough memory ({describe(error)}): process less at a time, or use a larger machine"
    if isinstance(error, Warning):
        return f"{str(error) or type(error).__name__} (a warning, which python -W error turns into an error)"
    return str(error) if isinstance(error, NotImplementedError) else describe(error)
