"""Hidden units summed out, for every word and many contexts at once.

    s_tw = sum_j log(1 + exp(a_wj + b_tj))

is the logarithm of the sum, over all states of the binary hidden units, of exp of what they get from word w and from
context t (Mnih 2010, eq 3.5): minus the free energy, but for the bias of the word. Cost: one fused multiply-add and one
product for each context, word and hidden unit, as

    prod_j (1 + exp(a_wj) exp(b_tj))

needs no logarithm and no exponential inside. Its factors are scaled so that none leaves the range of float32, and
exponents are taken out of the products so far as often as the range of the factors demands.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import KernelError
from tacenda.kernels.dispatch import resolve
from tacenda.kernels.machinery.arrays import check_array, check_floats
from tacenda.kernels.machinery.memory import WIDE, aligned_zeros

__all__ = ["Packed", "log_sums", "pack"]

_Floats = NDArray[np.floating[Any]]


class Packed(NamedTuple):
    """What hidden units get from every word, as `log_sums` takes it. Made by `pack`; not to be changed.

    Attributes
    ----------
    inputs
        a (types, hidden), as they were given.
    lows, highs
        The least and the largest a of every hidden unit, (hidden,).
    panels
        float32 (panels, hidden, 16): exp(a - (low + high) / 2) of sixteen words at a time, zeros after the last.
        No panels where a unit's numbers are too far apart for float32, or are not float32.
    """

    inputs: _Floats
    lows: _Floats
    highs: _Floats
    panels: NDArray[np.float32]


_FARTHEST = 160.0  # exp of half of it, and its inverse, are far from the limits of float32


def pack(inputs: _Floats) -> Packed:
    """Prepare what hidden units get from every word.

    Parameters
    ----------
    inputs
        a (types, hidden), float32 or float64, at least one type.

    Raises
    ------
    KernelError
        The shape or the dtype is another.
    """
    inputs = np.asarray(inputs)
    check_floats(inputs, 2, "inputs")
    types, hidden = inputs.shape
    if not types:
        raise KernelError("inputs must have at least one row, a word")
    lows, highs = inputs.min(axis=0), inputs.max(axis=0)
    panels = aligned_zeros(0, WIDE).reshape(0, hidden, WIDE)
    if inputs.dtype == np.float32 and (not hidden or (highs - lows).max() <= _FARTHEST):
        count = -(-types // WIDE)
        panels = aligned_zeros(count * hidden, WIDE).reshape(count, hidden, WIDE)
        scaled = np.exp(inputs - (lows + highs) / 2)
        whole = types // WIDE * WIDE
        panels[: whole // WIDE] = scaled[:whole].reshape(-1, WIDE, hidden).swapaxes(1, 2)
        panels[whole // WIDE :, :, : types - whole] = scaled[whole:].T
    return Packed(inputs, lows, highs, panels)


def log_sums(words: Packed, contexts: _Floats) -> _Floats:
    """Sum the hidden units out.

    Parameters
    ----------
    words
        What `pack` made of a (types, hidden).
    contexts
        b (contexts, hidden), of the dtype of a.

    Returns
    -------
    s (contexts, types), new, of the same dtype; it need not be contiguous. Differences from the exact value are of
    the order of 1e-6 in float32. A context does not depend on the others. Re-entrant; releases the GIL.

    Raises
    ------
    KernelError
        Shapes or dtypes do not fit.
    """
    contexts = np.ascontiguousarray(contexts)
    check_array(contexts, (len(contexts), words.inputs.shape[1]), words.inputs, "contexts")
    result: _Floats = resolve("hidden_sums")(words, contexts)
    return result
