"""`KneserNey`: n-gram models of any order, with modified Kneser-Ney, back-off or Good-Turing smoothing.

    p(w | h) = (c(h w) - D(c(h w))) / sum_v c(h v) + gamma(h) p(w | h')

(Chen and Goodman, *An Empirical Study of Smoothing Techniques for Language Modeling*, 1998; estimated as lmplz
does: Heafield et al., ACL 2013.) Fitting sorts the n-grams of the text within a memory budget, on disk if necessary
(``counting``, ``smoothing``), and packs them into a `Table` (``packing``), in which compiled code finds them again
(``lookup``, ``words``):

    p(w | h) = p_table(w | h) where h w is listed, else backoff(h) p(w | h')

A large saved table is mapped and not read, so it has not been checked before it is used. numba is imported when a model
is fitted or scores many words; the first lines of a process are scored without it (``plain``).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import IO, TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from tacenda.corpus import Corpus
from tacenda.corpus.marks import START, Marks
from tacenda.corpus.text import Sentence, Text, tokens_of
from tacenda.errors import ArtifactError, ConfigurationError
from tacenda.settings import Settings, configured_by, option
from tacenda.tokenizers import ASCII_WHITESPACE
from tacenda.vocabulary import BOUNDARY, Vocabulary
from tacenda_lm.kenlm_interface import FullScore
from tacenda_lm.language_model import LanguageModel
from tacenda_lm.ngram.table import MAX_ORDER, Table, lookups, to_context
from tacenda_lm.perplexity import Perplexity
from tacenda_lm.sequences import Float64, Ids, Integers, Offsets, check_sequences
from tacenda_lm.states import (
    State,
    check_following,
    check_pairs,
    check_state,
    check_states,
    check_step,
)
from tacenda_lm.unknown_words import UnknownWords

if TYPE_CHECKING:
    from tacenda.fitting import FitRun
    from tacenda_lm.ngram.spooling import Scratch
    from tacenda_lm.ngram.words import WordTable


_LN10 = math.log(10)
_MARKS = frozenset((START, BOUNDARY))
_MIN_START_LOG10 = -1e3  # a smaller log-probability of <s> is saved as -inf
_MAX_LINE_LENGTH = 1 << 16  # characters: longer lines are measured in blocks
# to estimate how many words strings have: characters of a word and its space, words of a line
_CHARACTERS_PER_WORD, _WORDS_PER_LINE = 6, 20


@dataclass(frozen=True, kw_only=True)
class KneserNeySettings(Settings):
    """Options of `KneserNey`."""

    retired: ClassVar[Mapping[str, Any]] = MappingProxyType({"cutoff": ...})

    order: int = option(
        5,
        "words in an n-gram: order - 1 words of context and the predicted one",
        at_least=1,
        at_most=MAX_ORDER,
    )
    smoothing: Literal["interpolated", "backoff", "good_turing"] = option(
        "interpolated",
        """``"interpolated"`` is modified Kneser-Ney (Chen and Goodman 1998), estimated as lmplz does;
        ``"backoff"`` has the same discounts, but asks a lower order only where a higher one has not seen the
        word; ``"good_turing"`` is Katz's back-off with Good-Turing discounts (Katz 1987) on raw counts""",
    )
    min_count: int = option(
        1,
        """leave out n-grams of three or more words that occur less often, and predict them from their last
        words; use 2, SRILM's default, with the two back-off forms""",
        at_least=1,
    )
    prune: float = option(
        0.0,
        """leave out n-grams of two or more words that lower the perplexity by less than this share (Stolcke 1998),
        like SRILM's -prune; 1e-8 to 1e-6 are common""",
        at_least=0,
        below=1,
    )
    bits: int | None = option(
        None,
        """bits per stored log-probability and back-off weight; by default they are exact to float32. With 8 bits the
        model is half as large, and its probabilities change a little""",
        at_least=2,
        at_most=16,
    )
    memory_gb: float | None = option(
        None,
        """memory limit of a fit in GB; what exceeds it is sorted in a temporary folder (TMPDIR). Default: a quarter of
        RAM; less is used when more would not help""",
        above=0,
        at_most=1e9,
    )


