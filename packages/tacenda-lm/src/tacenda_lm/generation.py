"""Predict the next word and generate sentences with any language model; `LanguageModel` has these as methods."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.corpus.text import Sentence
from tacenda.errors import ConfigurationError
from tacenda_lm.sequences import Float64
from tacenda_lm.states import State


class Continuation(NamedTuple):
    """Words that follow a context.

    Attributes
    ----------
    words
        Without the context and without ``</s>``.
    log_prob
        Natural logarithm of their probability, with that of ``</s>`` if it was reached.
    ended
        Whether ``</s>`` was reached.
    """

    words: list[str]
    log_prob: float
    ended: bool


def state_after(model: Any, context: Sentence = "", *, bos: bool = True) -> State:
    """Return the state after some words.

    The words follow ``<s>``, or no known word if ``bos=False``.
    """
    state: State = model.start() if bos else model.null()
    for word in model.vocabulary.encode(model._tokens(context)).tolist():
        state = model.advance(state, word)
    return state


def next_word(model: Any, context: Sentence = "", *, bos: bool = True) -> Float64:
    """Return the probabilities of all next words after a context.

    Returns
    -------
    float64 (types,), in the order of ``vocabulary.words``.
    """
    row = model.log_probs([state_after(model, context, bos=bos)])[0]
    return np.asarray(np.exp(row.astype(np.float64)))


def top_k(
    model: Any, context: Sentence = "", k: int = 10, *, bos: bool = True
) -> list[tuple[str, float]]:
    """Return the k most probable next words with their probabilities, best first; ``</s>`` may be among them."""
    _at_least_one(k, "k")
    p = next_word(model, context, bos=bos)
    best = _find_best(p, k)
    return [(model.vocabulary.words[i], float(p[i])) for i in best.tolist()]


def sample(
    model: Any,
    context: Sentence = "",
    *,
    max_words: int = 100,
    seed: int | np.random.Generator = 0,
    temperature: float = 1.0,
    k: int | None = None,
    unknown: bool = False,
) -> Continuation:
    """Draw a random continuation of a context, up to the end of the sentence.

    Parameters
    ----------
    context
        The beginning of the sentence.
    max_words
        Stop after this many words if the sentence has not ended.
    seed
        A seed, or a generator to draw from.
    temperature
        Divisor of the log-probabilities; below 1, probable words are sampled more often.
    k
        Draw from the k most probable words only; None draws from all.
    unknown
        Allow ``<unk>`` and other stand-ins for unknown words.

    Returns
    -------
    The words drawn. ``log_prob`` is their log-probability under the model, regardless of temperature and k.

    Raises
    ------
    ConfigurationError
        The temperature, k or max_words is out of range.
    """
    _at_least_one(max_words, "max_words")
    if not 0 < temperature < math.inf:
        raise ConfigurationError(
            f"temperature must be a finite number above 0, not {temperature!r}"
        )
    if k is not None:
        _at_least_one(k, "k")
    rng = np.random.default_rng(seed)
    state, words, total = state_after(model, context), list[str](), 0.0
    for _ in range(max_words):
        row = model.log_probs([state])[0].astype(np.float64)
        scores = row.copy()
        if not unknown:
            scores[model.vocabulary.oov_ids] = -np.inf
        # near a temperature of zero the most probable word is left alone
        with np.errstate(over="ignore"):
            scores = (scores - scores.max()) / temperature
        if k is not None and k < len(scores):
            best = _find_best(scores, k)
            kept, scores = scores[best], np.full_like(scores, -np.inf)
            scores[best] = kept
        p = np.exp(scores - scores.max())
        word = int(rng.choice(len(row), p=p / p.sum()))
        total += float(row[word])  # as the model has it, before temperature and k
        if word == model.vocabulary.boundary_id:
            return Continuation(words, total, True)
        words.append(model.vocabulary.words[word])
        state = model.advance(state, word)
    return Continuation(words, total, False)


def greedy(model: Any, context: Sentence = "", *, max_words: int = 100) -> Continuation:
    """Return the continuation with the most probable word at every step, excluding ``<unk>``."""
    return beam(model, context, width=1, max_words=max_words)[0]


def beam(
    model: Any, context: Sentence = "", *, width: int = 10, n: int = 1, max_words: int = 100
) -> list[Continuation]:
    """Return the most probable continuations that a beam search finds, best first, none with ``<unk>``.

    Parameters
    ----------
    context
        The beginning of the sentence.
    width
        Number of partial sentences that are kept at each step.
    n
        Maximum number of continuations to return.
    max_words
        Maximum length of a continuation. Unfinished sentences are listed after finished ones.

    Raises
    ------
    ConfigurationError
        An argument is below 1.
    """
    for value, name in ((width, "width"), (n, "n"), (max_words, "max_words")):
        _at_least_one(value, name)
    boundary = model.vocabulary.boundary_id
    live: list[tuple[float, list[int], State]] = [(0.0, [], state_after(model, context))]
    ended: list[tuple[float, list[int]]] = []
    for _ in range(max_words):
        rows = model.log_probs([state for _, _, state in live]).astype(np.float64)
        rows[:, model.vocabulary.oov_ids] = -np.inf
        rows += np.array([total for total, _, _ in live])[:, None]
        grown = []
        for place in _find_best(rows.ravel(), width).tolist():
            i, word = divmod(place, rows.shape[1])
            total = float(rows[i, word])
            if word == boundary:
                ended.append((total, live[i][1]))
            elif total > -np.inf:
                grown.append((total, [*live[i][1], word], live[i][2], word))
        ended = sorted(ended, key=lambda each: -each[0])[:n]
        # every further word can only lower the sum
        least = ended[-1][0] if len(ended) == n else -np.inf
        live = [(t, words, model.advance(s, w)) for t, words, s, w in grown if t > least]
        if not live:
            break
    found = [(words, total, True) for total, words in ended]
    found += [(words, total, False) for total, words, _ in live]
    return [
        Continuation([model.vocabulary.words[w] for w in words], total, done)
        for words, total, done in found[:n]
    ]


def _find_best(values: Float64, k: int) -> npt.NDArray[np.intp]:
    """Places of the k largest values, largest first; of equal values the first ones."""
    k = min(k, len(values))
    least = np.partition(values, len(values) - k)[len(values) - k]
    above = np.flatnonzero(values > least)
    ties = np.flatnonzero(values == least)[: k - len(above)]
    chosen = np.sort(np.concatenate([above, ties]))
    return chosen[np.argsort(-values[chosen], kind="stable")]


def _at_least_one(value: int, name: str) -> None:
    """Raise ConfigurationError for a value below 1."""
    if value < 1:
        raise ConfigurationError(f"{name} must be at least 1, not {value!r}")
