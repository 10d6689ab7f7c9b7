"""The scorer ``tacenda.lm_scorer.v1``: what ``nlp.evaluate`` reports of a language model.

This module imports spaCy and the standard library only, as every target of an entry point.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

from spacy.training import Example
from spacy.util import registry

__all__ = ["make_lm_scorer", "score_documents"]


@registry.scorers("tacenda.lm_scorer.v1")
def make_lm_scorer() -> Callable[..., dict[str, Any]]:
    """The function that a component's ``score`` calls."""
    return score_documents


def score_documents(
    examples: Iterable[Example], *, prefix: str = "", **kwargs: Any
) -> dict[str, Any]:
    """Figures of scored documents, as of one text; documents that were not scored are left out.

    Words outside the vocabulary count, at the probability of ``<unk>``, and so does ``</s>`` wherever the
    component predicts it.

    Parameters
    ----------
    examples
        Of spaCy; their predicted documents.
    prefix
        That of the component; the names below begin with it.
    kwargs
        Not used.

    Returns
    -------
    ``lm_perplexity``; ``lm_perplexity_without_oov``; ``lm_logprob_per_token``, natural, higher is better,
    to be given a weight when a pipeline is chosen by it; ``lm_bpc``, bits per character;
    ``lm_oov_rate``, share of the words; ``lm_tokens``, how many were predicted, ``</s>`` included.
    None for what cannot be computed, because nothing was scored.
    """
    from tacenda_lm.spacy.doc_scores import DocScores, pooled

    found = (DocScores.of(example.predicted, prefix) for example in examples)
    text = pooled(scores.measure() for scores in found if scores is not None)
    figures = {
        "lm_perplexity": text.value,
        "lm_perplexity_without_oov": text.without_oov,
        "lm_logprob_per_token": text.log_prob / text.n_tokens if text.n_tokens else math.nan,
        "lm_bpc": text.bits_per_character,
        "lm_oov_rate": text.oov_rate,
        "lm_tokens": text.n_tokens,
    }
    return {
        prefix + name: None if value is None or math.isnan(value) else value
        for name, value in figures.items()
    }
