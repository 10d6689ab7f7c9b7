"""What a fitted model consists of: word and morpheme vectors, and how any string finds its vector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from tacenda.artifact import require
from tacenda.vocabulary import Vocabulary, not_a_string
from tacenda_embeddings.varembed.morphemes import Inventory
from tacenda_embeddings.varembed.settings import WordVectorSettings

__all__ = ["FittedWords", "Float32"]

Float32 = npt.NDArray[np.float32]

_CACHE = 200_000  # unseen words whose vectors are remembered


class FittedWords:
    """Vectors of the words and morphemes; only a cache changes after construction.

    ``words`` (types, width) are the posterior's logits (VarEmbed) or whole vectors (SumEmbed); ``morphemes``
    (morphemes, width) have the base first, zeros if the model has none; ``trained`` bool (types,) says which
    words were in the training text: the others are taken for unseen.
    """

    def __init__(
        self,
        inventory: Inventory,
        words: Float32,
        morphemes: Float32,
        trained: npt.NDArray[np.bool_],
    ) -> None:
        self.inventory = inventory
        self.words, self.morphemes, self.trained = words, morphemes, trained
        self._rows: dict[str, int] = {}
        self._made: dict[str, Float32] = {}

    @cached_property
    def prior(self) -> Float32:
        """The sums of the morphemes of every word of the vocabulary, (types, width)."""
        return self.inventory.summed(self.morphemes)

    @cached_property
    def unknown(self) -> Float32:
        """The vector (width,) of a morpheme never seen: the mean of those that a single word has."""
        rare = np.flatnonzero(self.inventory.type_counts() == 1)
        rare = rare[rare > 0]
        if not len(rare):
            return np.zeros(self.morphemes.shape[1], np.float32)
        return np.asarray(self.morphemes[rare].mean(0, dtype=np.float64), np.float32)

    def look_up(self, words: Sequence[str], prior: bool) -> Float32:
        """Return vectors as they were fitted, (words, width): own ones, or the sums of the morphemes."""
        found = np.empty((len(words), self.words.shape[1]), np.float32)
        rows = np.fromiter(map(self._row, words), np.int64, len(words))
        seen = rows >= 0
        found[seen] = (self.prior if prior else self.words)[rows[seen]]
        for i in np.flatnonzero(~seen).tolist():
            found[i] = self._imputed(words[i])
        return found

    def _row(self, word: str) -> int:
        """Return the row of a word that was trained, or -1."""
        row = self._rows.get(word)
        if row is None:
            if not isinstance(word, str):
                raise not_a_string(word)
            vocabulary = self.inventory.vocabulary
            row = vocabulary.id_of(word) if word in vocabulary else -1
            row = row if row >= 0 and self.trained[row] else -1
            if len(self._rows) < _CACHE + len(vocabulary):
                self._rows[word] = row
        return row

    def _imputed(self, word: str) -> Float32:
        """Return the logits of the prior of a word without a row of its own."""
        vector = self._made.get(word)
        if vector is None:
            ids, n_unknown = self.inventory.morphemes(word)
            vector = self.morphemes[ids].sum(0) + np.float32(n_unknown) * self.unknown
            if len(self._made) < _CACHE:
                self._made[word] = vector
        return vector

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return all of it as arrays, by name."""
        return {
            "words": np.ascontiguousarray(self.words),
            "morphemes": np.ascontiguousarray(self.morphemes),
            "trained": self.trained,
            **self.inventory.arrays(),
            **self.inventory.vocabulary.arrays(),
        }

    @classmethod
    def from_arrays(
        cls,
        settings: WordVectorSettings,
        vocabulary: Vocabulary,
        arrays: Mapping[str, npt.NDArray[Any]],
    ) -> Self:
        """Return the state that an artefact holds. Raises ArtifactError."""
        inventory = Inventory.from_arrays(
            vocabulary,
            settings.segmenter,
            settings.advanced.max_pieces,
            settings.advanced.base,
            arrays,
        )
        types, width = len(vocabulary), settings.width

        def table(name: str, rows: int) -> Float32:
            return require(arrays, name, shape=(rows, width), dtype=np.float32, finite=True)

        trained = require(arrays, "trained", shape=(types,), dtype=np.bool_)
        return cls(inventory, table("words", types), table("morphemes", len(inventory)), trained)
