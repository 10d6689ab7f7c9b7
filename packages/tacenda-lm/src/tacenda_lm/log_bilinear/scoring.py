"""Scoring a stream with an HLBL: in blocks that fit the cache, tails handed from one to the next."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from tacenda.kernels.log_bilinear import context_sum, tree_softmax
from tacenda.kernels.log_bilinear.stream_scores import Packed, pack, scores
from tacenda.kernels.log_bilinear.tree_softmax import Codes
from tacenda_lm.log_bilinear.parameters import Parameters
from tacenda_lm.log_bilinear.stream import Stream
from tacenda_lm.sequences import Float64, Ids

__all__ = ["distribution_blocks", "packed", "predicted_blocks", "score_on", "score_stream"]

_BLOCK = 512  # tokens

_Floats = npt.NDArray[np.float32]


def predicted_blocks(
    parameters: Parameters, rates: tuple[float, ...], stream: Stream, block: int = _BLOCK
) -> Iterator[tuple[_Floats, Ids, npt.NDArray[np.bool_]]]:
    """The predicted vector of every position, exactly as if the stream were read in one go.

    Yields
    ------
    vectors float32 (rows, width); the words at these positions, int32 (rows,); and which of them are
    predicted, bool (rows,): not the first of a sequence.
    """
    context, n = parameters.context(rates), len(parameters.positions)
    ids, firsts = stream.ids, stream.firsts
    tails: _Floats | None = None
    for start in range(0, len(ids), block):
        end = min(start + block, len(ids))
        low = max(0, start - n)
        begins = low + np.flatnonzero(firsts[low:end])
        offsets = np.unique(np.concatenate([[low], begins, [end]])) - low
        span = np.array([start - low]), np.array([end - low])
        found = context_sum.forward(
            parameters.words, ids[low:end], offsets, *span, context, tails, parameters.far
        )
        tails = found.after
        yield found.vectors, ids[start:end], ~firsts[start:end]


def packed(parameters: Parameters, codes: Codes, rates: tuple[float, ...]) -> Packed:
    """The model as streams are scored with it: node vectors in 8 bits."""
    return pack(
        parameters.words,
        parameters.context(rates),
        codes,
        parameters.nodes,
        parameters.node_biases[:, 0],
        parameters.far,
    )


def score_stream(model: Packed, stream: Stream) -> Float64:
    """Natural log-probabilities of all but the first id of every sequence, float64."""
    return scores(model, stream.ids, stream.offsets).log_probs[~stream.firsts]


def score_on(model: Packed, ids: Ids, first: int, tails: _Floats) -> tuple[Float64, _Floats]:
    """Natural log-probabilities of ``ids[first:]`` after the words before them and tails of all older words.

    Parameters
    ----------
    model
        See `packed`.
    ids
        int32, no more than a window of words before ``first``.
    first
        The first position to score.
    tails
        float32 (tails, width) at that position.

    Returns
    -------
    float64 (tokens,), and the tails behind the last word.
    """
    found = scores(model, ids, np.array([0, len(ids)]), first, tails)
    return found.log_probs, np.asarray(found.tails, np.float32)


def distribution_blocks(
    parameters: Parameters, codes: Codes, rates: tuple[float, ...], stream: Stream, block: int
) -> Iterator[_Floats]:
    """Natural log-probabilities of every word at the same positions, float32 (rows, types) a block."""
    biases = np.ascontiguousarray(parameters.node_biases[:, 0])
    for vectors, _, counted in predicted_blocks(parameters, rates, stream, block):
        if counted.any():
            yield np.asarray(
                tree_softmax.distribution(vectors[counted], codes, parameters.nodes, biases),
                np.float32,
            )
