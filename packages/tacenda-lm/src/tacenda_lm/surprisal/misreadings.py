"""`misreadings`: what can be misread in the figures of scored texts, in sentences for the one who reads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tacenda.vocabulary import UNKNOWN, Vocabulary
from tacenda_lm.surprisal.table import ScoredText
from tacenda_lm.unknown_words import Unknown

__all__ = ["misreadings"]

_ATTACHED = ".,;:!?…\"'“”‘’()[]"


def misreadings(vocabulary: Vocabulary, way: Unknown, texts: Sequence[ScoredText]) -> Iterator[str]:
    """Yield one sentence for each thing that can be misread.

    Parameters
    ----------
    vocabulary
        The model's.
    way
        How unknown words were scored.
    texts
        What was found.
    """
    known = np.concatenate([text.known for text in texts]) if texts else np.ones(0, bool)
    tokens = [token for text in texts for word in text.words for token in word.tokens]
    unknown = [tokens[i] for i in np.flatnonzero(~known).tolist()]
    written = sum(token in vocabulary for token in unknown)
    n = len(unknown) - written
    share = f"{n:,} of {len(tokens):,} tokens are unknown"
    counts = vocabulary.counts
    if written:
        yield (
            f"{written:,} tokens are written {UNKNOWN} in the text: nothing tells which words they are, so their "
            "surprisal is that of all unknown words together"
        )
    if n and way == "class":
        yield (
            f"{share} and have the probability of all unknown words together: their surprisal is too low to be "
            "compared with that of known words; leave these words out, or use unknown='spelling'"
        )
    if n and counts.any() and not counts[vocabulary.oov_ids].any():
        yield (
            f"{share}, and the text the model was fitted to had no unknown words: how likely one is was not learnt, "
            "and their surprisal is a matter of smoothing; leave these words out, or fit the model with min_count=2"
        )
    attached = sum(
        token.strip(_ATTACHED) != token and token.strip(_ATTACHED) in vocabulary
        for token in unknown
    )
    if attached:
        yield (
            f"{attached:,} tokens are unknown only because punctuation is attached to them: give the tokenizer of the "
            "text the model was fitted to, such as 'words'"
        )
    if not counts.any():
        yield "the model has no counts of its training text, so log_frequency is empty"
