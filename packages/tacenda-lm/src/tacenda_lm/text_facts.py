"""What a model's card says of the text that the model was fitted on."""

from __future__ import annotations

import warnings
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tacenda.vocabulary import Vocabulary

__all__ = ["TextFacts", "say_what_unknown_is", "text_facts"]


class TextFacts(Protocol):
    """What a model's card says of a text; that of a `Corpus`, or of a text elsewhere."""

    @property
    def n_tokens(self) -> int:
        """How many tokens."""

    @property
    def n_sentences(self) -> int:
        """How many sentences."""

    @property
    def vocabulary(self) -> Vocabulary:
        """What its ids mean."""

    @property
    def type_counts(self) -> npt.NDArray[np.int64]:
        """How often each type occurs, (types,)."""

    @property
    def origin(self) -> dict[str, Any]:
        """Where it came from."""


def say_what_unknown_is(corpus: TextFacts) -> None:
    """Say once that ``<unk>`` in a text is no word, which lmplz refuses and the Penn Treebank is full of."""
    n = corpus.origin.get("written_unknown", 0)
    if n:
        times = "once" if n == 1 else f"{n:,} times"
        warnings.warn(
            f"<unk> is written {times} in the text; it is the unknown word there, as in the Penn Treebank and in "
            "WikiText, and whatever is outside the vocabulary is scored like it",
            stacklevel=5,  # of fit, which enters a context
        )


def text_facts(corpus: TextFacts) -> dict[str, Any]:
    """What an artefact says of the text its model was fitted on."""
    return {
        "n_tokens": corpus.n_tokens,
        "n_sentences": corpus.n_sentences,
        "n_types": len(corpus.vocabulary),
        "n_unknown": int(corpus.type_counts[corpus.vocabulary.oov_ids].sum()),
        **corpus.origin,
    }
