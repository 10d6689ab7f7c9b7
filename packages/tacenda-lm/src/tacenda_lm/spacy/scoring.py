"""`DocScorer`: a language model applied to documents, in the context that was chosen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from spacy.attrs import IDX, LENGTH, ORTH
from spacy.tokens import Doc

from tacenda.errors import ConfigurationError
from tacenda.spacy.documents import WordCache, sentence_cuts
from tacenda_lm.sequences import Float64, Ids, Offsets, with_ends
from tacenda_lm.spacy.doc_scores import DocScores, text_length
from tacenda_lm.spacy.raw_text import Normalizing
from tacenda_lm.states import State, distributions_of, ranks_and_entropies, states_before
from tacenda_lm.unknown_words import UnknownWords

__all__ = ["DocScorer"]

_BLANK = -1  # what stands for a whitespace token


class _Words(NamedTuple):
    """The words of some documents as a model reads them; whitespace tokens are left out.

    A segment is a sentence where boundaries are known, else a document; those without words are left out.
    """

    ids: Ids  # (predicted,): the words, and </s> after each segment if it is scored
    is_word: npt.NDArray[np.bool_]  # (predicted,): which of these are words
    segments: Offsets  # (segments + 1,): cuts of the words into segments
    predicted: Offsets  # (segments + 1,): cuts of `ids` into segments
    doc_segments: Offsets  # (docs + 1,): cuts of the segments into documents
    oov: npt.NDArray[np.bool_]  # (words,): which words are outside the vocabulary
    start: npt.NDArray[np.int32]  # (words,): where each begins, in characters of its document
    length: npt.NDArray[np.int32]  # (words,): its characters
    share: (
        Float64 | None
    )  # (words,): natural log of what each has of its class; None if that is all


class DocScorer:
    """Applies one fitted model to documents; the options are those of `LanguageModelScorer`.

    Where sentence boundaries are known, ``</s>`` is predicted after each sentence in every context, and the
    model sees what follows as a new sentence; with ``context="sentence"`` it also forgets what came before.
    Raises ConfigurationError where states are asked for in a stream, or of a model that has none.
    """

    def __init__(
        self,
        model: Any,
        normalizing: Normalizing,
        context: str,
        eos: bool,
        unknown: UnknownWords,
        *,
        rank: bool,
        entropy: bool,
        state: bool,
    ) -> None:
        if state and context == "stream":
            raise ConfigurationError(
                "the states of a sentence are found from its beginning to its end, and a stream does not "
                "wait for the end: use context = 'doc' or 'sentence' with state = true"
            )
        if state and not hasattr(model, "state_path"):
            raise ConfigurationError(
                f"a {type(model).__name__} has no states: leave out state, or use a hidden Markov model "
                "such as vlhmm"
            )
        self._model = model
        self._vocabulary = model.vocabulary
        self._normalizing = normalizing
        self._context = context
        self._eos = eos
        self._unknown_words = unknown
        self._with_states = state
        self._with_rank, self._with_entropy = rank, entropy
        self._stream: State | None = None
        self._unknown = frozenset(self._vocabulary.oov_ids.tolist())
        self._cache = WordCache(self._look_up, _BLANK)

    def __call__(self, docs: Sequence[Doc]) -> list[DocScores]:
        """Return the scores of each document; those of a document without words are empty."""
        if not docs:
            return []
        words = self._read(docs)
        # what the model sees as one text; documents without words are left out
        cuts = words.predicted
        if self._context == "doc":
            cuts = np.unique(cuts[words.doc_segments])
        if self._context == "stream":
            before = self._model.start() if self._stream is None else self._stream
            log_prob, self._stream = self._model.score_from(before, words.ids)
            rows = distributions_of(self._model, states_before(self._model, before, words.ids))
        else:
            log_prob = self._model.score_corpus(words.ids, cuts)
            rows = self._model.distributions(words.ids, cuts)
        found: dict[str, npt.NDArray[Any]] = {"log_prob": log_prob}
        if self._with_rank or self._with_entropy:
            ranks, entropies = ranks_and_entropies(rows, words.ids)
            found |= {"rank": ranks} if self._with_rank else {}
            found |= {"entropy": entropies} if self._with_entropy else {}
        if self._with_states:
            found["state"] = self._model.state_path(words.ids, cuts)
        return list(_by_document(docs, words, found))

    def restart(self) -> None:
        """Forget the documents of a stream so far."""
        self._stream = None

    def _read(self, docs: Sequence[Doc]) -> _Words:
        """Look up the words of documents, at least one document."""
        offsets = np.cumsum([0, *map(len, docs)])
        coded = np.array(self._cache.read(docs), dtype=np.int64)
        keep = coded != _BLANK
        before = np.concatenate([[0], np.cumsum(keep)])  # words before each token
        segments = np.unique(before[sentence_cuts(docs, offsets)]).astype(np.int64)
        places = np.concatenate([doc.to_array([IDX, LENGTH]).reshape(-1, 2) for doc in docs])
        places = places[keep].astype(np.int32)
        ids = (coded[keep] >> 1).astype(np.int32)
        predicted = segments
        if self._eos:
            ids, predicted = with_ends(ids, segments, self._vocabulary.boundary_id)
        is_word = np.ones(len(ids), bool)
        if self._eos:
            is_word[predicted[1:] - 1] = False
        return _Words(
            ids=ids,
            is_word=is_word,
            segments=segments,
            predicted=predicted,
            doc_segments=np.searchsorted(segments, before[offsets]),
            oov=(coded[keep] & 1).astype(bool),
            start=places[:, 0],
            length=places[:, 1],
            share=self._shares(docs, keep, (coded[keep] & 1).astype(bool)),
        )

    def _shares(
        self, docs: Sequence[Doc], keep: npt.NDArray[np.bool_], oov: npt.NDArray[np.bool_]
    ) -> Float64 | None:
        """What each word has of its class, of which those in the vocabulary have all."""
        if self._unknown_words.way == "class":
            return None
        shares = np.zeros(len(oov))
        if oov.any():
            orths = np.concatenate([doc.to_array(ORTH) for doc in docs])[keep][oov].tolist()
            strings = docs[0].vocab.strings
            words = (self._normalizing(strings[orth]) for orth in orths)
            shares[oov] = self._unknown_words.log_shares(words)
        return shares

    def _look_up(self, text: str) -> int:
        """Twice the id of a token, plus one if it is outside the vocabulary."""
        word = self._normalizing(text)
        number: int = self._vocabulary.id_of(word)
        return 2 * number + (number in self._unknown)


def _by_document(
    docs: Sequence[Doc], words: _Words, found: dict[str, npt.NDArray[Any]]
) -> Iterator[DocScores]:
    """What was found of each id of a batch (predicted,), cut into the scores of its documents."""
    eos = found["log_prob"][~words.is_word]
    of_words = {name: values[words.is_word] for name, values in found.items()}
    for doc, (first, last) in zip(docs, pairwise(words.doc_segments.tolist()), strict=True):
        cuts = words.segments[first : last + 1]
        own = slice(int(cuts[0]), int(cuts[-1]))
        share = words.share[own].copy() if words.share is not None else None
        yield DocScores(
            # copies: a view would keep the whole batch in memory for as long as the document lives
            start=words.start[own].copy(),
            length=words.length[own].copy(),
            oov=words.oov[own].copy(),
            share=share if words.oov[own].any() else None,
            segments=cuts - cuts[0],
            eos=eos[first:last].copy(),
            text_length=text_length(doc),
            **{name: values[own].copy() for name, values in of_words.items()},
        )
