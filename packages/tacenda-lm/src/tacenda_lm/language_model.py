"""`LanguageModel`: the base of every language model; it adds to the contract all that follows from it."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple, Self, TypeVar, cast

import numpy as np
import numpy.typing as npt

from tacenda.artifact import Configured
from tacenda.corpus.marks import Marks
from tacenda.corpus.text import Sentence, Text, as_corpus
from tacenda.errors import ConfigurationError, FittingError
from tacenda.fitting.checkpoint import Resume
from tacenda.settings import Settings
from tacenda.store import path_of
from tacenda.tokenizers import Tokenizer
from tacenda.vocabulary import Vocabulary
from tacenda_lm.contract import ranks_and_entropies
from tacenda_lm.generation import Generation
from tacenda_lm.kenlm_interface import KenlmInterface
from tacenda_lm.normalization import largest_deviation
from tacenda_lm.perplexity import Context, Perplexity, checked_context
from tacenda_lm.sequences import (
    BlankLines,
    Block,
    Float64,
    Offsets,
    blocks,
    checked_blank_lines,
    encoded,
    encoded_text,
    with_ends,
)
from tacenda_lm.text_facts import TextFacts, say_what_unknown_is, text_facts
from tacenda_lm.training import FitContext
from tacenda_lm.unknown_words import UnknownWords

__all__ = ["ConfiguredLanguageModel", "LanguageModel", "Rescored", "check_keeps_checkpoints"]

S = TypeVar("S", bound=Settings)
_LN2 = math.log(2)


class Rescored(NamedTuple):
    """A hypothesis with its new score.

    Attributes
    ----------
    sentence
        As it was given.
    total
        score + weight * log_prob + word_bonus * number of words.
    score
        As it was given; a natural logarithm if ``log_prob`` is to be added with weight 1.
    log_prob
        Natural logarithm of the language model's probability, ``</s>`` included.
    """

    sentence: Sentence
    total: float
    score: float
    log_prob: float


class LanguageModel(KenlmInterface, Generation):
    """Base of all language models; `LanguageModelContract` says what a new one implements.

    Logarithms are natural, except in the functions named as in the kenlm module (base 10) and in `surprisal`
    and `entropy` (bits). ``</s>`` is predicted, ``<s>`` never. Words outside the vocabulary are scored as
    ``<unk>``.

    A text is a ``Path`` (a file with one sentence per line), a ``str`` (text, one sentence per line), a
    `tacenda.Corpus`, or an iterable of sentences. A sentence is a list of tokens, or a string that is split
    at whitespace.
    """

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
            Held-out text. Its perplexity goes into ``figures``; models that are trained in epochs stop by it.
        checkpoints
            A folder in which this fit saves its progress; it is made if it is not there. A fit that was killed
            and is started again with the same folder ends in the same model. Models whose fit takes seconds
            refuse it.
        resume
            ``"auto"`` continues from a checkpoint if there is one, True requires one, False starts afresh.
        marks
            What is done with ``<s>`` and ``</s>`` that are written in a text: ``"refuse"`` raises an error that names
            the line, as lmplz does; ``"skip"`` reads them as spaces; ``"keep"`` takes ``<s>`` as a word and ``</s>`` as
            the end of a sentence.

        Raises
        ------
        CorpusError
            A text cannot be read, has no tokens, has another vocabulary, or has a mark that is refused.
        ConfigurationError
            The model keeps no checkpoints, or ``resume`` is True without ``checkpoints``.
        FittingError
            A checkpoint cannot be read or written, or belongs to another fit.
        """
        if not isinstance(resume, bool) and resume != "auto":
            raise ConfigurationError(f'resume is "auto", True or False, not {resume!r:.80}')
        if checkpoints is None and resume is True:
            raise ConfigurationError(
                "resume=True needs checkpoints=...: give the folder in which the fit was saved"
            )
        if checkpoints is not None:
            check_keeps_checkpoints(self)
        corpus = as_corpus(text, marks=marks)
        if isinstance(valid, Iterator):  # read twice: to fit with, and to count its unknown words
            valid = cast("Text", list(valid))
        held_out = None if valid is None else as_corpus(valid, corpus.vocabulary, marks=marks)
        folder = None if checkpoints is None else path_of(checkpoints, FittingError)
        with self._recording(corpus, valid, marks):
            self._fit(corpus, held_out, FitContext(folder, resume))
        return self

    @contextmanager
    def _recording(self, corpus: TextFacts, valid: Text | None, marks: Marks) -> Iterator[None]:
        """Around the learning itself: say what the model was fitted on, and measure held-out text."""
        say_what_unknown_is(corpus)
        # a model of a plugin need not have them before its first fit
        before = getattr(self, "fitted_on", {}), getattr(self, "figures", [])
        self.fitted_on, self.figures = {}, []
        try:
            yield
        except BaseException:  # the model may still be the one of the fit before
            self.fitted_on, self.figures = before
            raise
        self.fitted_on = {**text_facts(corpus), **self.fitted_on}
        if valid is not None:
            self.record(valid, "validation text", context=self.own_context, marks=marks)

    def record(
        self, text: Text, name: str, context: Context = "sentence", marks: Marks = "refuse"
    ) -> None:
        """Measure the perplexity of a text and add it to ``figures``, which are saved with the model.

        Parameters
        ----------
        text
            The text to measure.
        name
            What the text is, such as ``"PTB test"``.
        context, marks
            As in `perplexity`.
        """
        found = self.perplexity(text, context=context, marks=marks)
        self.figures.append({"measure": "perplexity", "text": name, **found.to_dict()})

    @property
    def card(self) -> dict[str, Any]:
        """The model card, as JSON values: what the model is, what it was fitted on, what was measured."""
        config = self.config_dict()
        return {
            "model": self.name,
            "distribution": self.distribution,
            "settings": config.get(
                "settings", {k: config[k] for k in config.keys() - {"vocabulary"}}
            ),
            "n_types": len(self.vocabulary),
            "vocabulary": self.vocabulary.config_dict(),
            "log_base": "e; 10 in score, full_scores, BaseScore; 2 in surprisal, entropy",
            "end_of_sentence": "</s> is predicted after every sentence; <s> is context only",
            "out_of_vocabulary": "scored as <unk>, and counted; a written <unk> is such a word",
            "strings": f"split by the tokenizer {self.string_tokenizer!r}",
            "fitted_on": self.fitted_on,
            "figures": self.figures,
        }

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
        """Return the perplexity of a text, a float that carries its protocol.

        Parameters
        ----------
        text
            The text to measure.
        tokenizer
            Splits the lines of a file and strings; see ``tacenda.tokenizers``. None is the model's `string_tokenizer`.
        context
            ``"sentence"`` scores each sentence by itself, from ``start()``. ``"stream"`` scores the whole text
            as one sequence with ``</s>`` after every sentence, each in the context of all before it, as
            recurrent models are measured; only models that look beyond ``</s>`` differ.
        marks
            What is done with ``<s>`` and ``</s>`` that are written in the text, as in `fit`.
        blank_lines
            ``"skip"`` leaves sentences without tokens out; ``"count"`` counts the ``</s>`` of each, as KenLM's
            ``query`` does.

        Raises
        ------
        NotFittedError
            The model was not fitted or loaded.
        CorpusError
            The text cannot be read, or has a mark that is refused.
        ConfigurationError
            There is no such context, or the blank lines of a corpus, which has none, are to count.
        """
        vocabulary = self.vocabulary
        checked_context(context)
        state, parts, spelling = self.start(), [], UnknownWords(vocabulary)
        chosen = self.string_tokenizer if tokenizer is None else tokenizer
        for block in blocks(text, vocabulary, chosen, marks=marks, blank_lines=blank_lines):
            ids, offsets = with_ends(block.ids, block.offsets, vocabulary.boundary_id)
            if context == "stream":
                scores, state = self.score_from(state, ids)
            else:
                scores = self.score_corpus(ids, offsets)
            parts.append(_measured(block, scores, offsets, spelling))
        return Perplexity.pooled(parts, context, checked_blank_lines(blank_lines))

    def token_log_probs(self, sentences: Text, *, eos: bool = True) -> list[Float64]:
        """Return the natural log-probability of every token of every sentence, all scored in one call.

        Parameters
        ----------
        sentences
            The sentences, as a text in any form. Those without tokens stay.
        eos
            Add the log-probability of ``</s>`` at the end of each.

        Returns
        -------
        One float64 array (tokens,) per sentence, one value longer with ``eos``.
        """
        ids, offsets = encoded_text(sentences, self.vocabulary, self.string_tokenizer, eos=eos)
        scores = self.score_corpus(ids, offsets)
        cuts = zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
        return [scores[i:j].copy() for i, j in cuts]

    def surprisal(self, sentence: Sentence, *, eos: bool = False) -> Float64:
        """Return -log2 p(token | those before it) in bits: float64 (tokens,).

        With ``eos`` it is one value longer: the last is that of ``</s>``. A word outside the vocabulary has the bits of
        its class, ``<unk>``, which all such words share: it looks easier than it is. `tacenda_lm.surprisal_table` adds
        the bits of the word itself.
        """
        return self.surprisals([self._tokens(sentence)], eos=eos)[0]

    def surprisals(self, sentences: Text, *, eos: bool = False) -> list[Float64]:
        """Return the `surprisal` of every sentence of a text, scored in one call."""
        return [-scores / _LN2 for scores in self.token_log_probs(sentences, eos=eos)]

    def entropy(self, sentence: Sentence, *, eos: bool = False) -> Float64:
        """Return the entropy, in bits, of the distribution that predicts each token: float64 (tokens,).

        It computes a whole distribution for every token. With ``eos`` it is one value longer: the last is
        the entropy at the end of the sentence.
        """
        ids, offsets = encoded([self._tokens(sentence)], self.vocabulary, eos=eos)
        return ranks_and_entropies(self.distributions(ids, offsets), ids)[1]

    def ranks(self, sentence: Sentence, *, eos: bool = False) -> npt.NDArray[np.int64]:
        """Return how many words were more probable than each token: int64 (tokens,), 0 for the best guess."""
        ids, offsets = encoded([self._tokens(sentence)], self.vocabulary, eos=eos)
        return ranks_and_entropies(self.distributions(ids, offsets), ids)[0]

    def rescore(
        self,
        hypotheses: Iterable[tuple[Sentence, float]],
        *,
        weight: float = 1.0,
        word_bonus: float = 0.0,
    ) -> list[Rescored]:
        """Sort an n-best list by the sum of the hypotheses' own scores and the model's, best first.

        Parameters
        ----------
        hypotheses
            (sentence, score) pairs, as speech recognisers and translators give them; a higher score is
            better. Of equal totals the earlier one stays first.
        weight
            Factor of the language model's natural log-probability.
        word_bonus
            Added for every word; it makes up for the model's preference for short sentences.
        """
        pairs = [(sentence, float(score)) for sentence, score in hypotheses]
        tokens = [self._tokens(sentence) for sentence, _ in pairs]
        scored = self.token_log_probs(tokens)
        found = []
        for (sentence, score), words, parts in zip(pairs, tokens, scored, strict=True):
            log_prob = float(parts.sum())
            total = score + weight * log_prob + word_bonus * len(words)
            found.append(Rescored(sentence, total, score, log_prob))
        return sorted(found, key=lambda each: -each.total)

    # -- normalisation -----------------------------------------------------------------------------

    def check_normalized(
        self,
        sentences: Text | None = None,
        *,
        n_contexts: int = 100,
        seed: int = 0,
        tolerance: float = 1e-5,
    ) -> float:
        """Return the largest ``|sum_w p(w | context) - 1|`` over many contexts, computed in full.

        Parameters
        ----------
        sentences
            The contexts are all beginnings of these; by default they are random words of the vocabulary.
            The context in which no word is known is checked too.
        n_contexts
            How many contexts are drawn by default.
        seed
            Seed of the default contexts.
        tolerance
            The largest difference that is allowed.

        Raises
        ------
        DataError
            A distribution is not normalised, or holds NaN; the message names the context.
        """
        return largest_deviation(self, sentences, n_contexts, seed, tolerance)


