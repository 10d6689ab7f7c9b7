"""What a language model says of every token: its log-probability, and on request its rank and the entropy.

    rank(w_t) = #{v : p(v | h_t) > p(w_t | h_t)},    H_t = -sum_v p(v | h_t) log2 p(v | h_t)

Rank and entropy need the whole distribution at every token; the log-probability does not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda_lm.contract import LanguageModelContract, distributions_of, states_before
from tacenda_lm.sequences import Float64, Ids, Offsets
from tacenda_lm.state import State

__all__ = ["TokenScores", "continued_scores", "ranks_and_entropies", "token_scores"]


class TokenScores(NamedTuple):
    """One value for every token.

    Attributes
    ----------
    log_prob
        Natural logarithms, float64 (tokens,).
    rank
        How many words are more probable than the token, int64 (tokens,); None unless asked for.
    entropy
        Entropy of the distribution that predicts the token, in bits, float64 (tokens,); None unless asked for.
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
    """Score many sequences, each from the start of a sentence, in one call of the model.

    Parameters
    ----------
    model
        A fitted language model.
    ids
        int32 (tokens,), ids of its vocabulary, with ``</s>`` where it is to be scored.
    offsets
        int64 (sequences + 1,), where each sequence begins, and the end of the last.
    rank
        Find ranks; this computes a whole distribution for every token.
    entropy
        Find entropies; this needs the same distributions.

    Raises
    ------
    NotFittedError
        The model was not fitted or loaded.
    DataError
        An id is not in the vocabulary, or the offsets do not cut the ids.
    """
    log_prob = model.score_corpus(ids, offsets)
    if not rank and not entropy:
        return TokenScores(log_prob, None, None)
    ranks, bits = ranks_and_entropies(model.distributions(ids, offsets), ids)
    return TokenScores(log_prob, ranks if rank else None, bits if entropy else None)


def continued_scores(
    model: LanguageModelContract,
    state: State,
    ids: Ids,
    *,
    rank: bool = False,
    entropy: bool = False,
) -> tuple[TokenScores, State]:
    """Score one sequence that continues from ``state``; return the scores and the state after it.

    Arguments and errors are those of `token_scores`; ``state`` is not changed.
    """
    log_prob, after = model.score_from(state, ids)
    if not rank and not entropy:
        return TokenScores(log_prob, None, None), after
    rows = distributions_of(model, states_before(model, state, ids))
    ranks, bits = ranks_and_entropies(rows, ids)
    return TokenScores(log_prob, ranks if rank else None, bits if entropy else None), after


def ranks_and_entropies(
    blocks: Iterable[npt.NDArray[np.floating[Any]]], ids: Ids
) -> tuple[npt.NDArray[np.int64], Float64]:
    """Ranks (tokens,) and entropies in bits (tokens,) from blocks of log-probabilities (tokens, types)."""
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
