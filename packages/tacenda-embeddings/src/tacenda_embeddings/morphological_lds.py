"""`MorphologicalLDS`: an LDS that uses the morphemes of words outside its vocabulary.

An LDS distinguishes such words only by their class, a shape and a suffix. Here each of them has its own input row,
predicted from its class and from the vector that a word-vector model (`VarEmbed`, `SumEmbed`) makes of its morphemes.
The prediction is a linear map, learned on the words of the LDS's vocabulary as if they were unseen: from their classes
and their morphemes only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from tacenda.arrays import Array, Arrays, Float32
from tacenda.corpus import Text, as_corpus
from tacenda.errors import ArtifactError, ConfigurationError
from tacenda.estimator import NO_PARTS, Estimator, Parts, Saved
from tacenda.settings import Group, Settings, configured_by, group
from tacenda.vocabulary import Vocabulary, token_list
from tacenda_embeddings.lds.model import LDS
from tacenda_embeddings.settings import (
    LDSOutput,
    LDSSettings,
    SumEmbedSettings,
    VarEmbedSettings,
)
from tacenda_embeddings.varembed.model import MorphologicalEmbedder, SumEmbed, VarEmbed

Rows = npt.NDArray[np.float32]

_RIDGE_SHARE = 1e-3  # of the mean square of the features
_MIN_WORDS = 20  # that the map is learned from


@dataclass(frozen=True, kw_only=True)
class MorphologicalLDSSettings(Settings):
    """Options of `MorphologicalLDS`: the options of the two models that `fit` fits."""

    lds: Group[LDSSettings] = group(LDSSettings, "options of the `LDS`")
    words: Group[VarEmbedSettings | SumEmbedSettings] = group(
        VarEmbedSettings,
        "options of the `VarEmbed`; with a `SumEmbedSettings`, `fit` fits a `SumEmbed`",
    )


class DirectionMap(Arrays):
    """The linear map from 1, the direction of the stand-in's row and the word's vector to the direction of a row."""

    map: Float32[Array, "features states"]


class MorphologicalLDS(Estimator):
    """Token vectors in context that use the morphemes of unseen words.

    Examples
    --------
    >>> model = MorphologicalLDS.join(lds, varembed)
    >>> [vectors] = model.transform([["An", "unbefriended", "word"]])
    """

    kind: ClassVar[str] = "embedders"
    name: ClassVar[str] = "morphological_lds"
    distribution: ClassVar[str] = "tacenda-embeddings"
    api_version: ClassVar[int] = 1
    _fit_call = "fit(corpus) or MorphologicalLDS.join(lds, words)"
    settings: MorphologicalLDSSettings
    learned: DirectionMap | None

    @configured_by(MorphologicalLDSSettings)
    def __init__(self, settings: MorphologicalLDSSettings) -> None:
        super().__init__(settings)
        self.lds = LDS.from_settings(settings.lds)
        kind = SumEmbed if isinstance(settings.words, SumEmbedSettings) else VarEmbed
        self.words: MorphologicalEmbedder[Any] = kind.from_settings(settings.words)

    def __repr__(self) -> str:
        fitted = "fitted" if self.is_fitted else "not fitted"
        return f"<MorphologicalLDS(lds={self.lds!r}, words={self.words!r}), {fitted}>"

    # -- fitting -----------------------------------------------------------------------------------

    def fit(self, text: Text) -> Self:
        """Fit both models to a text, and the map between them.

        Raises ConfigurationError for a text of too few words, and the errors of ``fit`` of the two models.
        """
        corpus = as_corpus(text)
        # new models, so that a fit that fails changes nothing, and a refit no model that was joined
        unfitted = self.from_settings(self.settings)
        words: Any = unfitted.words
        return self._adopt(unfitted.lds.fit(corpus), words.fit(corpus))

    @classmethod
    def join(cls, lds: LDS, words: MorphologicalEmbedder[Any]) -> Self:
        """Join two models, which may be fitted to different texts, and learn only the map between them.

        Raises ConfigurationError if the models share too few words or are of other kinds, and NotFittedError if one of
        them is not fitted.
        """
        if not isinstance(lds, LDS) or not isinstance(words, VarEmbed | SumEmbed):
            raise ConfigurationError("join takes an LDS and then a VarEmbed or SumEmbed")
        return cls()._adopt(lds, words)

    def _adopt(self, lds: LDS, words: MorphologicalEmbedder[Any]) -> Self:
        """Set two fitted models, and learn the map between them."""
        self._set_models(lds, words, DirectionMap(_learn_map(lds, words)))
        self.fitted_on = {"lds": dict(lds.fitted_on), "words": dict(words.fitted_on)}
        return self

    def _set_models(
        self, lds: LDS, words: MorphologicalEmbedder[Any], learned: DirectionMap | None
    ) -> Self:
        """Set the two models and the map, and take the settings from the models."""
        self.lds, self.words, self.learned = lds, words, learned
        self.settings = MorphologicalLDSSettings(lds=lds.settings, words=words.settings)
        return self

    def with_output(self, output: LDSOutput) -> Self:
        """Return this fitted model with a different output of its LDS, sharing its arrays.

        Raises ConfigurationError if the output is unknown.
        """
        return copy(self)._set_models(self.lds.with_output(output), self.words, self.learned)

    # -- vectors -----------------------------------------------------------------------------------

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary of the LDS. Raises NotFittedError."""
        self._learned(self.learned)
        return self.lds.vocabulary

    def knows(self, word: str) -> bool:
        """Return whether one of the two models knows a word. Raises NotFittedError."""
        return word in self.vocabulary or self.words.knows(word)

    @property
    def width(self) -> int:
        """The number of columns that `transform` returns, known before fitting."""
        return self.lds.width

    def rows(self, words: Sequence[str]) -> Rows:
        """Predict input rows (words, states) of words as if they were unseen, on the scale of `LDS.input_rows`.

        Their directions are predicted. Each has the length of the row that the LDS uses for the word.
        """
        W, lds = self._learned(self.learned).map, self.lds
        stand_ins = lds.input_rows[_find_stand_ins(lds.vocabulary, words)]
        lengths = np.linalg.norm(stand_ins, axis=1, keepdims=True)
        directions = _normalize_rows(_build_features(stand_ins, self.words.vectors(words)) @ W)
        return np.ascontiguousarray(directions * lengths, np.float32)

    def transform(
        self, sentences: Iterable[Sequence[str]], *, output: str | None = None
    ) -> list[Rows]:
        """Return the vectors of every token of every sentence, as `LDS.transform` does."""
        vocabulary = self.vocabulary
        texts = [token_list(sentence) for sentence in sentences]
        encoded = [vocabulary.encode(text).tolist() for text in texts]
        distinct = dict.fromkeys(word for text in texts for word in text)
        unseen = [w for w in distinct if w not in vocabulary and not vocabulary.is_reserved(w)]
        own = {word: len(vocabulary) + i for i, word in enumerate(unseen)}
        ids = [
            np.array(list(map(own.get, text, row)), np.int64)
            for text, row in zip(texts, encoded, strict=True)
        ]
        return self.lds.transform_extended(ids, self.rows(unseen), output=output)

    # -- artifact ----------------------------------------------------------------------------------

    def config_dict(self) -> dict[str, Any]:
        """Return an empty dictionary: the two nested models have all settings."""
        return {}

    def nested(self) -> Mapping[str, Estimator]:
        self._learned(self.learned)
        return {"lds": self.lds, "words": self.words}

    @classmethod
    def from_arrays(cls, config: dict[str, Any], arrays: Saved, nested: Parts = NO_PARTS) -> Self:
        lds, words = nested.get("lds"), nested.get("words")
        if not isinstance(lds, LDS) or not isinstance(words, VarEmbed | SumEmbed):
            raise ArtifactError("it lacks an LDS or a model of word vectors: it is damaged")
        states = lds.settings.n_states
        sizes: dict[str, Any] = {"features": 1 + states + words.width, "states": states}
        return cls()._set_models(lds, words, DirectionMap.from_arrays(arrays, **sizes))


