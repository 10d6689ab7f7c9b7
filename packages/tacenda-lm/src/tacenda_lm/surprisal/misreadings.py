"""`misreadings`: what can be misread in the figures of scored texts, in sentences for the one who reads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tacenda.vocabulary import UNKNOWN, Vocabulary
from tacenda_lm.surprisal.table import ScoredText
from tacenda_lm.surprisal.words import sentence_starts
from tacenda_lm.unknown_words import Unknown

__all__ = ["misreadings", "unsplit_items"]

_MANY = 0.1  # of the items, from which on they are not read as they are meant
_ATTACHED = ".,;:!?…\"'“”‘’()[]"


def misreadings(
    vocabulary: Vocabulary, way: Unknown, texts: Sequence[ScoredText], *, as_fitted: bool = False
) -> Iterator[str]:
    """Yield one sentence for each thing that can be misread.

    Parameters
    ----------
    vocabulary
        The model's.
    way
        How unknown words were scored.
    texts
        What was found.
    as_fitted
        Whether the tokens are known to be cut as those of the text that the model was fitted to.
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
            f"{_tokens(written)} written {UNKNOWN} in the text: nothing tells which words are meant, so the surprisal "
            "is that of all unknown words together"
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
    if attached and not as_fitted:
        yield (
            f"{_tokens(attached)} unknown only because punctuation is attached: give the tokenizer of the text the "
            "model was fitted to, such as 'words'"
        )
    if not counts.any():
        yield "the model has no counts of its training text, so log_frequency is empty"


def unsplit_items(items: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield a sentence if many items, given by their regions, seem to hold several sentences, and are read as one."""
    several = sum(any(_inner_starts(regions)) for regions in items)
    if several and several >= _MANY * len(items):
        yield (
            f"{several:,} of {len(items):,} items seem to hold several sentences, and each item is read as one, with "
            "nothing between a full stop and the word behind it: use split='sentences', or name the column that "
            "tells sentences apart (sentence), unless the text the model was fitted to has several sentences in a line"
        )


def _inner_starts(regions: Sequence[str]) -> Iterator[bool]:
    """Whether a sentence seems to begin with each region but the first: a capital letter, behind the end of another."""
    for region, begins in zip(regions[1:], sentence_starts(regions, "sentences")[1:], strict=True):
        yield begins and next(filter(str.isalnum, region), "").isupper()


def _tokens(n: int) -> str:
    return "1 token is" if n == 1 else f"{n:,} tokens are"
