"""`LanguageModel`: the base of every language model, with all methods that follow from predictions of the next word.

    log p(w_1 ... w_n </s>) = sum_t log p(w_t | state_t),   state_1 = start(),  state_{t+1} = advance(state_t, w_t)

Every probability is over the whole vocabulary, ``</s>`` and ``<unk>`` included, and sums to one; ``<s>`` is
never predicted.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np
import numpy.typing as npt

from tacenda.artifact.folder import Artifact
from tacenda.artifact.precision import Precision
from tacenda.corpus import Corpus
from tacenda.corpus.lines import refuse_file_name
from tacenda.corpus.marks import Marks
from tacenda.corpus.text import Sentence, Text, as_corpus, tokens_of
from tacenda.errors import ConfigurationError, check_choice, warn
from tacenda.estimator import Estimator
from tacenda.tokenizers import ASCII_WHITESPACE, Tokenizer
from tacenda.vocabulary import Vocabulary
from tacenda_lm import generation, kenlm_interface
from tacenda_lm.artifact_parts import PackedCounts, WordCounts
from tacenda_lm.distributions import (
    check_normalized,
    distributions_of,
    ranks_and_entropies,
    states_before,
)
from tacenda_lm.line_sketch import LineSketch
from tacenda_lm.perplexity import Context, Perplexity, warn_of_misfit
from tacenda_lm.sequences import (
    BlankLines,
    Block,
    Float64,
    Ids,
    Integers,
    Offsets,
    blocks,
    check_sequences,
    encode_sentences,
    encode_text,
    side_by_side,
    with_ends,
)
from tacenda_lm.states import State, check_following, check_pairs
from tacenda_lm.unknown_words import UnknownWords

if TYPE_CHECKING:  # a model that is loaded to score needs no training
    from tacenda.fitting import FitRun
    from tacenda.fitting.checkpoint import Resume

_LN2 = math.log(2)
_SEQUENCES_PER_BLOCK = 64  # scored side by side, so that a model computes many rows at once


class LanguageModel(Estimator):
    """Base of all language models.

    A model implements ``_fit``, which sets ``_vocabulary``; ``start``, ``advance`` and ``log_probs``; and for saving,
    ``arrays`` and ``_read_arrays``, or ``learned_class``. The base class provides everything else. A model may override
    ``log_prob`` (cheaper than a whole distribution), ``null``, ``score_corpus`` (all tokens of many sequences in one
    call, the function to make fast), ``score_from`` and ``distributions``; ``string_tokenizer`` and ``own_context``;
    and ``_score_strings`` and ``_measure_line``, which need no lists of tokens.

    Logarithms are natural, except in functions with names from the kenlm module (base 10), and in `surprisal` and
    `entropy` (bits). ``</s>`` is predicted, ``<s>`` never. Words outside the vocabulary are scored as
    ``<unk>``.

    A text is a ``Path`` (a file with one sentence per line), a ``str`` (text, one sentence per line), a
    `tacenda.Corpus`, or an iterable of sentences. A sentence is a list of tokens, or a string that is split
    at whitespace.
    """

    kind: ClassVar[str] = "language_models"
    api_version: ClassVar[int] = 1
    #: Whether ``fit`` can save its progress; a model that cannot refuses ``checkpoints``.
    keeps_checkpoints: bool = False
    #: log10 of the probability of ``<s>``, which ARPA files write for zero.
    start_log_prob: float = -99.0
    indexes: ClassVar[Mapping[str, type[Any]]] = MappingProxyType({"vocabulary": Vocabulary})
    #: How many fits of this object have succeeded. A mixture or a cache compares it, to notice a model fitted again.
    n_fits: int = 0
    _fitted_to: ClassVar[str] = "text"
    #: The lines that the model was fitted to; None if unknown, as for models that earlier versions saved.
    line_sketch: LineSketch | None = None
    _vocabulary: Vocabulary | None = None

    # -- methods that every model implements -------------------------------------------------------

    def _fit(self, corpus: Corpus, valid: Corpus | None, fitting: FitRun) -> None:
        """Fit the model to a corpus, whose vocabulary becomes the model's.

        ``valid`` is held-out text, which may end the training; ``fitting`` has the folder of checkpoints.
        """
        raise NotImplementedError(f"{type(self).__name__} does not implement _fit")

    def start(self) -> State:
        """Return the state at the beginning of a sentence, after ``<s>``. Raises NotFittedError."""
        raise NotImplementedError(f"{type(self).__name__} does not implement start")

    def advance(self, state: State, word: int) -> State:
        """Return the state after one more word; ``state`` is not changed.

        ``word`` is an id of ``vocabulary``. A new sentence begins after ``</s>``. Raises DataError for another id.
        """
        raise NotImplementedError(f"{type(self).__name__} does not implement advance")

    def log_probs(self, states: Sequence[State]) -> npt.NDArray[np.floating[Any]]:
        """Return the natural log-probabilities of every possible next word: float32 or float64 (states, types).

        The exponentials of a row sum to one.
        """
        raise NotImplementedError(f"{type(self).__name__} does not implement log_probs")

    # -- methods that a model may override ---------------------------------------------------------

    @property
    def vocabulary(self) -> Vocabulary:
        """The words that the ids stand for. Raises NotFittedError."""
        return self._learned(self._vocabulary)

    @property
    def string_tokenizer(self) -> str:
        """The name of the tokenizer that splits strings, from `tacenda.tokenizers`.

        It splits at whitespace: at ASCII whitespace, as KenLM does, if the model was read from an ARPA file or fitted
        to a text split that way, and otherwise at Unicode whitespace. The rule is saved with the model.
        """
        is_ascii = self.fitted_on.get("tokenizer") == ASCII_WHITESPACE
        return ASCII_WHITESPACE if is_ascii else "whitespace"

    @property
    def own_context(self) -> Context:
        """The context in which the model is measured by default: ``"stream"`` if it looks beyond ``</s>``."""
        return "sentence"

    def null(self) -> State:
        """Return the state in which no earlier word is known, by default that of `start`."""
        return self.start()

    def log_prob(self, states: Sequence[State], words: Integers | Sequence[int]) -> Float64:
        """Return log p(word | state) for pairs of states and words: natural, float64 (states,).

        ``words`` are ids (states,). Raises DataError for an id that is not in the vocabulary, and
        unless there is a list with one state for each id.
        """
        ids = check_pairs(states, words, len(self.vocabulary))
        rows = self.log_probs(states)
        return rows[np.arange(len(rows)), ids].astype(np.float64)

    def score_corpus(self, ids: Integers, offsets: Integers) -> Float64:
        """Return the natural log-probability of every id given the ids before it in its sequence: float64 (tokens,).

        ``ids`` (tokens,) are all sequences, concatenated; ``</s>`` is scored where it occurs, and never added.
        ``offsets`` (sequences + 1,) are the beginning of each sequence, and the end of the last. Every sequence starts
        from ``start()``. Raises DataError for an id that is not in the vocabulary and for offsets that do not cut the
        ids, and NotFittedError.
        """
        ids, offsets = check_sequences(ids, offsets, len(self.vocabulary))
        scores, lengths = np.empty(len(ids), np.float64), np.diff(offsets)
        longest_first = np.argsort(-lengths, kind="stable")
        for block in range(0, len(longest_first), _SEQUENCES_PER_BLOCK):
            chosen = longest_first[block : block + _SEQUENCES_PER_BLOCK]
            states = [self.start() for _ in chosen]
            # the longest sequences come first, so those that end are the last in the list
            for _, places in side_by_side(offsets[chosen], lengths[chosen]):
                words, states = ids[places], states[: len(places)]
                scores[places] = self.log_prob(states, words)
                states = [self.advance(s, w) for s, w in zip(states, words.tolist(), strict=True)]
        return scores

    def score_from(self, state: State, ids: Integers) -> tuple[Float64, State]:
        """Return the natural log-probabilities of ids after a state, float64 (tokens,), and the state after the last.

        Use this to score a stream in parts. ``state`` is not changed. Raises DataError for an id that is not in the
        vocabulary.
        """
        ids = check_following(state, ids, len(self.vocabulary))
        scores = np.empty(len(ids), np.float64)
        for t, word in enumerate(ids.tolist()):
            scores[t] = self.log_prob([state], [word])[0]
            state = self.advance(state, word)
        return scores, state

    def distributions(
        self, ids: Integers, offsets: Integers
    ) -> Iterator[npt.NDArray[np.floating[Any]]]:
        """Yield the log-probabilities of all words at every token of a text as `score_corpus` takes it, in order.

        The blocks have bounded size: float32 or float64 (tokens of the block, types). Each row predicts the token at
        its position.
        """
        ids, offsets = check_sequences(ids, offsets, len(self.vocabulary))
        cuts = zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
        states = (states_before(self, self.start(), ids[i:j]) for i, j in cuts)
        yield from distributions_of(self, chain.from_iterable(states))

    def _sequence_scores(self, ids: Ids, bos: bool) -> tuple[Float64, npt.NDArray[np.int64]]:
        """Return the natural log-probabilities and n-gram lengths of one sequence, after ``<s>`` or after no word."""
        if bos:
            scores = self.score_corpus(ids, np.array([0, len(ids)]))
        else:
            scores, _ = self.score_from(self.null(), ids)
        return scores, np.zeros(len(ids), np.int64)

    def _word_score(self, state: State, word: int) -> tuple[float, int]:
        """Return the natural log-probability of an id and the n-gram length."""
        return float(self.log_prob([state], [word])[0]), 0

    def _start_score(self, state: State) -> tuple[float, int]:
        """Return the natural logarithm of the score of ``<s>`` after a state, and the n-gram length."""
        return self.start_log_prob * math.log(10), 0

    # -- fitting -----------------------------------------------------------------------------------

    def fit(
        self,
        text: Text,
        valid: Text | None = None,
        *,
        checkpoints: str | os.PathLike[str] | None = None,
        resume: Resume = "auto",
        marks: Marks = "refuse",
    ) -> Self:
        """Fit the model to a text.

        Parameters
        ----------
        text
            The training text. Its vocabulary becomes the model's.
        valid
            Held-out text. Its perplexity is stored in ``figures``, and decides when models that train in epochs stop.
        checkpoints
            A folder for the progress of this fit, created if it is missing. Start an interrupted fit again with the
            same folder, and you get the same model. Models whose fit takes seconds do not accept it.
        resume
            ``"auto"`` resumes from a checkpoint if there is one, True requires one, False starts again.
        marks
            ``"refuse"`` raises an error that names the line where ``<s>`` or ``</s>`` is written in a text, as lmplz
            does; ``"skip"`` reads them as spaces; ``"keep"`` takes ``<s>`` as a word and ``</s>`` as the end of a
            sentence.

        Raises
        ------
        CorpusError
            A text cannot be read, has no tokens, has another vocabulary, or has a mark that is refused.
        ConfigurationError
            The model keeps no checkpoints, or ``resume`` is True without ``checkpoints``.
        FittingError
            A checkpoint cannot be read or written, or belongs to another fit.
        """
        from tacenda.fitting import FitRun

        run = FitRun(checkpoints, resume)
        if checkpoints is not None:
            check_keeps_checkpoints(self)
        corpus = as_corpus(text, marks=marks)
        if isinstance(valid, Iterator):  # read twice: to fit with, and to count its unknown words
            valid = cast("Text", list(valid))
        held_out = None if valid is None else as_corpus(valid, corpus.vocabulary, marks=marks)
        with self._recording(corpus, valid, marks):
            self._fit(corpus, held_out, run)
        return self

    def fit_within(self, corpus: Corpus, valid: Corpus | None, run: FitRun) -> None:
        """Fit this model for another that contains it; ``run`` is the stage of that fit. Raises as `fit`."""
        place, resume = run.checkpoints, run.resume
        if not self.keeps_checkpoints:
            place, resume = None, "auto"
        # marks are kept, because reading the corpus has already refused them if it should
        self.fit(corpus, valid, checkpoints=place, resume=resume, marks="keep")

    @contextmanager
    def _recording(self, corpus: Any, valid: Text | None, marks: Marks) -> Iterator[None]:
        """Record facts about the training text, and measure held-out text after the fit.

        ``corpus`` is a `Corpus`, or a `tacenda.dask.ClusterCorpus`, which has the same attributes.
        """
        n = corpus.origin.get("written_unknown", 0)
        if n:
            times = "once" if n == 1 else f"{n:,} times"
            warn(
                f"<unk> is written {times} in the text; it is the unknown word there, as in the Penn Treebank and in "
                "WikiText, and whatever is outside the vocabulary is scored like it"
            )
        # a model of a plugin may lack figures before its first fit
        before = self.fitted_on, getattr(self, "figures", [])
        self.fitted_on, self.figures = {}, []
        try:
            yield
        except BaseException:  # the model may still be that of the previous fit
            self.fitted_on, self.figures = before
            raise
        self.fitted_on = {
            "n_tokens": corpus.n_tokens,
            "n_sentences": corpus.n_sentences,
            "n_types": len(corpus.vocabulary),
            "n_unknown": int(corpus.type_counts[corpus.vocabulary.oov_ids].sum()),
            **corpus.origin,
            **self.fitted_on,
        }
        self.n_fits += 1
        # the lines of a text on a cluster are not on this machine
        self.line_sketch = LineSketch.of(corpus) if isinstance(corpus, Corpus) else None
        if valid is not None:
            self.record(valid, "validation text", context=self.own_context, marks=marks)

    def record(
        self, text: Text, name: str, context: Context = "sentence", marks: Marks = "refuse"
    ) -> None:
        """Add the `perplexity` of a text called ``name`` to ``figures``, which are saved with the model."""
        measured = self.perplexity(text, context=context, marks=marks)
        self.figures.append({"measure": "perplexity", "text": name, **measured.to_dict()})

    @property
    def card(self) -> dict[str, Any]:
        """The model card, as JSON values: the model, its training text and its measured figures."""
        config = self.config_dict()
        cutoff = {"min_count", "max_vocabulary"} & self.fitted_on.keys()
        return {
            "model": self.name,
            "distribution": self.distribution,
            "settings": config.get(
                "settings", {k: value for k, value in config.items() if k != "vocabulary"}
            ),
            "n_types": len(self.vocabulary),
            "vocabulary": {
                **self.vocabulary.config_dict(),
                **{name: self.fitted_on[name] for name in sorted(cutoff)},
            },
            "log_base": "e; 10 in score, full_scores, BaseScore; 2 in surprisal, entropy",
            "end_of_sentence": "</s> is predicted after every sentence; <s> is context only",
            "out_of_vocabulary": "scored as <unk>, and counted; a written <unk> is such a word",
            "strings": f"split by the tokenizer {self.string_tokenizer!r}",
            "fitted_on": self.fitted_on,
            "figures": self.figures,
        }

    def to_artifact(self, precision: Precision | None = None) -> Artifact:
        """Return the model as tensors and metadata, with a sketch of its lines and counts of split words."""
        artifact = super().to_artifact(precision)
        counts = None if self._vocabulary is None else self._vocabulary.split_words
        if counts is not None:
            artifact = PackedCounts.of(counts).put_into(artifact)
        return artifact if self.line_sketch is None else self.line_sketch.put_into(artifact)

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> Self:
        sketch, artifact = LineSketch.take_from(artifact)
        counts, artifact = PackedCounts.take_from(artifact)
        model = super().from_artifact(artifact)
        model.line_sketch = sketch
        if counts is not None:
            model.vocabulary.split_words = WordCounts(counts)
        return model

    # -- scoring -----------------------------------------------------------------------------------

    def perplexity(
        self,
        text: Text,
        *,
        tokenizer: str | Tokenizer | None = None,
        context: Context = "sentence",
        marks: Marks = "refuse",
        blank_lines: BlankLines = "skip",
    ) -> Perplexity:
        """Return the perplexity of a text: a float with the details of the measurement.

        Parameters
        ----------
        text
            The text to measure.
        tokenizer
            Splits the lines of a file and strings; see ``tacenda.tokenizers``. None is the model's `string_tokenizer`.
        context
            ``"sentence"`` scores each sentence independently, from ``start()``. ``"stream"`` scores the whole text as
            one sequence with ``</s>`` after every sentence, as recurrent models are measured. The two differ only for
            models that look beyond ``</s>``.
        marks
            How to read ``<s>`` and ``</s>`` that are written in the text, as in `fit`.
        blank_lines
            ``"skip"`` leaves out sentences without tokens; ``"count"`` counts their ``</s>``, as KenLM's ``query``
            does.

        Raises
        ------
        NotFittedError
            The model was not fitted or loaded.
        CorpusError
            The text cannot be read, or has a mark that is refused.
        ConfigurationError
            There is no such context, or blank lines are to be counted in a corpus, which has none.
        """
        measured = None
        chosen = self.string_tokenizer if tokenizer is None else tokenizer
        is_plain = (tokenizer, context, marks, blank_lines) == (None, "sentence", "refuse", "skip")
        if is_plain and isinstance(text, str) and "\n" not in text[:-1]:  # as lines of a file end
            refuse_file_name(text)
            measured = self._measure_line(text.removesuffix("\n"))
        if measured is None:
            encoded = blocks(text, self.vocabulary, chosen, marks=marks, blank_lines=blank_lines)
            measured = self._measure_blocks(encoded, context, blank_lines)
        warn_of_misfit(self, measured, chosen if isinstance(text, str | os.PathLike) else None)
        return measured

    def _measure_blocks(
        self, encoded: Iterable[Block], context: Context, blank_lines: BlankLines
    ) -> Perplexity:
        """Return the perplexity of the blocks of a text."""
        check_choice("context", context, Context)
        state, parts, spelling = self.start(), [], UnknownWords(self.vocabulary)
        for block in encoded:
            ids, offsets = with_ends(block.ids, block.offsets, self.vocabulary.boundary_id)
            if context == "stream":
                scores, state = self.score_from(state, ids)
            else:
                scores = self.score_corpus(ids, offsets)
            parts.append(Perplexity.of_block(block, scores, offsets, spelling))
        return Perplexity.pool(parts, context, blank_lines)

    def token_log_probs(self, sentences: Text, *, eos: bool = True) -> list[Float64]:
        """Return the natural log-probability of every token of every sentence, all scored in one call.

        The list has one float64 array (tokens,) per sentence, also for sentences without tokens. With ``eos``, each
        array has one more value, for ``</s>``.
        """
        ids, offsets = encode_text(sentences, self.vocabulary, self.string_tokenizer, eos=eos)
        scores = self.score_corpus(ids, offsets)
        cuts = zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
        return [scores[i:j].copy() for i, j in cuts]

    def surprisal(self, sentence: Sentence, *, eos: bool = False) -> Float64:
        """Return the surprisal of each token, -log2 p(token | tokens before it), in bits: float64 (tokens,).

        With ``eos`` there is one more value, for ``</s>``. All words outside the vocabulary share the probability of
        ``<unk>``, so their surprisal is too low. `tacenda_lm.surprisal_table` adds the bits of the word itself.
        """
        return self.surprisals([self._tokens(sentence)], eos=eos)[0]

    def surprisals(self, sentences: Text, *, eos: bool = False) -> list[Float64]:
        """Return the `surprisal` of every sentence of a text, scored in one call."""
        return [-scores / _LN2 for scores in self.token_log_probs(sentences, eos=eos)]

    def entropy(self, sentence: Sentence, *, eos: bool = False) -> Float64:
        """Return the entropy, in bits, of the distribution that predicts each token: float64 (tokens,).

        This computes a whole distribution for every token. With ``eos`` there is one more value: the entropy at the
        end of the sentence.
        """
        ids, offsets = encode_sentences([self._tokens(sentence)], self.vocabulary, eos=eos)
        return ranks_and_entropies(self.distributions(ids, offsets), ids)[1]

    def ranks(self, sentence: Sentence, *, eos: bool = False) -> npt.NDArray[np.int64]:
        """Return how many words were more probable than each token: int64 (tokens,), 0 for the best guess."""
        ids, offsets = encode_sentences([self._tokens(sentence)], self.vocabulary, eos=eos)
        return ranks_and_entropies(self.distributions(ids, offsets), ids)[0]

    check_normalized = check_normalized

    # -- the next words, n-best lists, and the functions of the kenlm module -----------------------

    state_after = generation.state_after
    next_word = generation.next_word
    top_k = generation.top_k
    sample = generation.sample
    greedy = generation.greedy
    beam = generation.beam
    rescore = generation.rescore

    score = kenlm_interface.score
    full_scores = kenlm_interface.full_scores
    score_batch = kenlm_interface.score_batch
    BeginSentenceWrite = kenlm_interface.BeginSentenceWrite
    NullContextWrite = kenlm_interface.NullContextWrite
    BaseScore = kenlm_interface.BaseScore
    BaseFullScore = kenlm_interface.BaseFullScore
    __contains__ = kenlm_interface.contains

    def _score_strings(self, sentences: Text, eos: bool) -> tuple[Float64, Offsets] | None:
        """Return the scores of a list of strings and where each begins, or None if the model has no faster way."""
        return None

    def _measure_line(self, line: str) -> Perplexity | None:
        """Return the perplexity of a sentence, or None if the model has no faster way."""
        return None

    def _tokens(self, sentence: Sentence) -> list[str]:
        """Return the tokens of a sentence; a string is split by `string_tokenizer`. Raises CorpusError."""
        return tokens_of(sentence, self.string_tokenizer)


def check_keeps_checkpoints(model: LanguageModel) -> None:
    """Raise ConfigurationError for a model that cannot save the progress of its fit."""
    if not model.keeps_checkpoints:
        raise ConfigurationError(
            f"{type(model).__name__} cannot save the progress of its fit: leave out checkpoints"
        )
