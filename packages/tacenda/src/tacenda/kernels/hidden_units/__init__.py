"""The sum over all states of hidden units, which Boltzmann machines of words need. Re-entrant; releases the GIL."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacenda.arrays import Array, Float
from tacenda.errors import KernelError
from tacenda.kernels.machinery.memory import WIDE, aligned_zeros
from tacenda.kernels.operation import operation


class PackedInputs(NamedTuple):
    """The inputs of hidden units from every word, packed by `pack_inputs` for `hidden_sums`. Do not change them."""

    #: a, the inputs given to `pack_inputs`.
    inputs: Float[Array, "types hidden"]
    #: The least and the largest a of every hidden unit, (hidden,).
    lows: NDArray[np.floating]
    highs: NDArray[np.floating]
    #: float32 (panels, hidden, 16): exp(a - (low + high) / 2) of sixteen words at a time, zeros after the last word. No
    #: panels if the inputs of a unit are too far apart for float32, or are float64.
    panels: NDArray[np.float32]


_WIDEST_RANGE = 160.0  # exp of half of it, and its inverse, are far from the limits of float32


def pack_inputs(inputs: Any) -> PackedInputs:
    """Pack the inputs a of hidden units from every word, (types, hidden), float32 or float64, for `hidden_sums`.

    Raises KernelError for other dtypes and without a word.
    """
    inputs = np.ascontiguousarray(inputs)
    if inputs.ndim != 2 or not len(inputs) or inputs.dtype not in (np.float32, np.float64):
        raise KernelError(
            "inputs must be float32 or float64 (types, hidden) with at least one row, a word, "
            f"not {inputs.dtype} {inputs.shape}"
        )
    types, hidden = inputs.shape
    lows, highs = inputs.min(axis=0), inputs.max(axis=0)
    panels = aligned_zeros(0, WIDE).reshape(0, hidden, WIDE)
    if inputs.dtype == np.float32 and (not hidden or (highs - lows).max() <= _WIDEST_RANGE):
        count = -(-types // WIDE)
        panels = aligned_zeros(count * hidden, WIDE).reshape(count, hidden, WIDE)
        scaled = np.exp(inputs - (lows + highs) / 2)
        whole = types // WIDE * WIDE
        panels[: whole // WIDE] = scaled[:whole].reshape(whole // WIDE, WIDE, hidden).swapaxes(1, 2)
        panels[whole // WIDE :, :, : types - whole] = scaled[whole:].T
    return PackedInputs(inputs, lows, highs, panels)


@operation
def hidden_sums(words: PackedInputs, contexts: Float[Array, "contexts hidden"]) -> NDArray[Any]:
    """Sum over the states of binary hidden units, for every word and many contexts.

        s_tw = sum_j log(1 + exp(a_wj + b_tj))

    This is the natural logarithm of the sum, over all states of the hidden units, of exp of their inputs a from word w
    and b from context t: minus the free energy, without the bias of the word (Mnih 2010, eq 3.5). The cost is one fused
    multiply-add and one product for each context, word and hidden unit, as prod_j (1 + exp(a_wj) exp(b_tj)) needs no
    logarithm and no exponential inside.

    Returns s (contexts, types), a new array, possibly not contiguous; in float32 its error is about 1e-7 times
    ``sum_j (1 + max_w |a_wj| + |b_tj|)``. A row depends on its own context only.
    """
    a = words.inputs.astype(np.float64)
    found = np.empty((len(contexts), len(a)))
    for t, b in enumerate(contexts.astype(np.float64)):
        found[t] = np.logaddexp(0, a + b).sum(axis=1)
    return found.astype(contexts.dtype)
