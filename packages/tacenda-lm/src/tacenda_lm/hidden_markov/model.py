"""`HiddenMarkov`: scores and states of hidden Markov models; the base of `VLHMM` and `HMM`, which add their fits."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.errors import DataError
from tacenda.lazy import compiled
from tacenda_lm.hidden_markov.parameters import Learned
from tacenda_lm.hidden_markov.tables import MIN_PROBABILITY, Tables
from tacenda_lm.language_model import LanguageModel
from tacenda_lm.sequences import Float64, Ids, Integers, Offsets, check_sequences, encode_sentences
from tacenda_lm.states import (
    State,
    check_following,
    check_pairs,
    check_states,
    check_step,
    not_of_this_model,
    vector_of,
)

_Floats = npt.NDArray[np.float32]
_START = -1  # the class in states before the first word
_STATES_AT_ONCE = 64  # of a class, whose next words are predicted together


class Posterior(NamedTuple):
    """The states of the words of a whole sentence: only those of a word's class are possible.

    ``classes`` int32 (words,) are the classes of the words, and ``probabilities`` float32 (words, k) are
    p(state | sentence) of the states of these classes.
    """

    classes: npt.NDArray[np.int32]
    probabilities: _Floats


class HiddenMarkov(LanguageModel):
    """Base of `VLHMM` and `HMM`: everything but the fit, which sets what it learned and the vocabulary.

    A `State` holds the class of the last word and the probabilities, as bytes of float32 (k,), of the states of that
    class given all words of the sentence so far. ``</s>`` begins a new sentence, as in the paper. A hidden state's
    number is ``class * k + number within the class``.
    """

    distribution: ClassVar[str] = "tacenda-lm"
    keeps_checkpoints = True
    learned: Learned | None = None
    _tables: Tables | None = None

    @property
    def tables(self) -> Tables:
        """The probabilities, arranged when they are first asked for. Raises NotFittedError."""
        learned = self._learned(self.learned)
        if self._tables is None or self._tables.learned is not learned:
            self._tables = Tables(learned)
        return self._tables

    # -- one word after another --------------------------------------------------------------------

    def start(self) -> State:
        self._learned(self.learned)
        return State((_START, b""))

    def advance(self, state: State, word: int) -> State:
        check_step(state, word, len(self.vocabulary))
        if word == self.vocabulary.boundary_id:
            self._unpack(state)
            return self.start()
        _, states = self.tables.observe(self._reach(state, word), word)
        return State((int(self.tables.lexicon.classes[word]), states.tobytes()))

    def _reach(self, state: State, word: int) -> _Floats:
        """Return p(z | state) for the states z of the word's class: (k,)."""
        tables = self.tables
        group, vector = self._unpack(state)
        if group == _START:
            return np.asarray(tables.starts[tables.lexicon.classes[word]])
        return tables.reach(group, vector, int(tables.lexicon.classes[word]))

    def _unpack(self, state: State) -> tuple[int, _Floats]:
        """Return the class of a state and its probabilities (k,), none at the start. Raises DataError."""
        group, data = state.parts(2)
        if not isinstance(group, int) or not _START <= group < len(self.tables.starts):
            raise not_of_this_model()
        return group, vector_of(data, np.float32, 0 if group == _START else self.tables.k)

    def log_prob(self, states: Sequence[State], words: Integers | Sequence[int]) -> Float64:
        ids = check_pairs(states, words, len(self.vocabulary))
        log_probs = np.empty(len(ids), np.float64)
        for n, (state, word) in enumerate(zip(states, ids.tolist(), strict=True)):
            log_probs[n], _ = self.tables.observe(self._reach(state, word), word)
        return log_probs

    def log_probs(self, states: Sequence[State]) -> _Floats:
        check_states(states)
        tables = self.tables
        rows = np.empty((len(states), len(self.vocabulary)), np.float32)
        parts = [self._unpack(state) for state in states]
        groups = np.array([group for group, _ in parts], np.int64)
        # all transitions out of a class are computed at once
        for group in np.unique(groups).tolist():
            own = np.flatnonzero(groups == group)
            if group == _START:
                rows[own] = tables.words(np.ascontiguousarray(tables.starts[:, :, None]))
                continue
            for i in range(0, len(own), _STATES_AT_ONCE):
                block = own[i : i + _STATES_AT_ONCE]
                vectors = np.stack([parts[n][1] for n in block])
                rows[block] = tables.words(tables.learned.onward(group, vectors))
        return np.log(np.maximum(rows, MIN_PROBABILITY))

    # -- whole texts -------------------------------------------------------------------------------

    def score_corpus(self, ids: Integers, offsets: Integers) -> Float64:
        words, cuts = self._sentences(ids, offsets)
        log_probs = np.empty(len(words), np.float64)
        for tokens, forward in self.tables.passes(words, cuts):
            log_probs[tokens] = forward.log_probs
        return log_probs

    def score_from(self, state: State, ids: Integers) -> tuple[Float64, State]:
        words = check_following(state, ids, len(self.vocabulary))
        words, cuts = self._sentences(words, np.array([0, len(words)]))
        log_probs = np.empty(len(words), np.float64)
        if not len(words):
            self._unpack(state)
            return log_probs, State(state.value)
        for tokens, forward in self.tables.passes(words, cuts, self._reach(state, int(words[0]))):
            log_probs[tokens] = forward.log_probs
        if words[-1] == self.vocabulary.boundary_id:
            return log_probs, self.start()
        group = int(self.tables.lexicon.classes[words[-1]])
        return log_probs, State((group, forward.states[-1].tobytes()))

    def _sentences(self, ids: Integers, offsets: Integers) -> tuple[Ids, Offsets]:
        """Return the checked ids, and the offsets of sentences: the sequences, cut after every ``</s>``."""
        words, cuts = check_sequences(ids, offsets, len(self.vocabulary))
        ends = np.flatnonzero(words == self.vocabulary.boundary_id) + 1
        return words, np.union1d(cuts, ends)

    # -- the states behind the words ---------------------------------------------------------------

    def class_of(self, word: str) -> int:
        """Return the class of a word; an unknown word has the class of ``<unk>``."""
        return int(self.tables.lexicon.classes[self.vocabulary.encode([word])[0]])

    def words_of(self, group: int) -> list[str]:
        """Return the words of a class, in the order of the vocabulary. Raises DataError if there is no such class."""
        words, lexicon = self.vocabulary.words, self.tables.lexicon
        if group not in range(lexicon.n_classes):
            raise DataError(
                f"there is no class {group!r:.80}: they are 0 to {lexicon.n_classes - 1}"
            )
        return [words[i] for i in np.flatnonzero(lexicon.classes == group).tolist()]

    def posterior(self, sentence: str | Sequence[str], *, eos: bool = True) -> Posterior:
        """Return p(state | sentence) for every word; with ``eos`` the sentence ends, and ``</s>`` is the last word."""
        words, cuts = self._sentences(*self._encode(sentence, eos))
        probabilities = np.empty((len(words), self.tables.k), np.float32)
        for tokens, forward in self.tables.passes(words, cuts):
            probabilities[tokens] = forward.states
        for begin, end in pairwise(cuts.tolist()):
            self._smooth(words[begin:end], probabilities[begin:end])
        return Posterior(self.tables.lexicon.classes[words], probabilities)

    def _smooth(self, words: Ids, probabilities: _Floats) -> None:
        """Turn p(state | words so far) of the words of a sentence into p(state | sentence), in place."""
        tables = self.tables
        classes = tables.lexicon.classes[words].astype(np.int64)
        later = np.ones(tables.k, np.float32)
        for end in range(len(words) - 1, 0, -tables.tokens_per_pass):
            begin = max(end - tables.tokens_per_pass, 0)
            pool, slots = tables.store.get(classes[begin:end], classes[begin + 1 : end + 1])
            emitted = tables.emissions[tables.lexicon.places[words[begin + 1 : end + 1]]]
            _smooth_states(pool, slots, emitted, later, probabilities[begin:end])

    def viterbi(self, sentence: str | Sequence[str], *, eos: bool = True) -> npt.NDArray[np.int64]:
        """Return the most probable path of states: int64 (words,), from 0 to Z - 1; arguments as of `posterior`."""
        return self.state_path(*self._encode(sentence, eos))

    def state_path(self, ids: Integers, offsets: Integers) -> npt.NDArray[np.int64]:
        """Return the most probable path of every sentence of a text: int64 (tokens,)."""
        words, cuts = self._sentences(ids, offsets)
        path = np.empty(len(words), np.int64)
        for begin, end in pairwise(cuts.tolist()):
            path[begin:end] = self._best_path(words[begin:end])
        return path

    def _best_path(self, ids: Ids) -> npt.NDArray[np.int64]:
        """Find the largest p(z, x) over z by dynamic programming in logarithms (Viterbi 1967).

        best_t[j] = max_i (best_{t-1}[i] + log A[j, i]) + log p(x_t | j)
        """
        tables, k = self.tables, self.tables.k
        classes = tables.lexicon.classes[ids].astype(np.int64)
        emissions = tables.emissions[tables.lexicon.places[ids]]
        emitted = np.log(np.maximum(emissions, MIN_PROBABILITY))
        came_from = np.empty((len(ids), k), np.int64)
        path = np.empty(len(ids), np.int64)
        best = np.log(np.maximum(tables.starts[classes[0]], MIN_PROBABILITY)) + emitted[0]
        for t in range(1, len(ids)):
            pool, slots = tables.store.get(classes[t - 1 : t], classes[t : t + 1])
            scores = np.log(np.maximum(pool[slots[0]], MIN_PROBABILITY)) + best
            came_from[t] = scores.argmax(axis=1)
            best = scores[np.arange(k), came_from[t]] + emitted[t]
            best -= best.max()  # float32 would round the sums of a long sentence
        path[-1] = best.argmax()
        for t in range(len(ids) - 1, 0, -1):
            path[t - 1] = came_from[t, path[t]]
        return path + classes * k

    def _encode(self, sentence: str | Sequence[str], eos: bool) -> tuple[Ids, Offsets]:
        return encode_sentences([self._tokens(sentence)], self.vocabulary, eos=eos)


