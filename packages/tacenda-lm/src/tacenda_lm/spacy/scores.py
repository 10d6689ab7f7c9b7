"""`DocScores`: the scores of one document, stored in ``doc.user_data``, and the attributes that read them.

Words are found by their place in the text, in characters, so the scores survive retokenization: a merged token has the
sum of the log-probabilities of its words. These extension attributes of tokens, spans and documents read the scores:

| attribute | unit | meaning |
| --- | --- | --- |
| ``token._.surprisal`` | bits | -log2 p(token given the tokens before it); ``unknown`` says how unknown ones share |
| ``token._.lm_logprob`` | natural log | the same as a log-probability |
| ``token._.lm_oov`` | | whether the token is outside the vocabulary |
| ``token._.lm_rank`` | | how many words were more probable (on request) |
| ``token._.lm_entropy`` | bits | entropy of the distribution that predicts the token (on request) |
| ``token._.lm_state`` | | number of the hidden state of the token (on request) |
| ``span._.lm_logprob`` | natural log | of its words, and of ``</s>`` after every sentence in it |
| ``span._.lm_eos`` | natural log | of these ``</s>`` alone; None if the span contains no whole sentence |
| ``span._.perplexity`` | | of the tokens that ``lm_logprob`` counts, unknown ones scored as ``<unk>`` |
| ``doc._.lm_logprob``, ``doc._.perplexity`` | | as for a span |
| ``doc._.lm_bpc`` | bits | per character; None with ``unknown="class"`` if there is an unknown word |

All are None before the component has run; perplexities and ``lm_bpc`` are None for a text without words. The model does
not see whitespace tokens: they have 0 bits, so that they add nothing to a sum and a `Matcher` can compare them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from spacy.tokens import Doc, Span, Token

from tacenda.errors import ConfigurationError, NotFittedError
from tacenda.vocabulary import Vocabulary
from tacenda_lm.perplexity import Perplexity
from tacenda_lm.sequences import Float64
from tacenda_lm.surprisal.scored_text import ScoredText
from tacenda_lm.surprisal.words import Word, bare_tokens


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

    def add_shares(self, words: slice) -> Float64:
        """Return the natural log-probabilities of a range of words, unknown ones with their share of their class."""
        log_prob = self.log_prob[words]
        return log_prob if self.share is None else log_prob + self.share[words]

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


def register(
    prefix: str = "", *, rank: bool = True, entropy: bool = True, state: bool = True
) -> None:
    """Define the attributes, so that scores stored in documents can be read without the component.

    Their names begin with ``prefix``; attributes that are already defined stay. ``rank``, ``entropy`` and ``state`` say
    whether to define these attributes, too; they are None for documents without these scores.

    Raises ConfigurationError for a prefix that cannot begin an attribute name, or if another library has an extension
    with one of these names.
    """
    if not isinstance(prefix, str) or (prefix and not prefix.isidentifier()):
        raise ConfigurationError(
            f"prefix must be letters, digits and underscores, such as 'kn_', not {prefix!r}"
        )
    requested = {"lm_rank": rank, "lm_entropy": entropy, "lm_state": state}
    for host, name, getter in _GETTERS:
        if requested.get(name, True):
            _set(host, prefix + name, getter=partial(_read, prefix, getter))
    _set(Doc, f"{prefix}lm_scores", default=None)


def _set(host: Any, name: str, **definition: Any) -> None:
    """Define an extension, or check that the existing one of that name is ours. Raises ConfigurationError."""
    if not host.has_extension(name):
        host.set_extension(name, **definition)
        return
    default, method, getter, _ = host.get_extension(name)
    our_getter = definition.get("getter")
    if our_getter is None:
        is_ours = method is None and getter is None and default is None
    else:
        is_ours = isinstance(getter, partial) and (
            (getter.func, getter.args) == (our_getter.func, our_getter.args)
        )
    if not is_ours:
        raise ConfigurationError(
            f"{host.__name__.lower()}._.{name} is an extension of another library: set another "
            "prefix in the configuration of the component, such as 'my_'"
        )


# -- the values of the attributes, given the scores of a document and the range of words in a piece of it --


def _read(prefix: str, get: Callable[[DocScores, slice], Any], piece: Token | Span | Doc) -> Any:
    """Return what ``get`` makes of the words in a piece; None if its document was not scored.

    A merged token has several words, and whitespace has none.
    """
    scores = DocScores.read_from(piece if isinstance(piece, Doc) else piece.doc, prefix)
    if scores is None:
        return None
    if isinstance(piece, Token):
        return get(scores, scores.find_words(piece.idx, piece.idx + len(piece)))
    if isinstance(piece, Span):
        return get(scores, scores.find_words(piece.start_char, piece.end_char))
    return get(scores, slice(0, len(scores.start)))


def _get_token_logprob(scores: DocScores, words: slice) -> float:
    if words.stop - words.start == 1:  # the common case, in which items are much faster than sums
        share = 0.0 if scores.share is None else scores.share.item(words.start)
        return scores.log_prob.item(words.start) + share
    return float(scores.add_shares(words).sum())


def _get_surprisal(scores: DocScores, words: slice) -> float:
    # whitespace has 0.0, not -0.0
    return 0.0 - _get_token_logprob(scores, words) / math.log(2)


def _get_oov(scores: DocScores, words: slice) -> bool:
    return bool(scores.oov[words].any())


def _get_of_one_word(field: str, scores: DocScores, words: slice) -> Any:
    """Return a value that only one word can have; a merged token has None, and whitespace 0, but no state."""
    values = getattr(scores, field)
    if values is None:
        return None
    if words.start == words.stop and field != "state":
        return values.dtype.type(0).item()
    return values.item(words.start) if words.stop - words.start == 1 else None


def _get_measure(name: str, scores: DocScores, words: slice) -> float | None:
    """Return an attribute of the perplexity of words; None, which JSON has, instead of NaN if there is no word."""
    value: float | None = getattr(scores.measure(words), name)
    return None if value is None or math.isnan(value) else value


def _get_logprob(scores: DocScores, words: slice) -> float:
    return float(scores.add_shares(words).sum() + scores.select_eos(words).sum())


def _get_eos(scores: DocScores, words: slice) -> float | None:
    eos = scores.select_eos(words)
    return float(eos.sum()) if len(eos) else None


_GETTERS: tuple[tuple[Any, str, Callable[..., Any]], ...] = (
    (Token, "surprisal", _get_surprisal),
    (Token, "lm_logprob", _get_token_logprob),
    (Token, "lm_oov", _get_oov),
    (Token, "lm_rank", partial(_get_of_one_word, "rank")),
    (Token, "lm_entropy", partial(_get_of_one_word, "entropy")),
    (Token, "lm_state", partial(_get_of_one_word, "state")),
    (Span, "lm_logprob", _get_logprob),
    (Span, "lm_eos", _get_eos),
    (Span, "perplexity", partial(_get_measure, "value")),
    (Doc, "lm_logprob", _get_logprob),
    (Doc, "perplexity", partial(_get_measure, "value")),
    (Doc, "lm_bpc", partial(_get_measure, "bits_per_character")),
)


def build_scored_text(
    doc: Doc,
    name: str,
    vocabulary: Vocabulary,
    normalize: Callable[[str], str],
    prefix: str,
    counts: Mapping[str, int] | None = None,
) -> ScoredText:
    """Return the words of a document with the scores of their tokens, for `tacenda_lm.surprisal.table.tabulate`.

    A word is what whitespace separates; its tokens are those that were scored. ``vocabulary`` and ``normalize`` are
    the model's, for the frequencies, and ``counts`` are of words of several tokens. Raises as `DocScores.of`.
    """
    scores = DocScores.of(doc, prefix)
    text, starts = doc.text, scores.start.tolist()
    ends = (scores.start + scores.length).tolist()
    tokens = [text[start:end] for start, end in zip(starts, ends, strict=True)]
    sentences = np.repeat(np.arange(1, len(scores.segments)), np.diff(scores.segments)).tolist()
    words = []
    first = 0
    for i in range(1, len(tokens) + 1):
        if i < len(tokens) and starts[i] == ends[i - 1]:  # no space before the next token
            continue
        of_word = tuple(tokens[first:i])
        start, end, bare = starts[first], ends[i - 1], bare_tokens(of_word)
        words.append(Word(text[start:end], start, end, sentences[first], of_word, bare, (bare,)))
        first = i
    ids = vocabulary.encode([normalize(token) for token in tokens])
    shares = np.zeros(len(ids)) if scores.share is None else scores.share
    return ScoredText.of(vocabulary, name, words, ids, scores.log_prob, shares, counts)
