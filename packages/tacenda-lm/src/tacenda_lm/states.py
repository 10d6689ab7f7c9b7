"""`State`: the memory of a language model between two words; and functions of states and distributions."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tacenda.corpus.text import Text
from tacenda.errors import DataError
from tacenda_lm.sequences import Float64, Ids, encode_text

F = TypeVar("F", bound=np.floating[Any])
_LOG_PROBS_PER_BLOCK = 1 << 22  # of `distributions`: 32 MB


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


def states_before(model: Any, state: State, ids: Ids) -> Iterator[State]:
    """Yield the state before every id of a sequence that continues from ``state``."""
    for word in ids.tolist():
        yield state
        state = model.advance(state, word)


def distributions_of(
    model: Any, states: Iterable[State]
) -> Iterator[npt.NDArray[np.floating[Any]]]:
    """Yield ``model.log_probs`` of many states, (states of the block, types), in blocks of bounded size."""
    size = rows_of_block(len(model.vocabulary))
    rest = iter(states)
    while block := list(islice(rest, size)):
        yield model.log_probs(block)


def log_softmax(scores: npt.NDArray[F]) -> npt.NDArray[F]:
    """Return log(exp(s_i) / sum_j exp(s_j)) for every row; ``scores`` (..., types) are overwritten."""
    # subtract the maximum, so that no exponential overflows
    scores -= scores.max(axis=-1, keepdims=True)
    scores -= np.log(np.exp(scores).sum(axis=-1, keepdims=True))
    return scores


def rows_of_block(n_types: int) -> int:
    """Return the number of distributions over so many types in a block of `distributions`."""
    return max(1, _LOG_PROBS_PER_BLOCK // n_types)


def ranks_and_entropies(
    blocks: Iterable[npt.NDArray[np.floating[Any]]], ids: Ids
) -> tuple[npt.NDArray[np.int64], Float64]:
    """Return the rank of every token, int64 (tokens,), and the entropy of its distribution in bits, float64 (tokens,).

        rank(w_t) = #{v : p(v | h_t) > p(w_t | h_t)},    H_t = -sum_v p(v | h_t) log2 p(v | h_t)

    ``blocks`` are log-probabilities (tokens of the block, types), as `LanguageModel.distributions` yields them.
    """
    ranks, entropies = [np.empty(0, np.int64)], [np.empty(0)]
    done = 0
    for rows in blocks:
        of_tokens = rows[np.arange(len(rows)), ids[done : done + len(rows)]]
        ranks.append((rows > of_tokens[:, None]).sum(axis=1))
        # p log p is zero for p = 0, although its logarithm is minus infinity
        wide = rows.astype(np.float64)
        entropies.append(-(np.exp(wide) * np.maximum(wide, -1e300)).sum(axis=1) / math.log(2))
        done += len(rows)
    return np.concatenate(ranks), np.concatenate(entropies)


def check_normalized(
    model: Any,
    sentences: Text | None = None,
    *,
    n_contexts: int = 100,
    seed: int = 0,
    tolerance: float = 1e-5,
) -> float:
    """Return the largest ``|sum_w p(w | context) - 1|`` over many contexts, computed in full.

    The contexts are all beginnings of ``sentences`` (by default ``n_contexts`` of random words), and the context in
    which no word is known. Raises DataError with the context if a distribution contains NaN or its sum differs from one
    by more than ``tolerance``.
    """
    vocabulary = model.vocabulary
    if sentences is None:
        size = (-(-n_contexts // 10), 9)
        sequences = np.random.default_rng(seed).integers(len(vocabulary), size=size).tolist()
    else:
        ids, offsets = encode_text(sentences, vocabulary, model.string_tokenizer)
        sequences = [part.tolist() for part in np.split(ids, offsets[1:-1])]
    worst = 0.0
    for sequence in (None, *sequences):
        states = [model.null() if sequence is None else model.start()]
        for word in sequence or []:
            states.append(model.advance(states[-1], word))
        done = 0
        for rows in distributions_of(model, states):
            sums = np.exp(rows.astype(np.float64)).sum(axis=1)
            errors = np.where(np.isfinite(sums), np.abs(sums - 1), np.inf)
            i = int(errors.argmax())
            if errors[i] > tolerance:
                words = [vocabulary.words[word] for word in (sequence or [])[: done + i]]
                context = "no word" if sequence is None else " ".join(["<s>", *words])
                raise DataError(
                    f"the probabilities of the next word after {context!r:.200} sum to {sums[i]:.8g}, "
                    f"which is further from 1 than {tolerance:g}: the model is damaged or not normalized"
                )
            worst = max(worst, float(errors[i]))
            done += len(rows)
    return worst
