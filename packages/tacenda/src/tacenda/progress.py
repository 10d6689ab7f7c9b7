"""Progress bars for everything that takes more than a moment.

A bar goes to standard error, appears after a second of work, and only on a terminal or in a notebook.
``TACENDA_PROGRESS=1`` shows it everywhere, ``TACENDA_PROGRESS=0`` nowhere.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

T = TypeVar("T")

DELAY_SECONDS = 1.0
#: Errors of a full disk under the log, and of a pipe or a stream that is closed.
_LOST = OSError, ValueError


@dataclass(eq=False)
class Progress(Generic[T]):
    """A hidden bar, with the methods of ``tqdm`` that visible bars have.

    It needs no tqdm, and so no lock or monitor thread, which would be a hazard before a fork.
    """

    iterable: Iterable[T]

    def __iter__(self) -> Iterator[T]:
        return iter(self.iterable)

    def update(self, n: float = 1) -> Any:
        """Count ``n`` more units."""

    def set_postfix_str(self, s: str = "", refresh: bool = True) -> None:
        """Show a short text, such as the current loss, after the bar."""

    def close(self) -> None:
        """Remove the bar."""


def track(
    iterable: Iterable[T] | None,
    description: str,
    total: float | None = None,
    unit: str = "it",
    disable: bool | None = None,
) -> Progress[T]:
    """Show the progress of an iteration.

    Parameters
    ----------
    iterable
        The items to iterate over; ``None`` for a bar moved by ``update``.
    description
        The work, in a few words.
    total
        The number of units, if it is not ``len(iterable)``.
    unit
        The name of a unit, such as ``"epoch"`` or ``"token"``; any but ``"it"`` is counted in k, M, G.
    disable
        True hides the bar, False shows it, None decides as the module's docstring says.
    """
    hidden = Progress(iterable if iterable is not None else ())
    if not _is_visible(disable):
        return hidden
    from tqdm.auto import tqdm

    class Bar(tqdm):  # type: ignore[misc]
        # no helper thread: in a forked child it would be lost, and its lock would stay locked
        monitor_interval = 0

        # nothing that keeps a bar from being seen may end the work
        def display(self, *arguments: Any, **more: Any) -> None:
            with suppress(*_LOST):
                super().display(*arguments, **more)

        def close(self) -> None:
            with suppress(*_LOST):
                super().close()

    try:
        bar = Bar(
            iterable,
            desc=description,
            total=total,
            unit=unit,
            unit_scale=unit != "it",
            delay=DELAY_SECONDS,
            mininterval=0.2,
            dynamic_ncols=True,
            file=sys.stderr,
        )
    except _LOST:  # it flushes what an earlier bar could not write
        return hidden
    return cast("Progress[T]", bar)


def announce(message: str) -> None:
    """Write a line about work that cannot be counted, if a bar would be visible."""
    if _is_visible():
        from tqdm.auto import tqdm

        with suppress(*_LOST):
            tqdm.write(message, file=sys.stderr)  # above the visible bars


def _is_visible(disable: bool | None = None) -> bool:
    """Tell whether to show bars: as ``disable`` or else the module's docstring says, never without standard error."""
    if sys.stderr is None or disable is not None:
        return sys.stderr is not None and not disable
    choice = os.environ.get("TACENDA_PROGRESS", "").strip().lower()
    if choice:
        return choice not in {"0", "false", "no", "off"}
    if "ipykernel" in sys.modules:
        return True
    # what stands in for standard error may have no such method
    isatty = getattr(sys.stderr, "isatty", lambda: False)
    with suppress(*_LOST):
        return bool(isatty())
    return False
