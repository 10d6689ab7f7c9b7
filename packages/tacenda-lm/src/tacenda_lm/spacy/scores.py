"""`DocScores`: the scores of one document, as they are kept in ``doc.user_data``, and the attributes that read them.

Words are found by their place in the text, in characters, so the scores survive retokenization: a merged
token has the sum of its words' log-probabilities. The extension attributes of tokens, spans and documents read them:

| attribute | unit | meaning |
| --- | --- | --- |
| ``token._.surprisal`` | bits | -log2 p(token given those before it); of unknown ones by the setting ``unknown`` |
| ``token._.lm_logprob`` | natural log | the same as a log-probability |
| ``token._.lm_oov`` | | whether the token is outside the vocabulary |
| ``token._.lm_rank`` | | how many words were more probable (on request) |
| ``token._.lm_entropy`` | bits | entropy of the distribution that predicts the token (on request) |
| ``token._.lm_state`` | | number of the hidden state of the token (on request) |
| ``span._.lm_logprob`` | natural log | of its words, and of ``</s>`` after every sentence in it |
| ``span._.lm_eos`` | natural log | of these ``</s>`` alone; None if no sentence lies wholly in the span |
| ``span._.perplexity`` | | of the tokens that ``lm_logprob`` counts, unknown ones scored as ``<unk>`` |
| ``doc._.lm_logprob``, ``doc._.perplexity`` | | as for a span |
| ``doc._.lm_bpc`` | bits | per character of the words and one after each; None if unknown words pay for none |

All are None before the component has run, and perplexities and ``lm_bpc`` where there is no word. The model does not
see whitespace tokens: they have 0 bits, so that they add nothing to a sum and a `Matcher` can compare them.
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
from tacenda_lm.surprisal.table import ScoredText
from tacenda_lm.surprisal.words import Word, bare_tokens


class DocScores(NamedTuple):
    """Scores of the words of a document; whitespace has none."""

    start: npt.NDArray[np.int32]  # (words,): where each word begins, in characters
    length: npt.NDArray[np.int32]  # (words,): its characters
    log_prob: Float64  # (words,): natural logarithms; of an unknown word that of its class
    oov: npt.NDArray[np.bool_]  # (words,): which are outside the vocabulary
    segments: npt.NDArray[np.int64]  # (segments + 1,): cuts of the words into what ends with </s>
    eos: Float64  # (segments,): natural log-probability of </s> after each; (0,) if not scored
    text_length: int  # characters of the document
    rank: npt.NDArray[np.int64] | None = None  # (words,)
    entropy: Float64 | None = None  # (words,), in bits
    state: npt.NDArray[np.int64] | None = None  # (words,), numbers of hidden states
    share: Float64 | None = (
        None  # (words,): natural log of what each has of its class; None if that is all
    )

    @classmethod
    def of(cls, doc: Doc, prefix: str = "") -> Self | None:
        """Return the scores of a document, or None if it has none.

        A document whose text is not the one that was scored has none: ``Span.as_doc`` copies the scores of
        a document along with a part of its text.
        """
        kept = doc.user_data.get(_key(prefix))
        if kept is None or kept["text_length"] != text_length(doc):
            return None
        return cls(**kept)

    def keep(self, doc: Doc, prefix: str = "") -> None:
        """Keep the scores with the document, as arrays that ``Doc.to_bytes`` can write."""
        kept = {name: value for name, value in self._asdict().items() if value is not None}
        doc.user_data[_key(prefix)] = kept

    def words(self, start: int, end: int) -> slice:
        """Return the words that begin in a range of characters."""
        # numbers of the array's own type: for a Python int NumPy would convert, and so copy, the whole array
        number, find = self.start.dtype.type, self.start.searchsorted
        return slice(int(find(number(start))), int(find(number(end))))

    def ends(self, words: slice) -> Float64:
        """Return the scores of ``</s>`` after every segment that lies wholly in a range of words."""
        if not len(self.eos):
            return self.eos
        first = np.searchsorted(self.segments, words.start)
        whole = np.searchsorted(self.segments, words.stop, side="right") - 1
        return self.eos[first : max(first, whole)]

    def full_log_prob(self, words: slice) -> Float64:
        """Return the log-probabilities of words themselves, natural: unknown ones with their share of their class."""
        own = self.log_prob[words]
        return own if self.share is None else own + self.share[words]

    def measure(self, words: slice | None = None) -> Perplexity:
        """Return the perplexity, with all its parts, of a range of words or of all."""
        chosen = slice(0, len(self.start)) if words is None else words
        scores, oov, ends = self.log_prob[chosen], self.oov[chosen], self.ends(chosen)
        share = None if self.share is None else float(self.share[chosen].sum())
        return Perplexity(
            log_prob=float(scores.sum() + ends.sum()),
            log_prob_eos=float(ends.sum()),
            log_prob_oov=float(scores[oov].sum()),
            n_sentences=len(ends),
            n_words=len(scores),
            n_oov=int(oov.sum()),
            n_characters=int(self.length[chosen].sum()) + len(scores),
            log_prob_spelling=share,
        )


def _key(prefix: str) -> tuple[str, str, None, None]:
    """The place of the scores in ``doc.user_data``, which ``doc._.lm_scores`` reads."""
    return ("._.", f"{prefix}lm_scores", None, None)


def text_length(doc: Doc) -> int:
    """Return the characters of a document up to its last token, without putting its text together."""
    if not len(doc):
        return 0
    last = doc[-1]
    return int(last.idx) + len(last)


def register(
    prefix: str = "", *, rank: bool = True, entropy: bool = True, state: bool = True
) -> None:
    """Define the attributes, so that scores which are stored with documents can be read without the component.

    Their names begin with ``prefix``; attributes that are already defined stay. ``rank``, ``entropy`` and ``state`` say
    whether to define these attributes, too; they are None for documents without these scores.

    Raises ConfigurationError for a prefix that cannot begin an attribute name, or if another library has an extension
    with one of these names.
    """
    if prefix and not prefix.isidentifier():
        raise ConfigurationError(
            f"prefix must be letters, digits and underscores, such as 'kn_', not {prefix!r}"
        )
    requested = {"lm_rank": rank, "lm_entropy": entropy, "lm_state": state}
    for host, name, getter in _GETTERS:
        if requested.get(name, True):
            _set(host, prefix + name, getter=partial(getter, prefix))
    _set(Doc, f"{prefix}lm_scores", default=None)


def _set(host: Any, name: str, **definition: Any) -> None:
    """Define an extension, or check that the one of that name is ours."""
    if not host.has_extension(name):
        host.set_extension(name, **definition)
        return
    default, method, getter, _ = host.get_extension(name)
    wanted = definition.get("getter")
    if wanted is None:
        ours = method is None and getter is None and default is None
    else:
        ours = isinstance(getter, partial) and (getter.func, getter.args) == (
            wanted.func,
            wanted.args,
        )
    if not ours:
        raise ConfigurationError(
            f"{host.__name__.lower()}._.{name} is an extension of another library: set another "
            "prefix in the configuration of the component, such as 'my_'"
        )


def _words(prefix: str, piece: Token | Span | Doc) -> tuple[DocScores, slice] | None:
    """The words of a piece: of a merged token several, of whitespace none; None if the document was not scored."""
    scores = DocScores.of(piece if isinstance(piece, Doc) else piece.doc, prefix)
    if scores is None:
        return None
    if isinstance(piece, Token):
        return scores, scores.words(piece.idx, piece.idx + len(piece))
    if isinstance(piece, Span):
        return scores, scores.words(piece.start_char, piece.end_char)
    return scores, slice(0, len(scores.start))


def _logprob(prefix: str, token: Token) -> float | None:
    found = _words(prefix, token)
    if found is None:
        return None
    scores, words = found
    if words.stop - words.start == 1:  # the common case, for which items are much faster than sums
        share = 0.0 if scores.share is None else scores.share.item(words.start)
        return scores.log_prob.item(words.start) + share
    return float(scores.full_log_prob(words).sum())


def _surprisal(prefix: str, token: Token) -> float | None:
    log_prob = _logprob(prefix, token)
    # whitespace has 0.0, not -0.0
    return None if log_prob is None else 0.0 - log_prob / math.log(2)


def _oov(prefix: str, token: Token) -> bool | None:
    found = _words(prefix, token)
    return None if found is None else bool(found[0].oov[found[1]].any())


def _single(field: str, prefix: str, token: Token) -> Any:
    """A value that only one word can have; a merged token has none, and whitespace the number 0 but no state."""
    found = _words(prefix, token)
    values = None if found is None else getattr(found[0], field)
    if found is None or values is None:
        return None
    own = values[found[1]]
    if not len(own) and field != "state":
        return own.dtype.type(0).item()
    return own.item() if len(own) == 1 else None


def _measure(figure: str, prefix: str, piece: Span | Doc) -> float | None:
    """A figure of the perplexity of a span or document; None, which JSON has, instead of NaN where there is no word."""
    found = _words(prefix, piece)
    value: float | None = None if found is None else getattr(found[0].measure(found[1]), figure)
    return None if value is None or math.isnan(value) else value


def _full_logprob(prefix: str, piece: Span | Doc) -> float | None:
    """The log-probability of a span or document, unknown words with their share of their class."""
    found = _words(prefix, piece)
    if found is None:
        return None
    scores, words = found
    return float(scores.full_log_prob(words).sum() + scores.ends(words).sum())


def _span_eos(prefix: str, span: Span) -> float | None:
    found = _words(prefix, span)
    if found is None:
        return None
    ends = found[0].ends(found[1])
    return float(sum(ends)) if len(ends) else None


_GETTERS: tuple[tuple[Any, str, Callable[..., Any]], ...] = (
    (Token, "surprisal", _surprisal),
    (Token, "lm_logprob", _logprob),
    (Token, "lm_oov", _oov),
    (Token, "lm_rank", partial(_single, "rank")),
    (Token, "lm_entropy", partial(_single, "entropy")),
    (Token, "lm_state", partial(_single, "state")),
    (Span, "lm_logprob", _full_logprob),
    (Span, "lm_eos", _span_eos),
    (Span, "perplexity", partial(_measure, "value")),
    (Doc, "lm_logprob", _full_logprob),
    (Doc, "perplexity", partial(_measure, "value")),
    (Doc, "lm_bpc", partial(_measure, "bits_per_character")),
)


def build_scored_text(
    doc: Doc,
    name: str,
    vocabulary: Vocabulary,
    normalize: Callable[[str], str],
    prefix: str,
    counts: Mapping[str, int] | None = None,
) -> ScoredText:
    """Return the words of a document with what was found of their tokens, for the table of `surprisal_table`.

    A word is what whitespace separates; its tokens are those that were scored. ``vocabulary`` and ``normalize`` are
    the model's, for the frequencies, and ``counts`` are of words of several tokens. Raises NotFittedError where the
    document was not scored.
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
            bare = bare_tokens(own)
            words.append(Word(text[start:end], start, end, sentences[first], own, bare, (bare,)))
            first = i
    ids = vocabulary.encode([normalize(token) for token in tokens])
    shares = np.zeros(len(ids)) if scores.share is None else scores.share
    return ScoredText.of(vocabulary, name, words, ids, scores.log_prob, shares, counts)
