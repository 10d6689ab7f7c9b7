"""The extension attributes of tokens, spans and documents; all read what `DocScores` keeps.

| attribute | unit | what |
| --- | --- | --- |
| ``token._.surprisal`` | bits | -log2 p(token given those before it) |
| ``token._.lm_logprob`` | natural log | the same as a log-probability |
| ``token._.lm_oov`` | | whether it is outside the vocabulary, and scored as ``<unk>`` |
| ``token._.lm_rank`` | | how many words were more probable (on request) |
| ``token._.lm_entropy`` | bits | entropy of the distribution it was drawn from (on request) |
| ``token._.lm_state`` | | number of the hidden state behind it (on request) |
| ``span._.lm_logprob`` | natural log | of its words, and of ``</s>`` after every sentence it covers |
| ``span._.lm_eos`` | natural log | that of ``</s>`` alone; None if it covers no sentence to its end |
| ``span._.perplexity`` | | of the same tokens as ``lm_logprob`` |
| ``doc._.lm_logprob``, ``doc._.perplexity`` | | as of a span |
| ``doc._.lm_bpc`` | bits | per character: of the words, and one for what parts each from the next |

All are None where nothing was scored: before the component has run, and for whitespace tokens.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from spacy.tokens import Doc, Span, Token

from tacenda.errors import ConfigurationError
from tacenda_lm.spacy.doc_scores import DocScores

__all__ = ["register"]


def register(prefix: str, *, rank: bool, entropy: bool, state: bool = False) -> None:
    """Make the extensions, their names beginning with ``prefix``; those that are there stay.

    Raises ConfigurationError for a prefix that no attribute can begin with, or one under which somebody
    else has extensions.
    """
    if prefix and not prefix.isidentifier():
        raise ConfigurationError(
            f"prefix must be letters, digits and underscores, such as 'kn_', not {prefix!r}"
        )
    asked = {"lm_rank": rank, "lm_entropy": entropy, "lm_state": state}
    for host, name, getter in _GETTERS:
        if asked.get(name, True):
            _set(host, prefix + name, getter=partial(getter, prefix))
    _set(Doc, f"{prefix}lm_scores", default=None)


def _set(host: Any, name: str, **how: Any) -> None:
    if not host.has_extension(name):
        host.set_extension(name, **how)
        return
    default, method, getter, _ = host.get_extension(name)
    ours = "getter" in how and _same(getter, how["getter"])
    writable = "default" in how and method is None and getter is None and default is None
    if not ours and not writable:
        raise ConfigurationError(
            f"{host.__name__.lower()}._.{name} is already an extension of somebody else: set another "
            "prefix in the configuration of the component, such as 'my_'"
        )


def _same(there: Any, wanted: Any) -> bool:
    return isinstance(there, partial) and there.func is wanted.func and there.args == wanted.args


# -- tokens ----------------------------------------------------------------------------------------


def _words(scores: DocScores, token: Token) -> slice | None:
    """The words a token is made of: one, more if it was merged since, None if it has none."""
    words = scores.words(token.idx, token.idx + len(token))
    return words if words.stop > words.start else None


def _logprob(prefix: str, token: Token) -> float | None:
    scores = DocScores.of(token.doc, prefix)
    words = None if scores is None else _words(scores, token)
    if scores is None or words is None:
        return None
    if words.stop - words.start == 1:
        return scores.log_prob.item(words.start)  # much faster than a sum, and the common case
    return float(scores.log_prob[words].sum())


def _surprisal(prefix: str, token: Token) -> float | None:
    log_prob = _logprob(prefix, token)
    return None if log_prob is None else -log_prob / math.log(2)


def _oov(prefix: str, token: Token) -> bool | None:
    scores = DocScores.of(token.doc, prefix)
    words = None if scores is None else _words(scores, token)
    return None if scores is None or words is None else bool(scores.oov[words].any())


def _single(field: str, prefix: str, token: Token) -> Any:
    """A value that only one word can have; a merged token has none."""
    scores = DocScores.of(token.doc, prefix)
    values = None if scores is None else getattr(scores, field)
    if scores is None or values is None:
        return None
    words = _words(scores, token)
    single = words is not None and words.stop - words.start == 1
    return values[words.start].item() if words is not None and single else None


def _rank(prefix: str, token: Token) -> int | None:
    found: int | None = _single("rank", prefix, token)
    return found


def _entropy(prefix: str, token: Token) -> float | None:
    found: float | None = _single("entropy", prefix, token)
    return found


def _state(prefix: str, token: Token) -> int | None:
    found: int | None = _single("state", prefix, token)
    return found


# -- spans and documents ---------------------------------------------------------------------------


def _span(span: Span, prefix: str) -> tuple[DocScores, slice] | None:
    scores = DocScores.of(span.doc, prefix)
    return None if scores is None else (scores, scores.words(span.start_char, span.end_char))


def _span_logprob(prefix: str, span: Span) -> float | None:
    found = _span(span, prefix)
    return None if found is None else found[0].measure(found[1]).log_prob


def _span_eos(prefix: str, span: Span) -> float | None:
    found = _span(span, prefix)
    ends = () if found is None else found[0].ends(found[1])
    return float(sum(ends)) if len(ends) else None


def _span_perplexity(prefix: str, span: Span) -> float | None:
    found = _span(span, prefix)
    return None if found is None else found[0].measure(found[1]).value


def _doc_logprob(prefix: str, doc: Doc) -> float | None:
    scores = DocScores.of(doc, prefix)
    return None if scores is None else scores.measure().log_prob


def _doc_perplexity(prefix: str, doc: Doc) -> float | None:
    scores = DocScores.of(doc, prefix)
    return None if scores is None else scores.measure().value


def _doc_bpc(prefix: str, doc: Doc) -> float | None:
    scores = DocScores.of(doc, prefix)
    return None if scores is None else scores.measure().bits_per_character


_GETTERS: tuple[tuple[Any, str, Callable[..., Any]], ...] = (
    (Token, "surprisal", _surprisal),
    (Token, "lm_logprob", _logprob),
    (Token, "lm_oov", _oov),
    (Token, "lm_rank", _rank),
    (Token, "lm_entropy", _entropy),
    (Token, "lm_state", _state),
    (Span, "lm_logprob", _span_logprob),
    (Span, "lm_eos", _span_eos),
    (Span, "perplexity", _span_perplexity),
    (Doc, "lm_logprob", _doc_logprob),
    (Doc, "perplexity", _doc_perplexity),
    (Doc, "lm_bpc", _doc_bpc),
)
