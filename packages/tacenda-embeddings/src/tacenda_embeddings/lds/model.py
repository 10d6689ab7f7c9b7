"""`LDS`: context-dependent token vectors from a linear dynamical system (Belanger and Kakade, ICML 2015).

Fitting reads the text once, to count lagged co-occurrences. The vector of a token is computed from the smoothed mean of
its state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from tacenda import devices
from tacenda.array_ops import to_numpy
from tacenda.arrays import Array, Arrays, Float32, Float64, named, positive
from tacenda.corpus import Corpus, Text, as_corpus
from tacenda.errors import ArtifactError, ConfigurationError, DataError, check_whole
from tacenda.estimator import Estimator
from tacenda.forks import cached_property
from tacenda.offsets import check_offsets
from tacenda.settings import configured_by
from tacenda.vocabulary import Vocabulary
from tacenda_embeddings.lds import (
    DiagonalNoise,
    FullNoise,
    Matrix,
    Parameters,
    Vector,
    learning,
    solve_stationary_covariance,
    symmetric_power,
)
from tacenda_embeddings.lds.em import Fit, Step
from tacenda_embeddings.lds.lagged_counts import TEXT_FACTS, LaggedCounts
from tacenda_embeddings.lds.smoother import (
    OPERATIONS,
    POSTERIOR_MEANS,
    WIDTHS,
    Destination,
    Float32Array,
    Ids,
    Integers,
    Recipe,
    Smoother,
    TwoSided,
    stable,
)
from tacenda_embeddings.settings import LDS_OUTPUTS, Ends, LDSOutput, LDSSettings

_GAIN = "log-likelihood gain over no dynamics, nats per token"


class FittedLDS(TwoSided):
    """The smoother of a fitted model, and its parameters in whitened coordinates."""

    spherical: bool  # whether a diagonal noise has one variance for all words
    A: Float64[Array, "states states", stable]
    C: Float32[Array, "types states"]
    Q: Float64[Array, "states states"]
    Xi: Float64[Array, "states states"]  # second moment of the smoothed means
    scale: Float64[Array, "types", positive]  # the diagonal of the whitening W
    mean: Float64[Array, "types"]  # m = mu^{1/2}
    N: Float64[Array, "states states", named("noise.N")] | None = None  # of `FullNoise`
    d: Float64[Array, "types", named("noise.d")] | None = None  # of `DiagonalNoise`

    @classmethod
    def of_fit(cls, fit: Fit) -> Self:
        """Return the parameters that a fit found, with their smoother."""
        A, C, Q, noise = fit.parameters
        arrays = dict(fit.smoother.items())
        arrays["table"] = np.ascontiguousarray(arrays["table"], np.float32)
        arrays |= {"A": A, "C": C, "Q": Q, "Xi": fit.Xi, "scale": fit.scale, "mean": fit.mean}
        arrays |= {name: getattr(noise, name, None) for name in ("N", "d")}
        return cls(spherical=getattr(noise, "spherical", False), **arrays)

    @property
    def parameters(self) -> Parameters:
        """The parameters of the system."""
        if self.d is None:
            return Parameters(self.A, self.C, self.Q, FullNoise(np.asarray(self.N)))
        noise = DiagonalNoise(self.d, self.mean, self.spherical)
        return Parameters(self.A, self.C, self.Q, noise)

    @cached_property
    def reading(self) -> Matrix:
        """The matrix R (states, states) for which the table of inputs is `_compute_raw_inputs` times R^T."""
        X = _compute_raw_inputs(self.C, self.d, self.scale, self.mean)
        return np.asarray(np.linalg.solve(X.T @ X, X.T @ self.table).T)


class _Compact(Arrays):
    """The arrays of the compact form, in which the table of inputs is left out."""

    C: Float32[Array, "types states"]
    mean: Float64[Array, "types"]
    reading: Float64[Array, "states states"]
    scale: Float64[Array, "types", positive] | None = None  # 1 / m if absent
    d: Float64[Array, "types", named("noise.d")] | None = None


def _compute_raw_inputs(C: Float32Array, d: Vector | None, scale: Vector, mean: Vector) -> Matrix:
    """Return C^T D^{-1} w of the centered and whitened indicator w of every word (types, states).

    D is diag(``d``), or the identity if ``d`` is None.
    """
    scaled = C.astype(np.float64)
    if d is not None:
        scaled /= d[:, None]
    return scaled * scale[:, None] - mean @ scaled


class TransitionPair(NamedTuple):
    """Words of a pair of singular vectors of A, which maps the state of ``before`` to that of ``after``."""

    before: list[str]  # most likely at the right singular vector, most likely first
    after: list[str]  # most likely at the left singular vector, one position later
    singular_value: float  # how much of the state survives the step, at most about 1


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
        self.history: list[Step] = []
        self._vocabulary: Vocabulary | None = None
        self._smoothers: dict[tuple[float, str], Smoother] = {}  # by power of row norms and device

    # -- fitting -----------------------------------------------------------------------------------

    def fit(self, text: Text | LaggedCounts) -> Self:
        """Fit the model to a text, or to its counts.

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
        """Continue from the fitted parameters after text was added, with EM iterations only.

        Parameters
        ----------
        text
            Counts of the old and the new text together (``old + new``), or a text with both; in the vocabulary of this
            model.
        iterations
            EM iterations over the whole vocabulary.

        Raises
        ------
        NotFittedError
            The model was not fitted or loaded.
        ConfigurationError
            ``iterations`` is negative, or no whole number.
        CorpusError
            The vocabulary differs, or `fit` would refuse the text.
        """
        check_whole("iterations", iterations, 0)
        state, vocabulary = self._learned(self.learned), self.vocabulary
        if isinstance(text, Corpus | LaggedCounts):
            vocabulary.require_same(text.vocabulary, "the added text")
        counts = self._count(text, vocabulary)
        fit = learning.partial_fit(self.settings, counts, state.parameters, state.scale, iterations)
        return self._adopt(fit, counts)

    def _count(self, text: Text | LaggedCounts, vocabulary: Vocabulary | None) -> LaggedCounts:
        """Return the counts of a text in a vocabulary, or in its own if None."""
        if isinstance(text, LaggedCounts):
            return text
        corpus = as_corpus(text, vocabulary)
        return LaggedCounts.from_corpus(corpus, threads=self.settings.n_threads)

    def _adopt(self, fit: Fit, counts: LaggedCounts) -> Self:
        """Set what a fit found, and record what it was fitted on."""
        self.learned, self.history = FittedLDS.of_fit(fit), fit.history
        self._vocabulary = counts.vocabulary
        self.fitted_on = {"n_tokens": int(counts.n_tokens), "n_types": len(counts.vocabulary)}
        facts = counts.fitted_on
        self.fitted_on |= {fact: facts[fact] for fact in TEXT_FACTS if fact in facts}
        self.figures = [
            {
                "measure": _GAIN,
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
        output: LDSOutput,
        *,
        own_weight: float | None = None,
        row_norm_power: float | None = None,
        ends: Ends | None = None,
    ) -> Self:
        """Return this model with a different output, sharing its parameters without a copy.

        Options that are None keep their values. Raises ConfigurationError for a value out of bounds.
        """
        options: dict[str, Any] = {"row_norm_power": row_norm_power, "ends": ends}
        given = {name: value for name, value in options.items() if value is not None}
        advanced = replace(self.settings.advanced, **given)
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
        """Return whether a word has its own vector; other words share those of classes. Raises NotFittedError."""
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

        Raises DataError for an id that is not an integer, or not in the vocabulary, and for a single array of ids.
        """
        ids, offsets, arrays = self._pack(sentences, output)
        self.transform_into(ids, offsets, arrays, output=output)
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
            (sequences + 1,) index of the first token of each sequence, and the number of tokens.
        arrays
            For each sequence a float32 array (tokens, width), which may be a view of a larger one; or one such array
            for all tokens, which is much faster on a device. They may be torch tensors on a CUDA device: then the
            vectors are computed there, and ``settings.device`` is not used.
        output
            As in `transform`.

        Raises
        ------
        DataError
            An id is not an integer or not in the vocabulary, or the offsets or the arrays do not fit.
        FittingError
            The device has too little memory.
        """
        is_single = hasattr(arrays, "shape")
        given = [arrays] if is_single else list(arrays)
        kinds = {getattr(array, "dtype", type(array).__name__) for array in given}
        if strange := {*map(str, kinds)} - {"float32", "torch.float32"}:
            raise DataError(f"the vectors are written into float32 arrays, not {min(strange)}")
        first = given[0] if given else None
        if first is None or isinstance(first, np.ndarray):
            device = devices.resolve(self.settings, OPERATIONS)
        else:
            device = str(first.device)
            if device == "cpu":  # use NumPy arrays that share the tensors' memory
                arrays = to_numpy(first) if is_single else list(map(to_numpy, given))
        advice = "fewer tokens at a time (batch_tokens in spaCy)"
        with devices.out_of_memory(self.settings, advice):
            recipe, smoother = self._prepare(output, device)
            words = _check_ids(ids, offsets, len(smoother.table))
            width = smoother.states * WIDTHS[recipe.output]
            lengths = [len(words)] if is_single else np.diff(offsets).tolist()
            shapes = [tuple(array.shape) for array in given]
            if shapes != [(length, width) for length in lengths]:
                raise DataError(
                    f"arrays must be one for each of {len(offsets) - 1} sequences, or one for all {len(words)} tokens, "
                    f"with a row for each token and {width} columns"
                )
            smoother.write(recipe, words, np.asarray(offsets, np.int64), arrays)

    def transform_extended(
        self, sentences: Sequence[Ids], rows: Float32Array, *, output: str | None = None
    ) -> list[Float32Array]:
        """Return the vectors of `transform_ids` for a vocabulary that is extended by more words.

        The id ``types + i`` means row i of ``rows`` (words, states), float32: the inputs K' w of an added word, on the
        scale of `input_rows`. Raises DataError for an id that is not an integer, or past the last row, and for rows of
        another width. Computes on the CPU, whatever ``settings.device`` is.
        """
        (recipe, smoother), n_types = self._prepare(output, "cpu"), len(self.vocabulary)
        ids, offsets, arrays = self._pack(sentences, output)
        if getattr(rows, "shape", ())[1:] != (smoother.states,):
            raise DataError(f"rows must be an array (words, {smoother.states})")
        words = _check_ids(ids, offsets, n_types + len(rows))
        used, local = np.unique(words, return_inverse=True)
        known = used[used < n_types]
        extended = smoother.with_table(known, rows[used[len(known) :] - n_types])
        extended.write(recipe, local, offsets, arrays)
        return arrays

    @property
    def input_rows(self) -> Float32Array:
        """The inputs K' w of every word of the vocabulary (types, states), which the word adds to the state."""
        return np.asarray(self._learned(self.learned).table)

    def _prepare(self, output: str | None, device: str) -> tuple[Recipe, Smoother]:
        """Return the recipe for an output, and a smoother on a device, which is kept for later calls.

        Raises NotFittedError, and ConfigurationError if the output is unknown.
        """
        settings, output = self.settings, self._choose_output(output)
        power = 0.0 if output in POSTERIOR_MEANS else settings.advanced.row_norm_power
        smoother = self._smoothers.get((power, device))
        if smoother is None:
            smoother = Smoother(self._learned(self.learned), device, power)
            self._smoothers[power, device] = smoother
        return Recipe(output, settings.own_weight, settings.advanced.ends == "exact"), smoother

    def _choose_output(self, output: str | None) -> str:
        """Return the output, that of the settings if None. Raises ConfigurationError if it is unknown."""
        output = self.settings.output if output is None else output
        if output not in LDS_OUTPUTS:
            raise ConfigurationError(
                f"LDS: output must be one of {', '.join(LDS_OUTPUTS)}, not {output!r}"
            )
        return output

    def _pack(
        self, sentences: Sequence[Ids], output: str | None
    ) -> tuple[Ids, Integers, list[Float32Array]]:
        """Return the ids of all sentences (tokens,), where each begins (sentences + 1,), and arrays for its vectors."""
        width = self.settings.n_states * WIDTHS[self._choose_output(output)]
        try:
            arrays = [np.empty((len(sentence), width), np.float32) for sentence in sentences]
            # an empty list alone would make all ids floats
            ids = np.concatenate([*filter(len, sentences)] or [np.empty(0, np.int64)])
        except (TypeError, ValueError) as error:
            raise DataError(f"give a list of sentences, an array of ids each: {error}") from error
        return ids, np.cumsum([0, *map(len, arrays)]), arrays

    # -- what the model learned --------------------------------------------------------------------

    @property
    def likelihood_gain(self) -> float:
        """The log-likelihood of the fitted text, minus the log-likelihood without dynamics, in nats per token.

        Raises NotFittedError, and ArtifactError if the metrics of a loaded model have no such number.
        """
        self._learned(self.learned)
        for figure in self.figures:
            if figure.get("measure") == _GAIN:
                return float(figure["value"])
        raise ArtifactError("the model was saved without its likelihood gain: fit it again")

    def transition_pairs(
        self, n_pairs: int = 10, n_words: int = 8, min_count: int = 50
    ) -> list[TransitionPair]:
        """Return pairs of word groups, the second of which tends to follow the first (LDS paper section 7.1, Table 1).

        They are the words at ``n_pairs`` pairs of singular vectors of the transition operator A, both signs of each,
        the largest first, with ``n_words`` words on each side. States are measured in units of their prior standard
        deviation (P^{-1/2} A P^{1/2}), so that the pairs do not depend on the arbitrary coordinates of the latent
        space, and words are ranked by their whitened expectation C x. Words rarer than ``min_count`` are left out.
        Raises ConfigurationError for a number that is negative, or no whole number.
        """
        for name, number in (("n_pairs", n_pairs), ("n_words", n_words), ("min_count", min_count)):
            check_whole(name, number, 0)
        state, vocabulary = self._learned(self.learned), self.vocabulary
        shown = np.ones(len(vocabulary), bool)
        shown[[vocabulary.boundary_id, *vocabulary.oov_ids]] = False
        most = vocabulary.counts[shown].max(initial=0)
        rows = np.flatnonzero(shown & (vocabulary.counts >= min(min_count, most)))
        P = solve_stationary_covariance(state.A, state.Q)
        root = symmetric_power(P, 0.5)
        U, S, Vt = np.linalg.svd(symmetric_power(P, -0.5) @ state.A @ root)
        C = state.C[rows] @ root

        def rank_words(direction: Vector) -> list[str]:
            score = C @ direction
            n = min(n_words, len(score))
            best = np.argpartition(-score, n - 1)[:n] if n else np.empty(0, np.int64)
            best = best[np.argsort(-score[best], kind="stable")]
            return vocabulary.decode(rows[best])

        pairs = []
        for i in range(min((n_pairs + 1) // 2, len(S))):
            for sign in (1.0, -1.0):
                before, after = rank_words(sign * Vt[i]), rank_words(sign * U[:, i])
                pairs.append(TransitionPair(before, after, float(S[i])))
        return pairs[:n_pairs]

    # -- artifact ----------------------------------------------------------------------------------

    def compact_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays with `FittedLDS.reading` instead of the table, and without a scale that is 1 / m."""
        arrays, state = self.arrays(), self._learned(self.learned)
        arrays["reading"] = np.ascontiguousarray(state.reading)
        del arrays["table"]
        if np.allclose(state.scale * state.mean, 1.0):
            del arrays["scale"]
        return arrays

    def _read_arrays(self, config: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> None:
        noise, sizes = self.settings.advanced.noise, self._sizes()
        sizes["states"] = self.settings.n_states
        compact = _Compact.from_arrays(arrays, **sizes) if "reading" in arrays else None
        if compact is not None:  # compute what is left out
            scale, mean = compact.scale, compact.mean
            if scale is None:
                scale = 1 / np.where(mean > 0, mean, np.nan)
            table = _compute_raw_inputs(compact.C, compact.d, scale, mean) @ compact.reading.T
            arrays = arrays | {"table": table.astype(np.float32), "scale": scale}
        state = FittedLDS.from_arrays(arrays, spherical=noise == "spherical", **sizes)
        wanted = "N" if noise == "full" else "d"
        if [name for name in ("N", "d") if getattr(state, name) is not None] != [wanted]:
            raise ArtifactError(
                f"noise={noise!r} goes with the array noise.{wanted} alone: the model is damaged"
            )
        if compact is not None:
            # as saved, so that it is saved again bit for bit
            state.__dict__["reading"] = compact.reading
        self.learned = state


def _check_ids(ids: Ids, offsets: Ids, n_types: int) -> Integers:
    """Return the ids as int64. Raises DataError for ids and offsets that `LDS.transform_into` refuses."""
    words = np.asarray(ids)
    if words.ndim != 1:
        raise DataError(f"ids must be (tokens,), not {words.shape}")
    if words.dtype.kind not in "iu" and len(words):
        raise DataError(f"word ids must be integers, not {words.dtype}")
    check_offsets(offsets, len(words))
    invalid = words[(words < 0) | (words >= n_types)]
    if len(invalid):
        raise DataError(
            f"there is no word id {invalid[0]} in a vocabulary of {n_types} types: encode the text with the vocabulary "
            "of this model"
        )
    return words.astype(np.int64, copy=False)