@compiled
def _smooth_states(
    pool: _Floats,
    slots: npt.NDArray[np.int32],
    emitted: _Floats,
    later: _Floats,
    probabilities: _Floats,
) -> None:
    """Turn p(state | words so far) into p(state | sentence), from the last word of a piece to its first, in place.

        later_{t-1}[i] = sum_j A[j, i] p(x_t | j) later_t[j], which is p(x_t ... x_n | i), up to a factor

    ``pool`` (blocks, k, k) has blocks A, and ``slots`` (words,) the index of the block from each word to the next.
    ``emitted`` (words, k) is p(next word | j) for each state j of the next word. ``later`` (k,) is given for the word
    after the piece, and becomes that of the first word. ``probabilities`` (words, k) are changed. All arrays but
    ``slots`` are float32.
    """
    k = len(later)
    least, reached = np.finfo(np.float32).tiny, np.empty_like(later)
    for t in range(len(slots) - 1, -1, -1):
        A = pool[slots[t]]
        reached[:] = 0
        for j in range(k):
            weight = emitted[t, j] * later[j]
            for i in range(k):
                reached[i] += weight * A[j, i]
        # scaled, because float32 could not hold the probability of many words
        highest, total = max(reached.max(), least), np.float32(0)
        for i in range(k):
            later[i] = max(reached[i] / highest, least)
            probabilities[t, i] *= later[i]
            total += probabilities[t, i]
        probabilities[t] /= max(total, least)
