"""A seeded generator of tagged text in an invented language whose truth is known.

Rich morphology, Zipfian words, topics, names, numbers, and word forms whose tag only the context
tells: contextual vectors have something to win over static ones. The default where no data is at
hand, and the source of exact answers for tests.

    text = synthetic_text.generate(1000, seed=1)       # a list of TaggedSentence
    truth = synthetic_text.language()                  # transition matrix, lexicon, exact posterior

The language is fixed by its own seed; different text seeds give independent texts of one language.
"""

import random
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacenda.datasets.synthetic_grammar import State, grammar
from tacenda.datasets.synthetic_lexicon import N_TOPICS, WordList, lexicon
from tacenda.errors import ConfigurationError

_FIGURES = 0.6  # share of numbers written in figures
_SENTENCES_PER_TOPIC = 8


class Entity(NamedTuple):
    """A name: tokens ``start`` to ``end`` (exclusive), label PER, LOC or ORG."""

    start: int
    end: int
    label: str


class TaggedSentence(NamedTuple):
    """A sentence with its part-of-speech tags, one a word, and its names."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    entities: tuple[Entity, ...]


class Language:
    """An invented language: a hidden Markov model with known parameters.

    ``states`` (n_states) and ``transition`` (n_states, n_states), rows summing to 1; state 0 is the
    sentence boundary. ``tags``: all part-of-speech tags. ``lexicon``: word lists by name.
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.states: tuple[State, ...]
        self.transition: NDArray[np.float64]
        self.states, self.transition = grammar()
        self.tags: tuple[str, ...] = tuple(sorted({s.tag for s in self.states[1:]}))
        self.lexicon: dict[str, WordList] = lexicon(seed)
        self._steps = [list(accumulate(row)) for row in self.transition.tolist()]
        self._choices = {
            name: [list(accumulate(row)) for row in words.probabilities]
            for name, words in self.lexicon.items()
        }
        self._forms = [
            self.lexicon[s.lexemes].forms[s.form] if s.lexemes else [] for s in self.states
        ]

    def sentences(self, seed: int = 0) -> Iterator[TaggedSentence]:
        """An endless stream of sentences."""
        rng = random.Random(f"synthetic text {seed}")
        while True:
            topic = rng.randrange(N_TOPICS)
            for _ in range(_SENTENCES_PER_TOPIC):
                yield self._sentence(rng, topic)

    def _sentence(self, rng: random.Random, topic: int) -> TaggedSentence:
        path = self._path(rng)
        words: list[str] = []
        entities: list[Entity] = []
        before = ""
        for position, number in enumerate(path):
            state = self.states[number]
            words.append(self._word(rng, number, topic))
            if state.entity:
                start = position
                if state.continues and state.continues == before:
                    start = entities.pop().start
                entities.append(Entity(start, position + 1, state.entity))
            before = state.name
        words[0] = words[0][:1].upper() + words[0][1:]
        tags = tuple(self.states[number].tag for number in path)
        return TaggedSentence(tuple(words), tags, tuple(entities))

    def _path(self, rng: random.Random) -> list[int]:
        path: list[int] = []
        state = _draw(self._steps[0], rng)
        while state:
            path.append(state)
            state = _draw(self._steps[state], rng)
        return path

    def _word(self, rng: random.Random, number: int, topic: int) -> str:
        lexemes = self.states[number].lexemes
        if lexemes == "NUM" and rng.random() < _FIGURES:
            return _figures(rng)
        return self._forms[number][_draw(self._choices[lexemes][topic], rng)]

    def emissions(self, *, initial: bool = False) -> dict[str, dict[int, float]]:
        """P(word | state), topics averaged over, as {word: {state: probability}}.

        ``initial``: with the first letter raised, as at the start of a sentence. Figures are not
        listed; they are NUM's alone.
        """
        table: dict[str, dict[int, float]] = {}
        for number, state in enumerate(self.states[1:], start=1):
            share = 1.0 - _FIGURES if state.lexemes == "NUM" else 1.0
            mean = np.mean(self.lexicon[state.lexemes].probabilities, axis=0) * share
            for form, probability in zip(self._forms[number], mean.tolist(), strict=True):
                word = form[:1].upper() + form[1:] if initial else form
                cell = table.setdefault(word, {})
                cell[number] = cell.get(number, 0.0) + probability
        return table

    def tag_bigrams(self) -> NDArray[np.float64]:
        """Expected share of each pair of adjacent tags, (tags, tags), summing to 1."""
        n = len(self.states)
        inner = np.eye(n - 1) - self.transition[1:, 1:].T
        visits = np.linalg.solve(inner, self.transition[0, 1:])  # expected, in one sentence
        pairs = visits[:, None] * self.transition[1:, 1:]
        member = np.array([[s.tag == tag for tag in self.tags] for s in self.states[1:]], float)
        shares = member.T @ pairs @ member
        return np.asarray(shares / shares.sum(), np.float64)


