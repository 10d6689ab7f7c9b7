"""Morfessor Baseline (Creutz and Lagus 2002; Virpioja et al. 2013), with the package ``morfessor``.

The package trains; a saved model holds what it found and does not need it: the segmentation of every word
it was trained on goes into the inventory of the model, and a word never seen is cut by the frequencies of
its morphs, as in Morfessor's own Viterbi search, without its prices for new morphs.
"""

from __future__ import annotations

import logging
import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy.typing as npt

from tacenda.errors import ConfigurationError
from tacenda.progress import track
from tacenda_embeddings.varembed.segmenters import shortened
from tacenda_embeddings.varembed.segmenters.unigram import PieceLexicon

__all__ = ["MorfessorSegmenter"]

FINISH = 0.005  # Morfessor's own threshold: relative gain of an epoch under which it stops


class MorfessorSegmenter:
    """Morphs and their frequencies; each word of the training list counts once."""

    name: ClassVar[str] = "morfessor"
    skips_unknown: ClassVar[bool] = False

    def __init__(self, lexicon: PieceLexicon) -> None:
        self.lexicon = lexicon
        self._learned: dict[str, tuple[str, ...]] = {}

    @classmethod
    def learn(cls, words: Sequence[str], n_morphemes: int) -> Self:
        """Learn morphs; Morfessor finds how many, not ``n_morphemes``. Raises ConfigurationError without it."""
        try:
            from morfessor import BaselineModel
        except ImportError as error:
            raise ConfigurationError(
                "the segmenter 'morfessor' needs the package morfessor: install it with "
                "pip install 'tacenda-embeddings[morfessor]', or choose segmenter='unigram'"
            ) from error
        short = {word: shortened(word) for word in words}
        found = _trained(BaselineModel, sorted(set(short.values())))
        counts = Counter(piece for pieces in found.values() for piece in pieces)
        total = max(sum(counts.values()), 1)
        pieces = sorted(counts)
        made = cls(PieceLexicon(pieces, [math.log(counts[piece] / total) for piece in pieces]))
        made._learned = {word: found[key] for word, key in short.items()}
        return made

    def segment(self, word: str) -> tuple[str, ...]:
        """Return the most probable morphs."""
        return self.lexicon.segment(shortened(word))

    def segment_all(self, words: Sequence[str]) -> list[tuple[str, ...]]:
        """Return what Morfessor made of each word it was trained on."""
        return [self._learned.get(word) or self.segment(word) for word in words]

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return morphs and log-frequencies."""
        return self.lexicon.arrays()

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Return a segmenter from what `arrays` gave. Raises ArtifactError."""
        return cls(PieceLexicon.from_arrays(arrays))


def _trained(baseline: Any, words: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Train Morfessor, without a trace in the global generator or the log, and return its segmentations."""
    model = baseline()
    state = random.getstate()  # Morfessor shuffles by the global generator
    log = logging.getLogger("morfessor")
    level = log.level
    try:
        random.seed(0)
        log.setLevel(logging.ERROR)
        model.load_data([(1, word) for word in words], count_modifier=lambda _: 1)
        if words:
            _quietly(lambda: model.train_batch(finish_threshold=FINISH))
    finally:
        random.setstate(state)
        log.setLevel(level)
    label = "Morfessor: segmenting"
    return {word: tuple(model.viterbi_segment(word)[0]) for word in track(words, label)}


def _quietly(run: Any) -> None:
    """Run without the dots that Morfessor prints as it goes."""
    import morfessor.utils as utils

    shown = utils.show_progress_bar
    utils.show_progress_bar = False
    try:
        run()
    finally:
        utils.show_progress_bar = shown
