"""`State`: what a language model remembers of the words so far."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from tacenda.errors import DataError

__all__ = ["State"]


class State:
    """The memory of a language model between two words; it can be copied, compared and used as a key.

    A model never changes a state that it is given: ``advance`` returns a new one. Equal states of one model
    predict the same. A state can be written into only because the functions named as in the kenlm module
    (``BeginSentenceWrite``, ``BaseScore``) do so; do not use them on a state that is a key of a dictionary.

    Attributes
    ----------
    value
        Immutable and hashable; only its model knows what it means: the word ids of a context, the bytes of a
        vector, a tuple of such. None means that nothing was written into the state yet.
    """

    __slots__ = ("value",)

    def __init__(self, value: Hashable = None) -> None:
        self.value = value

    def parts(self) -> tuple[Any, ...]:
        """Return the value, for a model whose values are tuples. Raises DataError as `check_begun` does."""
        self.check_begun()
        assert isinstance(self.value, tuple)
        return self.value

    def check_begun(self) -> None:
        """Raise DataError if nothing was written into the state yet."""
        if self.value is None:
            raise DataError(
                "the state is empty: begin with model.start(), or model.BeginSentenceWrite(state)"
            )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, State) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)

    def __copy__(self) -> State:
        return State(self.value)

    def __deepcopy__(self, memo: dict[int, object]) -> State:
        return State(self.value)  # the value is immutable: no need to copy it

    def __reduce__(self) -> tuple[type[State], tuple[Hashable]]:
        return State, (self.value,)

    def __repr__(self) -> str:
        return f"State({self.value!r})"
