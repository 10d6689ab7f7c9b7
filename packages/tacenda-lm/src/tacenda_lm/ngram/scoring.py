"""`NGramScores`: what a language model is asked, answered from a packed table of n-grams.

    p(w | h) = p_table(w | h) where h w is listed, else backoff(h) p(w | h')

N-grams are looked up in compiled code, for one word after another, for strings and for whole texts; a table may be a
mapped file, of which nothing has been checked before it is used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from tacenda.corpus.lines import START
from tacenda.corpus.text import Sentence, Text
from tacenda.errors import ArtifactError
from tacenda.tokenizers import ASCII_WHITESPACE
from tacenda.vocabulary import BOUNDARY
from tacenda_lm.kenlm_interface import FullScore
from tacenda_lm.language_model import LanguageModel
from tacenda_lm.ngram.layout import ABOVE_ONE
from tacenda_lm.ngram.smoothing import KneserNeySettings
from tacenda_lm.ngram.table import Table
from tacenda_lm.ngram.word_table import WordTable
from tacenda_lm.sequences import (
    BlankLines,
    Float64,
    Ids,
    Integers,
    Offsets,
    check_word,
    checked,
    checked_blank_lines,
    checked_ids,
    checked_pairs,
)
from tacenda_lm.states import State

__all__ = ["NGramScores"]

_LN10 = math.log(10)
_MARKS = frozenset((START, BOUNDARY))
_COARSE = 1.0  # by more than the rounding of few bits


@cache
def _lookup() -> Any:
    """The compiled functions, which are loaded when they are first needed."""
    from tacenda_lm.ngram import lookup

    return lookup


@cache
def _strings() -> Any:
    """Those for strings."""
    from tacenda_lm.ngram import text_kernels

    return text_kernels


class NGramScores(LanguageModel):
    """Answers from a table, which a subclass fits or reads; a state's value is a tuple of the word ids that matter."""

    distribution: ClassVar[str] = "tacenda-lm"
    settings: KneserNeySettings
    _table: Table | None = None
    _word_table: WordTable | None = None
    _split_by: Any = None  # the tokenizer of the text that the word table was made for
    _begun: tuple[tuple[int, ...], Table, npt.NDArray[np.int64]] | None = None  # the first state
    _prepared: tuple[Table, Any, tuple[Any, ...]] | None = None  # what a line is scored with

    @property
    def table(self) -> Table:
        """The listed n-grams. Raises NotFittedError."""
        return self._learned(self._table)

    @property
    def order(self) -> int:
        """N, the number of words that an n-gram spans."""
        return self.settings.order if self._table is None else self._table.order

    # -- one word after another --------------------------------------------------------------------

    def start(self) -> State:
        """Return the state at the beginning of a sentence, after ``<s>``."""
        return self._state((self.vocabulary.boundary_id,))

    def null(self) -> State:
        """Return the state without context, in which the next word is predicted as a unigram."""
        _ = self.table
        return State(())

    def advance(self, state: State, word: int) -> State:
        """Return the state after one more word, an id; after ``</s>`` a new sentence begins."""
        check_word(word, self.table.n_types)
        return self._state((*state.parts(), int(word)))

    def BeginSentenceWrite(self, state: State) -> None:  # noqa: N802
        """As `LanguageModel.BeginSentenceWrite`; the place of ``<s>`` is looked up once."""
        begun = self._begun
        if begun is None or begun[1] is not self._table:
            words = self.start().parts()
            begun = self._begun = words, self.table, self._places(words)
        state.value, state.hint = begun[0], (*begun[:2], begun[2].copy())

    def BaseScore(self, in_state: State, word: str, out_state: State) -> float:  # noqa: N802
        """As `LanguageModel.BaseScore`; the places of the context in the table are kept with the state."""
        if word in _MARKS:
            return super().BaseScore(in_state, word, out_state)
        return self._step(in_state, word, out_state)[0] / _LN10

    def BaseFullScore(self, in_state: State, word: str, out_state: State) -> FullScore:  # noqa: N802
        """As `LanguageModel.BaseFullScore`."""
        if word in _MARKS:
            return super().BaseFullScore(in_state, word, out_state)
        score, length = self._step(in_state, word, out_state)
        is_oov = self.vocabulary.id_of(word) in self.vocabulary.oov_ids
        return FullScore(score / _LN10, length, is_oov)

    def _step(self, state: State, word: str, after: State) -> tuple[float, int]:
        """The natural log-probability and the n-gram length of a word; write the state after it."""
        vocabulary, table = self._vocabulary, self._table
        if vocabulary is None or table is None:
            vocabulary, table = self.vocabulary, self.table
        value: Any = state.value
        hint, spare = state.hint, after.hint
        if hint is None or hint[0] is not value or hint[1] is not table:
            hint = value, table, self._places(state.parts())
        # no two states have one array, so that of the state that is written to can be used again
        own = spare is not None and spare[1] is table and after is not state
        found = spare[2] if own else np.empty(len(hint[2]), np.int64)
        after.hint = None
        number = vocabulary.id_of(word)
        score, length, kept = _lookup().step(table.data, table.shape, hint[2], number, found)
        if not score <= 0:
            score = float(self._sound(np.array([score]))[0])
        after.value = words = (*value, number)[-kept:] if kept else ()
        after.hint = words, table, found
        return score, length

    def _places(self, words: tuple[int, ...]) -> npt.NDArray[np.int64]:
        """The listed endings of a context as ``lookup.step`` has them."""
        found = np.zeros(self.table.order + 1, np.int64)
        found[-1] = _lookup().resolve(*self._arguments(), np.array(words, np.int64), found)
        return found

    def _sound(self, scores: Float64) -> Float64:
        """Return log-probabilities, none above zero in a table of few bits.

        Raises ArtifactError if one is no log-probability: nothing else has checked a mapped table.
        """
        is_coarse = self.table.is_coarse
        if not (scores <= (_COARSE if is_coarse else ABOVE_ONE)).all():
            raise self._damaged()
        return np.minimum(scores, 0.0) if is_coarse else scores

    @staticmethod
    def _damaged() -> ArtifactError:
        return ArtifactError(
            "a word has an impossible probability: the table of this model is damaged; fit it anew, or copy it again"
        )

    def _state(self, words: tuple[int, ...]) -> State:
        """The state after these words: the last ones that an n-gram of the table continues."""
        table = self.table
        context = np.array(words[-(table.order - 1) :] if table.order > 1 else (), np.int64)
        n = _lookup().endings(*self._arguments(), context)
        return State(tuple(context[len(context) - n :].tolist()))

    def _contexts(self, states: Sequence[State]) -> tuple[npt.NDArray[np.int64], ...]:
        """The words of states (states, order - 1), flush right, and how many there are of each (states,)."""
        rows = np.zeros((len(states), max(self.table.order - 1, 1)), np.int64)
        lengths = np.zeros(len(states), np.int64)
        for i, state in enumerate(states):
            words = state.parts()[-rows.shape[1] :]
            lengths[i] = n = len(words)
            rows[i, rows.shape[1] - n :] = words
        return rows, lengths

    def log_probs(self, states: Sequence[State]) -> Float64:
        """Return the natural log-probabilities of every next word: float64 (states, types)."""
        table = self.table
        found = np.empty((len(states), table.n_types), np.float64)
        _lookup().conditionals(*self._arguments(), *self._contexts(states), found)
        return self._sound(found)

    def log_prob(self, states: Sequence[State], words: Integers | Sequence[int]) -> Float64:
        """Return log p(word | state), natural, float64 (states,), without computing a distribution."""
        return self._pairs(states, words)[0]

    def _pairs(
        self, states: Sequence[State], words: Integers | Sequence[int]
    ) -> tuple[Float64, npt.NDArray[np.int64]]:
        """Log-probabilities and n-gram lengths of words after states, one word for each."""
        ids = checked_pairs(states, words, self.table.n_types)
        found, matched = np.empty(len(ids), np.float64), np.empty(len(ids), np.int64)
        contexts = self._contexts(states)
        _lookup().pair_scores(*self._arguments(), *contexts, ids, found, matched)
        return self._sound(found), matched

    # -- strings -----------------------------------------------------------------------------------

    def score(self, sentence: Sentence, bos: bool = True, eos: bool = True) -> float:
        """As `LanguageModel.score`; a string is split, looked up and scored in compiled code."""
        prepared = self._prepared
        tokenizer = self.fitted_on.get("tokenizer")
        if prepared is None or prepared[0] is not self._table or prepared[1] != tokenizer:
            words = self._words
            arguments = () if words is None else (*self._arguments(), *words.arrays, *words.special)
            prepared = self._prepared = self.table, tokenizer, arguments
        if prepared[2] and isinstance(sentence, str) and sentence:
            text = np.frombuffer(sentence.encode("utf-8", "surrogatepass"), np.uint8)
            total, found = _strings().score_line(text, *prepared[2], bos, eos)
            if found:
                if not total <= 0:
                    total = self._sound(np.array([total]))[0]
                return float(total) / _LN10
        return super().score(sentence, bos, eos)

    def score_batch(
        self, sentences: Text, *, eos: bool = True, blank_lines: BlankLines = "skip"
    ) -> Float64:
        """As `LanguageModel.score_batch`; a list of strings is split, looked up and scored in compiled code."""
        words, counted = self._words, checked_blank_lines(blank_lines) == "count"
        lines = words.encoded(sentences, eos) if words is not None else None
        if words is None or lines is None:
            return super().score_batch(sentences, eos=eos, blank_lines=blank_lines)
        lengths = np.diff(lines[1])
        scores = self._scored(*lines, [words.special[0]])[0]
        lines_of_ids = np.repeat(np.arange(len(lengths)), lengths)
        found = np.bincount(lines_of_ids, scores, len(lengths)).astype(np.float64, copy=False)
        if eos and not counted:
            found[lengths == 1] = 0.0
        return self._sound(found) / _LN10

    @property
    def _words(self) -> WordTable | None:
        """The vocabulary for compiled code; None where more is to be done with words than to look them up."""
        known, tokenizer = self._word_table, self.fitted_on.get("tokenizer")
        if known is None or known.vocabulary is not self._vocabulary or tokenizer != self._split_by:
            is_ascii, self._split_by = self.string_tokenizer == ASCII_WHITESPACE, tokenizer
            known = self._word_table = WordTable(self.vocabulary, is_ascii)
        return known if known.is_plain else None

    # -- whole texts -------------------------------------------------------------------------------

    def score_corpus(self, ids: Integers, offsets: Integers) -> Float64:
        """Return the log-probability of every id given those before it: natural, float64 (tokens,)."""
        ids, offsets = checked(ids, offsets, self.table.n_types)
        return self._sequences(ids, offsets, [self.vocabulary.boundary_id])[0]

    def _sequence_scores(self, ids: Ids, bos: bool) -> tuple[Float64, npt.NDArray[np.int64]]:
        if ids.dtype != np.int32:  # int32 ids are checked by the look-up itself
            ids = checked_ids(ids, self.table.n_types)
        before = [self.vocabulary.boundary_id] if bos else []
        return self._sequences(ids, np.array([0, len(ids)]), before)

    def _penalty(self, state: State) -> float:
        return float(_lookup().penalty(*self._arguments(), np.array(state.parts(), np.int64)))

    def _word_score(self, state: State, word: int) -> tuple[float, int]:
        found, matched = self._pairs([state], [word])
        return float(found[0]), int(matched[0])

    def score_from(self, state: State, ids: Integers) -> tuple[Float64, State]:
        """Score a sequence that continues from a state; return the scores and the state after it."""
        ids = checked_ids(ids, self.table.n_types)
        context = state.parts()
        scores, _ = self._sequences(ids, np.array([0, len(ids)]), context)
        return scores, self._state((*context, *ids[-self.table.order :].tolist()))

    def _sequences(
        self, ids: Ids, offsets: Offsets, before: Sequence[int]
    ) -> tuple[Float64, npt.NDArray[np.int64]]:
        """Log-probabilities and n-gram lengths of sequences that all follow the words ``before``."""
        found, matched = self._scored(ids, offsets, before)
        return self._sound(found), matched

    def _scored(
        self, ids: Ids, offsets: Offsets, before: Sequence[int]
    ) -> tuple[Float64, npt.NDArray[np.int64]]:
        """As `_sequences`, as the table has them."""
        found, matched = np.empty(len(ids), np.float64), np.empty(len(ids), np.int64)
        context = np.array(before, np.int64)
        bad = _lookup().sequence_scores(*self._arguments(), ids, offsets, context, found, matched)
        if bad >= 0:
            check_word(int(ids[bad]), self.table.n_types, f" (at place {bad})")
        return found, matched

    def _arguments(self) -> tuple[Any, ...]:
        """The first arguments of every function in ``lookup``."""
        return self.table.arguments
