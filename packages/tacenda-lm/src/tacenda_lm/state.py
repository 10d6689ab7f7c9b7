"""`State`: what a language model remembers of the words so far; copyable, hashable, comparable."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from tacenda.errors import DataError

__all__ = ["State"]


class State:
    """The memory of a language model between two words.

    Attributes
    ----------
    value
        Immutable and hashable, with a meaning only its model knows: word ids of a context, the bytes
        of a vector, a tuple of such. None is a state nothing was written into yet.

    Models never change a state that they are given: ``advance`` returns a new one. It is a small object that
    can be written into only because the functions named as in the kenlm module (``BeginSentenceWrite``,
    ``BaseScore``) write into one; do not do that to a state that is a key of a dictionary. States of one model
    that are equal predict the same.
    """

    __slots__ = ("value",)

    def __init__(self, value: Hashable = None) -> None:
        self.value = value

    def parts(self) -> tuple[Any, ...]:
        """The value, of a model whose values are tuples. Raises DataError as `check_begun`."""
        self.check_begun()
        assert isinstance(self.value, tuple)
        return self.value

    def check_begun(self) -> None:
        """Raise DataError where nothing was written into the state yet."""
        if self.value is None:
            raise DataError(
                "the state was not begun: use model.start(), or model.BeginSentenceWrite(state)"
            )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, State) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)

    def __copy__(self) -> State:
        return State(self.value)

    def __deepcopy__(self, memo: dict[int, object]) -> State:
        return State(self.value)  # what is immutable need not be copied

    def __reduce__(self) -> tuple[type[State], tuple[Hashable]]:
        return State, (self.value,)

    def __repr__(self) -> str:
        return f"State({self.value!r})"
