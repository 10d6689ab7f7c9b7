"""`VarEmbed`: word vectors with a morphological prior (Bhatia, Guthrie and Eisenstein, EMNLP 2016).

    b_w ~ Bernoulli(sigma(sum of u_m over the morphemes m of w))     (eq 1)
    x_{t+1} ~ softmax(V h_t),   h_t = LSTM(b_{x_t}, h_{t-1})          (eqs 6-7)

Binary word vectors b are latent. Their posterior is approximated by independent Bernoullis, whose logits are the word
vectors. Rare words stay near their prior, and an unseen word has the logits of its prior.

`SumEmbed` adds the vectors of morphemes, as the baseline of the paper does, but learns them from counts and without a
network. Both are static embedders: they have a vector for any word with at least one known morpheme, the same in every
context.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from itertools import compress, pairwise
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Generic, Self, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from tacenda import reading, store
from tacenda.arrays import Array, Arrays, Bool, Float32, named
from tacenda.corpus import Corpus, Text, as_corpus
from tacenda.errors import ConfigurationError, DataError, PluginUnavailableError, importing
from tacenda.estimator import Estimator
from tacenda.fitting import Resume
from tacenda.forks import cached_property
from tacenda.settings import configured_by
from tacenda.vocabulary import Vocabulary, token_list
from tacenda_embeddings.settings import (
    WORD_OUTPUTS,
    SumEmbedSettings,
    VarEmbedSettings,
    WordOutput,
    WordVectorSettings,
)
from tacenda_embeddings.varembed.initial_vectors import Factorization, WordVectors, find_vectors
from tacenda_embeddings.varembed.morphemes import Inventory
from tacenda_embeddings.varembed.segmenters import SEGMENTERS

Vectors = npt.NDArray[np.float32]
Floats = npt.NDArray[np.floating[Any]]
S = TypeVar("S", bound=WordVectorSettings)

_WINDOW, _LENGTH_POWER = 5, 1.0  # of the `Factorization` of a `SumEmbed`
_CACHED_WORDS = 20_000  # unseen words whose vectors are cached; some 15 MB
_LINES_PER_WRITE = 4096


class FittedWords(Arrays):
    """The vectors of words and morphemes; immutable except for its caches."""

    inventory: Annotated[Inventory, named("")]
    # logits of the posterior (VarEmbed) or whole vectors (SumEmbed)
    words: Float32[Array, "types width"]
    morphemes: Float32[Array, "morphemes width"]  # the base first, zeros if the model has none
    # whether the training text has the word; if not, it counts as unseen
    trained: Bool[Array, "types"]

    @cached_property
    def prior(self) -> Vectors:
        """The sums of the morphemes of every word of the vocabulary, (types, width)."""
        return self.inventory.sum(self.morphemes)

    @cached_property
    def unknown(self) -> Vectors:
        """The vector (width,) of an unseen morpheme, the mean of the morphemes that only one word has."""
        rare = np.flatnonzero(self.inventory.type_counts() == 1)
        rare = rare[rare > 0]
        if not len(rare):
            return np.zeros(self.morphemes.shape[1], np.float32)
        return np.asarray(self.morphemes[rare].mean(0, dtype=np.float64), np.float32)

    @cached_property
    def _is_class(self) -> npt.NDArray[np.bool_]:
        """Which types (types,) stand for words without a type of their own."""
        return np.isin(np.arange(len(self.words)), self.inventory.vocabulary.oov_ids)

    @cached_property
    def _cached_vectors(self) -> dict[str, Vectors]:
        return {}

    def look_up(self, words: Sequence[str], prior: bool) -> Vectors:
        """Return the fitted vectors of words (words, width); with ``prior``, the sums of the morphemes of all words."""
        vectors = np.empty((len(words), self.words.shape[1]), np.float32)
        rows = self._find_rows(words)
        seen = rows >= 0
        vectors[seen] = (self.prior if prior else self.words)[rows[seen]]
        vectors[~seen] = self._impute([*compress(words, ~seen)])
        return vectors

    def knows(self, word: str) -> bool:
        """Return whether a word was trained, or has a morpheme that was."""
        return bool(self._find_rows([word])[0] >= 0 or self._impute([word]).any())

    def _find_rows(self, words: Sequence[str]) -> npt.NDArray[np.int32]:
        """Return the rows (words,) of words that were trained, or -1. Raises CorpusError if one is not a string."""
        vocabulary, cached = self.inventory.vocabulary, self._cached_vectors
        rows = vocabulary.encode(words)
        # a word without a type of its own has the id of its class
        for i in self._is_class[rows].nonzero()[0].tolist():
            if words[i] in cached or words[i] not in vocabulary:
                rows[i] = -1
        rows[~self.trained[rows]] = -1
        return rows

    def _impute(self, words: Sequence[str]) -> Vectors:
        """Return the vectors of unseen words (words, width), the sums of their morphemes; zeros if none is known."""
        cached = self._cached_vectors
        found: dict[str, Any] = {word: cached.get(word) for word in words}
        new = [word for word, vector in found.items() if vector is None]
        if new:
            counts, n_unknown = self.inventory.morphemes(new)
            vectors = counts @ self.morphemes + np.outer(np.float32(n_unknown), self.unknown)
            vectors[counts @ self.inventory.means_something == 0] = 0
            found.update(zip(new, vectors, strict=True))
            if len(cached) + len(new) > _CACHED_WORDS:
                cached.clear()
            cached.update((word, found[word]) for word in new[:_CACHED_WORDS])
        rows = np.array([found[word] for word in words], np.float32)
        return rows.reshape(-1, self.words.shape[1])


class MorphologicalEmbedder(Estimator, Generic[S]):
    """Base of `VarEmbed` and `SumEmbed`."""

    kind: ClassVar[str] = "embedders"
    distribution: ClassVar[str] = "tacenda-embeddings"
    api_version: ClassVar[int] = 1
    roundable: ClassVar[tuple[str, ...]] = ("words", "morphemes")
    indexes: ClassVar[Mapping[str, type[Any]]] = MappingProxyType({"vocabulary": Vocabulary})
    settings: S
    learned: FittedWords | None
    _vocabulary: Vocabulary

    def _finish(
        self, found: WordVectors, corpus: Corpus, figure: dict[str, Any], **more: Any
    ) -> Self:
        """Set the vectors that were learned from a corpus, and record facts about the corpus."""
        trained = corpus.type_counts > 0
        self.learned = FittedWords(found.inventory, found.words, found.morphemes, trained)
        self._vocabulary = corpus.vocabulary
        self.fitted_on = {
            "n_tokens": int(corpus.n_tokens),
            "n_types": len(corpus.vocabulary),
            "n_morphemes": len(self.inventory),
            **more,
            **{name: fact for name, fact in corpus.origin.items() if fact},
        }
        self.figures = [figure]
        return self

    # -- vectors -----------------------------------------------------------------------------------

    @property
    def vocabulary(self) -> Vocabulary:
        """The word types that have their own vectors. Raises NotFittedError."""
        return self.inventory.vocabulary

    @property
    def inventory(self) -> Inventory:
        """The morphemes of the words, and their segmenter. Raises NotFittedError."""
        return self._learned(self.learned).inventory

    @property
    def width(self) -> int:
        """The number of columns that `transform` returns, known before fitting."""
        return self.settings.width

    def pieces(self, word: str) -> tuple[str, ...]:
        """Return the morphemes of any word. Raises NotFittedError."""
        return self.inventory.pieces([word])[0]

    def knows(self, word: str) -> bool:
        """Return whether a word has a vector, because it or one of its morphemes was seen. Raises NotFittedError."""
        return self._learned(self.learned).knows(word)

    def transform(self, sentences: Iterable[Sequence[str]]) -> list[Vectors]:
        """Return the vectors of every token, one float32 array (tokens, width) for each sentence.

        They do not depend on the sentence. Raises NotFittedError, and CorpusError for a sentence or a token of the
        wrong type.
        """
        texts = [token_list(sentence) for sentence in sentences]
        rows = self.vectors(word for text in texts for word in text)
        bounds = np.cumsum([0, *map(len, texts)]).tolist()
        return [np.array(rows[a:b], np.float32, order="C") for a, b in pairwise(bounds)]

    def vectors(self, words: Iterable[str], *, prior: bool = False) -> Vectors:
        """Return one vector for every word, (words, width) float32. Raises NotFittedError.

        The row of a word without a known morpheme is zeros. With ``prior``, the vectors of words that were seen are
        computed from their morphemes too (the paper's "morphemes only").
        """
        return self._learned(self.learned).look_up(token_list(words), prior)

    def scaled_vectors(self, words: Iterable[str]) -> Vectors:
        """Return `vectors` scaled to a mean square of 1 in every row; rows of zeros stay zeros.

        The bits of frequent words are certain, so their vectors are longer, by a factor of 20 and more. They would
        dominate sums, such as the mean of a document, and trained layers.
        """
        rows = self.vectors(words)
        squares = np.square(rows).mean(axis=1, keepdims=True)
        return np.asarray(rows / np.sqrt(np.where(squares == 0, 1, squares)), np.float32)

    def save_word2vec(
        self, path: str | os.PathLike[str], words: Iterable[str] = (), *, scaled: bool = True
    ) -> int:
        """Write a file in the text format of word2vec, as ``spacy init vectors`` reads it; return the number of words.

        The first line has the numbers of words and of columns; every other line is a word and its numbers. Words that
        contain whitespace, which the format does not allow, and special types are left out.

        Parameters
        ----------
        path
            The file, which appears only when it is complete.
        words
            Words to write in addition to the vocabulary, seen or not. Words that have no vector are left out.
        scaled
            Whether to write `scaled_vectors`, which suit trained layers, or `vectors`.

        Raises
        ------
        DataError
            The file cannot be written.
        """
        vectors = self.scaled_vectors if scaled else self.vectors
        chosen = [
            word
            for word in dict.fromkeys(
                (*self.vocabulary.words, *filter(self.knows, token_list(words)))
            )
            if not self.vocabulary.is_reserved(word) and word.split() == [word]
        ]
        path = reading.path_of(path, DataError)
        with (
            store.replacing(path) as whole,
            whole.open("w", encoding="utf-8", errors="replace") as file,
        ):
            file.write(f"{len(chosen)} {self.width}\n")
            for i in range(0, len(chosen), _LINES_PER_WRITE):
                part = chosen[i : i + _LINES_PER_WRITE]
                for word, row in zip(part, vectors(part).tolist(), strict=True):
                    file.write(f"{word} {' '.join(f'{value:.6g}' for value in row)}\n")
        return len(chosen)

    # -- artifact ----------------------------------------------------------------------------------

    def _read_arrays(self, config: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> None:
        settings, known = self.settings, self._sizes()
        known["segmenter"] = SEGMENTERS[settings.segmenter].from_arrays(arrays)
        known |= {"vocabulary": self._vocabulary, "base": settings.advanced.base}
        self.learned = FittedWords.from_arrays(arrays, **known)


class VarEmbed(MorphologicalEmbedder[VarEmbedSettings]):
    """Word vectors with a morphological prior, for seen and unseen words.

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

    @configured_by(VarEmbedSettings)
    def __init__(self, settings: VarEmbedSettings) -> None:
        super().__init__(settings)

    def fit(
        self,
        text: Text,
        valid: Text | None = None,
        *,
        vectors: Vectors | None = None,
        checkpoints: str | os.PathLike[str] | None = None,
        resume: Resume = "auto",
    ) -> Self:
        """Fit the model to a text.

        Parameters
        ----------
        text
            The training text: a `Corpus`, the `Path` of a file with a sentence per line, a string, or token
            lists. The words of its vocabulary get their own vectors.
        valid
            Held-out text, in the same vocabulary; training stops when it no longer improves, and the best
            parameters are kept.
        vectors
            (types, width) initial word vectors, instead of ``settings.start``. A row of zeros says nothing about its
            word.
        checkpoints
            A folder in which training saves its progress, one folder for each fit. Start an interrupted fit again with
            the same folder, and you get the same model.
        resume
            ``"auto"`` resumes from a checkpoint if there is one, True requires one, False starts again.

        Raises
        ------
        CorpusError
            ``valid`` has another vocabulary.
        ConfigurationError
            A package or a device that an option needs is missing, ``vectors`` have another shape or are not finite, or
            training needs more memory than there is.
        PluginUnavailableError
            Torch is not installed.
        DivergenceError
            The loss is not finite in the first epoch; use a smaller learning rate. In a later epoch, a
            warning is given and the best parameters are kept.
        """
        from tacenda.fitting import FitRun

        need = "fitting VarEmbed needs torch, which using a fitted model does not"
        with importing(need, "tacenda-embeddings[varembed]", error=PluginUnavailableError):
            import torch  # noqa: F401
        from tacenda_embeddings.varembed.training import fit_word_vectors

        corpus = as_corpus(text)
        if isinstance(valid, Corpus):
            corpus.vocabulary.require_same(valid.vocabulary, "the held-out text")
        held_out = None if valid is None else as_corpus(valid, corpus.vocabulary)
        run = FitRun(checkpoints, resume, description="word vectors")
        found, history, figure = fit_word_vectors(self.settings, corpus, held_out, vectors, run)
        return self._finish(found, corpus, figure, training=history.as_dict())

    def with_output(self, output: WordOutput) -> Self:
        """Return this model with a different output, sharing its arrays.

        Raises ConfigurationError if the output is unknown.
        """
        other = copy(self)
        other.settings = replace(self.settings, output=output)
        return other

    def vectors(
        self, words: Iterable[str], *, prior: bool = False, output: WordOutput | None = None
    ) -> Vectors:
        """Return one vector for every word, (words, width) float32, as the base does.

        ``output`` is another output than ``settings.output``; raises ConfigurationError if it is unknown.
        """
        output = self.settings.output if output is None else output
        if output not in WORD_OUTPUTS:
            raise ConfigurationError(
                f"VarEmbed: output must be one of {', '.join(WORD_OUTPUTS)}, not {output!r:.80}"
            )
        logits = super().vectors(words, prior=prior)
        if output == "logits":
            return logits
        base = self._learned(self.learned).morphemes[0]
        vectors = expit(logits) if output == "probabilities" else logits - base
        vectors[~logits.any(axis=1)] = 0  # a word without a vector has none in any output
        return np.asarray(vectors, np.float32)

    def entropy(self, words: Iterable[str], *, prior: bool = False) -> Vectors:
        """Return the entropy of every dimension of the words in bits (words, width), float32, from 0 to 1.

        Their distribution is the posterior; for unseen words, and with ``prior`` for all words, it is the prior. Raises
        NotFittedError.
        """
        return np.asarray(entropy(self.vectors(words, prior=prior, output="logits")), np.float32)

    def divergence(self) -> Vectors:
        """Return the KL divergence of each word from its prior in nats (types,), float32 (eq 22)."""
        state = self._learned(self.learned)
        return np.asarray(divergence(state.words, state.prior).sum(1), np.float32)


class SumEmbed(MorphologicalEmbedder[SumEmbedSettings]):
    """Word vectors from counts, each the sum of the word's own vector and the vectors of its morphemes (eq 24).

    Botha and Blunsom (2014), and the baseline of the paper, train such vectors with a language model. `SumEmbed`
    factorizes co-occurrence counts and finds the vectors of the morphemes by regression, which takes a tenth of the
    time and is better for tagging. The vector of an unseen word is the sum of the vectors of its morphemes.

    Examples
    --------
    >>> model = SumEmbed(width=128).fit(corpus)
    >>> model.vectors(["unbefriended"]).shape
    (1, 128)
    """

    name: ClassVar[str] = "sumembed"

    @configured_by(SumEmbedSettings)
    def __init__(self, settings: SumEmbedSettings) -> None:
        super().__init__(settings)

    def fit(self, text: Text, *, vectors: Vectors | None = None) -> Self:
        """Fit the model to a text, which is read once.

        Parameters
        ----------
        text
            The text: a `Corpus`, the `Path` of a file with a sentence per line, a string, or token lists. The words of
            its vocabulary get their own vectors.
        vectors
            (types, width) vectors from another source, to which the morphemes are fitted instead of to vectors from
            counts. A row of zeros says nothing about its word.

        Raises
        ------
        ConfigurationError
            A package that an option needs is missing, or ``vectors`` do not match the text and the options.
        """
        corpus = as_corpus(text)
        advanced = self.settings.advanced
        options = Factorization(_WINDOW, advanced.start_adjacent, _LENGTH_POWER, advanced.power)
        found = find_vectors(self.settings, corpus, corpus.type_counts, options, vectors)
        sums = found.inventory.sum(found.morphemes)
        unexplained = np.square(found.words - sums).sum(dtype=np.float64)
        total = np.square(found.words).sum(dtype=np.float64)
        figure = {
            "measure": "share of the word vectors that their morphemes explain",
            "value": float(1 - unexplained / max(total, 1e-30)),
            "protocol": "squared lengths, words of the vocabulary",
        }
        return self._finish(found, corpus, figure)


# -- Bernoulli vectors by their logits -----------------------------------------------------------------


def divergence(logits: Floats, prior: Floats) -> Floats:
    """Return KL(q || p) in nats, elementwise, from logits of q and of the prior p.

    Eq 23 of the paper is the negative of this.
    """
    # log(1 + exp(s)) - log(1 + exp(g)) + sigma(g) (g - s)
    kl = np.logaddexp(prior, 0) - np.logaddexp(logits, 0) + expit(logits) * (logits - prior)
    return np.asarray(np.maximum(kl, 0), logits.dtype)


def entropy(logits: Floats) -> Floats:
    """Return the entropy of Bernoulli variables in bits, elementwise, from their logits."""
    nats = np.logaddexp(logits, 0) - expit(logits) * logits
    return np.asarray(np.clip(nats / np.log(2), 0, 1), logits.dtype)
