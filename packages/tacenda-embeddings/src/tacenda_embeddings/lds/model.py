"""`LDS`: context-dependent token vectors from a linear dynamical system (Belanger and Kakade, ICML 2015).

    x_t = A x_{t-1} + eta_t,   w_t = C x_t + epsilon_t        (eqs 1-2)

where w_t is the centred and whitened indicator of the word at t. Fitting reads the text once, as lagged
co-occurrence counts; the vector of a token is made of the smoothed mean of its state.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from tacenda import devices
from tacenda.arrays import to_numpy
from tacenda.corpus import Corpus, Text, as_corpus
from tacenda.errors import ConfigurationError, DataError
from tacenda.estimator import Estimator
from tacenda.offsets import checked_offsets
from tacenda.settings import configured_by
from tacenda.vocabulary import Vocabulary
from tacenda_embeddings.lds import learning, outputs
from tacenda_embeddings.lds.fitted import FittedLDS
from tacenda_embeddings.lds.lagged_counts import LaggedCounts
from tacenda_embeddings.lds.settings import OUTPUTS, Ends, LDSSettings, Output
from tacenda_embeddings.lds.smoother import OPERATIONS, Float32, Smoother
from tacenda_embeddings.lds.transition_pairs import TransitionPair, transition_pairs

__all__ = ["LDS"]

Ids = npt.NDArray[np.integer[Any]]
_LESS = "fewer tokens at a time (batch_tokens in spaCy)"


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
    settings: LDSSettings
    settings_class = LDSSettings

    @configured_by(LDSSettings)
    def __init__(self, settings: LDSSettings) -> None:
        super().__init__(settings)
        self.history: list[learning.Step] = []
        self._state: FittedLDS | None = None
        self._smoothers: dict[tuple[float, str], Smoother] = {}  # by power of row norms and device

    # -- fitting -----------------------------------------------------------------------------------

    def fit(self, text: Text | LaggedCounts) -> Self:
        """Fit the model to a text, or to counts of one.

        Parameters
        ----------
        text
            A `Corpus`, the `Path` of a file with a sentence a line, a string, token lists, or
            `LaggedCounts` with at least ``settings.n_lags`` lags.

        Raises
        ------
        CorpusError
            The text has too few word types for ``n_states``, the counts have too few lags, or no stable
            system fits them.
        """
        counts = self._counts(text)
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
            There is nothing to continue from.
        CorpusError
            The vocabulary is another one, or `fit` would refuse the text.
        """
        state = self._fitted()
        if isinstance(text, Corpus | LaggedCounts):
            state.vocabulary.require_same(text.vocabulary, "the added text")
        counts = self._counts(text, state.vocabulary)
        return self._adopt(learning.partial_fit(self.settings, counts, state, iterations), counts)

    def _counts(
        self, text: Text | LaggedCounts, vocabulary: Vocabulary | None = None
    ) -> LaggedCounts:
        if isinstance(text, LaggedCounts):
            return text
        corpus = as_corpus(text, vocabulary)
        return LaggedCounts.from_corpus(
            corpus, n_lags=self.settings.n_lags, threads=self.settings.n_threads
        )

    def _adopt(self, found: learning.Fit, counts: LaggedCounts) -> Self:
        self._state, self.history = found
        self.fitted_on = {"n_tokens": int(counts.n_tokens), "n_types": len(counts.vocabulary)}
        origin = {"sources", "tokenizer"} & counts.fitted_on.keys()
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
        """Leave out what is made anew, and may lie on a device that is not there where this is unpickled."""
        return {**self.__dict__, "_smoothers": {}}

    def with_output(
        self,
        output: Output,
        *,
        own_weight: float | None = None,
        row_norm_power: float | None = None,
        ends: Ends | None = None,
    ) -> LDS:
        """Return the same fitted model with another output; it shares the parameters and copies nothing.

        The other options keep their values where None is given. Raises ConfigurationError for a value out of
        bounds.
        """
        kept = self.settings.advanced
        advanced = replace(
            kept,
            row_norm_power=kept.row_norm_power if row_norm_power is None else row_norm_power,
            ends=kept.ends if ends is None else ends,
        )
        weight = self.settings.own_weight if own_weight is None else own_weight
        other = LDS.from_settings(
            replace(self.settings, output=output, own_weight=weight, advanced=advanced)
        )
        other._state, other.history = self._state, self.history
        other.figures, other.fitted_on = self.figures, self.fitted_on
        return other

    def _fitted(self) -> FittedLDS:
        return self._learned(self._state)

    # -- vectors -----------------------------------------------------------------------------------

    @property
    def vocabulary(self) -> Vocabulary:
        """The word types that the model knows. Raises NotFittedError."""
        return self._fitted().vocabulary

    @property
    def width(self) -> int:
        """The number of columns of what `transform` returns; known before fitting."""
        return self._width(self.settings.output)

    def _width(self, output: str) -> int:
        return self.settings.n_states * outputs.WIDTHS[output]

    def transform(
        self, sentences: Iterable[Sequence[str]], *, output: str | None = None
    ) -> list[Float32]:
        """Return the vectors of every token of every sentence, one float32 array (tokens, width) a sentence.

        Parameters
        ----------
        sentences
            Token lists; an empty one gives an array of shape (0, width).
        output
            Another output than ``settings.output``.

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
    ) -> list[Float32]:
        """Return what `transform` does, from word ids of ``vocabulary``, one array (tokens,) a sentence.

        Raises
        ------
        DataError
            An id is not in the vocabulary.
        """
        arrays = self._empty(sentences, output)
        self.transform_into(*_packed(sentences), arrays, output=output)
        return arrays

    def transform_into(
        self,
        ids: Ids,
        offsets: Ids,
        arrays: outputs.Arrays,
        *,
        output: str | None = None,
    ) -> None:
        """Write the vectors of sequences that lie one after another into one array for each, or one for all.

        Parameters
        ----------
        ids
            (tokens,) word ids of ``vocabulary``.
        offsets
            (sequences + 1,) where each sequence begins, and the end.
        arrays
            For each sequence a float32 array (tokens, width), which may be a view of a larger one; or one such array
            for all tokens, which is much faster on a device. They may be tensors of torch on a CUDA device: the
            vectors are then made there, whatever ``settings.device`` is.
        output
            As in `transform`.

        Raises
        ------
        DataError
            An id is not in the vocabulary, or the offsets do not fit.
        FittingError
            The memory of the device is not enough.
        """
        output = self._output(output)
        words, cuts = np.asarray(ids, np.int64), np.asarray(offsets, np.int64)
        _check(words, offsets, len(self.vocabulary))
        packed = hasattr(arrays, "shape")
        given = [arrays] if packed else arrays
        device = next((str(a.device) for a in given if not isinstance(a, np.ndarray)), None)
        if device == "cpu":
            given = [to_numpy(array) for array in given]
        arrays = given[0] if packed else given
        with devices.out_of_memory(self.settings, _LESS):
            smoother = self._smoother_of(output, device or self._device())
            self._write(smoother, words, cuts, arrays, output)

    def transform_extended(
        self, sentences: Sequence[Ids], rows: Float32, *, output: str | None = None
    ) -> list[Float32]:
        """Return what `transform_ids` does, with more words than the vocabulary has.

        Ids past the vocabulary's stand for ``rows`` (words, states) float32, in order: the inputs K' w of these
        words, on the scale of ``input_rows``. Raises DataError for an id that is neither of the vocabulary nor of
        ``rows``. Such words are smoothed on the CPU, wherever the others are.
        """
        output = self._output(output)
        n_types = len(self.vocabulary)
        ids, offsets = _packed(sentences)
        _check(ids, offsets, n_types + len(rows))
        used, local = np.unique(ids, return_inverse=True)
        known = used[used < n_types]
        power = 0.0 if output in outputs.POSTERIOR_MEANS else self.settings.advanced.row_norm_power
        mean_norm = float(np.linalg.norm(self.input_rows, axis=1).mean())
        more = outputs.balanced(rows, power, mean_norm)[used[len(known) :] - n_types]
        smoother = self._smoother_of(output, "cpu").over(known, more)
        arrays = self._empty(sentences, output)
        self._write(smoother, local, offsets, arrays, output)
        return arrays

    @property
    def input_rows(self) -> Float32:
        """K' w of every word of the vocabulary (types, states): what it adds to the state that reads it."""
        return self._fitted().inference.table.astype(np.float32, copy=False)

    def _write(
        self,
        smoother: Smoother,
        ids: npt.NDArray[np.int64],
        offsets: npt.NDArray[np.int64],
        arrays: outputs.Arrays,
        output: str,
    ) -> None:
        outputs.write(
            output,
            smoother,
            ids,
            offsets,
            arrays,
            own_weight=self.settings.own_weight,
            exact_ends=self.settings.advanced.ends == "exact",
            T_inv=self._fitted().inference.filter,
        )

    def _empty(self, sentences: Sequence[Ids], output: str | None) -> list[Float32]:
        width = self._width(self._output(output))
        return [np.empty((len(sentence), width), np.float32) for sentence in sentences]

    def _output(self, output: str | None) -> str:
        if output is not None and output not in OUTPUTS:
            raise ConfigurationError(
                f"LDS: output must be one of {', '.join(OUTPUTS)}, not {output!r}"
            )
        return output or self.settings.output

    def _device(self) -> str:
        """Where vectors are made, unless the arrays for them are somewhere else."""
        return devices.resolve(self.settings, OPERATIONS)

    def _smoother_of(self, output: str, device: str) -> Smoother:
        power = self.settings.advanced.row_norm_power
        key = (0.0 if output in outputs.POSTERIOR_MEANS else power), device
        if key not in self._smoothers:
            table, forward, backward, left_end, right_end, _ = self._fitted().inference
            rows = outputs.balanced(table.astype(np.float32), key[0])
            self._smoothers[key] = Smoother(rows, forward, backward, left_end, right_end, device)
        return self._smoothers[key]

    # -- what the model learned --------------------------------------------------------------------

    @property
    def likelihood_gain(self) -> float:
        """The log-likelihood of the fitted text in nats per token, less that of a model without dynamics."""
        self._fitted()
        return float(self.figures[0]["value"])

    def transition_pairs(
        self, n_pairs: int = 10, n_words: int = 8, min_count: int = 50
    ) -> list[TransitionPair]:
        """Return word groups that the transition operator turns into each other (paper, Table 1).

        There are ``n_pairs`` pairs of singular vectors, counting both signs, and ``n_words`` words a side; words
        rarer than ``min_count`` are not shown.
        """
        state = self._fitted()
        vocabulary = state.vocabulary
        shown = np.ones(len(vocabulary), bool)
        shown[[vocabulary.boundary_id, *vocabulary.oov_ids]] = False
        most = vocabulary.counts[shown].max(initial=0)
        shown &= vocabulary.counts >= min(min_count, most)
        return transition_pairs(state.parameters, vocabulary.words, shown, n_pairs, n_words)

    # -- artefact ----------------------------------------------------------------------------------

    def config_dict(self) -> dict[str, Any]:
        """Return the settings but for the device, and those of the vocabulary, as JSON values."""
        settings = devices.without_device(self.settings)
        return {"settings": settings, "vocabulary": self.vocabulary.config_dict()}

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the fitted state. Raises NotFittedError."""
        return self._fitted().arrays()

    def compact_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the fitted state without the table of inputs, which C determines. Raises NotFittedError."""
        return self._fitted().compact_arrays()

    @classmethod
    def from_arrays(cls, config: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Self:
        """Return the model of an artefact, every array checked. Raises ArtifactError."""
        model = cls.from_settings(config["settings"])
        vocabulary = Vocabulary.from_arrays(config["vocabulary"], arrays)
        model._state = FittedLDS.from_arrays(model.settings, vocabulary, arrays)
        return model


def _packed(sentences: Sequence[Ids]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the ids of all sentences in one array (tokens,), and where each begins (sentences + 1,)."""
    offsets = np.zeros(len(sentences) + 1, np.int64)
    np.cumsum([len(sentence) for sentence in sentences], out=offsets[1:])
    ids = np.concatenate(sentences) if len(sentences) else np.empty(0)
    return ids.astype(np.int64), offsets


def _check(ids: Ids, offsets: Ids, n_types: int) -> None:
    """Raise DataError unless the offsets cut the ids and these are in a vocabulary of ``n_types``."""
    if ids.ndim != 1:
        raise DataError(f"ids must be (tokens,), not {ids.shape}")
    checked_offsets(offsets, len(ids))
    if len(ids) and (ids.min() < 0 or ids.max() >= n_types):
        strange = ids.min() if ids.min() < 0 else ids.max()
        raise DataError(
            f"there is no word id {strange} in a vocabulary of {n_types} types; "
            "encode the text with the vocabulary of this model"
        )
