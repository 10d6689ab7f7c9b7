"""Gradients of tables of which a step may have read some rows only."""

import numpy as np


def dense(shape, rows, gradient):
    """Return the gradient of a whole table from that of its rows; ``rows`` is None where it is that of all."""
    found = np.zeros(shape)
    if rows is None:
        found[:] = gradient
    else:
        assert len(np.unique(rows)) == len(rows)
        found[rows] = gradient
    return found
