"""`register`, and the attributes of tokens, spans and documents that it defines, which read stored `DocScores`.

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
from collections.abc import Callable
from functools import partial
from typing import Any

from spacy.tokens import Doc, Span, Token

from tacenda.errors import ConfigurationError
from tacenda_lm.spacy.scores import DocScores


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


def _get_surprisal(scores: DocScores, words: slice) -> float:
    # whitespace has 0.0, not -0.0
    return 0.0 - scores.sum_words(words) / math.log(2)


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
    return scores.sum_words(words) + float(scores.select_eos(words).sum())


def _get_eos(scores: DocScores, words: slice) -> float | None:
    eos = scores.select_eos(words)
    return float(eos.sum()) if len(eos) else None


_GETTERS: tuple[tuple[Any, str, Callable[..., Any]], ...] = (
    (Token, "surprisal", _get_surprisal),
    (Token, "lm_logprob", DocScores.sum_words),
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
