"""The scorer ``tacenda.lm_scorer.v1``, which computes what ``nlp.evaluate`` reports of a language model.

Like every target of an entry point, this module imports spaCy and the standard library only.
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
    """Return the metrics of scored documents, taken as one text; unscored documents are left out.

    Words outside the vocabulary count with the probability of ``<unk>``; ``</s>`` counts if the component predicts it.

    Returns
    -------
    These metrics, whose names begin with the ``prefix`` of the component; if nothing was scored, ``lm_tokens`` is 0 and
    the others are None:

    * ``lm_perplexity``, ``lm_perplexity_without_oov``
    * ``lm_logprob_per_token``: a natural logarithm, higher is better; give it a weight to choose pipelines by it
    * ``lm_bpc``: bits per character
    * ``lm_oov_rate``: the share of words outside the vocabulary
    * ``lm_tokens``: the number of predicted tokens, ``</s>`` included
    """
    from tacenda_lm.perplexity import Perplexity
    from tacenda_lm.spacy.scores import DocScores

    scored = (DocScores.read_from(example.predicted, prefix) for example in examples)
    text = Perplexity.pool(scores.measure() for scores in scored if scores is not None)
    metrics = {
        "lm_perplexity": text.value,
        "lm_perplexity_without_oov": text.without_oov,
        "lm_logprob_per_token": text.log_prob / text.n_tokens if text.n_tokens else math.nan,
        "lm_bpc": text.bits_per_character,
        "lm_oov_rate": text.oov_rate,
        "lm_tokens": text.n_tokens,
    }
    return {
        prefix + name: None if value is None or math.isnan(value) else value
        for name, value in metrics.items()
    }
