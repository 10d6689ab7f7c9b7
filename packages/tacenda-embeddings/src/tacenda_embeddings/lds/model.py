"""`LDS`: context-dependent token vectors from a linear dynamical system (Belanger and Kakade, ICML 2015).

    x_t = A x_{t-1} + eta_t,   w_t = C x_t + epsilon_t        (eqs 1-2)

where w_t is the centered and whitened indicator of the word at t. Fitting reads the text once, as lagged
co-occurrence counts; the vector of a token is made of the smoothed mean of its state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from types import MappingProxyType
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from tacenda import devices
from tacenda.array_ops import to_numpy
from tacenda.arrays import Array, Arrays, Float32, Float64, named, positive
from tacenda.corpus import Corpus, Text, as_corpus
from tacenda.errors import ArtifactError, ConfigurationError, DataError
from tacenda.estimator import Estimator
from tacenda.forks import cached_property
from tacenda.offsets import check_offsets
from tacenda.settings import configured_by
from tacenda.vocabulary import Vocabulary
from tacenda_embeddings.lds import learning
from tacenda_embeddings.lds.lagged_counts import LaggedCounts
from tacenda_embeddings.lds.settings import N_LAGS, OUTPUTS, Ends, LDSSettings, Output
from tacenda_embeddings.lds.smoother import (
    OPERATIONS,
    POSTERIOR_MEANS,
    WIDTHS,
    Destination,
    DiagonalNoise,
    FullNoise,
    Integers,
    Matrix,
    Parameters,
    Recipe,
    Smoother,
    TransitionPair,
    TwoSided,
    Vector,
    spectral_radius,
    transition_pairs,
    two_sided,
)

Ids = npt.NDArray[np.integer[Any]]
Float32Array = npt.NDArray[np.float32]
_LESS = "fewer tokens at a time (batch_tokens in spaCy)"


class _Compact(Arrays):
    """Arrays that the table of inputs follows from, in the compact form: see `LDS.compact_arrays`."""

    C: Float32[Array, "types states"]
    mean: Float64[Array, "types"]
    reading: Float64[Array, "states states"]
    d: Float64[Array, "types", named("noise.d")] | None = None
    scale: Float64[Array, "types"] | None = None  # 1 / m unless it is there


class FittedLDS(Arrays):
    """Parameters (whitened coordinates) and smoother (whitened output coordinates) of a fitted model."""

    spherical: bool  # whether a diagonal noise is one number for all words
    A: Float64[Array, "states states"]
    C: Float32[Array, "types states"]
    Q: Float64[Array, "states states"]
    Xi: Float64[Array, "states states"]  # second moment of the smoothed means
    scale: Float64[Array, "types", positive]  # the diagonal of the whitening W
    mean: Float64[Array, "types"]  # m = mu^{1/2}
    # the matrices of `TwoSided`
    table: Float32[Array, "types states"]
    forward: Float64[Array, "states states"]
    backward: Float64[Array, "states states"]
    left_end: Float64[Array, "states states"]
    right_end: Float64[Array, "states states"]
    filter: Float64[Array, "states states"]
    N: Float64[Array, "states states", named("noise.N")] | None = None  # of `FullNoise`
    d: Float64[Array, "types", named("noise.d")] | None = None  # of `DiagonalNoise`

    @classmethod
    def of_fit(cls, found: learning.Fit) -> Self:
        """Return the state that a fit found, with its smoother."""
        A, C, Q, noise = found.parameters
        smoother = two_sided(found.parameters, found.scale, found.mean, found.Xi)._asdict()
        smoother["table"] = np.ascontiguousarray(smoother["table"], np.float32)
        fixed = {"Xi": found.Xi, "scale": found.scale, "mean": found.mean, **smoother}
        kind = {name: getattr(noise, name, None) for name in ("N", "d")}
        return cls(getattr(noise, "spherical", False), A, C, Q, **fixed, **kind)

    @property
    def parameters(self) -> Parameters:
        """The parameters of the system."""
        diagonal = self.d is not None and DiagonalNoise(self.d, self.mean, self.spherical)
        return Parameters(self.A, self.C, self.Q, diagonal or FullNoise(np.asarray(self.N)))

    @property
    def inference(self) -> TwoSided:
        """The matrices of the two-sided smoother."""
        return TwoSided(*(getattr(self, name) for name in TwoSided._fields))

    @cached_property
    def reading(self) -> Matrix:
        """The matrix (states, states) that makes the table of inputs from D^{-1} C, of which it is linear."""
        X = _inputs(self.C, self.d, self.scale, self.mean)
        return np.asarray(np.linalg.solve(X.T @ X, X.T @ self.table).T)


def _inputs(C: Float32Array, d: Vector | None, scale: Vector, mean: Vector) -> Matrix:
    """Return (types, states) D^{-1} C of every word's centered indicator, or C where the noise is full."""
    scaled = C.astype(np.float64) if d is None else C.astype(np.float64) / d[:, None]
    return scaled * scale[:, None] - mean @ scaled


