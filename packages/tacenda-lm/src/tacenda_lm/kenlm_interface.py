"""The functions of the kenlm module, for every language model; `LanguageModel` has them as methods.

LOGARITHMS HERE HAVE BASE 10. As in the kenlm module, a string is a sentence, and marks in it are marks: after ``</s>``,
the next word has no context; ``<s>`` begins a sentence, and scores the number that an ARPA file gives it, which is not
a prediction.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from tacenda.corpus import Corpus
from tacenda.corpus.marks import START
from tacenda.corpus.text import Sentence, Text, sentences_of
from tacenda.errors import check_choice
from tacenda.vocabulary import BOUNDARY
from tacenda_lm.sequences import BlankLines, Float64, encode_sentences, encode_text, sums_of_pieces
from tacenda_lm.states import State, check_state, check_states

_LN10 = math.log(10)


class FullScore(NamedTuple):
    """The score of one word; a tuple, as ``kenlm.Model.full_scores`` yields.

    Attributes
    ----------
    log_prob
        Base-10 logarithm of the word's probability.
    ngram_length
        Number of words in the longest n-gram of the model that ends with the predicted word; 0 if it has no n-grams.
    oov
        Whether the word is ``<unk>`` or outside the vocabulary; false for ``<s>`` and ``</s>``.
    """

    log_prob: float
    ngram_length: int
    oov: bool


def score(model: Any, sentence: Sentence, bos: bool = True, eos: bool = True) -> float:
    """Return the base-10 logarithm of p(sentence).

    Parameters
    ----------
    sentence
        A string, which is split at whitespace, or a list of tokens.
    bos
        Begin after ``<s>``; otherwise no earlier word is known.
    eos
        Count ``</s>`` at the end.
    """
    tokens = model._tokens(sentence)
    if _has_marks(model, tokens):
        return math.fsum(row.log_prob for row in _score_by_word(model, tokens, bos, eos))
    ids = model.vocabulary.encode([*tokens, BOUNDARY] if eos else tokens)
    return float(model._sequence_scores(ids, bos)[0].sum()) / _LN10


def full_scores(
    model: Any, sentence: Sentence, bos: bool = True, eos: bool = True
) -> Iterator[FullScore]:
    """Yield (log10 p, n-gram length, oov) of every token, ``</s>`` last; arguments as of `score`."""
    tokens, vocabulary = model._tokens(sentence), model.vocabulary
    if _has_marks(model, tokens):
        yield from _score_by_word(model, tokens, bos, eos)
        return
    ids = vocabulary.encode([*tokens, BOUNDARY] if eos else tokens)
    oov = np.isin(ids, vocabulary.oov_ids).tolist()
    scores, lengths = model._sequence_scores(ids, bos)
    rows = zip((scores / _LN10).tolist(), lengths.tolist(), oov, strict=True)
    yield from map(FullScore._make, rows)


def score_batch(
    model: Any, sentences: Text, *, eos: bool = True, blank_lines: BlankLines = "count"
) -> Float64:
    """Return the `score` of every sentence of a text, base 10, all scored in one call: float64 (sentences,).

    A sentence without tokens has the score of its ``</s>``. With ``blank_lines="skip"``, it has 0, and the sum agrees
    with `perplexity`, which leaves such sentences out.
    """
    count_blank = check_choice("blank_lines", blank_lines, BlankLines) == "count"
    marked: dict[int, list[str]] = {}
    scored = model._score_strings(sentences, eos)
    if scored is not None:
        scores, offsets = scored
    elif isinstance(sentences, Corpus):
        ids, offsets = encode_text(sentences, model.vocabulary, eos=eos)
        scores = model.score_corpus(ids, offsets)
    else:
        listed = list(sentences_of(sentences, model.string_tokenizer))
        marked = {i: tokens for i, tokens in enumerate(listed) if _has_marks(model, tokens)}
        ids, offsets = encode_sentences(listed, model.vocabulary, eos=eos)
        scores = model.score_corpus(ids, offsets)
    sums = sums_of_pieces(scores, offsets[:-1], offsets[1:]) / _LN10
    if eos and not count_blank:
        sums[np.diff(offsets) == 1] = 0.0
    for i, tokens in marked.items():
        sums[i] = model.score(tokens, eos=eos)
    return np.asarray(sums, np.float64)


def _has_marks(model: Any, tokens: list[str]) -> bool:
    """Return whether a sentence has ``</s>`` among its tokens, or ``<s>`` if that is not a word of the model."""
    return BOUNDARY in tokens or (START in tokens and START not in model.vocabulary)


def _score_by_word(model: Any, tokens: list[str], bos: bool, eos: bool) -> Iterator[FullScore]:
    """Yield the scores of the words of a sentence with marks in it."""
    state = model.start() if bos else model.null()
    for word in [*tokens, BOUNDARY] if eos else tokens:
        yield model.BaseFullScore(state, word, state)


def BeginSentenceWrite(model: Any, state: State) -> None:  # noqa: N802
    """Write the state at the beginning of a sentence, after ``<s>``, into ``state``."""
    check_state(state)
    state.value = model.start().value


def NullContextWrite(model: Any, state: State) -> None:  # noqa: N802
    """Write the state in which no earlier word is known into ``state``."""
    check_state(state)
    state.value = model.null().value


def BaseScore(model: Any, in_state: State, word: str, out_state: State) -> float:  # noqa: N802
    """Return log10 p(word | in_state); write the state after the word into ``out_state``, which may be ``in_state``."""
    return float(model.BaseFullScore(in_state, word, out_state).log_prob)


def BaseFullScore(model: Any, in_state: State, word: str, out_state: State) -> FullScore:  # noqa: N802
    """Do as `BaseScore`, and return also the n-gram length and whether the word is unknown."""
    check_states([in_state, out_state])
    in_state.check_begun()
    if word == START and START not in model.vocabulary:
        score, length = model._start_score(in_state)
        out_state.value = model.start().value
        return FullScore(score / _LN10, length, False)
    number = model.vocabulary.id_of(word)
    score, length = model._word_score(in_state, number)
    after = model.null() if word == BOUNDARY else model.advance(in_state, number)
    out_state.value = after.value
    return FullScore(score / _LN10, length, number in model.vocabulary.oov_ids)


def contains(model: Any, word: object) -> bool:
    """Return whether a string is a word of the vocabulary other than ``<unk>``, or a mark of a sentence."""
    vocabulary = model.vocabulary
    if not isinstance(word, str) or word not in vocabulary:
        return word == START
    return vocabulary.id_of(word) not in vocabulary.oov_ids