class Oracle:
    """The best tagger there can be, short of knowing the topic: exact posterior decoding."""

    def __init__(self, language: Language) -> None:
        self.language = language
        self._inner, self._initial = language.emissions(), language.emissions(initial=True)
        self._tag_of = np.array([language.tags.index(s.tag) for s in language.states[1:]])
        self._figures = np.array([s.lexemes == "NUM" for s in language.states[1:]], float)

    def tags(self, words: Sequence[str]) -> tuple[str, ...]:
        """The most probable tag of every word of a sentence, given all of it."""
        if not words:
            return ()
        A = self.language.transition
        B = np.stack([self._likelihood(word, i == 0) for i, word in enumerate(words)])
        forward, backward = np.empty_like(B), np.empty_like(B)
        forward[0] = A[0, 1:] * B[0]
        for t in range(1, len(words)):
            forward[t] = (forward[t - 1] @ A[1:, 1:]) * B[t]
            forward[t] /= forward[t].sum() or 1.0
        backward[-1] = A[1:, 0]
        for t in range(len(words) - 2, -1, -1):
            backward[t] = A[1:, 1:] @ (B[t + 1] * backward[t + 1])
            backward[t] /= backward[t].sum() or 1.0
        posterior = forward * backward
        scores = np.zeros((len(words), len(self.language.tags)))
        np.add.at(scores.T, self._tag_of, posterior.T)
        return tuple(self.language.tags[i] for i in scores.argmax(axis=1))

    def _likelihood(self, word: str, initial: bool) -> NDArray[np.float64]:
        if word[0].isdigit():
            return self._figures
        row = np.zeros(len(self._tag_of))
        for state, probability in (self._initial if initial else self._inner)[word].items():
            row[state - 1] = probability
        return row


def _draw(cumulative: list[float], rng: random.Random) -> int:
    return min(bisect_right(cumulative, rng.random()), len(cumulative) - 1)


def _figures(rng: random.Random) -> str:
    kind = rng.random()
    if kind < 0.5:
        return str(rng.randrange(2, 100))
    if kind < 0.8:
        return str(rng.randrange(1700, 2031))
    return f"{rng.randrange(1, 1000)},{rng.randrange(1000):03d}"


@lru_cache(maxsize=4)
def language(seed: int = 0) -> Language:
    """The language with this seed."""
    return Language(seed)


def sentences(seed: int = 0, language_seed: int = 0) -> Iterator[TaggedSentence]:
    """An endless stream of sentences, the same for the same seeds."""
    return language(language_seed).sentences(seed)


def generate(n_sentences: int, seed: int = 0, language_seed: int = 0) -> list[TaggedSentence]:
    """The first ``n_sentences`` of ``sentences(seed)``."""
    if n_sentences < 0:
        raise ConfigurationError(f"n_sentences is {n_sentences}; give a number >= 0")
    return list(islice(sentences(seed, language_seed), n_sentences))