def _measured(
    block: Block, scores: Float64, offsets: Offsets, spelling: UnknownWords
) -> Perplexity:
    """Sum up the scores (tokens with ends,) of a block, whose sentences with their ends begin at ``offsets``."""
    ends = np.zeros(len(scores), bool)
    ends[offsets[1:] - 1] = True
    n_words, n_characters, unknown = len(block.ids), block.n_characters, block.unknown
    n_blank = int(np.count_nonzero(np.diff(block.offsets) == 0))
    return Perplexity(
        log_prob=float(scores.sum()),
        log_prob_eos=float(scores[ends].sum()),
        log_prob_oov=float(scores[~ends][block.oov].sum()),
        n_sentences=len(offsets) - 1,
        n_words=n_words,
        n_oov=int(block.oov.sum()),
        n_characters=None if n_characters is None else n_characters + n_words + n_blank,
        log_prob_spelling=None if unknown is None else float(spelling.log_shares(unknown).sum()),
    )


def check_keeps_checkpoints(model: LanguageModel) -> None:
    """Raise ConfigurationError for a model that cannot save the progress of its fit."""
    if not model.keeps_checkpoints:
        raise ConfigurationError(
            f"{type(model).__name__} cannot save the progress of its fit: leave out checkpoints"
        )


class ConfiguredLanguageModel(LanguageModel, Configured[S]):
    """Base of the models of this package but `Mixture`; ``_fit`` and ``from_arrays`` set ``_vocabulary``."""

    distribution: ClassVar[str] = "tacenda-lm"
    _fitted_to: ClassVar[str] = "text"
    _vocabulary: Vocabulary | None = None

    @property
    def vocabulary(self) -> Vocabulary:
        """What the ids mean. Raises NotFittedError."""
        return self._learned(self._vocabulary)

    def config_dict(self) -> dict[str, Any]:
        """Return the settings but for the device, and the vocabulary's, as JSON values."""
        settings = self.settings.to_dict()
        settings.pop("device", None)
        return {"settings": settings, "vocabulary": self.vocabulary.config_dict()}
