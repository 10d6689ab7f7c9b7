"""Predict words, generate sentences and sort n-best lists; `LanguageModel` has these functions as methods."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import reduce
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.corpus.text import Sentence
from tacenda.errors import ConfigurationError, DataError, check_whole
from tacenda_lm.sequences import Float64
from tacenda_lm.states import State

_IMPOSSIBLE = "no word but <unk> has a probability above 0 here: use another context, or sample with unknown=True"


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


class Rescored(NamedTuple):
    """A hypothesis with its new score."""

    sentence: Sentence
    total: float  # score + weight * log_prob + word_bonus * number of words
    score: float  # as given; a natural logarithm if ``log_prob`` is added to it with weight 1
    log_prob: float  # natural, ``</s>`` included


def state_after(model: Any, context: Sentence = "", *, bos: bool = True) -> State:
    """Return the state after the words of a context, which follows ``<s>``, or an unknown context if ``bos=False``."""
    words = model.vocabulary.encode(model._tokens(context)).tolist()
    state: State = reduce(model.advance, words, model.start() if bos else model.null())
    return state


def next_word(model: Any, context: Sentence = "", *, bos: bool = True) -> Float64:
    """Return the probabilities of all next words after a context, float64 (types,), in the order of the vocabulary."""
    row = model.log_probs([state_after(model, context, bos=bos)])[0]
    return np.asarray(np.exp(row.astype(np.float64)))


def top_k(
    model: Any, context: Sentence = "", k: int = 10, *, bos: bool = True
) -> list[tuple[str, float]]:
    """Return the k most probable next words with their probabilities, best first; ``</s>`` may be among them."""
    check_whole("k", k)
    p = next_word(model, context, bos=bos)
    return [(model.vocabulary.words[i], float(p[i])) for i in _find_largest(p, k).tolist()]


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
        The temperature, k, max_words or seed is out of range, or every word that may be drawn has probability 0.
    """
    check_whole("max_words", max_words)
    divisor = _to_float(temperature) if isinstance(temperature, Real) else math.nan
    if not 0 < divisor < math.inf:
        raise ConfigurationError(
            f"temperature must be a finite number above 0, not {temperature!r}"
        )
    if k is not None:
        check_whole("k", k)
    try:
        rng = np.random.default_rng(seed)
    except (TypeError, ValueError):
        raise ConfigurationError(
            f"seed must be a whole number of at least 0 or a numpy.random.Generator, not {seed!r}"
        ) from None
    vocabulary = model.vocabulary
    state, words, total = state_after(model, context), list[str](), 0.0
    for _ in range(max_words):
        log_probs = model.log_probs([state])[0].astype(np.float64)
        scores = log_probs.copy()
        if not unknown:
            scores[vocabulary.oov_ids] = -np.inf
        word = _draw_word(scores, rng, divisor, k)
        total += float(log_probs[word])
        if word == vocabulary.boundary_id:
            return Continuation(words, total, True)
        words.append(vocabulary.words[word])
        state = model.advance(state, word)
    return Continuation(words, total, False)


