"""`DocScores`: the scores of one document, as they are kept in ``doc.user_data``.

Words are found by their place in the text, in characters, so the scores survive retokenization: a merged
token has the sum of its words' log-probabilities.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from spacy.tokens import Doc

from tacenda_lm.perplexity import Perplexity
from tacenda_lm.sequences import Float64

__all__ = ["DocScores", "pooled", "text_length"]


class DocScores(NamedTuple):
    """Scores of the words of a document; whitespace has none."""

    start: npt.NDArray[np.int32]  # (words,): where each word begins, in characters
    length: npt.NDArray[np.int32]  # (words,): its characters
    log_prob: Float64  # (words,): natural logarithms
    oov: npt.NDArray[np.bool_]  # (words,): which are outside the vocabulary
    segments: npt.NDArray[np.int64]  # (segments + 1,): cuts of the words into what ends with </s>
    eos: Float64  # (segments,): natural log-probability of </s> after each; (0,) if not scored
    text_length: int  # characters of the document
    rank: npt.NDArray[np.int64] | None = None  # (words,)
    entropy: Float64 | None = None  # (words,), in bits
    state: npt.NDArray[np.int64] | None = None  # (words,), numbers of hidden states

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
        find = self.start.searchsorted
        return slice(int(find(start)), int(find(end)))

    def ends(self, words: slice) -> Float64:
        """Return the scores of ``</s>`` after every segment that lies wholly in a range of words."""
        if not len(self.eos):
            return self.eos
        first = np.searchsorted(self.segments, words.start)
        whole = np.searchsorted(self.segments, words.stop, side="right") - 1
        return self.eos[first : max(first, whole)]

    def measure(self, words: slice | None = None) -> Perplexity:
        """Return the perplexity, with all its parts, of a range of words or of all."""
        chosen = slice(0, len(self.start)) if words is None else words
        scores, oov, ends = self.log_prob[chosen], self.oov[chosen], self.ends(chosen)
        return Perplexity(
            log_prob=float(scores.sum() + ends.sum()),
            log_prob_eos=float(ends.sum()),
            log_prob_oov=float(scores[oov].sum()),
            n_sentences=len(ends),
            n_words=len(scores),
            n_oov=int(oov.sum()),
            n_characters=int(self.length[chosen].sum()) + len(scores),
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


def pooled(parts: Iterable[Perplexity]) -> Perplexity:
    """Return the perplexity of many texts as of one."""
    found = list(parts)

    def total(name: str) -> Any:
        return sum(getattr(part, name) or 0 for part in found)

    return Perplexity(
        log_prob=float(total("log_prob")),
        log_prob_eos=float(total("log_prob_eos")),
        log_prob_oov=float(total("log_prob_oov")),
        n_sentences=total("n_sentences"),
        n_words=total("n_words"),
        n_oov=total("n_oov"),
        n_characters=total("n_characters"),
    )
