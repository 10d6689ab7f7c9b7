"""Whether the probabilities of a language model sum to one, found by adding up whole distributions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from tacenda.corpus.text import Text
from tacenda.errors import DataError
from tacenda_lm.sequences import encoded_text
from tacenda_lm.states import State

if TYPE_CHECKING:
    from tacenda_lm.language_model import LanguageModel

__all__ = ["check_normalized"]

_STATES = 64  # whose distributions are checked at once


def check_normalized(
    model: LanguageModel,
    sentences: Text | None = None,
    *,
    n_contexts: int = 100,
    seed: int = 0,
    tolerance: float = 1e-5,
) -> float:
    """Return the largest ``|sum_w p(w | context) - 1|`` over many contexts, computed in full.

    Parameters
    ----------
    sentences
        The contexts are all beginnings of these; by default they are random words of the vocabulary.
        The context in which no word is known is checked too.
    n_contexts
        How many contexts are drawn by default.
    seed
        Seed of the default contexts.
    tolerance
        The largest difference that is allowed.

    Raises
    ------
    DataError
        A distribution is not normalized, or holds NaN; the message names the context.
    """
    worst = 0.0
    for states, shown in _contexts(model, sentences, n_contexts, seed):
        sums = np.exp(model.log_probs(states).astype(np.float64)).sum(axis=1)
        off = np.where(np.isfinite(sums), np.abs(sums - 1), np.inf)
        i = int(off.argmax())
        if off[i] > tolerance:
            raise DataError(
                f"the probabilities of the next word after {shown[i]!r:.200} sum to {sums[i]:.8g}, "
                f"which is further from 1 than {tolerance:g}: the model is damaged or not normalised"
            )
        worst = max(worst, float(off[i]))
    return worst


def _contexts(
    model: LanguageModel, sentences: Text | None, n_contexts: int, seed: int
) -> Iterator[tuple[list[State], list[str]]]:
    """States with the contexts that they stand for, as an error message shows them."""
    vocabulary = model.vocabulary
    if sentences is None:
        rng = np.random.default_rng(seed)
        drawn = rng.integers(len(vocabulary), size=(-(-n_contexts // 10), 9))
        sequences = [row.tolist() for row in drawn]
    else:
        ids, offsets = encoded_text(sentences, vocabulary, model.string_tokenizer)
        sequences = [part.tolist() for part in np.split(ids, offsets[1:-1])]
    yield [model.null()], ["no word"]
    for sequence in sequences:
        states, shown = [model.start()], ["<s>"]
        for word in sequence:
            states.append(model.advance(states[-1], word))
            shown.append(f"{shown[-1]} {vocabulary.words[word]}")
        for i in range(0, len(states), _STATES):
            yield states[i : i + _STATES], shown[i : i + _STATES]
