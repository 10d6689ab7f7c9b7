"""`Transforming`: what a fitted LDS makes of sentences: token vectors, and the messages they are made from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from tacenda.artifact import OldConfigured
from tacenda.errors import ConfigurationError, DataError
from tacenda.vocabulary import Vocabulary
from tacenda_embeddings.lds import outputs, packing
from tacenda_embeddings.lds.config import OUTPUTS, LDSConfig
from tacenda_embeddings.lds.inference import Float32, Messages, Smoother
from tacenda_embeddings.lds.state import FittedState

__all__ = ["Transforming"]


class Transforming(OldConfigured[LDSConfig]):
    """Base of `LDS`: all that needs its parameters, and nothing of how they are found."""

    settings = LDSConfig
    _state: FittedState | None = None

    def _fitted(self) -> FittedState:
        return self._learned(self._state)

    @property
    def vocabulary(self) -> Vocabulary:
        """The word types the model knows. Raises NotFittedError."""
        return self._fitted().vocabulary

    @property
    def width(self) -> int:
        """Columns of ``transform``'s arrays; known before fitting."""
        return self.config.n_states * outputs.WIDTHS[self.config.output]

    def transform(
        self, sentences: Iterable[Sequence[str]], *, output: str | None = None
    ) -> list[Float32]:
        """Vectors of every token of every sentence.

        Parameters
        ----------
        sentences
            Token lists; an empty one gives an array of shape (0, width).
        output
            Another output than ``config.output``.

        Returns
        -------
        One float32 array (tokens, width) per sentence.

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
        self, sentences: Sequence[npt.NDArray[np.integer[Any]]], *, output: str | None = None
    ) -> list[Float32]:
        """``transform`` of word ids of ``vocabulary``, each (tokens,).

        Raises DataError for an id that is not in the vocabulary.
        """
        output = self._output(output)
        arrays: list[Float32] = []
        for packed in packing.chunks(sentences):
            arrays.extend(_apart(self._compose(packed, output), packed.offsets))
        return arrays

    def transform_extended(
        self,
        sentences: Sequence[npt.NDArray[np.integer[Any]]],
        rows: Float32,
        *,
        output: str | None = None,
    ) -> list[Float32]:
        """``transform_ids`` with more words than the vocabulary has.

        Parameters
        ----------
        sentences
            Word ids, each (tokens,); those past the vocabulary's are of ``rows``, in order.
        rows
            (words, states) float32, their inputs K' w, on the scale of ``input_rows``.
        output
            Another output than ``config.output``.

        Raises
        ------
        DataError
            An id is neither of the vocabulary nor of ``rows``.
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
            part = packing.Packed(local.astype(np.int64), packed.offsets)
            arrays.extend(_apart(self._blocks(part, output, over), packed.offsets))
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

        Parameters
        ----------
        ids
            (tokens,) word ids of ``vocabulary``, all sequences one after another.
        offsets
            (sequences + 1,) where each begins, and the end.
        output
            Another output than ``config.output``.
        out
            (tokens, width) float32 to write into.

        Returns
        -------
        (tokens, width) float32; ``out`` if given.

        Raises
        ------
        DataError
            An id is not in the vocabulary, or shapes do not fit.
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

    def _forget_inference(self) -> None:
        for name in ("_posterior", "_balanced"):
            self.__dict__.pop(name, None)


def _apart(blocks: Iterable[outputs.Block], offsets: npt.NDArray[np.int64]) -> Iterator[Float32]:
    """A copy of the rows of every sequence."""
    bounds = offsets.tolist()
    for first, last, vectors in blocks:
        start = bounds[first]
        for i, j in pairwise(bounds[first : last + 1]):
            yield vectors[i - start : j - start].copy()
