"""Whether something is refused as it should be: an error of ours, in one line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tacenda.errors import TacendaError

__all__ = ["assert_refuses", "refusal_of"]


def assert_refuses(act: Callable[[], Any], error: type[TacendaError], action: str) -> None:
    """The act raises an error of that type, and says so in one line."""
    assert refusal_of(act, error, action) is not None, f"{action} raises no {error.__name__}"


def refusal_of(act: Callable[[], Any], error: type[TacendaError], action: str) -> str | None:
    """What an act says when it raises an error of that type, None if it raises none."""
    try:
        act()
    except error as caught:
        message = str(caught).strip()
    else:
        return None
    assert message, f"{action} raises {error.__name__} without a message"
    assert "\n" not in message, f"{action}: the message is longer than a sentence"
    return message
