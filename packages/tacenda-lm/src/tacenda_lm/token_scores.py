"""What a language model says of every token: log-probability, and on request rank and entropy.

    rank(w_t) = #{v : p(v | h_t) > p(w_t | h_t)},    H_t = -sum_v p(v | h_t) log2 p(v | h_t)

The latter two need the whole distribution at every token, the first does not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda_lm.contract import LanguageModelContract
from tacenda_lm.sequences import Float64, Ids, Offsets
from tacenda_lm.state import State

__all__ = ["TokenScores", "continued_scores", "token_scores"]

_STATES = 64  # whose distributions are computed at once


class TokenScores(NamedTuple):
    """One value a token.

    Attributes
    ----------
    log_prob
        Natural logarithms, float64 (tokens,).
    rank
        Words more probable than the token, int64 (tokens,); None unless asked for.
    entropy
        Of the distribution the token was drawn from, in bits, float64 (tokens,); None unless
        asked for.
    """

    log_prob: Float64
    rank: npt.NDArray[np.int64] | None
    entropy: Float64 | None


def token_scores(
    model: LanguageModelContract,
    ids: Ids,
    offsets: Offsets,
    *,
    rank: bool = False,
    entropy: bool = False,
) -> TokenScores:
    """Scores of many sequences, each from the start of a sentence, in one call of the model.

    Parameters
    ----------
    model
        a fitted language model.
    ids
        int32 (tokens,), ids of its vocabulary, ``</s>`` where it is to be scored.
    offsets
        int64 (sequences + 1,), where each sequence begins, and the end.
    rank
        Find ranks; costs a whole distribution a token.
    entropy
        Find entropies; likewise, and at once with ranks.

    Raises
    ------
    NotFittedError
        The model was not fitted or loaded.
    DataError
        Ids or offsets are not those of a text.
    """
    log_prob = model.score_corpus(ids, offsets)
    if not rank and not entropy:
        return TokenScores(log_prob, None, None)
    parts = list(_reduced(model.distributions(ids, offsets), ids))
    return _gathered(log_prob, parts, rank, entropy)


def continued_scores(
    model: LanguageModelContract,
    state: State,
    ids: Ids,
    *,
    rank: bool = False,
    entropy: bool = False,
) -> tuple[TokenScores, State]:
    """Scores of one sequence that goes on where ``state`` is, and the state after it.

    Arguments and errors as of `token_scores`; ``state`` is left as it is.
    """
    log_prob, after = model.score_from(state, ids)
    if not rank and not entropy:
        return TokenScores(log_prob, None, None), after
    parts = list(_reduced(_distributions_from(model, state, ids), ids))
    return _gathered(log_prob, parts, rank, entropy), after


def _distributions_from(
    model: LanguageModelContract, state: State, ids: Ids
) -> Iterator[npt.NDArray[np.floating[Any]]]:
    states = []
    for word in ids.tolist():
        states.append(state)
        state = model.advance(state, word)
        if len(states) == _STATES:
            yield model.log_probs(states)
            states = []
    if states:
        yield model.log_probs(states)


_Reduced = tuple[npt.NDArray[np.int64], Float64]


def _reduced(blocks: Iterable[npt.NDArray[np.floating[Any]]], ids: Ids) -> Iterator[_Reduced]:
    """Ranks and entropies of blocks of log-probabilities (tokens of the block, types)."""
    done = 0
    for rows in blocks:
        own = rows[np.arange(len(rows)), ids[done : done + len(rows)]]
        wide = rows.astype(np.float64)
        # p log p is zero where p is: there the logarithm is minus infinity
        bits = -(np.exp(wide) * np.maximum(wide, -1e300)).sum(axis=1) / math.log(2)
        yield (rows > own[:, None]).sum(axis=1), bits
        done += len(rows)


def _gathered(log_prob: Float64, parts: list[_Reduced], rank: bool, entropy: bool) -> TokenScores:
    ranks = np.concatenate([np.empty(0, np.int64), *(part[0] for part in parts)])
    bits = np.concatenate([np.empty(0), *(part[1] for part in parts)])
    return TokenScores(log_prob, ranks if rank else None, bits if entropy else None)
