"""`State`: the memory of a language model between two words, and checks of states and of the words after them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence, Sized
from typing import Any

import numpy as np
import numpy.typing as npt

from tacenda.errors import DataError
from tacenda_lm.sequences import Ids, Integers, check_ids, check_word


class State:
    """The memory of a language model between two words; it can be copied, compared and used as a key.

    A model never changes a state that it is given: ``advance`` returns a new one. Equal states of one model predict the
    same. Only the functions named as in the kenlm module (``BeginSentenceWrite``, ``BaseScore``) write into a state; do
    not use them on a state that is a key of a dictionary.

    Attributes
    ----------
    value
        Immutable and hashable. Its meaning depends on the model: the word ids of a context, the bytes of a vector, or a
        tuple of such values. None means that nothing was written into the state yet.
    hint
        Results that the model may reuse, or None. They are not part of the value of the state.
    """

    __slots__ = ("hint", "value")

    def __init__(self, value: Hashable = None) -> None:
        self.value = value
        self.hint: Any = None

    def parts(self, n: int | None = None) -> tuple[Any, ...]:
        """Return the value as a tuple, of ``n`` parts if given. Raises DataError for another value."""
        value = self.value
        if not isinstance(value, tuple) or (n is not None and len(value) != n):
            self.check_begun()
            raise not_of_this_model()
        return value

    def vector(self, dtype: npt.DTypeLike, n: int | None = None) -> npt.NDArray[Any]:
        """Return the value, the bytes of ``n`` numbers, as an array. Raises DataError for another value."""
        self.check_begun()
        return vector_of(self.value, dtype, n)

    def words(self, most: int, n_types: int) -> tuple[int, ...]:
        """Return the value as a tuple of 1 to ``most`` word ids. Raises DataError for another value."""
        return window_of(self.parts(), most, n_types, least=1)

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


def vector_of(data: Any, dtype: npt.DTypeLike, n: int | None = None) -> npt.NDArray[Any]:
    """Return the ``n`` numbers, or any if None, whose bytes are part of a state. Raises DataError for other values."""
    size = np.dtype(dtype).itemsize
    if not isinstance(data, bytes) or len(data) % size or n not in (None, len(data) // size):
        raise not_of_this_model()
    return np.frombuffer(data, dtype)


def window_of(words: Any, most: int, n_types: int, *, least: int = 0) -> tuple[int, ...]:
    """Return the word ids that are part of a state, from ``least`` to ``most`` of them. Raises DataError."""
    if (
        not isinstance(words, tuple)
        or not least <= len(words) <= most
        or not all(isinstance(word, int) and 0 <= word < n_types for word in words)
    ):
        raise not_of_this_model()
    return words


def not_of_this_model() -> DataError:
    """Return the error for a state that another model made."""
    return DataError("the state is not one of this model: begin with its start()")


def check_states(states: Sequence[Any]) -> None:
    """Raise DataError unless ``states`` is a list, or another sequence, of states."""
    if not isinstance(states, Sized):
        raise DataError(f"give a list of states, such as [model.start()], not {states!r:.40}")
    for state in states:
        check_state(state)


def check_state(state: object) -> None:
    """Raise DataError unless ``state`` is one."""
    if not isinstance(state, State):
        raise DataError(f"the state is {state!r:.40}: give model.start() or model.null()")


def check_following(state: Any, ids: Integers, n_types: int) -> Ids:
    """Return the ids as `check_ids` does. Raises DataError also where there is no state before them."""
    check_state(state)
    return check_ids(ids, n_types)


def check_pairs(states: Sequence[Any], words: Integers | Sequence[int], n_types: int) -> Ids:
    """Return the words as `check_ids` does. Raises DataError also unless there is a list with a state for each."""
    check_states(states)
    ids = check_ids(words, n_types)
    if len(ids) != len(states):
        raise DataError(f"there are {len(states)} states and {len(ids)} words: give one for each")
    return ids


def check_step(state: object, word: int, n_types: int) -> None:
    """Raise DataError unless ``state`` is one, and ``word`` is the id of a word."""
    check_state(state)
    check_word(word, n_types)