def _find_stand_ins(vocabulary: Vocabulary, words: Sequence[str]) -> npt.NDArray[np.int64]:
    """Return the ids (words,) of the types that the LDS would use for words if they were unseen."""
    return np.array([vocabulary.id_of(vocabulary.class_of(word)) for word in words], np.int64)


def _build_features(stand_ins: Rows, vectors: Rows) -> Rows:
    """Return features (words, 1 + states + width): one, the direction of the stand-in's row, the word's vector."""
    ones = np.ones((len(vectors), 1), np.float32)
    return np.concatenate([ones, _normalize_rows(stand_ins), vectors], axis=1)


def _normalize_rows(rows: Rows) -> Rows:
    """Return the rows at unit length; rows of zeros stay zeros."""
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.maximum(norms, np.float32(1e-12)), np.float32)


def _learn_map(lds: LDS, words: MorphologicalEmbedder[Any]) -> Rows:
    """Fit a ridge regression of the directions of the LDS's rows, (1 + states + width, states).

    It is learned on words whose morphemes all occur in other words too: a morpheme of a single word was fitted to that
    very word, so the regression would trust it too much.
    """
    vocabulary, inventory = lds.vocabulary, words.inventory
    proper = [word for word in vocabulary.words if not vocabulary.is_reserved(word)]
    counts, n_unknown = inventory.morphemes(proper)
    n_own = counts @ (inventory.type_counts() <= 1) + n_unknown
    chosen = [proper[i] for i in np.flatnonzero((n_own == 0) & (counts.sum(axis=1) > 0))]
    if len(chosen) < _MIN_WORDS:
        raise ConfigurationError(
            f"only {len(chosen)} words of the LDS share their morphemes with other words, and {_MIN_WORDS} are needed "
            "to predict vectors from morphemes: fit both models to more text"
        )
    stand_ins = lds.input_rows[_find_stand_ins(vocabulary, chosen)]
    X = _build_features(stand_ins, words.vectors(chosen, prior=True)).astype(np.float64)
    Y = _normalize_rows(lds.input_rows[vocabulary.encode(chosen)]).astype(np.float64)
    gram = X.T @ X
    gram += _RIDGE_SHARE * np.trace(gram) / len(gram) * np.eye(len(gram))
    return np.asarray(np.linalg.solve(gram, X.T @ Y), np.float32)
