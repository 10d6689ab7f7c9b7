"""`MorphologicalLDS`: an LDS that reads words it has never seen by their morphemes.

An LDS knows a word outside its vocabulary by its class alone, a shape and a suffix. Here such a word has an
input row of its own, predicted from its class and from the vector that the prior of a word-vector model
(`VarEmbed`, `SumEmbed`) gives it. The prediction is a linear map, learned on the words of the LDS's
vocabulary as if they had not been seen: from their classes, and from their morphemes alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from tacenda.artifact import Saveable, require
from tacenda.corpus import Corpus
from tacenda.errors import ArtifactError, ConfigurationError, NotFittedError
from tacenda.lookup import class_of, reserved
from tacenda.vocabulary import Vocabulary
from tacenda.word_classes import coarser_class
from tacenda_embeddings.lds.model import LDS
from tacenda_embeddings.varembed.base import Float32, MorphologicalEmbedder
from tacenda_embeddings.varembed.model import SumEmbed, VarEmbed

__all__ = ["MorphologicalLDS"]

_RIDGE = 1e-3  # of the mean square of the features
_FEWEST = 20  # words that the map can be learned from


class MorphologicalLDS(Saveable):
    """Context-dependent token vectors, those of unseen words made with the help of their morphemes.

    Parameters
    ----------
    lds, words
        Settings of the two models, for ``fit``; ``words`` are `VarEmbed`'s.

    Raises
    ------
    ConfigurationError
        a setting is unknown or out of range.

    Examples
    --------
    >>> model = MorphologicalLDS.join(lds, varembed)
    >>> [vectors] = model.transform([["An", "unbefriended", "word"]])
    """

    kind: ClassVar[str] = "embedders"
    name: ClassVar[str] = "morphological_lds"
    distribution: ClassVar[str] = "tacenda-embeddings"
    api_version: ClassVar[int] = 1

    def __init__(
        self, lds: Mapping[str, Any] | None = None, words: Mapping[str, Any] | None = None
    ) -> None:
        self.lds = LDS(**dict(lds or {}))
        self.words: MorphologicalEmbedder[Any] = VarEmbed(**dict(words or {}))
        self.figures: list[dict[str, Any]] = []
        self.fitted_on: dict[str, Any] = {}
        self._map: Float32 | None = None

    # -- fitting -----------------------------------------------------------------------------------

    def fit(self, corpus: Corpus) -> Self:
        """Fits both models to a corpus, and the map between them.

        Raises what their ``fit`` does, and ConfigurationError for a text with too few words.
        """
        return self._adopt(self.lds.fit(corpus), self.words.fit(corpus))

    @classmethod
    def join(cls, lds: LDS, words: MorphologicalEmbedder[Any]) -> Self:
        """Of two fitted models, on whatever texts; only the map between them is learned.

        Raises ConfigurationError if they share too few words, NotFittedError if one is not fitted.
        """
        model = cls()
        return model._adopt(lds, words)

    def _adopt(self, lds: LDS, words: MorphologicalEmbedder[Any]) -> Self:
        self.lds, self.words = lds, words
        self._map = _learned(lds, words)
        self.fitted_on = {"lds": dict(lds.fitted_on), "words": dict(words.fitted_on)}
        return self

    def _fitted(self) -> Float32:
        if self._map is None:
            raise NotFittedError(
                "this MorphologicalLDS is not fitted: call fit(corpus), join two fitted models with "
                "MorphologicalLDS.join, or load one with tacenda.load"
            )
        return self._map

    # -- vectors -----------------------------------------------------------------------------------

    @property
    def vocabulary(self) -> Vocabulary:
        """The words that the LDS has seen. Raises NotFittedError."""
        self._fitted()
        return self.lds.vocabulary

    @property
    def width(self) -> int:
        """Columns of ``transform``'s arrays; known before fitting."""
        return self.lds.width

    def rows(self, words: Sequence[str]) -> Float32:
        """Input rows of words as if they had not been seen, (words, states), on the scale of the LDS's."""
        W, lds = self._fitted(), self.lds
        stand_ins = lds.input_rows[_stand_ins(lds.vocabulary, words)]
        return _predicted(W, stand_ins, self.words.vectors(words, prior=False))

    def transform(
        self, sentences: Iterable[Sequence[str]], *, output: str | None = None
    ) -> list[Float32]:
        """Vectors of every token of every sentence, as `LDS.transform`.

        Raises NotFittedError, ConfigurationError if ``output`` is unknown.
        """
        vocabulary = self.vocabulary
        special = reserved(vocabulary.oov)
        texts = [list(sentence) for sentence in sentences]
        unseen = dict.fromkeys(
            word
            for text in texts
            for word in text
            if word not in vocabulary and word not in special
        )
        new = {word: len(vocabulary) + i for i, word in enumerate(unseen)}
        ids = [
            np.array([new[w] if w in new else vocabulary.id_of(w) for w in text], np.int64)
            for text in texts
        ]
        return self.lds.transform_extended(ids, self.rows(list(unseen)), output=output)

    # -- artefact ----------------------------------------------------------------------------------

    def config_dict(self) -> dict[str, Any]:
        """Nothing: the settings are those of the two models, which are saved inside."""
        return {}

    def nested(self) -> Mapping[str, Saveable]:
        """The two models."""
        self._fitted()
        return {"lds": self.lds, "words": self.words}

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The map. Raises NotFittedError."""
        return {"map": self._fitted()}

    @classmethod
    def from_arrays(
        cls,
        config: dict[str, Any],
        arrays: dict[str, npt.NDArray[Any]],
        nested: Mapping[str, Any] | None = None,
    ) -> Self:
        """The model of an artefact. Raises ArtifactError."""
        lds, words = (nested or {}).get("lds"), (nested or {}).get("words")
        if not isinstance(lds, LDS) or not isinstance(words, VarEmbed | SumEmbed):
            raise ArtifactError(
                "it does not hold an LDS and a model of word vectors: it is damaged"
            )
        model = cls()
        model.lds, model.words = lds, words
        states = lds.config.n_states
        shape = (1 + states + words.width, states)
        model._map = require(arrays, "map", shape=shape, dtype=np.float32, finite=True)
        return model


def _stand_ins(vocabulary: Vocabulary, words: Sequence[str]) -> npt.NDArray[np.int64]:
    """The types that would stand for words if they had none of their own, (words,)."""
    found = np.full(len(words), vocabulary.unknown_id, np.int64)
    if vocabulary.oov == "single":
        return found
    for i, word in enumerate(words):
        name: str | None = class_of(vocabulary.normalization(word), vocabulary.normalization)
        while name is not None and name not in vocabulary:
            name = coarser_class(name)
        if name is not None:
            found[i] = vocabulary.id_of(name)
    return found


def _features(stand_ins: Float32, vectors: Float32) -> Float32:
    """(words, 1 + states + width): one, the direction of the stand-in's row, the word's vector."""
    ones = np.ones((len(vectors), 1), np.float32)
    return np.concatenate([ones, _directions(stand_ins), vectors], axis=1)


def _directions(rows: Float32) -> Float32:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.maximum(norms, np.float32(1e-12)), np.float32)


def _predicted(W: Float32, stand_ins: Float32, vectors: Float32) -> Float32:
    """Rows in the predicted directions, as long as those of the types that stand for the words."""
    lengths = np.linalg.norm(stand_ins, axis=1, keepdims=True)
    found = _directions(_features(stand_ins, vectors) @ W) * lengths
    return np.ascontiguousarray(found, np.float32)


def _learned(lds: LDS, words: MorphologicalEmbedder[Any]) -> Float32:
    """Ridge regression of the directions of the LDS's rows, (1 + states + width, states).

    Learned on words all of whose morphemes other words have too: what is known of another word's morphemes
    was fitted to that very word, and would be trusted too much.
    """
    vocabulary, inventory = lds.vocabulary, words.inventory
    special = reserved(vocabulary.oov)
    shared = inventory.type_counts() > 1
    rows, chosen = [], []
    for i, word in enumerate(vocabulary.words):
        if word not in special:
            found = inventory.morphemes(word)
            if not found.n_unknown and len(found.ids) and shared[found.ids].all():
                rows.append(i)
                chosen.append(word)
    if len(chosen) < _FEWEST:
        raise ConfigurationError(
            f"only {len(chosen)} words of the LDS are made of morphemes that other words have too: the map "
            f"from morphemes to the LDS needs {_FEWEST}; fit both on more text"
        )
    stand_ins = lds.input_rows[_stand_ins(vocabulary, chosen)]
    X = _features(stand_ins, words.vectors(chosen, prior=True)).astype(np.float64)
    Y = _directions(lds.input_rows[rows]).astype(np.float64)
    gram = X.T @ X
    gram += _RIDGE * np.trace(gram) / len(gram) * np.eye(len(gram))
    return np.asarray(np.linalg.solve(gram, X.T @ Y), np.float32)