def _draw_word(scores: Float64, rng: np.random.Generator, temperature: float, k: int | None) -> int:
    """Draw an id with a probability proportional to exp(score / temperature), from the k largest scores (types,)."""
    if scores.max() == -np.inf:
        raise ConfigurationError(_IMPOSSIBLE)
    # near a temperature of zero the division gives -inf, and only the most probable word remains
    with np.errstate(over="ignore"):
        scores = (scores - scores.max()) / temperature
    p = np.exp(scores)
    if k is not None:
        outside = np.ones(len(p), bool)
        outside[_find_largest(scores, k)] = False
        p[outside] = 0.0
    return int(rng.choice(len(p), p=p / p.sum()))


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
        An argument is not a whole number of at least 1, or every continuation has probability 0.
    """
    for value, name in ((width, "width"), (n, "n"), (max_words, "max_words")):
        check_whole(name, value)
    boundary = model.vocabulary.boundary_id
    live: list[tuple[float, list[int], State]] = [(0.0, [], state_after(model, context))]
    ended: list[tuple[float, list[int]]] = []
    for _ in range(max_words):
        rows = model.log_probs([state for _, _, state in live]).astype(np.float64)
        rows[:, model.vocabulary.oov_ids] = -np.inf
        rows += np.array([total for total, _, _ in live])[:, None]
        longer = []
        for place in _find_largest(rows.ravel(), width).tolist():
            i, word = divmod(place, rows.shape[1])
            _, words, state = live[i]
            total = float(rows[i, word])
            if total == -np.inf:  # a width above the number of possible words
                continue
            if word == boundary:
                ended.append((total, words))
            else:
                longer.append((total, words, state, word))
        ended = sorted(ended, key=lambda sentence: -sentence[0])[:n]
        # every further word can only lower the sum
        lowest = ended[-1][0] if len(ended) == n else -np.inf
        live = [
            (total, [*words, word], model.advance(state, word))
            for total, words, state, word in longer
            if total > lowest
        ]
        if not live:
            break
    best = [(words, total, True) for total, words in ended]
    best += [(words, total, False) for total, words, _ in live]
    if not best:
        raise ConfigurationError(_IMPOSSIBLE)
    return [
        Continuation([model.vocabulary.words[word] for word in words], total, is_ended)
        for words, total, is_ended in best[:n]
    ]


def rescore(
    model: Any,
    hypotheses: Iterable[tuple[Sentence, float]],
    *,
    weight: float = 1.0,
    word_bonus: float = 0.0,
) -> list[Rescored]:
    """Sort an n-best list, best first, by the sum of each hypothesis's score and the model's score.

    Parameters
    ----------
    hypotheses
        (sentence, score) pairs, as speech recognizers and translators give them; a higher score is better. Ties
        keep their order.
    weight
        Factor of the language model's natural log-probability.
    word_bonus
        Added for every word, to offset the model's preference for short sentences.

    Raises
    ------
    DataError
        A hypothesis is no pair of a sentence and a number, or a sum is NaN, as where a number given is.
    ConfigurationError
        ``weight`` or ``word_bonus`` is no number.
    """
    if not (isinstance(weight, Real) and isinstance(word_bonus, Real)):
        raise ConfigurationError(
            f"weight and word_bonus must be numbers, not {weight!r:.40} and {word_bonus!r:.40}"
        )
    factor, bonus = _to_float(weight), _to_float(word_bonus)
    try:
        pairs = [(sentence, float(score)) for sentence, score in hypotheses]
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"give (sentence, score) pairs as hypotheses: {error}") from error
    tokens = [model._tokens(sentence) for sentence, _ in pairs]
    scored = model.token_log_probs(tokens)
    rescored = []
    triples = zip(pairs, tokens, scored, strict=True)
    for i, ((sentence, score), words, log_probs) in enumerate(triples, start=1):
        log_prob = float(log_probs.sum())
        # an impossible sentence has the log-probability -inf, which times zero is NaN
        total = score + (factor * log_prob if factor else 0.0) + bonus * len(words)
        if math.isnan(total):
            raise DataError(
                f"the total of hypothesis {i} is nan: its score is {score} and its log-probability {log_prob}, "
                f"with weight={weight} and word_bonus={word_bonus}"
            )
        rescored.append(Rescored(sentence, total, score, log_prob))
    return sorted(rescored, key=lambda hypothesis: -hypothesis.total)


def _to_float(number: Any) -> float:
    """Return a number of any type as a float, infinity for an integer or a fraction beyond all floats."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _find_largest(values: Float64, k: int) -> npt.NDArray[np.intp]:
    """Return the places of the k largest values, largest first; of equal values, the first."""
    k = min(k, len(values))
    smallest = np.partition(values, len(values) - k)[len(values) - k]
    above = np.flatnonzero(values > smallest)
    ties = np.flatnonzero(values == smallest)[: k - len(above)]
    chosen = np.sort(np.concatenate([above, ties]))
    return chosen[np.argsort(-values[chosen], kind="stable")]
