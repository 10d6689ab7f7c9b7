"""`DocScores`: the scores of one document, stored in ``doc.user_data``, and `DocScorer`, which computes them.

Words are found by their place in the text, in characters, so the scores survive retokenization: a merged token has the
sum of the log-probabilities of its words.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from spacy.attrs import IDX, LENGTH, ORTH
from spacy.tokens import Doc

from tacenda.errors import ConfigurationError, NotFittedError
from tacenda.spacy.documents import WordCache, sentence_cuts
from tacenda_lm.distributions import distributions_of, ranks_and_entropies, states_before
from tacenda_lm.perplexity import Perplexity
from tacenda_lm.sequences import Float64, Ids, Offsets, with_ends
from tacenda_lm.states import State
from tacenda_lm.unknown_words import UnknownWords

_WHITESPACE = -1  # code of a whitespace token; all other codes are of `DocScorer._encode`


class DocScores(NamedTuple):
    """The scores of the words of a document; whitespace has none."""

    start: npt.NDArray[np.int32]  # (words,): the first character of each
    length: npt.NDArray[np.int32]  # (words,), in characters
    log_prob: Float64  # (words,): natural; an unknown word has that of its class
    oov: npt.NDArray[np.bool_]  # (words,): which are outside the vocabulary
    segments: npt.NDArray[np.int64]  # (segments + 1,): cuts of the words into what </s> ends
    eos: Float64  # (segments,): natural log-probability of </s> after each; (0,) if not scored
    text_length: int  # characters of the document
    rank: npt.NDArray[np.int64] | None = None  # (words,)
    entropy: Float64 | None = None  # (words,), in bits
    state: npt.NDArray[np.int64] | None = None  # (words,), numbers of hidden states
    # (words,): natural log of the share of its class that each word has; None if that is all of it
    share: Float64 | None = None

    @classmethod
    def read_from(cls, doc: Doc, prefix: str = "") -> Self | None:
        """Return the scores of a document, or None if it has none.

        A document with another text than the one that was scored has none: ``Span.as_doc`` copies the scores of the
        whole document along with a part of its text.
        """
        fields = doc.user_data.get(_make_key(prefix))
        if fields is None or fields["text_length"] != text_length(doc):
            return None
        return cls(**fields)

    @classmethod
    def of(cls, doc: object, prefix: str = "") -> Self:
        """Return the scores of a document.

        Raises ConfigurationError for anything but a document, and NotFittedError for a document without scores.
        """
        if not isinstance(doc, Doc):
            raise ConfigurationError(
                f"{doc!r:.80} is a {type(doc).__name__}, not a document of spaCy: give the Doc of a pipeline with an "
                "'lm_scorer', or several"
            )
        scores = cls.read_from(doc, prefix)
        if scores is None:
            raise NotFittedError(
                f"the document has no scores with the prefix {prefix!r}: make it with a pipeline that has an "
                "'lm_scorer' with this prefix"
            )
        return scores

    def store_in(self, doc: Doc, prefix: str = "") -> None:
        """Store the scores in the document, as arrays that ``Doc.to_bytes`` can write."""
        fields = {name: value for name, value in self._asdict().items() if value is not None}
        doc.user_data[_make_key(prefix)] = fields

    def find_words(self, start: int, end: int) -> slice:
        """Return the words that begin in a range of characters."""
        # numbers of the array's own type: for a Python int NumPy would convert, and so copy, the whole array
        number, find = self.start.dtype.type, self.start.searchsorted
        return slice(int(find(number(start))), int(find(number(end))))

    def select_eos(self, words: slice) -> Float64:
        """Return the log-probability of ``</s>`` after every segment that is wholly in a range of words."""
        if not len(self.eos):
            return self.eos
        first = np.searchsorted(self.segments, words.start)
        whole = np.searchsorted(self.segments, words.stop, side="right") - 1
        return self.eos[first : max(first, whole)]

    def sum_words(self, words: slice) -> float:
        """Return the natural log-probability of a range of words, unknown ones with their share of their class."""
        log_prob, share = self.log_prob, self.share
        # the common case, in which items are much faster than sums
        if words.stop - words.start == 1:
            i = words.start
            return log_prob.item(i) + (0.0 if share is None else share.item(i))
        return float((log_prob[words] if share is None else log_prob[words] + share[words]).sum())

    def measure(self, words: slice | None = None) -> Perplexity:
        """Return the perplexity of a range of words, by default of all, with the sums it is made of."""
        chosen = slice(0, len(self.start)) if words is None else words
        scores, oov, ends = self.log_prob[chosen], self.oov[chosen], self.select_eos(chosen)
        share = None if self.share is None else float(self.share[chosen].sum())
        return Perplexity(
            log_prob_known=float(scores[~oov].sum()),
            log_prob_oov=float(scores[oov].sum()),
            log_prob_eos=float(ends.sum()),
            n_sentences=len(ends),
            n_words=len(scores),
            n_oov=int(oov.sum()),
            n_characters=int(self.length[chosen].sum()) + len(scores),
            log_prob_spelling=share,
        )


def _make_key(prefix: str) -> tuple[str, str, None, None]:
    """Return the key of the scores in ``doc.user_data``, which ``doc._.lm_scores`` reads."""
    return ("._.", f"{prefix}lm_scores", None, None)


def text_length(doc: Doc) -> int:
    """Return the number of characters up to the end of the last token, without building the text of the document."""
    if not len(doc):
        return 0
    last = doc[-1]
    return int(last.idx) + len(last)


class _Words(NamedTuple):
    """The words of some documents, whitespace left out."""

    ids: Ids  # (words,)
    oov: npt.NDArray[np.bool_]  # (words,): which are outside the vocabulary
    start: npt.NDArray[np.int32]  # (words,): the first character of each in its document
    length: npt.NDArray[np.int32]  # (words,), in characters
    segments: Offsets  # (segments + 1,): cuts of the words into sentences, or documents without boundaries
    documents: Offsets  # (documents + 1,): cuts of the segments into documents
    # (words,): natural log of the share of its class; None where that is all of it
    shares: Float64 | None


class DocScorer:
    """A fitted model that is applied to documents; ``options`` has the settings, as attributes of the component."""

    def __init__(self, model: Any, options: Any) -> None:
        self._model, self._options = model, options
        self._vocabulary = model.vocabulary
        self._shares = UnknownWords(model.vocabulary, options.unknown, options.unseen_types)
        self.stream: State | None = None
        self._unknown = frozenset(self._vocabulary.oov_ids.tolist())
        self._cache = WordCache(self._encode, _WHITESPACE, self._vocabulary)

    def _encode(self, text: str) -> int:
        """Return twice the id of a token, plus one if it is outside the vocabulary.

        The cache of words then holds one number for a token, and an array of them is taken apart without a loop.
        """
        number: int = self._vocabulary.id_of(self._options.normalize(text))
        return 2 * number + (number in self._unknown)

    def __call__(self, docs: Sequence[Doc]) -> list[DocScores]:
        """Return the scores of each document, empty for a document without words."""
        if not docs:
            return []
        words = self._read(docs)
        ids, segments, ends = words.ids, words.segments, np.empty(0, np.int64)
        if self._options.eos:
            ids, segments = with_ends(ids, segments, self._vocabulary.boundary_id)
            ends = segments[1:] - 1
        scores = self._score(ids, np.unique(segments[words.documents]), segments)
        eos = scores["log_prob"][ends]
        of_words = {name: np.delete(values, ends) for name, values in scores.items()}
        cuts = pairwise(words.documents.tolist())
        return [
            _slice_scores(doc, words, slice(first, last), of_words, eos)
            for doc, (first, last) in zip(docs, cuts, strict=True)
        ]

    def _read(self, docs: Sequence[Doc]) -> _Words:
        """Return the words of documents, encoded, and cut into segments."""
        codes = np.array(self._cache.read(docs), dtype=np.int64)
        is_word = codes != _WHITESPACE
        oov = (codes[is_word] & 1).astype(bool)
        places = np.concatenate([doc.to_array([IDX, LENGTH]).reshape(-1, 2) for doc in docs])
        start, length = places[is_word].astype(np.int32).T
        offsets = np.cumsum([0, *map(len, docs)])
        n_before = np.concatenate([[0], np.cumsum(is_word)])  # words before each token
        segments = np.unique(n_before[sentence_cuts(docs, offsets)]).astype(np.int64)
        return _Words(
            ids=(codes[is_word] >> 1).astype(np.int32),
            oov=oov,
            start=start,
            length=length,
            segments=segments,
            documents=np.searchsorted(segments, n_before[offsets]),
            shares=self._spell(docs, is_word, oov),
        )

    def _spell(
        self, docs: Sequence[Doc], is_word: npt.NDArray[np.bool_], oov: npt.NDArray[np.bool_]
    ) -> Float64 | None:
        """Return the log-share of its class of each word (words,), 0 for known ones; None if shares are not used."""
        if self._shares.way == "class":
            return None
        shares = np.zeros(len(oov))
        if oov.any():
            orths = np.concatenate([doc.to_array(ORTH) for doc in docs])[is_word][oov].tolist()
            numbers = np.repeat(np.arange(len(docs)), [len(doc) for doc in docs])[is_word][oov]
            words = (docs[n].vocab.strings[orth] for n, orth in zip(numbers, orths, strict=True))
            shares[oov] = self._shares.log_shares(map(self._options.normalize, words))
        return shares

    def _score(
        self, ids: Ids, documents: Offsets, segments: Offsets
    ) -> dict[str, npt.NDArray[Any]]:
        """Return the requested scores of ids, by name, (tokens,) each.

        ``documents`` and ``segments`` are cuts of the ids; the context says which of them are scored independently.
        """
        model, options = self._model, self._options
        cuts = documents if options.context == "doc" else segments
        if options.context == "stream":
            before = model.start() if self.stream is None else self.stream
            log_prob, self.stream = model.score_from(before, ids)
            rows = distributions_of(model, states_before(model, before, ids))
        else:
            log_prob = model.score_corpus(ids, cuts)
            rows = model.distributions(ids, cuts)
        scores: dict[str, npt.NDArray[Any]] = {"log_prob": log_prob}
        if options.rank or options.entropy:
            ranks, entropies = ranks_and_entropies(rows, ids)
            if options.rank:
                scores["rank"] = ranks
            if options.entropy:
                scores["entropy"] = entropies
        if options.state:
            scores["state"] = model.state_path(ids, cuts)
        return scores


def _slice_scores(
    doc: Doc, words: _Words, segments: slice, scores: dict[str, npt.NDArray[Any]], eos: Float64
) -> DocScores:
    """Return copies of the scores of one document, which has some of the segments.

    Views would keep the arrays of the whole batch in memory for as long as the document lives.
    """
    cuts = words.segments[segments.start : segments.stop + 1]
    own = slice(int(cuts[0]), int(cuts[-1]))
    oov = words.oov[own].copy()
    share = words.shares[own].copy() if words.shares is not None and oov.any() else None
    return DocScores(
        start=words.start[own].copy(),
        length=words.length[own].copy(),
        oov=oov,
        share=share,
        segments=cuts - cuts[0],
        eos=eos[segments].copy(),
        text_length=text_length(doc),
        **{name: values[own].copy() for name, values in scores.items()},
    )
