"""`DocScorer`: a language model applied to documents, in the context that was chosen."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from spacy.tokens import Doc

from tacenda.errors import ConfigurationError
from tacenda_lm.sequences import Offsets
from tacenda_lm.spacy.doc_scores import DocScores, text_length
from tacenda_lm.spacy.normalizing import Normalizing
from tacenda_lm.spacy.reading import DocReader, Reading
from tacenda_lm.state import State
from tacenda_lm.token_scores import TokenScores, continued_scores, token_scores

__all__ = ["DocScorer"]


class DocScorer:
    """Applies one fitted model to documents; arguments as of the component.

    Where sentence boundaries are known, ``</s>`` is predicted after each sentence in every context, and what
    follows it is seen by the model as a new sentence; ``"sentence"`` moreover starts anew.
    """

    def __init__(
        self,
        model: Any,
        normalizing: Normalizing,
        context: str,
        eos: bool,
        *,
        rank: bool,
        entropy: bool,
        state: bool,
    ) -> None:
        if state and context == "stream":
            raise ConfigurationError(
                "the states of a sentence are found from its beginning to its end, which a stream does not "
                "wait for: use context = 'doc' or 'sentence' with state = true"
            )
        if state and not hasattr(model, "state_path"):
            raise ConfigurationError(
                f"a {type(model).__name__} has no states: leave out state, or use a hidden Markov model "
                "such as vlhmm"
            )
        self._path = model.state_path if state else None
        self.model = model
        self._context = context
        self._asked = {"rank": rank, "entropy": entropy}
        self._read = DocReader(model.vocabulary, normalizing, eos)
        self._state: State | None = None

    def __call__(self, docs: Sequence[Doc]) -> list[DocScores]:
        """One record a document, an empty one for a document without words."""
        if not docs:
            return []
        reading = self._read(docs)
        if self._context == "stream":
            scores = self._continue(reading)
        else:
            cuts = reading.predicted if self._context == "sentence" else reading.documents
            scores = token_scores(self.model, reading.ids, cuts, **self._asked)
        path = None
        if self._path is not None:
            whole = self._context == "doc"
            path = self._path(reading.ids, reading.documents if whole else reading.predicted)
        return list(_records(docs, reading, scores, path))

    def restart(self) -> None:
        """Forget what a stream has come by."""
        self._state = None

    def _continue(self, reading: Reading) -> TokenScores:
        state = self.model.start() if self._state is None else self._state
        scores, self._state = continued_scores(self.model, state, reading.ids, **self._asked)
        return scores


def _records(docs: Sequence[Doc], reading: Reading, scores: TokenScores, path: Any = None) -> Any:
    words = reading.is_word
    log_prob, eos = scores.log_prob[words], scores.log_prob[~words]
    rank = None if scores.rank is None else scores.rank[words]
    entropy = None if scores.entropy is None else scores.entropy[words]
    state = None if path is None else path[words]
    for doc, (first, last) in zip(docs, pairwise(reading.doc_segments.tolist()), strict=True):
        cuts: Offsets = reading.segments[first : last + 1]
        own = slice(int(cuts[0]), int(cuts[-1]))
        yield DocScores(
            # copies: a view would keep the whole batch for as long as the document lives
            start=reading.start[own].copy(),
            length=reading.length[own].copy(),
            log_prob=log_prob[own].copy(),
            oov=reading.oov[own].copy(),
            segments=cuts - cuts[0],
            eos=eos[first:last].copy(),
            text_length=text_length(doc),
            rank=None if rank is None else rank[own].copy(),
            entropy=None if entropy is None else entropy[own].copy(),
            state=None if state is None else state[own].copy(),
        )
