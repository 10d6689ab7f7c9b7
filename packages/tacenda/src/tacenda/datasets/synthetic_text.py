"""A seeded generator of tagged text in an invented language, whose grammar and lexicon are known.

The language has rich morphology, Zipfian word frequencies, topics, names, numbers, and word forms whose tag only the
context tells, so that contextual vectors can do better than static ones. Examples, tests and benchmarks use it where
no data are at hand.

    text = synthetic_text.generate(1000, seed=1)       # a list of TaggedSentence
    truth = synthetic_text.language()                  # its states, transition matrix and lexicon

The language has a seed of its own; different seeds of the text give independent texts in one language.
"""

import random
from bisect import bisect_right
from collections.abc import Iterator
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
    """A name: tokens ``start`` to ``end`` (exclusive), with the label PER, LOC or ORG."""

    start: int
    end: int
    label: str


class TaggedSentence(NamedTuple):
    """A sentence, the part-of-speech tag of each word, and the names in it."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    entities: tuple[Entity, ...]


class Language:
    """An invented language: a hidden Markov model with known parameters.

    The rows of ``transition`` (states, states) sum to 1; state 0 is the sentence boundary. ``tags`` are all
    part-of-speech tags, and ``lexicon`` maps names to word lists.
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
        """Yield sentences without end."""
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
    """Return the language with this seed."""
    return Language(seed)


def sentences(seed: int = 0, language_seed: int = 0) -> Iterator[TaggedSentence]:
    """Yield sentences without end; the same seeds give the same sentences."""
    return language(language_seed).sentences(seed)


def generate(n_sentences: int, seed: int = 0, language_seed: int = 0) -> list[TaggedSentence]:
    """Return the first ``n_sentences`` of ``sentences(seed)``."""
    if n_sentences < 0:
        raise ConfigurationError(f"n_sentences is {n_sentences}; give a number >= 0")
    return list(islice(sentences(seed, language_seed), n_sentences))
