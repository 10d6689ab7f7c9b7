"""`LDS`: context-dependent token vectors from a linear dynamical system (Belanger and Kakade, ICML 2015).

    x_t = A x_{t-1} + eta_t,   w_t = C x_t + epsilon_t        (eqs 1-2)

with w_t the centred and whitened indicator of the word at t. Fitting sees the text once, as lagged
co-occurrence counts; the vector of a token is made of the smoothed mean of its state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from tacit.artifact import Configured
from tacit.corpus import Corpus
from tacit.errors import ConfigurationError, DataError
from tacit.vocabulary import Vocabulary
from tacit_embeddings.lds import learning, outputs, packing
from tacit_embeddings.lds.config import OUTPUTS, LDSConfig
from tacit_embeddings.lds.counts import LaggedCounts
from tacit_embeddings.lds.dynamics import TransitionPair, transition_pairs
from tacit_embeddings.lds.inference import Float32, Messages, Smoother
from tacit_embeddings.lds.moments import whitening
from tacit_embeddings.lds.state import FittedState


class LDS(Configured[LDSConfig]):
    """Token embeddings of a linear dynamical system fitted to raw text.

    Args:
        config: settings; keyword arguments replace single ones.
        settings: any field of `LDSConfig`.

    Raises:
        ConfigurationError: a setting is unknown or out of range.

    Example:
        >>> model = LDS(n_states=200).fit(corpus)
        >>> [vectors] = model.transform([["The", "bank", "of", "the", "river"]])
        >>> vectors.shape
        (5, 600)
    """

    kind: ClassVar[str] = "embedders"
    name: ClassVar[str] = "lds"
    distribution: ClassVar[str] = "tacit-embeddings"
    api_version: ClassVar[int] = 1

    settings = LDSConfig
    _state: FittedState | None = None

    def __init__(self, config: LDSConfig | None = None, **settings: Any) -> None:
        super().__init__(config, **settings)
        self.history: list[learning.Step] = []

    # -- fitting -----------------------------------------------------------------------------------

    def fit(self, text: Corpus | LaggedCounts) -> Self:
        """Fits the model to a corpus, or to counts of one.

        Args:
            text: a `Corpus`, or `LaggedCounts` with at least ``config.n_lags`` lags.

        Raises:
            CorpusError: too few word types for ``n_states``, or too few lags.
        """
        counts = self._counts(text)
        return self._adopt(learning.fit(self.config, counts), counts)

    def refit(self, text: Corpus | LaggedCounts, iterations: int = 3) -> Self:
        """Continues from the fitted parameters after text was added: EM iterations only, no SVD.

        Args:
            text: counts of the old and the new text together (``old + new``), or a corpus of both, in the
                vocabulary of this model.
            iterations: EM iterations over the whole vocabulary.

        Raises:
            NotFittedError: there is nothing to continue from.
            CorpusError: the vocabulary is another one.
        """
        state = self._fitted()
        counts = self._counts(text)
        state.vocabulary.require_same(counts.vocabulary, "the added text")
        found = learning.refit(self.config, counts, state.parameters, state.scale, iterations)
        return self._adopt(found, counts)

    def _counts(self, text: Corpus | LaggedCounts) -> LaggedCounts:
        if isinstance(text, LaggedCounts):
            return text
        return LaggedCounts.from_corpus(
            text, n_lags=self.config.n_lags, workers=self.config.n_threads
        )

    def _adopt(self, found: learning.Fit, counts: LaggedCounts) -> Self:
        scale, mean = whitening(counts, learning.pseudo_counts(self.config, counts))
        self._state = FittedState.of(counts.vocabulary, found.parameters, found.Xi, scale, mean)
        self.history = found.history
        self.fitted_on = {"n_tokens": int(counts.n_tokens), "n_types": len(counts.vocabulary)}
        gain = {"measure": "log-likelihood gain over no dynamics, nats per token"}
        self.figures = [
            {**gain, "value": found.history[-1].likelihood_gain, "protocol": "ASOS, training text"}
        ]
        self._forget_inference()
        return self

    def _forget_inference(self) -> None:
        for name in ("_posterior", "_balanced"):
            self.__dict__.pop(name, None)

    def _fitted(self) -> FittedState:
        return self._learned(self._state)

    # -- vectors -----------------------------------------------------------------------------------

    @property
    def vocabulary(self) -> Vocabulary:
        """The word types the model knows. Raises NotFittedError."""
        return self._fitted().vocabulary

    @property
    def width(self) -> int:
        """Columns of ``transform``'s arrays; known before fitting."""
        return self.config.n_states * outputs.WIDTHS[self.config.output]

    @property
    def likelihood_gain(self) -> float:
        """Log-likelihood of the fitted text in nats per token, over the model without dynamics."""
        self._fitted()
        return float(self.figures[0]["value"])

    def transform(
        self, sentences: Iterable[Sequence[str]], *, output: str | None = None
    ) -> list[Float32]:
        """Vectors of every token of every sentence.

        Args:
            sentences: token lists; an empty one gives an array of shape (0, width).
            output: another output than ``config.output``.

        Returns:
            One float32 array (tokens, width) per sentence.

        Raises:
            NotFittedError: the model was not fitted or loaded.
            ConfigurationError: ``output`` is unknown.
        """
        encode = self.vocabulary.encode
        return self.transform_ids([encode(sentence) for sentence in sentences], output=output)

    def transform_ids(
        self, sentences: Sequence[npt.NDArray[np.integer[Any]]], *, output: str | None = None
    ) -> list[Float32]:
        """``transform`` of word ids of ``vocabulary``, each (tokens,).

        Raises DataError for an id that is not in the vocabulary.
        """
        output = self._output(output)
        arrays: list[Float32] = []
        for packed in packing.chunks(sentences):
            bounds = packed.offsets.tolist()
            for first, last, vectors in self._compose(packed, output):
                start = bounds[first]
                spans = pairwise(bounds[first : last + 1])
                arrays.extend(vectors[i - start : j - start].copy() for i, j in spans)
        return arrays

    def transform_extended(
        self,
        sentences: Sequence[npt.NDArray[np.integer[Any]]],
        rows: Float32,
        *,
        output: str | None = None,
    ) -> list[Float32]:
        """``transform_ids`` with more words than the vocabulary has.

        Args:
            sentences: word ids, each (tokens,); those past the vocabulary's are of ``rows``, in order.
            rows: (words, states) float32, their inputs K' w, on the scale of ``input_rows``.
            output: another output than ``config.output``.

        Raises:
            DataError: an id is neither of the vocabulary nor of ``rows``.
        """
        output = self._output(output)
        types, power = len(self.vocabulary), self.config.row_norm_power
        if output in outputs.POSTERIOR_MEANS:
            smoother, power = self._posterior, 0.0
        else:
            smoother = self._balanced
        more = outputs.balanced(rows, power, float(np.linalg.norm(self.input_rows, axis=1).mean()))
        arrays: list[Float32] = []
        for packed in packing.chunks(sentences):
            packing.check(packed, types + len(rows))
            used, local = np.unique(packed.ids, return_inverse=True)
            known = used[used < types]
            over = smoother.over(known, more[used[len(known) :] - types])
            bounds = packed.offsets.tolist()
            part = packing.Packed(local.astype(np.int64), packed.offsets)
            for first, last, vectors in self._blocks(part, output, over):
                start = bounds[first]
                spans = pairwise(bounds[first : last + 1])
                arrays.extend(vectors[i - start : j - start].copy() for i, j in spans)
        return arrays

    @property
    def input_rows(self) -> Float32:
        """K' w of every word of the vocabulary, (types, states): what it adds to the state it is read in."""
        return self._fitted().inference.table.astype(np.float32, copy=False)

    def transform_packed(
        self,
        ids: npt.NDArray[np.integer[Any]],
        offsets: npt.NDArray[np.integer[Any]],
        *,
        output: str | None = None,
        out: Float32 | None = None,
    ) -> Float32:
        """``transform`` of sequences that lie in one array already: no copies, for large amounts.

        Args:
            ids: (tokens,) word ids of ``vocabulary``, all sequences one after another.
            offsets: (sequences + 1,) where each begins, and the end.
            output: another output than ``config.output``.
            out: (tokens, width) float32 to write into.

        Returns:
            (tokens, width) float32; ``out`` if given.

        Raises:
            DataError: an id is not in the vocabulary, or shapes do not fit.
        """
        output = self._output(output)
        packed = packing.Packed(np.asarray(ids, np.int64), np.asarray(offsets, np.int64))
        packing.check_offsets(packed)
        shape = (len(packed.ids), self.config.n_states * outputs.WIDTHS[output])
        if out is None:
            out = np.empty(shape, np.float32)
        if out.shape != shape or out.dtype != np.float32 or not out.flags.c_contiguous:
            raise DataError(f"out must be float32 {shape} in C order, not {out.dtype} {out.shape}")
        for _ in self._compose(packed, output, out):
            pass
        return out

    def _compose(
        self, packed: packing.Packed, output: str, out: Float32 | None = None
    ) -> Iterator[outputs.Block]:
        packing.check(packed, len(self.vocabulary))
        smoother = self._posterior if output in outputs.POSTERIOR_MEANS else self._balanced
        return self._blocks(packed, output, smoother, out)

    def _blocks(
        self, packed: packing.Packed, output: str, smoother: Smoother, out: Float32 | None = None
    ) -> Iterator[outputs.Block]:
        return outputs.compose(
            output,
            smoother,
            *packed,
            own_weight=self.config.own_weight,
            exact_ends=self.config.ends == "exact",
            T_inv=self._fitted().inference.filter,
            out=out,
        )

    def messages(self, sentences: Iterable[Sequence[str]]) -> list[Messages]:
        """The exact parts of the smoothed mean of every token, in the model's own coordinates."""
        encoded = [self.vocabulary.encode(sentence) for sentence in sentences]
        ids, offsets = packing.pack(encoded)
        parts = self._posterior.messages(ids, offsets, exact_ends=self.config.ends == "exact")
        bounds = pairwise(offsets.tolist())
        return [Messages(*(part[i:j].copy() for part in parts)) for i, j in bounds]

    def with_output(self, output: str, **settings: Any) -> LDS:
        """The same fitted model returning another output; shares the parameters, copies nothing."""
        other = LDS(self.config, output=self._output(output), **settings)
        other._state, other.history = self._state, self.history
        other.figures, other.fitted_on = self.figures, self.fitted_on
        return other

    def _output(self, output: str | None) -> str:
        if output is not None and output not in OUTPUTS:
            raise ConfigurationError(
                f"LDS: output must be one of {', '.join(OUTPUTS)}, not {output!r}"
            )
        return output or self.config.output

    @cached_property
    def _posterior(self) -> Smoother:
        return self._smoother(0.0)

    @cached_property
    def _balanced(self) -> Smoother:
        if self.config.row_norm_power == 0.0:
            return self._posterior
        return self._smoother(self.config.row_norm_power)

    def _smoother(self, power: float) -> Smoother:
        table, forward, backward, left_end, right_end, _ = self._fitted().inference
        rows = outputs.balanced(table.astype(np.float32), power)
        return Smoother(rows, forward, backward, left_end, right_end)

    # -- what the model learned --------------------------------------------------------------------

    def transition_pairs(
        self, n_pairs: int = 10, n_words: int = 8, min_count: int = 50
    ) -> list[TransitionPair]:
        """Word groups that the transition operator turns into each other (paper, Table 1).

        Args:
            n_pairs: singular-vector pairs, counting both signs.
            n_words: words a side.
            min_count: rarer words are not shown.
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
        """Settings and the vocabulary's, as JSON values."""
        return {"settings": self.config.to_dict(), "vocabulary": self.vocabulary.config_dict()}

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The fitted state. Raises NotFittedError."""
        return self._fitted().arrays()

    @classmethod
    def from_arrays(cls, config: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Self:
        """The model of an artefact, every array checked. Raises ArtifactError."""
        model = cls(LDSConfig.from_dict(dict(config["settings"])))
        vocabulary = Vocabulary.from_arrays(config["vocabulary"], arrays)
        model._state = FittedState.from_arrays(model.config, vocabulary, arrays)
        return model
