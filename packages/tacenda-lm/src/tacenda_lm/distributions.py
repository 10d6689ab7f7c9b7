"""Functions of distributions over the next word: a softmax, blocks of bounded size, ranks, entropies and a check."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import accumulate, islice
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tacenda.corpus.text import Text
from tacenda.errors import DataError, check_whole
from tacenda_lm.sequences import Float64, Ids, encode_text
from tacenda_lm.states import State

F = TypeVar("F", bound=np.floating[Any])
_LOG_PROBS_PER_BLOCK = 1 << 22  # of `distributions`: 32 MB


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

    The contexts are all beginnings of ``sentences`` (by default ``n_contexts`` of up to 9 random words), and the
    context in which no word is known. Raises DataError with the context if a distribution contains NaN or its sum
    differs from one by more than ``tolerance``, and ConfigurationError for an ``n_contexts`` below 1 or a
    ``seed`` below 0.
    """
    vocabulary = model.vocabulary
    check_whole("n_contexts", n_contexts)
    check_whole("seed", seed, 0)
    if sentences is None:
        words = np.random.default_rng(seed).integers(
            len(vocabulary), size=(-(-n_contexts // 10), 9)
        )
        sequences = words.tolist()
        sequences[-1] = sequences[-1][: (n_contexts - 1) % 10]
    else:
        ids, offsets = encode_text(sentences, vocabulary, model.string_tokenizer)
        sequences = [part.tolist() for part in np.split(ids, offsets[1:-1])]
    worst = 0.0
    for sequence in (None, *sequences):
        start = model.null() if sequence is None else model.start()
        states = accumulate(sequence or [], model.advance, initial=start)
        done = 0
        for rows in distributions_of(model, states):
            sums = np.exp(rows.astype(np.float64)).sum(axis=1)
            errors = np.where(np.isfinite(sums), np.abs(sums - 1), np.inf)
            i = int(errors.argmax())
            if not errors[i] <= tolerance:
                before = [vocabulary.words[word] for word in (sequence or [])[: done + i]]
                context = "no word" if sequence is None else " ".join(["<s>", *before])
                raise DataError(
                    f"the probabilities of the next word after {context!r:.200} sum to {sums[i]:.8g}, "
                    f"which is further from 1 than {tolerance:g}: the model is damaged or not normalized"
                )
            worst = max(worst, float(errors[i]))
            done += len(rows)
    return worst
