"""Several language models over the same words, run side by side: what a mixture weighs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tacenda.errors import ConfigurationError, CorpusError
from tacenda.vocabulary import Vocabulary
from tacenda_lm.contract import LanguageModelContract, rows_of_block
from tacenda_lm.sequences import Float64, checked
from tacenda_lm.state import State

__all__ = ["Components"]

Words = npt.NDArray[np.integer[Any]]
_Map = npt.NDArray[np.int32] | None


class Components:
    """Models by name. Word ids are those of the first one's vocabulary; the others' are looked up.

    A state's value holds those of the components. Scores are natural log-probabilities, float64, one row a
    component.

    Parameters
    ----------
    models
        At least one; their vocabularies may number the words in different orders.

    Raises
    ------
    ConfigurationError
        There are no models, or one of them is no language model.
    """

    def __init__(self, models: Mapping[str, LanguageModelContract]) -> None:
        if not models:
            raise ConfigurationError("a mixture needs models: Mixture([first, second])")
        for model in models.values():
            if not isinstance(model, LanguageModelContract):
                raise ConfigurationError(
                    f"a mixture is made of language models, and {type(model).__name__} is none"
                )
        self.models = dict(models)
        self._maps: list[_Map] | None = None

    @property
    def vocabulary(self) -> Vocabulary:
        """That of the first. Raises NotFittedError, or CorpusError where the words are not the same."""
        self.maps()
        return next(iter(self.models.values())).vocabulary

    def maps(self) -> list[_Map]:
        """For each its ids of the first one's words, None where they are the same. Raises as `vocabulary`."""
        if self._maps is None:
            first, *others = (model.vocabulary for model in self.models.values())
            names = list(self.models)[1:]
            found = [_map(first, other, name) for name, other in zip(names, others, strict=True)]
            self._maps = [None, *found]
        return self._maps

    def forget_vocabularies(self) -> None:
        """The models are about to be fitted on another text."""
        self._maps = None

    # -- states ------------------------------------------------------------------------------------

    def start(self) -> State:
        """All at the start."""
        return _joined(model.start() for model in self.models.values())

    def null(self) -> State:
        """All after nothing."""
        return _joined(model.null() for model in self.models.values())

    def advance(self, state: State, word: int) -> State:
        """All after one more word."""
        return _joined(
            model.advance(part, word if ids is None else int(ids[word]))
            for part, (model, ids) in zip(_parts(state), self._with_maps(), strict=True)
        )

    # -- scores ------------------------------------------------------------------------------------

    def log_probs(self, states: Sequence[State]) -> Float64:
        """Of every next word: (components, states, types)."""
        if not states:
            return np.empty((len(self.models), 0, len(self.vocabulary)))
        found = [
            _columns(model.log_probs(part), ids)
            for part, (model, ids) in zip(_by_component(states), self._with_maps(), strict=True)
        ]
        return np.stack(found)

    def log_prob(self, states: Sequence[State], words: Words | Sequence[int]) -> Float64:
        """Of one next word for each state: (components, states)."""
        own, _ = checked(np.asarray(words), np.array([0, len(words)]), len(self.vocabulary))
        if not len(own):
            return np.empty((len(self.models), 0))
        rows = zip(_by_component(states), self._with_maps(), strict=True)
        return np.stack([model.log_prob(part, _own(own, ids)) for part, (model, ids) in rows])

    def score_corpus(self, ids: Words, offsets: Words) -> Float64:
        """Of every word of a text: (components, tokens)."""
        own, cuts = checked(ids, offsets, len(self.vocabulary))
        return np.stack(
            [model.score_corpus(_own(own, its), cuts) for model, its in self._with_maps()]
        )

    def score_from(self, state: State, ids: Words) -> tuple[Float64, State]:
        """Of every word of a sequence that goes on from a state, (components, tokens), and the state after."""
        own, _ = checked(ids, np.array([0, len(ids)]), len(self.vocabulary))
        rows = zip(_parts(state), self._with_maps(), strict=True)
        found = [model.score_from(part, _own(own, its)) for part, (model, its) in rows]
        return np.stack([scores for scores, _ in found]), _joined(after for _, after in found)

    def distributions(self, ids: Words, offsets: Words) -> Iterator[Float64]:
        """Of every next word at every token: (components, tokens of the block, types), block after block."""
        own, cuts = checked(ids, offsets, len(self.vocabulary))
        size = rows_of_block(len(self.vocabulary))
        parts = [
            _in_rows(model.distributions(_own(own, its), cuts), size)
            for model, its in self._with_maps()
        ]
        for side_by_side in zip(*parts, strict=True):
            found = zip(side_by_side, self.maps(), strict=True)
            yield np.stack([_columns(rows, its) for rows, its in found])

    def _with_maps(self) -> Iterator[tuple[LanguageModelContract, _Map]]:
        return zip(self.models.values(), self.maps(), strict=True)


def _map(first: Vocabulary, other: Vocabulary, name: str) -> _Map:
    if first.fingerprint == other.fingerprint:
        return None
    same_look_up = (first.normalization, first.oov) == (other.normalization, other.oov)
    if not same_look_up or set(first.words) != set(other.words):
        raise CorpusError(
            f"the component {name!r} does not have the words of the first one ({len(other)} types there, "
            f"{len(first)} here): fit all on corpora of one vocabulary"
        )
    return other.encode(first.words, remember=False)


def _own(words: Words, ids: _Map) -> Words:
    return words if ids is None else ids[words]


def _columns(rows: npt.NDArray[np.floating[Any]], ids: _Map) -> Float64:
    return (rows if ids is None else rows[:, ids]).astype(np.float64)


def _joined(states: Iterable[State]) -> State:
    return State(tuple(state.value for state in states))


def _parts(state: State) -> list[State]:
    return [State(value) for value in state.parts()]


def _by_component(states: Sequence[State]) -> Iterator[tuple[State, ...]]:
    return zip(*map(_parts, states), strict=True)


def _in_rows(
    blocks: Iterable[npt.NDArray[np.floating[Any]]], size: int
) -> Iterator[npt.NDArray[np.floating[Any]]]:
    """The same rows in blocks of ``size``, the last one smaller, so that models can be read side by side."""
    held: list[npt.NDArray[np.floating[Any]]] = []
    n_held = 0
    for block in blocks:
        rest = block
        while len(rest):
            held.append(rest[: size - n_held])
            n_held += len(held[-1])
            rest = rest[len(held[-1]) :]
            if n_held == size:
                yield np.concatenate(held)
                held, n_held = [], 0
    if held:
        yield np.concatenate(held)
