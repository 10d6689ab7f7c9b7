"""`VarEmbed`: word vectors with a morphological prior (Bhatia, Guthrie and Eisenstein, EMNLP 2016).

    b_w ~ Bernoulli(sigma(sum of u_m over the morphemes m of w))     (eq 1)
    x_{t+1} ~ softmax(V h_t),   h_t = LSTM(b_{x_t}, h_{t-1})          (eqs 6-7)

Binary word vectors b are latent. Their posterior is approximated by independent Bernoullis, whose logits are
the word vectors; words that are rare stay near their prior, and a word never seen has its prior's logits.

`SumEmbed` is the baseline of the paper. Both are static embedders: they have a vector for any string,
whatever stands around it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
import numpy.typing as npt

from tacenda import devices
from tacenda.corpus import Corpus, Text, as_corpus
from tacenda.errors import ConfigurationError, PluginUnavailableError
from tacenda.estimator import Estimator
from tacenda.fitting.checkpoint import Resume
from tacenda.settings import configured_by
from tacenda.vocabulary import Vocabulary, token_list
from tacenda_embeddings.varembed.fitted import FittedWords, Float32
from tacenda_embeddings.varembed.morphemes import Inventory
from tacenda_embeddings.varembed.settings import (
    OUTPUTS,
    Output,
    SumEmbedSettings,
    VarEmbedSettings,
    WordVectorSettings,
)
from tacenda_embeddings.varembed.word2vec_file import save_word2vec

__all__ = ["Float32", "MorphologicalEmbedder", "SumEmbed", "VarEmbed"]

Floats = npt.NDArray[np.floating[Any]]
S = TypeVar("S", bound=WordVectorSettings)


class MorphologicalEmbedder(Estimator, Generic[S]):
    """Base of `VarEmbed` and `SumEmbed`."""

    settings: S
    kind: ClassVar[str] = "embedders"
    distribution: ClassVar[str] = "tacenda-embeddings"
    api_version: ClassVar[int] = 1
    roundable: ClassVar[tuple[str, ...]] = ("words", "morphemes")
    _state: FittedWords | None = None

    # -- fitting -----------------------------------------------------------------------------------

    def fit(
        self,
        text: Text,
        valid: Text | None = None,
        *,
        vectors: Float32 | None = None,
        checkpoints: str | os.PathLike[str] | None = None,
        resume: Resume = "auto",
    ) -> Self:
        """Fit the model to a text.

        Parameters
        ----------
        text
            The training text: a `Corpus`, the `Path` of a file with a sentence a line, a string, or token
            lists. Its vocabulary decides which words have vectors of their own.
        valid
            Held-out text, in the same vocabulary; training stops when it gets no better, and the best
            parameters are kept.
        vectors
            (types, width) initial word vectors, in place of ``settings.start``.
        checkpoints
            A folder in which training is saved as it goes, one for each fit. A fit that is killed and
            started again ends in the same model.
        resume
            ``"auto"`` continues from what is in ``checkpoints``, if anything is; True requires it, False
            starts afresh.

        Raises
        ------
        CorpusError
            ``valid`` has another vocabulary.
        ConfigurationError
            A package or a device that an option asks for is missing, ``vectors`` do not fit, or training needs more
            memory than there is.
        PluginUnavailableError
            Torch is not installed.
        DivergenceError
            The loss is no longer a number in the first epoch; a smaller learning rate helps. Later the
            best parameters are kept, with a warning.
        """
        _require_torch()
        from tacenda_embeddings.varembed.learning import fit_word_vectors

        corpus = as_corpus(text)
        if isinstance(valid, Corpus):
            corpus.vocabulary.require_same(valid.vocabulary, "the held-out text")
        held_out = None if valid is None else as_corpus(valid, corpus.vocabulary)
        found = fit_word_vectors(
            self.settings, corpus, held_out, vectors, checkpoints=checkpoints, resume=resume
        )
        self._state = found.state
        self.fitted_on = {
            "n_tokens": int(corpus.n_tokens),
            "n_types": len(corpus.vocabulary),
            "n_morphemes": len(self.inventory),
            "training": found.history.as_dict(),
            **{name: fact for name, fact in corpus.origin.items() if fact},
        }
        self.figures = [found.figure]
        return self

    def _fitted(self) -> FittedWords:
        return self._learned(self._state)

    # -- vectors -----------------------------------------------------------------------------------

    @property
    def vocabulary(self) -> Vocabulary:
        """The word types that have vectors of their own. Raises NotFittedError."""
        return self._fitted().inventory.vocabulary

    @property
    def inventory(self) -> Inventory:
        """The morphemes, and how words are cut into them. Raises NotFittedError."""
        return self._fitted().inventory

    @property
    def width(self) -> int:
        """The number of columns of what `transform` returns; known before fitting."""
        return self.settings.width

    def pieces(self, word: str) -> tuple[str, ...]:
        """Return the morphemes of any word. Raises NotFittedError."""
        return self._fitted().inventory.pieces(word)

    def transform(self, sentences: Iterable[Sequence[str]]) -> list[Float32]:
        """Return the vectors of every token of every sentence; they do not depend on the sentence.

        One float32 array (tokens, width) for each token list. Raises NotFittedError, and CorpusError for a sentence or
        a token of the wrong type.
        """
        texts = [token_list(sentence) for sentence in sentences]
        rows = self.vectors(word for text in texts for word in text)
        bounds = np.cumsum([0, *map(len, texts)]).tolist()
        return [np.array(rows[a:b], np.float32, order="C") for a, b in pairwise(bounds)]

    def vectors(self, words: Iterable[str], *, prior: bool = False) -> Float32:
        """Return one vector for every word, (words, width) float32. Raises NotFittedError.

        With ``prior``, vectors are made from the morphemes even of words that were seen (the paper's "morphemes
        only").
        """
        return self._fitted().look_up(token_list(words), prior)

    def scaled_vectors(self, words: Iterable[str]) -> Float32:
        """Return `vectors` at one length, a mean square of 1 in every row; zeros stay.

        Frequent words are certain of their bits and therefore long, by a factor of twenty and more. Where
        vectors are added up (the mean of a document) or weighted by a trained layer, they would drown out
        the others.
        """
        rows = self.vectors(words)
        squares = np.square(rows).mean(axis=1, keepdims=True)
        return np.asarray(rows / np.sqrt(np.where(squares == 0, 1, squares)), np.float32)

    def save_word2vec(
        self, path: str | os.PathLike[str], words: Iterable[str] = (), *, scaled: bool = True
    ) -> int:
        """Write the text format of word2vec, for ``spacy init vectors`` and others; return how many words.

        Parameters
        ----------
        path
            The file. Raises DataError if it cannot be written.
        words
            Words to write beside those of the vocabulary, seen or not.
        scaled
            Whether to write `scaled_vectors`, as trained layers want them, or `vectors`.
        """
        vectors = self.scaled_vectors if scaled else self.vectors
        return save_word2vec(path, self.vocabulary, vectors, words)

    # -- artefact ----------------------------------------------------------------------------------

    def config_dict(self) -> dict[str, Any]:
        """Return the settings but for the device, and those of the vocabulary, as JSON values."""
        settings = devices.without_device(self.settings)
        return {"settings": settings, "vocabulary": self.vocabulary.config_dict()}

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the fitted state. Raises NotFittedError."""
        return self._fitted().arrays()

    @classmethod
    def from_arrays(cls, config: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Self:
        """Return the model of an artefact, every array checked. Raises ArtifactError."""
        model = cls.from_settings(config["settings"])
        vocabulary = Vocabulary.from_arrays(config["vocabulary"], arrays)
        model._state = FittedWords.from_arrays(model.settings, vocabulary, arrays)
        return model


class VarEmbed(MorphologicalEmbedder[VarEmbedSettings]):
    """Word vectors with a morphological prior, for words seen and unseen.

    Examples
    --------
    >>> model = VarEmbed(width=128).fit(corpus)
    >>> [vectors] = model.transform([["An", "unbefriended", "word"]])
    >>> vectors.shape
    (3, 128)
    >>> model.pieces("unbefriended")
    ('▁un', 'be', 'friend', 'ed')
    """

    name: ClassVar[str] = "varembed"
    settings_class = VarEmbedSettings

    @configured_by(VarEmbedSettings)
    def __init__(self, settings: VarEmbedSettings) -> None:
        super().__init__(settings)

    def with_output(self, output: Output) -> VarEmbed:
        """Return the same fitted model with another output; it copies nothing. Raises ConfigurationError."""
        other = VarEmbed.from_settings(replace(self.settings, output=output))
        other._state, other.figures, other.fitted_on = self._state, self.figures, self.fitted_on
        return other

    def vectors(
        self, words: Iterable[str], *, prior: bool = False, output: Output | None = None
    ) -> Float32:
        """Return one vector for every word, (words, width) float32, as the base does.

        ``output`` is another output than ``settings.output``; raises ConfigurationError if it is unknown.
        """
        output = output or self.settings.output
        if output not in OUTPUTS:
            raise ConfigurationError(
                f"VarEmbed: output must be one of {', '.join(OUTPUTS)}, not {output!r:.80}"
            )
        logits = super().vectors(words, prior=prior)
        if output == "probabilities":
            return np.asarray(sigmoid(logits), np.float32)
        return logits - self._fitted().morphemes[0] if output == "log_odds" else logits

    def entropy(self, words: Iterable[str], *, prior: bool = False) -> Float32:
        """Return the uncertainty about every dimension of the words, in bits: 0 is certain, 1 knows nothing.

        These are the entropies (words, width) float32 of the posterior Bernoullis; of the prior for unseen words,
        and for all words with ``prior``. Raises NotFittedError.
        """
        return np.asarray(entropy(self.vectors(words, prior=prior, output="logits")), np.float32)

    def divergence(self) -> npt.NDArray[np.float32]:
        """Return how far each word of the vocabulary has moved from its prior: KL in nats (types,) (eq 22)."""
        state = self._fitted()
        return np.asarray(divergence(state.words, state.prior).sum(1), np.float32)


class SumEmbed(MorphologicalEmbedder[SumEmbedSettings]):
    """The baseline: the vector of a word is the sum of one of its own and those of its morphemes (eq 24).

    After Botha and Blunsom (2014), with the network of `VarEmbed`. A word never seen has the sum of its
    morphemes.
    """

    name: ClassVar[str] = "sumembed"
    settings_class = SumEmbedSettings

    @configured_by(SumEmbedSettings)
    def __init__(self, settings: SumEmbedSettings) -> None:
        super().__init__(settings)


def _require_torch() -> None:
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise PluginUnavailableError(
            "fitting VarEmbed or SumEmbed needs torch, applying them does not: install it with "
            "pip install 'tacenda-embeddings[varembed]'"
        ) from error


# -- Bernoulli vectors by their logits -----------------------------------------------------------------


def sigmoid(logits: Floats) -> Floats:
    """Return sigma(x) without overflow, in the dtype of its argument."""
    small = np.exp(-np.abs(logits))
    return np.asarray(np.where(logits >= 0, 1, small) / (1 + small), logits.dtype)


def softplus(x: Floats) -> Floats:
    """Return log(1 + exp(x)), in the dtype of its argument."""
    return np.asarray(np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))), x.dtype)


def divergence(logits: Floats, prior: Floats) -> Floats:
    """Return KL(q || p) in nats, elementwise, from logits of q and of the prior p.

    Eq 23 of the paper is the negative of this.
    """
    found = softplus(prior) - softplus(logits) + sigmoid(logits) * (logits - prior)
    return np.asarray(np.maximum(found, 0), logits.dtype)


def entropy(logits: Floats) -> Floats:
    """Return the entropy in bits, elementwise, from 0 (certain) to 1 (nothing known)."""
    nats = softplus(logits) - sigmoid(logits) * logits
    return np.asarray(np.clip(nats / np.log(2), 0, 1), logits.dtype)
