"""`MorphologicalEmbedder`: what VarEmbed and SumEmbed share: fitting, look-up, the way to disk."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import numpy.typing as npt

from tacenda.artifact import OldConfigured
from tacenda.corpus import Corpus
from tacenda.fitting import Checkpointed
from tacenda.vocabulary import Vocabulary
from tacenda_embeddings.varembed.config import WordVectorConfig
from tacenda_embeddings.varembed.morphemes import Inventory
from tacenda_embeddings.varembed.state import Float32, WordState

__all__ = ["Float32", "MorphologicalEmbedder"]

S = TypeVar("S", bound=WordVectorConfig)


class MorphologicalEmbedder(Checkpointed, OldConfigured[S]):
    """A static embedder: a vector for any string, whatever stands around it."""

    kind: ClassVar[str] = "embedders"
    distribution: ClassVar[str] = "tacenda-embeddings"
    api_version: ClassVar[int] = 1
    _state: WordState | None = None

    # -- fitting -----------------------------------------------------------------------------------

    def fit(
        self, text: Corpus, valid: Corpus | None = None, *, vectors: Float32 | None = None
    ) -> Self:
        """Fits the model to a corpus.

        Parameters
        ----------
        text
            The training text; its vocabulary decides which words have vectors of their own.
        valid
            Held-out text in the same vocabulary; training stops when it gets no better, and the best
            parameters are kept.
        vectors
            (types, width) initial word vectors, in place of ``config.start``.

        Raises
        ------
        CorpusError
            ``valid`` has another vocabulary.
        ConfigurationError
            a package that a setting asks for is missing, or ``vectors`` do not fit.
        PluginUnavailableError
            Torch is not installed.
        DivergenceError
            The loss is no longer a number in the first epoch; a smaller learning rate helps. Later the
            best parameters are kept, with a warning.
        """
        from tacenda_embeddings.varembed.fitting import fit_word_vectors

        found = fit_word_vectors(self.config, text, valid, vectors, self._checkpoints, self._resume)
        self._state = WordState(found.inventory, found.words, found.morphemes, found.trained)
        self.fitted_on = {
            "n_tokens": int(text.n_tokens),
            "n_types": len(text.vocabulary),
            "n_morphemes": len(found.inventory),
            "training": found.history.as_dict(),
        }
        self.figures = found.figures
        return self

    def _fitted(self) -> WordState:
        return self._learned(self._state)

    # -- vectors -----------------------------------------------------------------------------------

    @property
    def vocabulary(self) -> Vocabulary:
        """The word types that have vectors of their own. Raises NotFittedError."""
        return self._fitted().inventory.vocabulary

    @property
    def inventory(self) -> Inventory:
        """The morphemes and how words are cut into them. Raises NotFittedError."""
        return self._fitted().inventory

    @property
    def width(self) -> int:
        """Columns of ``transform``'s arrays; known before fitting."""
        return int(self.config.width)

    def pieces(self, word: str) -> tuple[str, ...]:
        """The morphemes of any word. Raises NotFittedError."""
        return self._fitted().inventory.pieces(word)

    def transform(self, sentences: Iterable[Sequence[str]]) -> list[Float32]:
        """Vectors of every token of every sentence; they do not depend on the sentence.

        Parameters
        ----------
        sentences
            Token lists; an empty one gives an array of shape (0, width).

        Returns
        -------
        One float32 array (tokens, width) per sentence.

        Raises
        ------
        NotFittedError
            The model was not fitted or loaded.
        """
        self._fitted()
        texts = [list(sentence) for sentence in sentences]
        flat = [word for text in texts for word in text]
        rows = self._shown(self._raw(flat, False))
        bounds = np.cumsum([0, *map(len, texts)]).tolist()
        return [np.array(rows[a:b], np.float32, order="C") for a, b in pairwise(bounds)]

    def save_word2vec(
        self, path: str | os.PathLike[str], words: Iterable[str] = (), *, scaled: bool = True
    ) -> int:
        """Writes the text format of word2vec, for ``spacy init vectors`` and others.

        Parameters
        ----------
        path
            The file.
        words
            Words to write beside those of the vocabulary, seen or not.
        scaled
            Write `scaled_vectors`, as trained layers want them; False writes those of `vectors`.

        Returns
        -------
        How many words were written.

        Raises
        ------
        DataError
            The file cannot be written.
        """
        from tacenda_embeddings.varembed.export import save_word2vec

        return save_word2vec(
            path, self.vocabulary, self.scaled_vectors if scaled else self.vectors, words
        )

    def _raw(self, words: Sequence[str], prior: bool) -> Float32:
        return self._fitted().look_up(words, prior)

    def vectors(self, words: Iterable[str], *, prior: bool = False) -> Float32:
        """One vector for every word, (words, width) float32; with ``prior``, of its morphemes alone.

        Raises NotFittedError.
        """
        return self._shown(self._raw(list(words), prior))

    def scaled_vectors(self, words: Iterable[str]) -> Float32:
        """`vectors` brought to one length, a mean square of 1 in every row; zeros stay.

        Frequent words are certain of their bits and therefore long, by a factor of twenty and more. Where vectors are
        added up (the mean of a document) or weighted by a trained layer, they would drown out the others.
        """
        rows = self.vectors(words)
        squares = np.square(rows).mean(axis=1, keepdims=True)
        return np.asarray(rows / np.sqrt(np.where(squares == 0, 1, squares)), np.float32)

    def _shown(self, raw: Float32) -> Float32:
        """What a user sees of the vectors as they are fitted."""
        raise NotImplementedError

    # -- artefact ----------------------------------------------------------------------------------

    def config_dict(self) -> dict[str, Any]:
        """Settings and the vocabulary's, as JSON values."""
        return {"settings": self.config.to_dict(), "vocabulary": self.vocabulary.config_dict()}

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The fitted state. Raises NotFittedError."""
        return self._fitted().arrays()

    @classmethod
    def from_arrays(cls, config: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Self:
        """The model of an artefact, every array checked. Raises ArtifactError."""
        model = cls(cls.settings.from_dict(dict(config["settings"])))
        vocabulary = Vocabulary.from_arrays(config["vocabulary"], arrays)
        model._state = WordState.from_arrays(model.config, vocabulary, arrays)
        return model
