"""A seeded generator of tagged text in an invented language, whose grammar and lexicon are known.

The language has rich morphology, Zipfian word frequencies, topics, names, numbers, and word forms whose tag only the
context tells, so that contextual vectors can do better than static ones. Examples, tests and benchmarks use it where
no data are at hand.

    text = synthetic_text.generate(1000, seed=1)       # a list of TaggedSentence
    truth = synthetic_text.language()                  # its states, transition matrix and lexicon

The grammar is a Markov chain over states that carry a tag and agreement, in ``synthetic_grammar.json``: a noun phrase
has a case in each of its places, determiner, adjective and noun agree in number, and so do the verb and its subject.
This grammar is an ordinary hidden Markov model, so everything about it can be computed exactly.
The language has its own seed; different seeds of the text give independent texts in one language.
"""

import json
import random
from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache
from importlib.resources import files
from itertools import accumulate, islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import check_whole

_SHARE_OF_FIGURES = 0.6  # share of numbers written in figures
_SENTENCES_PER_TOPIC = 8
_N_TOPICS = 12
_TOPIC_BOOST = 10.0  # how much likelier a lexeme is in its own topic

_LIST_SIZES = {
    "NOUN": 2400, "VERB": 1100, "ADJ": 800, "ADV": 250, "DET": 5, "PRON": 6, "ADP": 14, "SCONJ": 5,
    "CCONJ": 3, "AUX": 5, "FIRST": 160, "LAST": 500, "LOC": 260, "ORG1": 220, "ORG2": 14,
    "NUM": 40,
}  # fmt: skip
#: Word lists whose lexemes belong to topics.
_TOPICAL_LISTS = {"NOUN", "VERB", "ADJ", "LAST", "LOC", "ORG1"}
#: Source, target and the part of the target's lexemes that take the stem of a source lexeme.
#: The two have similar ranks by frequency, each relative to the length of its list.
_SHARED_STEMS = (
    ("NOUN", "VERB", 0.60), ("NOUN", "ADJ", 0.35), ("ADJ", "ADV", 0.30), ("LOC", "LAST", 0.35),
    ("NOUN", "LAST", 0.10), ("LAST", "ORG1", 0.40), ("NOUN", "ORG2", 1.0),
)  # fmt: skip

# Suffixes: "A" and "U" become "a" and "u" after a back vowel, "e" and "i" after a front one. There are two declensions
# of nouns. The verb's -n, -t and bare forms are also those of nouns and adjectives, so a form does not tell the tag.
_CASES = ("nom.sg", "nom.pl", "acc.sg", "acc.pl", "obl.sg", "obl.pl")
_NOUN = (("", "t", "n", "jA", "ssA", "issA"), ("", "kUt", "mA", "kUjA", "llA", "kUllA"))
_ADJECTIVE = dict(zip(_CASES, ("", "t", "n", "jA", "ssA", "issA"), strict=True))
_VERB = {"past.sg": "sti", "past.pl": "stivAt", "pres.sg": "n", "pres.pl": "t", "inf": ""}
_NAME = dict(zip(_CASES, ("", "", "n", "n", "ssA", "ssA"), strict=True))

_ONSETS = ("", "b", "d", "f", "g", "h", "k", "l", "m", "n", "p", "r", "s", "t", "v", "kr", "pl")
_CODAS = ("",) * 6 + ("l", "m", "n", "r", "s", "lt", "rk", "nd")


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


class State(NamedTuple):
    """A state of the chain; state 0 is the boundary, at which a sentence begins and ends."""

    name: str
    tag: str
    """Part of speech, as in Universal Dependencies."""
    lexemes: str
    """The word list from which it draws a lexeme."""
    form: str
    """The inflected form of the lexeme."""
    entity: str
    """PER, LOC or ORG if its words belong to a name."""
    continues: str
    """The name of the state after which this one continues the same name."""


class WordList(NamedTuple):
    """The lexemes of one list: the forms of each under the name of the form, and their probabilities in each topic."""

    forms: dict[str, list[str]]
    probabilities: list[list[float]]  # (topics, lexemes)


