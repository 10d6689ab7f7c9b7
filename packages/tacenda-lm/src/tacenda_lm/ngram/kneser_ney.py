"""`KneserNey`: n-gram models of any order, with modified Kneser-Ney, back-off or Good-Turing smoothing.

    p(w | h) = (c(h w) - D(c(h w))) / sum_v c(h v) + gamma(h) p(w | h')

(Chen and Goodman, *An Empirical Study of Smoothing Techniques for Language Modeling*, 1998; estimated as lmplz
does: Heafield et al., ACL 2013.) Fitting sorts the n-grams of the text within a given memory, on disk where they are
more (``counting``, ``smoothing``), and packs them into a `Table` (``packing``), in which compiled code finds them again
(``lookup``, ``words``):

    p(w | h) = p_table(w | h) where h w is listed, else backoff(h) p(w | h')

A saved table is mapped, not read, so nothing of it has been checked before it is used. numba is imported when a model
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
from typing import IO, TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt

from tacenda.corpus import Corpus
from tacenda.corpus.lines import START, Marks
from tacenda.corpus.text import Sentence, Text, tokens_of
from tacenda.errors import ArtifactError, ConfigurationError, DataError, warn
from tacenda.settings import Settings, configured_by, option
from tacenda.tokenizers import ASCII_WHITESPACE
from tacenda.vocabulary import BOUNDARY, Vocabulary
from tacenda_lm.kenlm_interface import FullScore
from tacenda_lm.language_model import LanguageModel
from tacenda_lm.ngram.table import ABOVE_ONE, MAX_ORDER, Table, lookups
from tacenda_lm.perplexity import Perplexity
from tacenda_lm.sequences import (
    Float64,
    Ids,
    Integers,
    Offsets,
    check_ids,
    check_pairs,
    check_sequences,
    check_word,
)
from tacenda_lm.states import State
from tacenda_lm.unknown_words import UnknownWords

if TYPE_CHECKING:
    from tacenda.fitting import FitRun
    from tacenda_lm.ngram.counting import Scratch
    from tacenda_lm.ngram.words import WordTable


_LN10 = math.log(10)
_MARKS = frozenset((START, BOUNDARY))
_NEVER = -1e3  # log10 of a probability that is saved as that of what never happens
_LONG = 1 << 16  # characters: longer lines are measured in blocks
_LETTERS = 6  # of a word and its space
_USUAL_WORDS = 20  # of a line
_COARSE = 1.0  # a log-probability above 0 by more than the rounding of few bits
# a vocabulary of so many is read when the model is opened, as a small table is
_FEW_WORDS = 1 << 12


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
        words; 2 is SRILM's default, and the two back-off forms need it""",
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
    )


