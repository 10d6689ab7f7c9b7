"""`scored_text`: the words of a scored document, for the table that `tacenda_lm.surprisal_table` makes of texts.

A word is what stands between whitespace; its tokens are those that were scored.
"""

from __future__ import annotations

import math

import numpy as np
from spacy.tokens import Doc

from tacenda.errors import NotFittedError
from tacenda.vocabulary import Vocabulary
from tacenda_lm.spacy.doc_scores import DocScores
from tacenda_lm.spacy.raw_text import Normalizing
from tacenda_lm.surprisal.table import ScoredText, log_frequencies
from tacenda_lm.surprisal.words import Word, bare_tokens

__all__ = ["scored_text"]


def scored_text(
    doc: Doc, name: str, vocabulary: Vocabulary, normalizing: Normalizing, prefix: str
) -> ScoredText:
    """Return the words of a document with what was found of their tokens.

    Parameters
    ----------
    doc
        Scored by the component with this prefix.
    name
        Of the text.
    vocabulary, normalizing
        Of the component's model, for the frequencies.
    prefix
        The component's.

    Raises
    ------
    NotFittedError
        The document was not scored.
    """
    scores = DocScores.of(doc, prefix)
    if scores is None:
        raise NotFittedError(
            "the document has no scores: make it with a pipeline that has this component"
        )
    text, starts = doc.text, scores.start.tolist()
    ends = (scores.start + scores.length).tolist()
    tokens = [text[start:end] for start, end in zip(starts, ends, strict=True)]
    sentences = np.repeat(np.arange(1, len(scores.segments)), np.diff(scores.segments)).tolist()
    words = []
    first = 0
    for i in range(1, len(tokens) + 1):
        if i == len(tokens) or starts[i] > ends[i - 1]:
            own = tuple(tokens[first:i])
            start, end = starts[first], ends[i - 1]
            words.append(Word(text[start:end], start, end, sentences[first], own, bare_tokens(own)))
            first = i
    ids = vocabulary.encode([normalizing(token) for token in tokens])
    shares = np.zeros(len(ids)) if scores.share is None else scores.share
    return ScoredText(
        name,
        words,
        -scores.full_log_prob(slice(0, len(ids))) / math.log(2),
        ~np.isin(ids, vocabulary.oov_ids),
        log_frequencies(vocabulary, ids, shares),
    )
