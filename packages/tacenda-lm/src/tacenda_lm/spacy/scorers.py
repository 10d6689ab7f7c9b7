"""The scorer ``tacenda.lm_scorer.v1``: what ``nlp.evaluate`` reports of a language model.

This module imports spaCy and the standard library only, as every target of an entry point.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

from spacy.training import Example
from spacy.util import registry


@registry.scorers("tacenda.lm_scorer.v1")
def make_lm_scorer() -> Callable[..., dict[str, Any]]:
    """Return the function that a component's ``score`` calls."""
    return score_documents


def score_documents(
    examples: Iterable[Example], *, prefix: str = "", **kwargs: Any
) -> dict[str, Any]:
    """Return the figures of scored documents, taken as one text; unscored documents are left out.

    Words outside the vocabulary count with the probability of ``<unk>``, and so does ``</s>`` wherever the
    component predicts it. The names of the figures begin with ``prefix``, that of the component:
    ``lm_perplexity``; ``lm_perplexity_without_oov``; ``lm_logprob_per_token``, a natural logarithm, for which
    higher is better: give it a weight to choose pipelines by it; ``lm_bpc``, bits per character;
    ``lm_oov_rate``, the share of words outside the vocabulary; ``lm_tokens``, how many tokens were predicted,
    ``</s>`` included. A figure is None if nothing was scored.
    """
    from tacenda_lm.perplexity import Perplexity
    from tacenda_lm.spacy.scores import DocScores

    found = (DocScores.of(example.predicted, prefix) for example in examples)
    text = Perplexity.pool(scores.measure() for scores in found if scores is not None)
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