class Language:
    """An invented language: a hidden Markov model with known parameters.

    The rows of ``transition`` (states, states) sum to 1. ``tags`` are all part-of-speech tags, and ``lexicon`` maps
    names to word lists.
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        rows = json.loads(files("tacenda.datasets").joinpath("synthetic_grammar.json").read_bytes())
        self.states: tuple[State, ...] = tuple(State(*row[:-1]) for row in rows)
        self.transition: NDArray[np.float64] = np.zeros((len(rows), len(rows)))
        for i, row in enumerate(rows):
            for j, probability in row[-1].items():
                self.transition[i, int(j)] = probability
        self.tags: tuple[str, ...] = tuple(sorted({s.tag for s in self.states[1:]}))
        self.lexicon: dict[str, WordList] = _invent_lexicon(seed)
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
            topic = rng.randrange(_N_TOPICS)
            for _ in range(_SENTENCES_PER_TOPIC):
                yield self._sentence(rng, topic)

    def _sentence(self, rng: random.Random, topic: int) -> TaggedSentence:
        path: list[int] = []
        state = _draw(self._steps[0], rng)
        while state:
            path.append(state)
            state = _draw(self._steps[state], rng)
        words: list[str] = []
        entities: list[Entity] = []
        before = ""
        for position, number in enumerate(path):
            now = self.states[number]
            if now.lexemes == "NUM" and rng.random() < _SHARE_OF_FIGURES:
                words.append(_write_number(rng))
            else:
                words.append(self._forms[number][_draw(self._choices[now.lexemes][topic], rng)])
            if now.entity:
                start = position
                if now.continues and now.continues == before:
                    start = entities.pop().start
                entities.append(Entity(start, position + 1, now.entity))
            before = now.name
        words[0] = words[0][:1].upper() + words[0][1:]
        tags = tuple(self.states[number].tag for number in path)
        return TaggedSentence(tuple(words), tags, tuple(entities))


def _draw(cumulative: list[float], rng: random.Random) -> int:
    return min(bisect_right(cumulative, rng.random()), len(cumulative) - 1)


def _write_number(rng: random.Random) -> str:
    kind = rng.random()
    if kind < 0.5:
        return str(rng.randrange(2, 100))
    if kind < 0.8:
        return str(rng.randrange(1700, 2031))
    return f"{rng.randrange(1, 1000)},{rng.randrange(1000):03d}"


def _invent_lexicon(seed: int) -> dict[str, WordList]:
    """Invent all word lists of the language with this seed; NUM has no figures ("47")."""
    rng = random.Random(f"synthetic lexicon {seed}")
    lists = {
        name: WordList(_inflect_list(name, stems, rng), _draw_probabilities(name, len(stems), rng))
        for name, stems in _invent_stems(rng).items()
    }
    lists["COMMA"] = WordList({"": [","]}, [[1.0]] * _N_TOPICS)
    lists["FINAL"] = WordList({"": [".", "?", "!"]}, [[0.88, 0.08, 0.04]] * _N_TOPICS)
    return lists


def _invent_stems(rng: random.Random) -> dict[str, list[str]]:
    used: set[str] = set()

    def invent(shortest: int, longest: int) -> str:
        """Invent a word of ``shortest`` to ``longest`` syllables that no other lexeme has."""
        while True:
            vowels = rng.choice(("aou", "eiy"))  # harmony within the stem
            syllables = [
                rng.choice(_ONSETS[1:] if i else _ONSETS) + rng.choice(vowels)
                for i in range(rng.randint(shortest, longest))
            ]
            word = "".join(syllables) + rng.choice(_CODAS)
            if len(word) > 1 and word not in used:
                used.add(word)
                return word

    stems = {}
    for name, size in _LIST_SIZES.items():
        syllables = (1, 1) if size < 7 else (1, 2) if size < 20 else (2, 3)
        stems[name] = [invent(*syllables) for _ in range(size)]
    for source, target, part in _SHARED_STEMS:
        ratio = len(stems[source]) / len(stems[target])
        for i in range(len(stems[target])):
            if rng.random() < part:
                stems[target][i] = stems[source][int(i * ratio)]
    # homonyms among the function words
    stems["PRON"][1] = stems["DET"][1]
    stems["PRON"][3] = stems["DET"][2]
    stems["SCONJ"][0] = stems["ADP"][1]
    stems["SCONJ"][2] = stems["DET"][1]
    stems["ADV"][0], stems["ADV"][2] = stems["ADP"][2], stems["ADP"][0]
    return stems


def _inflect(stem: str, suffix: str) -> str:
    """Join stem and suffix; the vowels of the suffix follow those of the stem."""
    back = next((letter in "aou" for letter in reversed(stem) if letter in "aoueiy"), True)
    if suffix and suffix[0] not in "AUi" and stem[-1] not in "aoueiy":
        suffix = "A" + suffix
    return stem + suffix.replace("A", "a" if back else "e").replace("U", "u" if back else "i")


def _inflect_list(name: str, stems: list[str], rng: random.Random) -> dict[str, list[str]]:
    if name in ("FIRST", "LAST", "LOC", "ORG1", "ORG2"):
        stems = [stem.capitalize() for stem in stems]
    if name == "NOUN":
        kinds = [_NOUN[rng.random() < 0.35] for _ in stems]
        return {
            form: [_inflect(s, kind[i]) for s, kind in zip(stems, kinds, strict=True)]
            for i, form in enumerate(_CASES)
        }
    if name == "ADV":  # a third has no ending: the adjective's own form
        return {"": [s if i % 3 == 0 else _inflect(s, "sti") for i, s in enumerate(stems)]}
    suffixes = {
        **dict.fromkeys(("ADJ", "DET", "PRON"), _ADJECTIVE),
        **dict.fromkeys(("LAST", "LOC", "ORG2"), _NAME),
        "VERB": _VERB,
        "AUX": {"sg": "n", "pl": "t"},
    }.get(name, {"": ""})
    return {form: [_inflect(stem, suffix) for stem in stems] for form, suffix in suffixes.items()}


def _draw_probabilities(name: str, size: int, rng: random.Random) -> list[list[float]]:
    zipf = [1.0 / (rank + 2.7) ** 1.05 for rank in range(size)]
    home = [rng.randrange(_N_TOPICS) if rng.random() < 0.7 else -1 for _ in range(size)]
    rows = []
    for topic in range(_N_TOPICS):
        boost = _TOPIC_BOOST if name in _TOPICAL_LISTS else 1.0
        row = [p * boost if home[i] == topic else p for i, p in enumerate(zipf)]
        total = sum(row)
        rows.append([p / total for p in row])
    return rows


@lru_cache(maxsize=4)
def language(seed: int = 0) -> Language:
    """Return the language with this seed."""
    return Language(seed)


def sentences(seed: int = 0, language_seed: int = 0) -> Iterator[TaggedSentence]:
    """Yield sentences without end; the same seeds give the same sentences."""
    return language(language_seed).sentences(seed)


def generate(n_sentences: int, seed: int = 0, language_seed: int = 0) -> list[TaggedSentence]:
    """Return the first ``n_sentences`` of ``sentences(seed)``."""
    check_whole("n_sentences", n_sentences, 0)
    return list(islice(sentences(seed, language_seed), n_sentences))