class _WordsWhenNeeded(Vocabulary):
    """Opens a large vocabulary without reading its words, as a large table is opened."""

    @classmethod
    def from_arrays(
        cls, config: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]], **more: Any
    ) -> Any:
        is_small = np.size(arrays.get("vocabulary.counts", 0)) <= _FEW_WORDS
        return Vocabulary.from_arrays(config, arrays, at_once=is_small)


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
    indexes = MappingProxyType({"vocabulary": _WordsWhenNeeded})
    learned_class = Table
    mapped_arrays = frozenset({"ngrams.data"})
    is_normalized = True
    """False for a model read from an ARPA file whose distributions do not all sum to one, and for one of few bits."""

    _begun: tuple[tuple[int, ...], Table, npt.NDArray[np.int64]] | None = None  # the first state
    # what strings are scored with, for one table, tokenizer and module of look-ups: their words, two functions and the
    # first arguments of these, or nothing where more is to be done with words than to look them up
    _prepared: tuple[Table, Any, str, tuple[WordTable, Any, Any] | None] | None = None

    @configured_by(KneserNeySettings)
    def __init__(self, settings: KneserNeySettings) -> None:
        super().__init__(settings)

    @property
    def table(self) -> Table:
        """The stored n-grams. Raises NotFittedError."""
        found: Table = self._learned(self.learned)
        return found

    @property
    def order(self) -> int:
        """N, the number of words that an n-gram spans."""
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
            for each in rows:
                yield from (np.array(each[i : i + size]) for i in range(0, len(each), size))

        with self._recording(corpus, valid, marks):
            self._estimate(corpus.vocabulary, blocks)
        return self

    def _estimate(
        self, vocabulary: Vocabulary, count: Callable[[Scratch], Iterable[npt.NDArray[np.uint64]]]
    ) -> None:
        """Fit the model to the `count_sorted_rows` that ``count`` finds within the memory that the settings allow."""
        from tacenda_lm.ngram.counting import Scratch, count_by_order, default_budget
        from tacenda_lm.ngram.packing import TableWriter
        from tacenda_lm.ngram.smoothing import CUTOFF, FALLBACK, estimate

        settings = self.settings
        budget = default_budget() if settings.memory_gb is None else int(settings.memory_gb * 1e9)
        with closing(Scratch(budget)) as scratch:
            counted = count_by_order(count(scratch), len(vocabulary), settings.order, scratch)
            writer = TableWriter(settings.order, len(vocabulary), scratch)
            found = estimate(counted, settings.smoothing, settings.min_count, scratch, writer)
        # where the text is too small or too odd to give the discounts, lmplz stops
        if orders := [str(n) for n, given in enumerate(found.from_text, 1) if not given]:
            used = f"{', '.join(map(str, FALLBACK))} are used, as with lmplz --discount_fallback"
            if settings.smoothing == "good_turing":
                used = f"the discounts of a cutoff below {CUTOFF} or, if there are none, half a count are used"
            warn(
                f"the text does not give the discounts of order {', '.join(orders)} (it is too small, or sentences "
                f"repeat in it): {used}"
            )
        table = _make_smaller(writer.finish(), settings)
        self.is_normalized = settings.bits is None
        self._vocabulary, self.learned = vocabulary, table
        self.fitted_on = {
            "n_grams": table.sizes,
            "discounts": [each.tolist() for each in found.discounts],
            "discounts_from_text": found.from_text,
        }

    def smaller(self, *, prune: float = 0.0, bits: int | None = None) -> Self:
        """Return a smaller copy of a fitted model, or of one read from an ARPA file, without fitting again.

        Parameters
        ----------
        prune, bits
            The settings of these names. A fit with them gives the same model.

        Raises
        ------
        NotFittedError
            The model has no table of n-grams.
        ConfigurationError
            The model is already rounded, or a value is out of range.
        """
        if self.table.is_coarse:
            raise ConfigurationError(
                "the numbers of this model are already rounded to a few bits: make the smaller model from the exact one"
            )
        settings = replace(self.settings, prune=prune, bits=bits)
        model = type(self).from_settings(settings)
        model._vocabulary, model.start_log_prob = self._vocabulary, self.start_log_prob
        model.learned = _make_smaller(self.table, settings)
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

        Raises
        ------
        DataError
            The file is cut short or breaks the format, and the message names the line; or its back-offs give a word a
            probability above one.
        """
        from tacenda_lm.ngram.arpa import read_arpa

        vocabulary, table, sums, notes = read_arpa(path)
        if sums.above_one is not None:
            context, word = (
                " ".join(vocabulary.decode(ids)) for ids in (sums.above_one[0], [sums.above_one[1]])
            )
            raise DataError(
                f"{path}: back-offs give {word!r} after {context!r} a probability above one; correct the file"
            )
        if "n_grams_left_out" in notes:
            warn(
                f"{path} has n-grams that no sentence can have, with {START} after the first word or {BOUNDARY} before "
                f"the last: {notes['n_grams_left_out']:,} are left out; sentences score as in KenLM"
            )
        if not sums.are_one:
            warn(
                f"{path} is not normalized: the probabilities after a context sum to {sums.low:.4g} at the lowest and "
                f"{sums.high:.4g} at the highest, so do not compare its perplexities with other models"
            )
        model = cls(order=table.order)
        model.is_normalized = sums.are_one
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

        Raises
        ------
        DataError
            The format cannot hold a word, the name asks for another compression, or the path cannot be written.
        """
        from tacenda_lm.ngram.arpa import write_arpa

        write_arpa(path, self.vocabulary, self.table, self.start_log_prob)

    # -- saved -------------------------------------------------------------------------------------

    def config_dict(self) -> dict[str, Any]:
        """Return the settings, the vocabulary's, and what an ARPA file may say otherwise, as JSON values."""
        start = self.start_log_prob
        own = {
            "is_normalized": self.is_normalized,
            "start_log_prob": start if start > _NEVER else "-inf",  # JSON has no infinity
        }
        return {**super().config_dict(), **own}

    def _read_arrays(self, config: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> None:
        self.is_normalized = config.get("is_normalized", True)
        if not isinstance(self.is_normalized, bool):
            raise ArtifactError(f"is_normalized is {self.is_normalized!r:.80}, not true or false")
        start = config.get("start_log_prob", self.start_log_prob)
        start = -math.inf if start == "-inf" else start
        is_number = isinstance(start, int | float) and not isinstance(start, bool)
        if not is_number or not (start == -math.inf or _NEVER < start <= 0):
            raise ArtifactError(
                f'start_log_prob is {start!r:.80}, not a logarithm from -1000 to 0, or "-inf"'
            )
        self.start_log_prob = float(start)
        super()._read_arrays(config, arrays)
        self.table.check_saved(len(self.vocabulary), self.is_normalized)

    # -- one word after another --------------------------------------------------------------------

    def start(self) -> State:
        return self._state_of((self.vocabulary.boundary_id,))

    def null(self) -> State:
        _ = self.table
        return State(())

    def advance(self, state: State, word: int) -> State:
        check_word(word, self.table.n_types)
        return self._state_of((*state.parts(), int(word)))

    def BeginSentenceWrite(self, state: State) -> None:  # noqa: N802
        """As `LanguageModel.BeginSentenceWrite`; the place of ``<s>`` is looked up once."""
        begun = self._begun
        if begun is None or begun[1] is not self.learned:
            words = self.start().parts()
            begun = self._begun = words, self.table, self._find_endings(words)
        state.value, state.hint = begun[0], (*begun[:2], begun[2].copy())

    def BaseScore(self, in_state: State, word: str, out_state: State) -> float:  # noqa: N802
        """As `LanguageModel.BaseScore`; the places of the context in the table are kept with the state."""
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
        """The natural log-probability and the n-gram length of a word; write the state after it."""
        vocabulary, table = self._vocabulary, self.learned
        if vocabulary is None or table is None:
            vocabulary, table = self.vocabulary, self.table
        value: Any = state.value
        hint, spare = state.hint, after.hint
        if hint is None or hint[0] is not value or hint[1] is not table:
            hint = value, table, self._find_endings(state.parts())
        # no two states have one array, so that of the state that is written to can be used again
        own = spare is not None and spare[1] is table and after is not state
        found = spare[2] if own else np.empty(len(hint[2]), np.int64)
        after.hint = None
        number = vocabulary.id_of(word)
        score, length, kept = lookups(1).step(*table.arguments, hint[2], number, found)
        if not score <= 0:
            score = float(self._check_scores(np.array([score]))[0])
        after.value = words = (*value, number)[-kept:] if kept else ()
        after.hint = words, table, found
        return score, length

    def _find_endings(self, words: tuple[int, ...]) -> npt.NDArray[np.int64]:
        """The listed endings of a context as ``lookup.step`` has them."""
        found = np.zeros(self.table.order + 1, np.int64)
        context = np.array(words[-len(found) :], np.int64)
        found[-1] = lookups(len(context)).resolve(*self.table.arguments, context, found)
        return found

    def _check_scores(self, scores: Float64) -> Float64:
        """Return log-probabilities, none above zero in a table of few bits.

        Raises ArtifactError if one is no log-probability: nothing else has checked a mapped table.
        """
        is_coarse = self.table.is_coarse
        if not (scores <= (_COARSE if is_coarse else ABOVE_ONE)).all():
            raise ArtifactError(
                "a word has an impossible probability: the table of this model is damaged; fit it again, or copy it "
                "again"
            )
        return np.minimum(scores, 0.0) if is_coarse else scores

    def _state_of(self, words: tuple[int, ...]) -> State:
        """Return the state after these words: the last ones that an n-gram of the table continues."""
        places = self._find_endings(words)
        n = lookups(1).n_that_matter(*self.table.arguments, places, places[-1])
        return State(words[len(words) - n :])

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
        found = np.empty((len(states), self.table.n_types), np.float64)
        lookups().conditionals(*self.table.arguments, *self._contexts(states), found)
        return self._check_scores(found)

    def log_prob(self, states: Sequence[State], words: Integers | Sequence[int]) -> Float64:
        ids = check_pairs(states, words, self.table.n_types)
        found = np.empty(len(ids), np.float64)
        lookups().pair_scores(*self.table.arguments, *self._contexts(states), ids, found)
        return self._check_scores(found)

    # -- strings -----------------------------------------------------------------------------------

    def score(self, sentence: Sentence, bos: bool = True, eos: bool = True) -> float:
        """As `LanguageModel.score`; a string is split, looked up and scored at once."""
        prepared = self._strings(1 + len(sentence) // _LETTERS)
        if prepared is not None and isinstance(sentence, str) and sentence:
            text = np.frombuffer(sentence.encode("utf-8", "surrogatepass"), np.uint8)
            _, (score_line, _), arguments = prepared
            total, found = score_line(*arguments, text, bos, eos)
            if found:
                if not total <= 0:
                    total = self._check_scores(np.array([total]))[0]
                return float(total) / _LN10
        return super().score(sentence, bos, eos)

    def _measure_line(self, line: str) -> Perplexity | None:
        prepared = self._strings(1 + len(line) // _LETTERS)
        if prepared is None or not 0 < len(line) <= _LONG or line[0] == "\ufeff":
            return None
        _, (_, measure_line), arguments = prepared
        if measure_line is None:
            return None
        text = np.frombuffer(line.encode("utf-8", "surrogatepass"), np.uint8)
        total, end, unknown, n_words, n_oov = measure_line(*arguments, text)
        # a blank line, one with marks, or a damaged table: the slower way decides
        if n_words < 1 or not total <= 0:
            return None

        def spell() -> tuple[int, float]:
            tokens = tokens_of(line, self.string_tokenizer)
            unseen = [word for word in tokens if word not in self.vocabulary]
            shares = UnknownWords(self.vocabulary).log_shares(unseen)
            return sum(map(len, tokens)) + n_words, float(shares.sum())

        return Perplexity(
            log_prob=total,
            log_prob_eos=end,
            log_prob_oov=unknown,
            n_sentences=1,
            n_words=n_words,
            n_oov=n_oov,
            _spell=spell,
        )

    def _score_strings(self, sentences: Text, eos: bool) -> tuple[Float64, Offsets] | None:
        prepared = self._strings(
            _USUAL_WORDS * len(sentences) if isinstance(sentences, list) else 0
        )
        lines = None if prepared is None else prepared[0].encode(sentences, eos)
        if prepared is None or lines is None:
            return None
        boundary = prepared[0].words[3]  # that of the vocabulary may not be unpacked yet
        return self._sequences(*lines, [boundary])[0], lines[1]

    def _strings(self, n_words: int) -> tuple[WordTable, Any, Any] | None:
        """Return what strings are scored with, some ``n_words`` now."""
        prepared, tokenizer = self._prepared, self.fitted_on.get("tokenizer")
        look_up = lookups(n_words, strings=True)
        if prepared is None or prepared[:3] != (self.learned, tokenizer, look_up.__name__):
            vocabulary, found = self.vocabulary, None
            if vocabulary.oov == "single" and not any(vars(vocabulary.normalization).values()):
                words = look_up.WordTable(vocabulary, tokenizer == ASCII_WHITESPACE)
                # sums of rounded numbers can be above zero word by word
                measure_line = None if self.table.is_coarse else look_up.measure_line
                both = look_up.score_line, measure_line
                found = words, both, (words.words, *self.table.arguments)
            prepared = self._prepared = self.table, tokenizer, look_up.__name__, found
        return prepared[3]

    # -- whole texts -------------------------------------------------------------------------------

    def score_corpus(self, ids: Integers, offsets: Integers) -> Float64:
        ids, offsets = check_sequences(ids, offsets, self.table.n_types)
        return self._sequences(ids, offsets, [self.vocabulary.boundary_id])[0]

    def _sequence_scores(self, ids: Ids, bos: bool) -> tuple[Float64, npt.NDArray[np.int64]]:
        if ids.dtype != np.int32:  # int32 ids are checked by the look-up itself
            ids = check_ids(ids, self.table.n_types)
        before = [self.vocabulary.boundary_id] if bos else []
        return self._sequences(ids, np.array([0, len(ids)]), before)

    def _penalty(self, state: State) -> float:
        from tacenda_lm.ngram.plain import penalty

        return penalty(*self.table.arguments, np.array(state.parts(), np.int64))

    def _word_score(self, state: State, word: int) -> tuple[float, int]:
        ids, offsets = np.array([word], np.int32), np.array([0, 1])
        found, matched = self._sequences(ids, offsets, state.parts())
        return float(found[0]), int(matched[0])

    def score_from(self, state: State, ids: Integers) -> tuple[Float64, State]:
        ids = check_ids(ids, self.table.n_types)
        context = state.parts()
        scores, _ = self._sequences(ids, np.array([0, len(ids)]), context)
        return scores, self._state_of((*context, *ids[-self.table.order :].tolist()))

    def _sequences(
        self, ids: Ids, offsets: Offsets, before: Sequence[int]
    ) -> tuple[Float64, npt.NDArray[np.int64]]:
        """Log-probabilities and n-gram lengths of sequences that all follow the words ``before``."""
        found, matched = np.empty(len(ids), np.float64), np.empty(len(ids), np.int64)
        context = np.array(before, np.int64)
        bad = lookups(len(ids)).sequence_scores(
            *self.table.arguments, ids, offsets, context, found, matched
        )
        if bad >= 0:
            check_word(int(ids[bad]), self.table.n_types, f" (at place {bad})")
        return self._check_scores(found), matched


def _make_smaller(table: Table, settings: KneserNeySettings) -> Table:
    """Prune the table and round its numbers, as the settings say."""
    if not settings.prune and settings.bits is None:
        return table
    from tacenda_lm.ngram.packing import prune, quantize

    if settings.prune:
        table = prune(table, settings.prune)
    return table if settings.bits is None else quantize(table, settings.bits)
