"""The factory ``lm_scorer``.

This module imports spaCy and the standard library only, because spaCy imports every installed factory as soon as
any pipeline is made. The factory imports what a model needs when it is called.
"""

from collections.abc import Callable
from typing import Any, Optional

from spacy.language import Language

#: Defaults of the settings that `LanguageModelScorer` documents. All are plain JSON, and none is a path.
CONFIG: dict[str, Any] = {
    "prefix": "",
    "context": "doc",
    "eos": True,
    "rank": False,
    "entropy": False,
    "state": False,
    "unknown": "spelling",
    "unseen_types": None,
    "lowercase": False,
    "number_word": None,
    "batch_tokens": 20_000,
    "scorer": {"@scorers": "tacenda.lm_scorer.v1"},
}

#: spaCy maximizes a weighted sum, and a lower perplexity is better: metrics with null are only reported.
SCORE_WEIGHTS = {
    "lm_perplexity": None,
    "lm_perplexity_without_oov": None,
    "lm_logprob_per_token": None,
    "lm_bpc": None,
    "lm_oov_rate": None,
    "lm_tokens": None,
}


@Language.factory(
    "lm_scorer",
    assigns=[
        "token._.surprisal",
        "token._.lm_logprob",
        "token._.lm_oov",
        "span._.lm_logprob",
        "span._.lm_eos",
        "span._.perplexity",
        "doc._.lm_logprob",
        "doc._.perplexity",
        "doc._.lm_bpc",
    ],
    default_config=CONFIG,
    default_score_weights=SCORE_WEIGHTS,
)
def lm_scorer(
    nlp: Language,
    name: str,
    prefix: str,
    context: str,
    eos: bool,
    rank: bool,
    entropy: bool,
    state: bool,
    unknown: str,
    unseen_types: Optional[int],  # noqa: UP045
    lowercase: bool,
    number_word: Optional[str],  # noqa: UP045 - spaCy builds a pydantic schema from these annotations
    batch_tokens: int,
    scorer: Optional[Callable],  # type: ignore[type-arg]  # noqa: UP045
) -> Any:
    """Score text with a language model: surprisal of tokens, log-probability of spans, perplexity of documents.

    The model is not part of the configuration: give it to ``initialize(artifact=...)``, or in
    ``[initialize.components.lm_scorer]``.
    """
    settings = locals()  # every argument by its name
    from tacenda_lm.spacy.component import LanguageModelScorer

    return LanguageModelScorer(**settings)
