"""`LanguageModelContract`: what a language model implements, and `State`, what it remembers of the words so far.

    log p(w_1 ... w_n </s>) = sum_t log p(w_t | state_t),   state_1 = start(),  state_{t+1} = advance(state_t, w_t)

Every probability is over the whole vocabulary, ``</s>`` and ``<unk>`` included, and sums to one; ``<s>`` is
never predicted. Logarithms are natural here.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from tacenda.artifact import Saveable
from tacenda.corpus import Corpus
from tacenda.corpus.text import Sentence, tokens_of
from tacenda.errors import ConfigurationError, DataError
from tacenda.tokenizers import ASCII_WHITESPACE
from tacenda.vocabulary import Vocabulary
from tacenda_lm.perplexity import Context
from tacenda_lm.sequences import Float64, Ids, Integers, checked, checked_ids, checked_pairs
from tacenda_lm.training import FitContext

__all__ = [
    "LanguageModelContract",
    "State",
    "distributions_of",
    "fitted_tokenizer",
    "fitted_tokenizers",
    "log_softmax",
    "not_of_this_model",
    "ranks_and_entropies",
    "rows_of_block",
    "states_before",
    "vector_of",
    "window_of",
]

F = TypeVar("F", bound=np.floating[Any])
_SEQUENCES = 64  # scored side by side, so that a model computes many rows at once
_CELLS = 1 << 22  # log-probabilities of a block of `distributions`: 32 MB


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
    hint
        What a model has found on the way to the state and may use again, or None; no part of what the state is.
    """

    __slots__ = ("hint", "value")

    def __init__(self, value: Hashable = None) -> None:
        self.value = value
        self.hint: Any = None

    def parts(self, n: int | None = None) -> tuple[Any, ...]:
        """Return the value, for a model whose values are tuples, of ``n`` parts if given. Raises DataError."""
        value = self.value
        if not isinstance(value, tuple) or (n is not None and len(value) != n):
            self.check_begun()
            raise not_of_this_model()
        return value

    def vector(self, dtype: npt.DTypeLike, n: int | None = None) -> npt.NDArray[Any]:
        """Return the value, for a model whose values are the bytes of ``n`` numbers. Raises DataError."""
        self.check_begun()
        return vector_of(self.value, dtype, n)

    def words(self, most: int, n_types: int) -> tuple[int, ...]:
        """Return the value, for a model whose values are tuples of 1 to ``most`` word ids. Raises DataError."""
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
    """Return the ``n`` numbers whose bytes a state holds, any number if None. Raises DataError."""
    size = np.dtype(dtype).itemsize
    if not isinstance(data, bytes) or len(data) % size or n not in (None, len(data) // size):
        raise not_of_this_model()
    return np.frombuffer(data, dtype)


def window_of(words: Any, most: int, n_types: int, *, least: int = 0) -> tuple[int, ...]:
    """Return the word ids that a state holds, ``least`` to ``most``. Raises DataError."""
    if (
        not isinstance(words, tuple)
        or not least <= len(words) <= most
        or not all(isinstance(word, int) and 0 <= word < n_types for word in words)
    ):
        raise not_of_this_model()
    return words


def not_of_this_model() -> DataError:
    """The error of a model that is given a state it did not make."""
    return DataError("the state is not one of this model: begin with its start()")


class LanguageModelContract(Saveable):
    """What every language model provides; `tacenda_lm.LanguageModel` adds all that follows from it.

    A model implements ``_fit``, ``vocabulary``, ``start``, ``advance`` and ``log_probs``, and for the artefact
    ``config_dict``, ``arrays`` and ``from_arrays``. It may override ``log_prob`` (cheaper than a whole
    distribution), ``null``, ``score_corpus`` (all tokens of many sequences in one call, which is where a fast
    model is fast), ``score_from`` and ``distributions``.
    """

    kind: ClassVar[str] = "language_models"
    api_version: ClassVar[int] = 1

    #: Whether ``fit`` can save its progress; a model that cannot refuses ``checkpoints``.
    keeps_checkpoints: bool = False

    def _fit(self, corpus: Corpus, valid: Corpus | None, fitting: FitContext) -> None:
        """Fit the model to a corpus, whose vocabulary becomes the model's.

        ``valid`` is held-out text, which may end the training; ``fitting`` says where to save checkpoints.
        """
        raise NotImplementedError(f"{type(self).__name__} does not implement _fit")

    @property
    def vocabulary(self) -> Vocabulary:
        """The words that the ids stand for. Raises NotFittedError."""
        raise NotImplementedError(f"{type(self).__name__} does not implement vocabulary")

    @property
    def string_tokenizer(self) -> str:
        """How a string becomes tokens, a name of `tacenda.tokenizers`.

        It is split at whitespace: that of ASCII for a model that was read from an ARPA file or fitted to a text split
        so, as KenLM does, and that of Unicode for all others. The rule is saved with the model.
        """
        known = (getattr(self, "fitted_on", None) or {}).get("tokenizer")
        return ASCII_WHITESPACE if known == ASCII_WHITESPACE else "whitespace"

    def _tokens(self, sentence: Sentence) -> list[str]:
        """The tokens of a sentence; a string is split by `string_tokenizer`. Raises CorpusError."""
        return tokens_of(sentence, self.string_tokenizer)

    @property
    def own_context(self) -> Context:
        """The context of the model's own figures: ``"stream"`` if the model looks beyond ``</s>``."""
        return "sentence"

    def start(self) -> State:
        """Return the state at the beginning of a sentence, after ``<s>``. Raises NotFittedError."""
        raise NotImplementedError(f"{type(self).__name__} does not implement start")

    def null(self) -> State:
        """Return the state in which no earlier word is known; that of `start` unless overridden."""
        return self.start()

    def advance(self, state: State, word: int) -> State:
        """Return the state after one more word.

        Parameters
        ----------
        state
            The state before; it is not changed.
        word
            An id of ``vocabulary``. A new sentence begins after ``</s>``.

        Raises
        ------
        DataError
            The id is not in the vocabulary.
        """
        raise NotImplementedError(f"{type(self).__name__} does not implement advance")

    def log_probs(self, states: Sequence[State]) -> npt.NDArray[np.floating[Any]]:
        """Return the natural log-probabilities of every possible next word.

        Returns
        -------
        float32 or float64 (states, types); the exponentials of a row sum to one.
        """
        raise NotImplementedError(f"{type(self).__name__} does not implement log_probs")

    def log_prob(self, states: Sequence[State], words: Integers | Sequence[int]) -> Float64:
        """Return log p(word | state) for pairs of states and words: natural, float64 (states,).

        Parameters
        ----------
        states
            One state for every word.
        words
            Ids (states,).

        Raises
        ------
        DataError
            An id is not in the vocabulary, or there is not one for each state.
        """
        ids = checked_pairs(states, words, len(self.vocabulary))
        rows = self.log_probs(states)
        return rows[np.arange(len(rows)), ids].astype(np.float64)

    def score_corpus(self, ids: Integers, offsets: Integers) -> Float64:
        """Return the log-probability of every id given those before it in its sequence.

        Parameters
        ----------
        ids
            (tokens,) ids of ``vocabulary``, all sequences one after another. ``</s>`` is scored where it
            stands; none is added.
        offsets
            (sequences + 1,) the place where each sequence begins, and the end of the last. Every sequence
            starts from ``start()``.

        Returns
        -------
        float64 (tokens,), natural logarithms.

        Raises
        ------
        DataError
            An id is not in the vocabulary, or the offsets do not cut the ids.
        NotFittedError
            The model was not fitted or loaded.
        """
        ids, offsets = checked(ids, offsets, len(self.vocabulary))
        found = np.empty(len(ids), np.float64)
        lengths = np.diff(offsets)
        longest_first = np.argsort(-lengths, kind="stable")
        for block in range(0, len(longest_first), _SEQUENCES):
            chosen = longest_first[block : block + _SEQUENCES]
            states = [self.start() for _ in chosen]
            for t in range(int(lengths[chosen[0]])):
                n = int(np.count_nonzero(lengths[chosen] > t))  # the others have ended
                places = offsets[chosen[:n]] + t
                found[places] = self.log_prob(states[:n], ids[places])
                states = [
                    self.advance(s, w) for s, w in zip(states, ids[places].tolist(), strict=False)
                ]
        return found

    def score_from(self, state: State, ids: Integers) -> tuple[Float64, State]:
        """Score one sequence that continues from a state.

        A stream can be scored in parts this way: the scores of its parts are those of the whole.

        Parameters
        ----------
        state
            The state before the first id; it is not changed.
        ids
            (tokens,) ids of ``vocabulary``.

        Returns
        -------
        The log-probability of every id, float64 (tokens,), natural; and the state after the last.
        """
        ids = checked_ids(ids, len(self.vocabulary))
        scores = np.empty(len(ids), np.float64)
        for t, word in enumerate(ids.tolist()):
            scores[t] = self.log_prob([state], [word])[0]
            state = self.advance(state, word)
        return scores, state

    def distributions(
        self, ids: Integers, offsets: Integers
    ) -> Iterator[npt.NDArray[np.floating[Any]]]:
        """Yield the whole distribution at every token: the log-probabilities before its id was seen.

        Parameters
        ----------
        ids, offsets
            As in `score_corpus`.

        Yields
        ------
        float32 or float64 (tokens of the block, types), blocks of bounded size in the order of the ids.
        """
        ids, offsets = checked(ids, offsets, len(self.vocabulary))
        cuts = zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
        states = (states_before(self, self.start(), ids[i:j]) for i, j in cuts)
        yield from distributions_of(self, chain.from_iterable(states))


def fitted_tokenizer(model: LanguageModelContract) -> str:
    """Return the tokenizer of the text a model was fitted to, or of that of its components for a model made of models.

    Without any it is the model's `string_tokenizer`. Raises ConfigurationError where it was a function, which is not
    saved with a model, or where components had different ones.
    """
    names = fitted_tokenizers(model)
    if "callable" in names:
        raise ConfigurationError(
            "the model was fitted with a tokenizer of your own, which is not saved with it: give tokenizer"
        )
    if len(names) > 1:
        raise ConfigurationError(
            f"the parts of the model were fitted with different tokenizers, {sorted(names)}: give tokenizer"
        )
    return names.pop()


def fitted_tokenizers(model: LanguageModelContract) -> set[str]:
    """Return the tokenizers of the texts that a model, or those in it, were fitted to.

    Where none is known, that is its `string_tokenizer`, or ``whitespace`` for a model of a plugin that has none.
    """
    return _recorded_tokenizers(model) or {getattr(model, "string_tokenizer", "whitespace")}


def _recorded_tokenizers(model: Any) -> set[str]:
    """The tokenizers that a model knows of, else those that the models in it do."""
    known = (getattr(model, "fitted_on", None) or {}).get("tokenizer")
    if known:
        return {str(known)}
    return set().union(*map(_recorded_tokenizers, model.nested().values()))


def states_before(model: LanguageModelContract, state: State, ids: Ids) -> Iterator[State]:
    """Yield the state before every id of a sequence that continues from ``state``."""
    for word in ids.tolist():
        yield state
        state = model.advance(state, word)


def distributions_of(
    model: LanguageModelContract, states: Iterable[State]
) -> Iterator[npt.NDArray[np.floating[Any]]]:
    """Yield ``model.log_probs`` of many states, (states of the block, types), in blocks of bounded size."""
    size = rows_of_block(len(model.vocabulary))
    rest = iter(states)
    while block := list(islice(rest, size)):
        yield model.log_probs(block)


def log_softmax(scores: npt.NDArray[F]) -> npt.NDArray[F]:
    """Return log(exp(s_i) / sum_j exp(s_j)) for every row; ``scores`` (..., types) are overwritten."""
    scores -= scores.max(axis=-1, keepdims=True)
    scores -= np.log(np.exp(scores).sum(axis=-1, keepdims=True))
    return scores


def rows_of_block(n_types: int) -> int:
    """How many distributions over so many types a block of `distributions` holds."""
    return max(1, _CELLS // n_types)


def ranks_and_entropies(
    blocks: Iterable[npt.NDArray[np.floating[Any]]], ids: Ids
) -> tuple[npt.NDArray[np.int64], Float64]:
    """Return the rank of every token, int64 (tokens,), and the entropy of its distribution in bits, float64 (tokens,).

        rank(w_t) = #{v : p(v | h_t) > p(w_t | h_t)},    H_t = -sum_v p(v | h_t) log2 p(v | h_t)

    ``blocks`` are log-probabilities (tokens of the block, types), as `LanguageModelContract.distributions` yields them.
    """
    ranks, entropies = [np.empty(0, np.int64)], [np.empty(0)]
    done = 0
    for rows in blocks:
        own = rows[np.arange(len(rows)), ids[done : done + len(rows)]]
        ranks.append((rows > own[:, None]).sum(axis=1))
        # p log p is zero where p is zero, though the logarithm there is minus infinity
        wide = rows.astype(np.float64)
        entropies.append(-(np.exp(wide) * np.maximum(wide, -1e300)).sum(axis=1) / math.log(2))
        done += len(rows)
    return np.concatenate(ranks), np.concatenate(entropies)
