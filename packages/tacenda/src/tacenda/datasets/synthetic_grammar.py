"""The grammar of the synthetic language: a Markov chain over states that carry a tag and agreement.

State 0 is the boundary, at which a sentence begins and ends. A noun phrase can stand in four places (subject, object,
after an adposition, and at the front of a clause), and each place has its case. Determiner, adjective and noun agree
in number, and so do the verb and its subject. What looks like a grammar is therefore an ordinary hidden Markov model,
of which everything can be computed exactly.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Arcs = Mapping[str, float]


class State(NamedTuple):
    """One state of the chain."""

    name: str
    tag: str
    """Part of speech, as in Universal Dependencies."""
    lexemes: str
    """The word list from which it draws a lexeme."""
    form: str
    """The inflected form of the lexeme."""
    entity: str = ""
    """PER, LOC or ORG if its words belong to a name."""
    continues: str = ""
    """The name of the state after which this one continues the same name."""


BOUNDARY = State("boundary", "", "", "")

_CASES = {"subject": "nom", "object": "acc", "adpositional": "obl", "fronted": "obl"}

_ENTRIES: dict[str, dict[str, float]] = {
    "subject": {
        "DET.sg": 0.25, "DET.pl": 0.11, "PRON.sg": 0.14, "PRON.pl": 0.08, "NOUN.pl": 0.06,
        "NOUN.sg": 0.03, "ADJ.sg": 0.01, "ADJ.pl": 0.04, "NUM": 0.04, "FIRST": 0.09,
        "LAST": 0.06, "LOC": 0.02, "ORG1": 0.07,
    },
    "object": {
        "DET.sg": 0.32, "DET.pl": 0.16, "PRON.sg": 0.07, "PRON.pl": 0.05, "NOUN.sg": 0.09,
        "NOUN.pl": 0.10, "ADJ.pl": 0.05, "NUM": 0.05, "FIRST": 0.03, "LAST": 0.02, "LOC": 0.02,
        "ORG1": 0.04,
    },
    "adpositional": {
        "DET.sg": 0.34, "DET.pl": 0.14, "PRON.sg": 0.05, "PRON.pl": 0.03, "NOUN.sg": 0.09,
        "NOUN.pl": 0.07, "NUM": 0.06, "LOC": 0.15, "ORG1": 0.04, "LAST": 0.03,
    },
}  # fmt: skip
_ENTRIES["fronted"] = _ENTRIES["adpositional"]


class _Builder:
    def __init__(self) -> None:
        self.states: list[State] = [BOUNDARY]
        self.arcs: dict[str, Arcs] = {}

    def add(self, state: State, arcs: Arcs) -> None:
        self.states.append(state)
        self.arcs[state.name] = arcs

    def noun_phrase(self, place: str, after: Callable[[str], Arcs]) -> Arcs:
        """Add the states of a noun phrase that ``after(number)`` follows, and return the arcs into it."""
        case = _CASES[place]

        def name(part: str) -> str:
            return f"{place}:{part}"

        def within(arcs: Arcs) -> dict[str, float]:
            return {name(part): weight for part, weight in arcs.items()}

        for n in ("sg", "pl"):
            form = f"{case}.{n}"
            noun, adjective = f"NOUN.{n}", f"ADJ.{n}"
            degree = f"ADV.{n}"
            after_det = {noun: 0.64, adjective: 0.29, degree: 0.07}
            if n == "pl":
                after_det["NUM"] = 0.08
            self.add(State(name(f"DET.{n}"), "DET", "DET", form), within(after_det))
            after_adjective = within({noun: 0.82, adjective: 0.11})  # or no noun: "the old"
            self.add(
                State(name(adjective), "ADJ", "ADJ", form),
                after_adjective | _scaled(after(n), 0.07),
            )
            self.add(State(name(degree), "ADV", "ADV", ""), within({adjective: 1.0}))
            compound = within({noun: 0.07})
            self.add(State(name(noun), "NOUN", "NOUN", form), compound | _scaled(after(n), 0.93))
            self.add(State(name(f"PRON.{n}"), "PRON", "PRON", form), after(n))
        self.add(State(name("NUM"), "NUM", "NUM", ""), within({"NOUN.pl": 0.8, "ADJ.pl": 0.2}))
        inflected = f"{case}.sg"
        for part, lexemes, form, entity, continues in (
            ("FIRST", "FIRST", "", "PER", ""),
            ("LAST", "LAST", inflected, "PER", name("FIRST")),
            ("LOC", "LOC", inflected, "LOC", ""),
            ("ORG1", "ORG1", "", "ORG", ""),
            ("ORG2", "ORG2", inflected, "ORG", name("ORG1")),
        ):
            following = {"FIRST": within({"LAST": 1.0}), "ORG1": within({"ORG2": 1.0})}
            state = State(name(part), "PROPN", lexemes, form, entity, continues)
            self.add(state, following.get(part, after("sg")))
        return within(_ENTRIES[place])


def _scaled(arcs: Arcs, factor: float) -> dict[str, float]:
    total = sum(arcs.values())
    return {name: factor * weight / total for name, weight in arcs.items()}


def _verb_group(builder: _Builder, after_verb: Arcs) -> None:
    for n in ("sg", "pl"):
        finite = {f"VERB.past.{n}": 0.5, f"VERB.pres.{n}": 0.5}
        for tense in ("past", "pres"):
            form = f"{tense}.{n}"
            builder.add(State(f"VERB.{form}", "VERB", "VERB", form), after_verb)
        builder.add(State(f"AUX.{n}", "AUX", "AUX", n), {"VERB.inf": 0.85, f"ADV.aux.{n}": 0.15})
        builder.add(State(f"ADV.aux.{n}", "ADV", "ADV", ""), {"VERB.inf": 1.0})
        builder.add(State(f"ADV.pre.{n}", "ADV", "ADV", ""), finite)
    builder.add(State("VERB.inf", "VERB", "VERB", "inf"), after_verb)


def grammar() -> tuple[tuple[State, ...], NDArray[np.float64]]:
    """Return all states, and the transition matrix (states, states), whose rows sum to 1."""
    builder = _Builder()
    verbs = {
        n: {f"VERB.past.{n}": 0.35, f"VERB.pres.{n}": 0.3, f"AUX.{n}": 0.25, f"ADV.pre.{n}": 0.1}
        for n in ("sg", "pl")
    }
    end = {"ADP": 0.24, "FINAL": 0.50, "COMMA": 0.12, "CCONJ": 0.06, "ADV.post": 0.08}
    subject = builder.noun_phrase("subject", lambda n: verbs[n])
    objects = builder.noun_phrase("object", lambda n: end)
    oblique = builder.noun_phrase("adpositional", lambda n: end | {"ADP": 0.12})
    fronted = builder.noun_phrase(
        "fronted", lambda n: _scaled(subject, 0.6) | {"COMMA.fronted": 0.4}
    )
    after_verb = _scaled(objects, 0.55) | _scaled(end, 0.45)
    _verb_group(builder, after_verb)
    clause = _scaled(subject, 0.8)
    again = _scaled({**verbs["sg"], **verbs["pl"]}, 0.2)
    builder.add(State("ADP", "ADP", "ADP", ""), oblique)
    builder.add(State("ADP.fronted", "ADP", "ADP", ""), fronted)
    builder.add(State("COMMA.fronted", "PUNCT", "COMMA", ""), subject)
    builder.add(State("ADV.first", "ADV", "ADV", ""), subject)
    builder.add(State("ADV.post", "ADV", "ADV", ""), {"ADP": 0.3, "FINAL": 0.6, "COMMA": 0.1})
    builder.add(State("COMMA", "PUNCT", "COMMA", ""), {"SCONJ": 0.6, "CCONJ": 0.4})
    builder.add(State("SCONJ", "SCONJ", "SCONJ", ""), subject)
    builder.add(State("CCONJ", "CCONJ", "CCONJ", ""), clause | again)
    builder.add(State("FINAL", "PUNCT", "FINAL", ""), {"boundary": 1.0})
    start = _scaled(subject, 0.78) | {"ADV.first": 0.08, "ADP.fronted": 0.11, "SCONJ": 0.03}
    builder.arcs["boundary"] = start
    index = {state.name: i for i, state in enumerate(builder.states)}
    transition = np.zeros((len(index), len(index)))
    for name, arcs in builder.arcs.items():
        for target, weight in arcs.items():
            transition[index[name], index[target]] += weight
    transition /= transition.sum(axis=1, keepdims=True)
    return tuple(builder.states), transition
