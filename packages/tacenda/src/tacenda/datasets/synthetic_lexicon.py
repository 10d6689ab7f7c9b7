"""The words of the synthetic language: stems, inflectional suffixes with vowel harmony, homonyms.

A content word is a stem with a suffix that depends on part of speech, case, number or tense. ``A`` and ``U`` in a
suffix become "a" and "u" after a back vowel, "e" and "i" after a front one. Nouns, verbs and adjectives share stems
and some of their suffixes, so that a form alone does not tell the tag. The frequencies of lexemes are Zipfian, and
higher in the topic to which a lexeme belongs.
"""

import random
from dataclasses import dataclass, field

_CASES = ("nom.sg", "nom.pl", "acc.sg", "acc.pl", "obl.sg", "obl.pl")
# Two declensions; the verb's -n, -t and bare forms are also those of nouns and adjectives.
_NOUN = (("", "t", "n", "jA", "ssA", "issA"), ("", "kUt", "mA", "kUjA", "llA", "kUllA"))
_ADJECTIVE = ("", "t", "n", "jA", "ssA", "issA")
_VERB = {"past.sg": "sti", "past.pl": "stivAt", "pres.sg": "n", "pres.pl": "t", "inf": ""}
_NAME = dict(zip(_CASES, ("", "", "n", "n", "ssA", "ssA"), strict=True))

N_TOPICS = 12
_BOOST = 10.0
_SIZES = {
    "NOUN": 2400, "VERB": 1100, "ADJ": 800, "ADV": 250, "DET": 5, "PRON": 6, "ADP": 14, "SCONJ": 5,
    "CCONJ": 3, "AUX": 5, "FIRST": 160, "LAST": 500, "LOC": 260, "ORG1": 220, "ORG2": 14,
    "NUM": 40, "COMMA": 1, "FINAL": 3,
}  # fmt: skip
_OPEN = {"NOUN", "VERB", "ADJ", "LAST", "LOC", "ORG1"}


@dataclass
class WordList:
    """The lexemes of one list: the forms of each under the name of the form, and their probabilities in each topic."""

    forms: dict[str, list[str]] = field(default_factory=dict)
    probabilities: list[list[float]] = field(default_factory=list)
    """(topics, lexemes)"""


class _Phonology:
    onsets = ("", "b", "d", "f", "g", "h", "k", "l", "m", "n", "p", "r", "s", "t", "v", "kr", "pl")
    codas = ("",) * 6 + ("l", "m", "n", "r", "s", "lt", "rk", "nd")

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.used: set[str] = set()

    def word(self, shortest: int, longest: int) -> str:
        """Invent a word of ``shortest`` to ``longest`` syllables that no other lexeme has."""
        while True:
            vowels = self.rng.choice(("aou", "eiy"))  # harmony within the stem
            syllables = [
                self.rng.choice(self.onsets[1:] if i else self.onsets) + self.rng.choice(vowels)
                for i in range(self.rng.randint(shortest, longest))
            ]
            word = "".join(syllables) + self.rng.choice(self.codas)
            if len(word) > 1 and word not in self.used:
                self.used.add(word)
                return word


def inflect(stem: str, suffix: str) -> str:
    """Join stem and suffix; the vowels of the suffix follow those of the stem."""
    back = next((letter in "aou" for letter in reversed(stem) if letter in "aoueiy"), True)
    if suffix and suffix[0] not in "AUi" and stem[-1] not in "aoueiy":
        suffix = "A" + suffix
    return stem + suffix.replace("A", "a" if back else "e").replace("U", "u" if back else "i")


def _stems(sound: _Phonology) -> dict[str, list[str]]:
    rng = sound.rng
    stems = {}
    for name, size in _SIZES.items():
        if name not in ("COMMA", "FINAL"):
            syllables = (1, 1) if size < 7 else (1, 2) if size < 20 else (2, 3)
            stems[name] = [sound.word(*syllables) for _ in range(size)]

    def share(source: str, target: str, part: float) -> None:
        """Give a part of the lexemes of ``target`` the stem of a lexeme of ``source`` of similar frequency."""
        ratio = len(stems[source]) / len(stems[target])
        for i in range(len(stems[target])):
            if rng.random() < part:
                stems[target][i] = stems[source][int(i * ratio)]

    share("NOUN", "VERB", 0.60)
    share("NOUN", "ADJ", 0.35)
    share("ADJ", "ADV", 0.30)
    share("LOC", "LAST", 0.35)
    share("NOUN", "LAST", 0.10)
    share("LAST", "ORG1", 0.40)
    share("NOUN", "ORG2", 1.0)
    stems["PRON"][1] = stems["DET"][1]
    stems["PRON"][3] = stems["DET"][2]
    stems["SCONJ"][0] = stems["ADP"][1]
    stems["SCONJ"][2] = stems["DET"][1]
    stems["ADV"][0], stems["ADV"][2] = stems["ADP"][2], stems["ADP"][0]
    return stems


def _forms(name: str, stems: list[str], rng: random.Random) -> dict[str, list[str]]:
    if name in ("FIRST", "ORG1"):
        return {"": [stem.capitalize() for stem in stems]}
    if name in ("LAST", "LOC", "ORG2"):
        return {f: [inflect(s.capitalize(), x) for s in stems] for f, x in _NAME.items()}
    if name == "NOUN":
        kinds = [_NOUN[rng.random() < 0.35] for _ in stems]
        return {
            form: [inflect(s, kind[i]) for s, kind in zip(stems, kinds, strict=True)]
            for i, form in enumerate(_CASES)
        }
    if name in ("ADJ", "DET", "PRON"):
        return {f: [inflect(s, x) for s in stems] for f, x in zip(_CASES, _ADJECTIVE, strict=True)}
    if name == "VERB":
        return {form: [inflect(s, x) for s in stems] for form, x in _VERB.items()}
    if name == "AUX":
        return {"sg": [inflect(s, "n") for s in stems], "pl": [inflect(s, "t") for s in stems]}
    if name == "ADV":  # a third has no ending: the adjective's own form
        return {"": [s if i % 3 == 0 else inflect(s, "sti") for i, s in enumerate(stems)]}
    return {"": list(stems)}


def _probabilities(name: str, size: int, rng: random.Random) -> list[list[float]]:
    zipf = [1.0 / (rank + 2.7) ** 1.05 for rank in range(size)]
    home = [rng.randrange(N_TOPICS) if rng.random() < 0.7 else -1 for _ in range(size)]
    rows = []
    for topic in range(N_TOPICS):
        row = [
            p * (_BOOST if name in _OPEN and home[i] == topic else 1.0) for i, p in enumerate(zipf)
        ]
        total = sum(row)
        rows.append([p / total for p in row])
    return rows


def lexicon(seed: int) -> dict[str, WordList]:
    """Return all word lists of the language with this seed; NUM has no figures ("47")."""
    rng = random.Random(f"synthetic lexicon {seed}")
    stems = _stems(_Phonology(rng))
    lists = {
        name: WordList(_forms(name, words, rng), _probabilities(name, len(words), rng))
        for name, words in stems.items()
    }
    lists["COMMA"] = WordList({"": [","]}, [[1.0]] * N_TOPICS)
    lists["FINAL"] = WordList({"": [".", "?", "!"]}, [[0.88, 0.08, 0.04]] * N_TOPICS)
    return lists