class _StringScorer(NamedTuple):
    """Everything that strings are scored with, for one table and tokenizer, by one module of look-ups."""

    table: Table
    tokenizer: Any
    score_line: Callable[..., tuple[float, bool]]
    measure_line: Callable[..., tuple[float, float, float, int, int]]
    words: WordTable
    arguments: tuple[Any, ...]  # the first ones of both functions


class KneserNey(LanguageModel):
    """An n-gram language model.

    The model predicts every word of the vocabulary, including ``</s>`` and ``<unk>``. A word outside the vocabulary has
    the probability of ``<unk>``, and a ``<unk>`` written in the text is an ordinary word. The value of a state is a
    tuple of the last word ids that can affect predictions.

    Examples
    --------
    >>> lm = KneserNey(order=5).fit(Path("train.txt"))
    >>> lm.score("a sentence")  # log10, with </s>, as the kenlm module
    -7.21
    """

    name: ClassVar[str] = "kneser_ney"
    distribution: ClassVar[str] = "tacenda-lm"
    settings: KneserNeySettings
    learned_class = Table
    mapped_arrays = frozenset({"ngrams.data"})
    is_normalized = True
    """False for a model read from an ARPA file whose distributions do not all sum to one, and for one of few bits."""

    # the words of the first state, the table, and the places of the words in it
    _begun: tuple[tuple[int, ...], Table, npt.NDArray[np.int64]] | None = None
    _scorer: _StringScorer | None = None

    @configured_by(KneserNeySettings)
    def __init__(self, settings: KneserNeySettings) -> None:
        super().__init__(settings)

    @property
    def table(self) -> Table:
        """The stored n-grams. Raises NotFittedError."""
        table: Table = self._learned(self.learned)
        return table

    @property
    def order(self) -> int:
        """N, the number of words in the longest n-grams."""
        return self.settings.order if self.learned is None else self.table.order

    # -- fitting -----------------------------------------------------------------------------------

    def _fit(self, corpus: Corpus, valid: Corpus | None, fitting: FitRun) -> None:
        from tacenda_lm.ngram.counting import count_sorted_rows

        order = self.settings.order
        self._estimate(corpus.vocabulary, lambda scratch: count_sorted_rows(corpus, order, scratch))

    def fit_counted(
        self, corpus: Any, rows: Iterable[npt.NDArray[np.uint64]], valid: Text | None, marks: Marks
    ) -> Self:
        """Fit the model to n-grams that were already counted: the `count_sorted_rows` of ``corpus``."""

        def blocks(scratch: Scratch) -> Iterator[npt.NDArray[np.uint64]]:
            size = scratch.rows_of_block(self.settings.order)
            for part in rows:
                yield from (np.array(part[i : i + size]) for i in range(0, len(part), size))

        with self._recording(corpus, valid, marks):
            self._estimate(corpus.vocabulary, blocks)
        return self

    def _estimate(
        self, vocabulary: Vocabulary, count: Callable[[Scratch], Iterable[npt.NDArray[np.uint64]]]
    ) -> None:
        """Fit the model to the rows of ``count``, as `count_sorted_rows` yields them, within the memory limit."""
        from tacenda_lm.ngram.compression import make_smaller
        from tacenda_lm.ngram.counting import count_by_order
        from tacenda_lm.ngram.packing import TableWriter
        from tacenda_lm.ngram.smoothing import estimate
        from tacenda_lm.ngram.spooling import Scratch, default_budget

        settings = self.settings
        budget = default_budget() if settings.memory_gb is None else int(settings.memory_gb * 1e9)
        with closing(Scratch(budget)) as scratch:
            counted = count_by_order(count(scratch), len(vocabulary), settings.order, scratch)
            writer = TableWriter(settings.order, len(vocabulary), scratch)
            result = estimate(counted, settings.smoothing, settings.min_count, scratch, writer)
        table = make_smaller(writer.finish(), settings.prune, settings.bits)
        self.is_normalized = settings.bits is None
        self.start_log_prob = type(self).start_log_prob  # not that of an ARPA file read before
        self._vocabulary, self.learned = vocabulary, table
        self.fitted_on = {
            "n_grams": table.sizes,
            "discounts": [discounts.tolist() for discounts in result.discounts],
            "discounts_from_text": result.from_text,
        }

    def smaller(self, *, prune: float = 0.0, bits: int | None = None) -> Self:
        """Return a smaller copy of a fitted model, or of one read from an ARPA file, without fitting again.

        Parameters
        ----------
        prune, bits
            The settings of these names. A fit with them gives the same model, unless this one is already pruned.

        Raises
        ------
        NotFittedError
            The model has no table of n-grams.
        ConfigurationError
            The model is already rounded, or a value is out of range.
        """
        from tacenda_lm.ngram.compression import make_smaller

        if self.table.is_coarse:
            raise ConfigurationError(
                "the numbers of this model are already rounded to a few bits: call smaller() on the exact model"
            )
        settings = replace(self.settings, prune=prune, bits=bits)
        model = type(self).from_settings(replace(settings, prune=max(prune, self.settings.prune)))
        model._vocabulary, model.start_log_prob = self._vocabulary, self.start_log_prob
        model.learned = make_smaller(self.table, prune, bits)
        model.is_normalized = self.is_normalized and bits is None
        model.fitted_on = {**self.fitted_on, "n_grams": model.table.sizes}
        model.line_sketch = self.line_sketch
        return model

    # -- ARPA files --------------------------------------------------------------------------------

    @classmethod
    def from_arpa(cls, path: str | os.PathLike[str]) -> Self:
        """Read the back-off model of an ARPA file, plain or compressed (gzip, bzip2, xz).

        As in KenLM, ``-inf`` is allowed, and ``<UNK>`` is read as ``<unk>``. N-grams that cannot occur in a sentence,
        with ``<s>`` after the first word or ``</s>`` before the last, are left out with a warning. A file whose
        distributions do not sum to one is read with a warning, and `is_normalized` is False then.

        Raises DataError if the file is cut short or breaks the format, and the message names the line; and if its
        back-offs give a word a probability above one.
        """
        from tacenda_lm.ngram.arpa import read_arpa

        vocabulary, table, is_normalized, notes = read_arpa(path)
        model = cls(order=table.order)
        model.is_normalized = is_normalized
        model._vocabulary, model.learned = vocabulary, table
        model.start_log_prob = notes.pop("start_log_prob", cls.start_log_prob)
        model.fitted_on = {
            "arpa": Path(path).name,
            "n_grams": table.sizes,
            "tokenizer": ASCII_WHITESPACE,
            **notes,
        }
        return model

    def to_arpa(self, path: str | os.PathLike[str] | IO[bytes]) -> None:
        """Write the model as an ARPA file, gzipped if the name ends in .gz, or to an open binary file.

        Raises DataError if the format cannot hold a word, the path cannot be written or asks for another compression,
        or the file is not open for writing bytes, and ArtifactError if a saved table is damaged. Other errors of an
        open file are passed on.
        """
        from tacenda_lm.ngram.arpa_writing import write_arpa

        write_arpa(path, self.vocabulary, self.table, self.start_log_prob)

    # -- saved -------------------------------------------------------------------------------------

    def config_dict(self) -> dict[str, Any]:
        """Return the settings, those of the vocabulary, and what an ARPA file may have changed, as JSON values."""
        start = self.start_log_prob
        return {
            **super().config_dict(),
            "is_normalized": self.is_normalized,
            "start_log_prob": start if start > _MIN_START_LOG10 else "-inf",  # JSON has no infinity
        }

    def _read_arrays(self, config: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> None:
        self.is_normalized = config.get("is_normalized", True)
        if not isinstance(self.is_normalized, bool):
            raise ArtifactError(f"is_normalized is {self.is_normalized!r:.80}, not true or false")
        start = config.get("start_log_prob", self.start_log_prob)
        start = -math.inf if start == "-inf" else start
        is_number = isinstance(start, int | float) and not isinstance(start, bool)
        if not is_number or not (start == -math.inf or _MIN_START_LOG10 < start <= 0):
            raise ArtifactError(
                f'start_log_prob is {start!r:.80}, not a logarithm from -1000 to 0, or "-inf"'
            )
        self.start_log_prob = float(start)
        super()._read_arrays(config, arrays)
        self.table.check_layout(len(self.vocabulary), self.is_normalized)

    # -- one word after another --------------------------------------------------------------------

    def start(self) -> State:
        return State(self.table.trim((self.vocabulary.boundary_id,)))

    def null(self) -> State:
        _ = self.table
        return State(())

    def advance(self, state: State, word: int) -> State:
        check_step(state, word, self.table.n_types)
        return State(self.table.trim((*state.parts(), int(word))))

    def BeginSentenceWrite(self, state: State) -> None:  # noqa: N802
        """Do the same as `LanguageModel.BeginSentenceWrite`; the place of ``<s>`` is looked up only once."""
        check_state(state)
        if self._begun is None or self._begun[1] is not self.learned:
            first = self.start().parts()
            self._begun = first, self.table, self.table.find_endings(first)
        words, table, places = self._begun
        state.value, state.hint = words, (words, table, places.copy())

    def BaseScore(self, in_state: State, word: str, out_state: State) -> float:  # noqa: N802
        """Do the same as `LanguageModel.BaseScore`; the state remembers the places of the context in the table."""
        if word in _MARKS:
            return super().BaseScore(in_state, word, out_state)
        return self._step(in_state, word, out_state)[0] / _LN10

    def BaseFullScore(self, in_state: State, word: str, out_state: State) -> FullScore:  # noqa: N802
        if word in _MARKS:
            return super().BaseFullScore(in_state, word, out_state)
        score, length = self._step(in_state, word, out_state)
        is_oov = self.vocabulary.id_of(word) in self.vocabulary.oov_ids
        return FullScore(score / _LN10, length, is_oov)

    def _step(self, state: State, word: str, after: State) -> tuple[float, int]:
        """Return the natural log-probability and the n-gram length of a word; write the state after it."""
        vocabulary, table = self._vocabulary, self.learned
        if vocabulary is None or table is None:
            vocabulary, table = self.vocabulary, self.table
        try:  # a check would slow down every word
            value: Any = state.value
            hint, spare = state.hint, after.hint
        except AttributeError:
            check_states([state, after])
            raise
        if hint is None or hint[0] is not value or hint[1] is not table:
            hint = value, table, table.find_endings(state.parts())
        # no two states share an array, so that of the state that is written to can be reused
        is_reusable = spare is not None and spare[1] is table and after is not state
        places = spare[2] if is_reusable else np.empty(len(hint[2]), np.int64)
        after.hint = None
        number = vocabulary.id_of(word)
        score, length, n_kept = lookups(1).step(*table.arguments, hint[2], number, places)
        if not score <= 0:
            score = float(self.table.check_scores(np.array([score]))[0])
        after.value = words = (*value, number)[-n_kept:] if n_kept else ()
        after.hint = words, table, places
        return score, length

    def _stack_contexts(self, states: Sequence[State]) -> tuple[npt.NDArray[np.int64], ...]:
        """Return the words of states (states, order - 1), right-aligned, and the number of words of each (states,)."""
        width = max(self.table.order - 1, 1)
        rows: list[int] = []
        lengths = np.empty(len(states), np.int64)
        for i, state in enumerate(states):
            words = state.parts()[-width:]
            lengths[i] = len(words)
            rows += (0,) * (width - len(words)) + words
        return to_context(rows).reshape(-1, width), lengths

    def log_probs(self, states: Sequence[State]) -> Float64:
        check_states(states)
        scores = np.empty((len(states), self.table.n_types), np.float64)
        lookups().conditionals(*self.table.arguments, *self._stack_contexts(states), scores)
        return self.table.check_scores(scores)

    def log_prob(self, states: Sequence[State], words: Integers | Sequence[int]) -> Float64:
        ids = check_pairs(states, words, self.table.n_types)
        scores = np.empty(len(ids), np.float64)
        lookups().pair_scores(*self.table.arguments, *self._stack_contexts(states), ids, scores)
        return self.table.check_scores(scores)

    # -- strings -----------------------------------------------------------------------------------

    def score(self, sentence: Sentence, bos: bool = True, eos: bool = True) -> float:
        """Do the same as `LanguageModel.score`; a string is split, looked up and scored in one pass."""
        if not isinstance(sentence, str) or not sentence:
            return super().score(sentence, bos, eos)
        scorer = self._prepare_scorer(1 + len(sentence) // _CHARACTERS_PER_WORD)
        if scorer is not None:
            text = np.frombuffer(sentence.encode("utf-8", "surrogatepass"), np.uint8)
            total, is_scored = scorer.score_line(*scorer.arguments, text, bos, eos)
            if is_scored:
                return total / _LN10
        return super().score(sentence, bos, eos)

    def _measure_line(self, line: str) -> Perplexity | None:
        scorer = self._prepare_scorer(1 + len(line) // _CHARACTERS_PER_WORD)
        if scorer is None or not 0 < len(line) <= _MAX_LINE_LENGTH or line[0] == "\ufeff":
            return None
        text = np.frombuffer(line.encode("utf-8", "surrogatepass"), np.uint8)
        known, unknown, end, n_words, n_oov = scorer.measure_line(*scorer.arguments, text)
        if n_words < 1:  # blank lines, lines with special tokens and damaged tables
            return None

        def spell() -> tuple[int, float]:
            tokens = tokens_of(line, self.string_tokenizer)
            unseen = [word for word in tokens if word not in self.vocabulary]
            shares = UnknownWords(self.vocabulary).log_shares(unseen)
            return sum(map(len, tokens)) + n_words, float(shares.sum())

        return Perplexity(
            log_prob_known=known,
            log_prob_oov=unknown,
            log_prob_eos=end,
            n_sentences=1,
            n_words=n_words,
            n_oov=n_oov,
            _spell=spell,
        )

    def _score_strings(self, sentences: Text, eos: bool) -> tuple[Float64, Offsets] | None:
        n_words = _WORDS_PER_LINE * len(sentences) if isinstance(sentences, list) else 0
        scorer = self._prepare_scorer(n_words)
        if scorer is None:
            return None
        lines = scorer.words.encode(sentences, eos)
        if lines is None:
            return None
        ids, offsets = lines
        boundary = scorer.words.words[3]  # the vocabulary may not have read its own yet
        return self.table.score_sequences(ids, offsets, [boundary])[0], offsets

    def _prepare_scorer(self, n_words: int) -> _StringScorer | None:
        """Return the scorer for strings of some ``n_words``; None if words are changed before they are looked up."""
        scorer, tokenizer = self._scorer, self.fitted_on.get("tokenizer")
        module = lookups(n_words, strings=True)
        if scorer is not None and scorer[:3] == (self.learned, tokenizer, module.score_line):
            return scorer
        vocabulary, table = self.vocabulary, self.table
        if vocabulary.oov != "single" or any(vars(vocabulary.normalization).values()):
            return None
        words = module.WordTable(vocabulary, tokenizer == ASCII_WHITESPACE)
        functions, arguments = (module.score_line, module.measure_line), table.arguments
        self._scorer = _StringScorer(table, tokenizer, *functions, words, (words.words, *arguments))
        return self._scorer

    # -- whole texts -------------------------------------------------------------------------------

    def score_corpus(self, ids: Integers, offsets: Integers) -> Float64:
        ids, offsets = check_sequences(ids, offsets, self.table.n_types)
        return self.table.score_sequences(ids, offsets, [self.vocabulary.boundary_id])[0]

    def _sequence_scores(self, ids: Ids, bos: bool) -> tuple[Float64, npt.NDArray[np.int64]]:
        before = [self.vocabulary.boundary_id] if bos else []
        return self.table.score_sequences(ids, np.array([0, len(ids)]), before)

    def _start_score(self, state: State) -> tuple[float, int]:
        """Back off to ``<s>``, a unigram that the table does not list."""
        from tacenda_lm.ngram.plain import penalty

        backoffs = penalty(*self.table.arguments, to_context(state.parts()))
        return self.start_log_prob * _LN10 + backoffs, 1

    def _word_score(self, state: State, word: int) -> tuple[float, int]:
        ids, offsets = np.array([word], np.int32), np.array([0, 1])
        scores, matched = self.table.score_sequences(ids, offsets, state.parts())
        return float(scores[0]), int(matched[0])

    def score_from(self, state: State, ids: Integers) -> tuple[Float64, State]:
        ids = check_following(state, ids, self.table.n_types)
        context = state.parts()
        scores, _ = self.table.score_sequences(ids, np.array([0, len(ids)]), context)
        return scores, State(self.table.trim((*context, *ids[-self.table.order :].tolist())))
