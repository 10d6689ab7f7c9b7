"""Forward-backward over features on the CPU: sequences side by side, one product for those in the same class."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.kernels.hidden_markov.features import Backward, Classed, Forward, Model

_Array = NDArray[Any]
_Group = tuple[int, NDArray[np.int64]]


def forward(model: Model, observed: Classed) -> Forward:
    """See `tacenda.kernels.hidden_markov.features.forward`."""
    a = np.empty((len(observed.words), model.emissions.shape[1]), model.left.dtype)
    c = np.empty(len(a), a.dtype)
    # Step t of all sequences at once. Tokens are grouped by the class before, for the features of the state that is
    # left, and then by their own, for those of the state that is reached.
    for t, tokens in _moments(observed.offsets):
        if t == 0:
            a[tokens] = model.starts[observed.classes[tokens]]
        else:
            messages = np.empty((len(tokens), model.left.shape[2]), a.dtype)
            for group, own in _groups(observed.classes[tokens - 1]):
                messages[own] = a[tokens[own] - 1] @ model.left[group]
            for group, own in _groups(observed.classes[tokens]):
                a[tokens[own]] = messages[own] @ model.reached[group].T
        now = a[tokens] * model.emissions[observed.words[tokens]]
        c[tokens] = total = now.sum(axis=1)
        a[tokens] = now * np.where(total == 0, 0, 1 / np.where(total == 0, 1, total))[:, None]
    with np.errstate(divide="ignore"):
        return Forward(np.log(c, dtype=np.float64), a)


def backward(model: Model, observed: Classed, found: Forward) -> Backward:
    """See `tacenda.kernels.hidden_markov.features.backward`."""
    classes, words, offsets = observed
    a, dtype = found.states, model.left.dtype
    c = np.exp(found.log_probs).astype(dtype)
    scale = np.where(c == 0, 0, 1 / np.where(c == 0, 1, c))[:, None]
    b, v = np.ones_like(a), np.zeros_like(a)
    w = np.zeros((len(a), model.left.shape[2]), dtype)
    moments = list(_moments(offsets))
    for t, tokens in reversed(moments):
        v[tokens] = model.emissions[words[tokens]] * b[tokens] * scale[tokens]
        if t == 0:
            continue
        for group, own in _groups(classes[tokens]):
            w[tokens[own]] = v[tokens[own]] @ model.reached[group]
        for group, own in _groups(classes[tokens - 1]):
            b[tokens[own] - 1] = w[tokens[own]] @ model.left[group].T
    posteriors = a * b
    # The gradients are sums over all tokens but the first of each sequence: one product for each class.
    dx, dy = np.zeros_like(model.left), np.zeros_like(model.reached)
    inner = np.sort(np.concatenate([np.empty(0, np.int64), *(at for t, at in moments if t)]))
    m = np.zeros_like(w)
    for group, own in _groups(classes[inner - 1]):
        before = a[inner[own] - 1]
        dx[group] = before.T @ w[inner[own]]
        m[inner[own]] = before @ model.left[group]
    for group, own in _groups(classes[inner]):
        dy[group] = v[inner[own]].T @ m[inner[own]]
    emitted, started = np.zeros_like(model.emissions), np.zeros_like(model.starts)
    _add_rows(emitted, words, posteriors)
    begins = offsets[:-1][np.diff(offsets) > 0]
    _add_rows(started, classes[begins], posteriors[begins])
    return Backward(dx, dy, emitted, started)


def _moments(offsets: _Array) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """The tokens at each distance from the beginning of their sequence."""
    lengths = np.diff(offsets)
    for t in range(int(lengths.max(initial=0))):
        yield t, offsets[:-1][lengths > t] + t


def _groups(classes: _Array) -> Iterator[_Group]:
    """Each class that occurs, and the places where it does."""
    order = np.argsort(classes, kind="stable")
    found, begins = np.unique(classes[order], return_index=True)
    ends = np.append(begins[1:], len(order))
    for group, begin, end in zip(found.tolist(), begins, ends[: len(found)], strict=True):
        yield group, order[begin:end]


def _add_rows(table: _Array, rows: _Array, added: _Array) -> None:
    """Add rows to those of a table, to the same row as often as it occurs."""
    for group, own in _groups(rows):
        table[group] += added[own].sum(axis=0)