class LDS(Estimator):
    """Token embeddings of a linear dynamical system fitted to raw text.

    Examples
    --------
    >>> model = LDS(n_states=200).fit(corpus)
    >>> [vectors] = model.transform([["The", "bank", "of", "the", "river"]])
    >>> vectors.shape
    (5, 600)
    """

    kind: ClassVar[str] = "embedders"
    name: ClassVar[str] = "lds"
    distribution: ClassVar[str] = "tacenda-embeddings"
    api_version: ClassVar[int] = 1
    roundable: ClassVar[tuple[str, ...]] = ("C",)
    takes_tensors: ClassVar[bool] = True  # `transform_into` writes into tensors too
    indexes: ClassVar[Mapping[str, type[Any]]] = MappingProxyType({"vocabulary": Vocabulary})
    settings: LDSSettings
    learned: FittedLDS | None

    @configured_by(LDSSettings)
    def __init__(self, settings: LDSSettings) -> None:
        super().__init__(settings)
        self.history: list[learning.Step] = []
        self._vocabulary: Vocabulary | None = None
        self._smoothers: dict[tuple[float, str], Smoother] = {}  # by power of row norms and device

    # -- fitting -----------------------------------------------------------------------------------

    def fit(self, text: Text | LaggedCounts) -> Self:
        """Fit the model to a text, or to counts of one.

        Parameters
        ----------
        text
            A `Corpus`, the `Path` of a file with a sentence per line, a string, token lists, or
            `LaggedCounts` with at least 7 lags.

        Raises
        ------
        CorpusError
            The text has too few word types for ``n_states``, the counts have too few lags, or no stable
            system fits them.
        """
        counts = self._count(text, None)
        return self._adopt(learning.fit(self.settings, counts), counts)

    def partial_fit(self, text: Text | LaggedCounts, iterations: int = 3) -> Self:
        """Continue from the fitted parameters after text was added: EM iterations only, no SVD.

        Parameters
        ----------
        text
            Counts of the old and the new text together (``old + new``), or a text that holds both; in
            the vocabulary of this model.
        iterations
            EM iterations over the whole vocabulary.

        Raises
        ------
        NotFittedError
            The model was not fitted or loaded.
        CorpusError
            The vocabulary differs, or `fit` would refuse the text.
        """
        state, vocabulary = self._learned(self.learned), self.vocabulary
        if isinstance(text, Corpus | LaggedCounts):
            vocabulary.require_same(text.vocabulary, "the added text")
        counts = self._count(text, vocabulary)
        found = learning.partial_fit(
            self.settings, counts, state.parameters, state.scale, iterations
        )
        return self._adopt(found, counts)

    def _count(self, text: Text | LaggedCounts, vocabulary: Vocabulary | None) -> LaggedCounts:
        if isinstance(text, LaggedCounts):
            return text
        corpus = as_corpus(text, vocabulary)
        return LaggedCounts.from_corpus(corpus, n_lags=N_LAGS, threads=self.settings.n_threads)

    def _adopt(self, found: learning.Fit, counts: LaggedCounts) -> Self:
        self.learned, self.history = FittedLDS.of_fit(found), found.history
        self._vocabulary = counts.vocabulary
        self.fitted_on = {"n_tokens": int(counts.n_tokens), "n_types": len(counts.vocabulary)}
        told = {"sources", "tokenizer", "min_count", "max_vocabulary"}
        origin = told & counts.fitted_on.keys()
        self.fitted_on |= {name: counts.fitted_on[name] for name in sorted(origin)}
        self.figures = [
            {
                "measure": "log-likelihood gain over no dynamics, nats per token",
                "value": self.history[-1].likelihood_gain,
                "protocol": "ASOS, training text",
            }
        ]
        self._smoothers.clear()
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Leave out caches: a copy may have other settings, and an unpickled model may lack the device they are on."""
        return {**self.__dict__, "_smoothers": {}}

    def with_output(
        self,
        output: Output,
        *,
        own_weight: float | None = None,
        row_norm_power: float | None = None,
        ends: Ends | None = None,
    ) -> Self:
        """Return this fitted model with a different output, sharing its parameters without a copy.

        Options that are None keep their values. Raises ConfigurationError for a value out of bounds.
        """
        given = {"row_norm_power": row_norm_power, "ends": ends}
        changes: dict[str, Any] = {name: v for name, v in given.items() if v is not None}
        advanced = replace(self.settings.advanced, **changes)
        weight = self.settings.own_weight if own_weight is None else own_weight
        other = copy(self)
        other.settings = replace(self.settings, output=output, own_weight=weight, advanced=advanced)
        return other

    # -- vectors -----------------------------------------------------------------------------------

    @property
    def vocabulary(self) -> Vocabulary:
        """The word types that the model knows. Raises NotFittedError."""
        return self._learned(self._vocabulary)

    def knows(self, word: str) -> bool:
        """Return whether a word has its own row; other words share the rows of classes. Raises NotFittedError."""
        return word in self.vocabulary

    @property
    def width(self) -> int:
        """The number of columns that `transform` returns, known before fitting."""
        return self.settings.n_states * WIDTHS[self.settings.output]

    def transform(
        self, sentences: Iterable[Sequence[str]], *, output: str | None = None
    ) -> list[Float32Array]:
        """Return the vectors of every token of every sentence, one float32 array (tokens, width) per sentence.

        Parameters
        ----------
        sentences
            Token lists; an empty one gives an array of shape (0, width).
        output
            The output to use instead of ``settings.output``.

        Raises
        ------
        NotFittedError
            The model was not fitted or loaded.
        ConfigurationError
            ``output`` is unknown.
        """
        encode = self.vocabulary.encode
        return self.transform_ids([encode(sentence) for sentence in sentences], output=output)

    def transform_ids(
        self, sentences: Sequence[Ids], *, output: str | None = None
    ) -> list[Float32Array]:
        """Return the same vectors as `transform`, from one array of word ids (tokens,) per sentence.

        Raises DataError for an id that is not in the vocabulary.
        """
        arrays = self._empty(sentences, output)
        self.transform_into(*_pack(sentences), arrays, output=output)
        return arrays

    def transform_into(
        self, ids: Ids, offsets: Ids, arrays: Destination, *, output: str | None = None
    ) -> None:
        """Write the vectors of packed sequences into one array for each, or one for all.

        Parameters
        ----------
        ids
            (tokens,) word ids of ``vocabulary``.
        offsets
            (sequences + 1,) where each sequence begins, and the end.
        arrays
            For each sequence a float32 array (tokens, width), which may be a view of a larger one; or one such array
            for all tokens, which is much faster on a device. They may be torch tensors on a CUDA device: the
            vectors are then computed there, whatever ``settings.device`` is.
        output
            As in `transform`.

        Raises
        ------
        DataError
            An id is not in the vocabulary, or the offsets do not fit.
        FittingError
            The device has too little memory.
        """
        first = arrays if hasattr(arrays, "shape") else next(iter(arrays), None)
        if first is None or isinstance(first, np.ndarray):
            device = devices.resolve(self.settings, OPERATIONS)
        else:
            device = str(first.device)
            if device == "cpu":  # as NumPy arrays over the same memory
                arrays = to_numpy(first) if first is arrays else list(map(to_numpy, arrays))
        with devices.out_of_memory(self.settings, _LESS):
            recipe, smoother = self._prepare(output, device)
            words = _check_ids(ids, offsets, len(smoother.table))
            smoother.write(recipe, words, np.asarray(offsets, np.int64), arrays)

    def transform_extended(
        self, sentences: Sequence[Ids], rows: Float32Array, *, output: str | None = None
    ) -> list[Float32Array]:
        """Return what `transform_ids` does, with more words than the vocabulary has.

        Ids past the vocabulary's stand for ``rows`` (words, states) float32, in order: the inputs K' w of these
        words, on the scale of ``input_rows``. Raises DataError for an id that is neither of the vocabulary nor of
        ``rows``. Such words are smoothed on the CPU, wherever the others are.
        """
        (recipe, smoother), n_types = self._prepare(output, "cpu"), len(self.vocabulary)
        ids, offsets = _pack(sentences)
        _check_ids(ids, offsets, n_types + len(rows))
        used, local = np.unique(ids, return_inverse=True)
        known = used[used < n_types]
        arrays = self._empty(sentences, output)
        extended = smoother.over(known, rows[used[len(known) :] - n_types])
        extended.write(recipe, local, offsets, arrays)
        return arrays

    @property
    def input_rows(self) -> Float32Array:
        """K' w of every word of the vocabulary (types, states): what reading the word adds to the state."""
        rows: Float32Array = self._learned(self.learned).table
        return rows

    def _prepare(self, output: str | None, device: str) -> tuple[Recipe, Smoother]:
        """Return which vectors to make, and what makes them. Raises NotFittedError, and ConfigurationError."""
        settings = self.settings
        output = settings.output if output is None else output
        if output not in WIDTHS:
            raise ConfigurationError(
                f"LDS: output must be one of {', '.join(OUTPUTS)}, not {output!r}"
            )
        power = 0.0 if output in POSTERIOR_MEANS else settings.advanced.row_norm_power
        smoother = self._smoothers.get((power, device))
        if smoother is None:
            smoother = Smoother(self._learned(self.learned).inference, device, power)
            self._smoothers[power, device] = smoother
        return Recipe(output, settings.own_weight, settings.advanced.ends == "exact"), smoother

    def _empty(self, sentences: Sequence[Ids], output: str | None) -> list[Float32Array]:
        """Return arrays to write vectors into; of no width for an unknown output, which `_prepare` refuses."""
        width = self.settings.n_states * WIDTHS.get(output or self.settings.output, 0)
        return [np.empty((len(sentence), width), np.float32) for sentence in sentences]

    # -- what the model learned --------------------------------------------------------------------

    @property
    def likelihood_gain(self) -> float:
        """The log-likelihood of the fitted text, minus the log-likelihood without dynamics, in nats per token."""
        self._learned(self.learned)
        return float(self.figures[0]["value"])

    def transition_pairs(
        self, n_pairs: int = 10, n_words: int = 8, min_count: int = 50
    ) -> list[TransitionPair]:
        """Return word groups that the transition operator turns into each other (paper, Table 1).

        There are ``n_pairs`` pairs of singular vectors, counting both signs, and ``n_words`` words a side; words
        rarer than ``min_count`` are not shown.
        """
        state, vocabulary = self._learned(self.learned), self.vocabulary
        shown = np.ones(len(vocabulary), bool)
        shown[[vocabulary.boundary_id, *vocabulary.oov_ids]] = False
        most = vocabulary.counts[shown].max(initial=0)
        shown &= vocabulary.counts >= min(min_count, most)
        return transition_pairs(state.parameters, vocabulary.words, shown, n_pairs, n_words)

    # -- artifact ----------------------------------------------------------------------------------

    def compact_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays with `FittedLDS.reading` for the table, and without a scale that is 1 / m."""
        arrays, state = self.arrays(), self._learned(self.learned)
        arrays["reading"] = np.ascontiguousarray(state.reading)
        del arrays["table"]
        if np.allclose(state.scale * state.mean, 1.0):
            del arrays["scale"]
        return arrays

    def _read_arrays(self, config: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> None:
        noise = self.settings.advanced.noise
        n_types = len(arrays["vocabulary.counts"])  # which are checked already
        sizes: dict[str, Any] = {"states": self.settings.n_states, "types": n_types}
        reading = None
        if "reading" in arrays:  # the compact form
            held = _Compact.from_arrays(arrays, **sizes)
            mean, reading, scale = held.mean, held.reading, held.scale
            if scale is None:
                scale = 1 / np.where(mean > 0, mean, np.nan)
            table = (_inputs(held.C, held.d, scale, mean) @ reading.T).astype(np.float32)
            arrays = {**arrays, "table": table, "scale": scale}
        state = FittedLDS.from_arrays(arrays, spherical=noise == "spherical", **sizes)
        wanted, other = ("N", "d") if noise == "full" else ("d", "N")
        if getattr(state, wanted) is None or getattr(state, other) is not None:
            raise ArtifactError(
                f"noise={noise!r} goes with the array noise.{wanted} alone: the file is damaged"
            )
        for name in ("A", "forward", "backward"):
            if spectral_radius(getattr(state, name)) >= 1.0:
                raise ArtifactError(
                    f"the recursion {name!r} is not stable (an eigenvalue of 1 or more): the file is damaged"
                )
        if reading is not None:
            state.__dict__["reading"] = reading  # as saved, so that it is saved again bit for bit
        self.learned = state


def _pack(sentences: Sequence[Ids]) -> tuple[Integers, Integers]:
    """Return the ids of all sentences in one array (tokens,), and where each begins (sentences + 1,)."""
    offsets = np.zeros(len(sentences) + 1, np.int64)
    np.cumsum([len(sentence) for sentence in sentences], out=offsets[1:])
    ids = np.concatenate(sentences) if len(sentences) else np.empty(0)
    return ids.astype(np.int64), offsets


def _check_ids(ids: Ids, offsets: Ids, n_types: int) -> Integers:
    """Return the ids as int64. Raises DataError unless the offsets cut them and they are in the vocabulary."""
    words = np.asarray(ids, np.int64)
    if words.ndim != 1:
        raise DataError(f"ids must be (tokens,), not {words.shape}")
    check_offsets(offsets, len(words))
    if len(words) and (words.min() < 0 or words.max() >= n_types):
        strange = words.min() if words.min() < 0 else words.max()
        raise DataError(
            f"there is no word id {strange} in a vocabulary of {n_types} types; "
            "encode the text with the vocabulary of this model"
        )
    return words
