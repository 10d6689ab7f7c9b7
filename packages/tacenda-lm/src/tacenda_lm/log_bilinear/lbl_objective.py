"""The objectives of the log-bilinear model and their gradients, in matrix products (Mnih 2010, section 3.3).

    r = sum_i C_i r_{w_i} (eq 3.16),    P(w | context) = exp(r . q_w + b_w) / sum_j exp(r . q_j + b_j) (eq 3.17)

q_w is r_w itself where vectors are tied. Exact likelihood costs a product with all words; noise-contrastive
estimation (Mnih and Teh 2012) one with the words of the batch and some words of noise, which the whole batch shares.
Everything is in the dtype of the parameters, and computed where they lie: with numpy, or with torch on a device.
"""

from __future__ import annotations

from typing import NamedTuple

from tacenda.arrays import Array, library, merge_rows
from tacenda_lm.streams import Contexts

__all__ = ["LBLParameters", "nce", "predicted", "scores", "softmax"]

_Floats = Array
_Ints = Array


class LBLParameters(NamedTuple):
    """What is learned, all of one dtype."""

    words: _Floats  # R (types, width)
    contexts: (
        _Floats  # C, diagonals (context, width) or (context, width, width) for r = R[w] @ C[i]
    )
    targets: _Floats  # q (types, width); no rows where they are R
    biases: _Floats  # b (types, 1)

    @property
    def outputs(self) -> _Floats:
        """The vectors q of the words to predict, (types, width)."""
        return self.targets if len(self.targets) else self.words


Gradient = tuple[_Ints | None, _Floats]
"""Rows, each once, and their gradients; None stands for all rows."""


def _features(p: LBLParameters, batch: Contexts) -> _Floats:
    """Return R of the context words (tokens, context, width), zero where there are none."""
    x = p.words[batch.words]
    return x * library(x).asarray(batch.present[:, :, None], dtype=x.dtype)


def predicted(p: LBLParameters, batch: Contexts) -> _Floats:
    """Return the predicted vectors r (tokens, width), eq 3.16."""
    x = _features(p, batch)
    if p.contexts.ndim == 2:
        return library(x).einsum("tnd,nd->td", x, p.contexts)
    n, width, _ = p.contexts.shape
    return x.reshape(-1, n * width) @ p.contexts.reshape(-1, width)


def scores(p: LBLParameters, r: _Floats) -> _Floats:
    """Return natural log-probabilities of every word (tokens, types), eq 3.17."""
    xp = library(r)
    s = r @ p.outputs.T
    s += p.biases[:, 0]
    s -= xp.amax(s, axis=1, keepdims=True)
    s -= xp.log(xp.exp(s).sum(axis=1, keepdims=True))
    return s


def softmax(
    p: LBLParameters, batch: Contexts, keep: _Floats | None = None
) -> tuple[_Floats, dict[str, Gradient]]:
    """Return the summed negative log-likelihood of a batch, and its gradients (eqs 3.21 to 3.25).

    The predicted vectors are multiplied by ``keep`` (tokens, width): dropout.
    """
    r = predicted(p, batch)
    if keep is not None:
        r = r * keep
    xp = library(r)
    log_probs = scores(p, r)
    rows = xp.arange(len(r), device=r.device)
    loss = -log_probs[rows, batch.targets].sum(dtype=xp.float64)
    error = xp.exp(log_probs, out=log_probs)
    error[rows, batch.targets] -= 1
    d_q = error.T @ r
    d_r = error @ p.outputs
    d_b = error.sum(axis=0)[:, None]
    return loss, _back(p, batch, d_r if keep is None else d_r * keep, None, d_q, d_b)


def nce(
    p: LBLParameters,
    batch: Contexts,
    noise: _Ints,
    log_noise: _Floats,
    keep: _Floats | None = None,
) -> tuple[_Floats, dict[str, Gradient]]:
    """Return the summed loss of telling the words of a batch from words of noise, and its gradients.

        -log sigma(d(w)) - sum_j log sigma(-d(x_j)),    d(w) = r . q_w + b_w - log(k P_noise(w))

    The words of ``noise`` x (k,) were drawn from P_noise, of which ``log_noise`` (types,) are the natural logarithms.
    """
    r = predicted(p, batch)
    if keep is not None:
        r = r * keep
    xp = library(r)
    offset = p.biases[:, 0] - log_noise - xp.log(xp.asarray(len(noise), dtype=p.words.dtype))
    q = p.outputs
    own = xp.einsum("td,td->t", r, q[batch.targets]) + offset[batch.targets]
    other = r @ q[noise].T + offset[noise]
    loss = _softplus(-own).sum(dtype=xp.float64) + _softplus(other).sum(dtype=xp.float64)
    e_own = -1 / (1 + xp.exp(own))  # derivatives of the loss with respect to own and other
    e_other = 1 / (1 + xp.exp(-other))
    d_r = e_own[:, None] * q[batch.targets] + e_other @ q[noise]
    d_q = xp.concatenate([e_own[:, None] * r, e_other.T @ r])
    words = xp.concatenate([batch.targets, noise])
    errors = xp.concatenate([e_own, e_other.sum(axis=0)])
    types, (d_q, d_b) = merge_rows(words, d_q, errors[:, None])
    return loss, _back(p, batch, d_r if keep is None else d_r * keep, types, d_q, d_b)


def _softplus(x: _Floats) -> _Floats:
    """Return log(1 + exp(x))."""
    xp = library(x)
    return xp.logaddexp(xp.zeros_like(x), x)


def _back(
    p: LBLParameters, batch: Contexts, d_r: _Floats, types: _Ints | None, d_q: _Floats, d_b: _Floats
) -> dict[str, Gradient]:
    """Return the gradients of all parameters from those of r, and of the rows ``types`` of q and b."""
    x = _features(p, batch)
    xp = library(x)
    if p.contexts.ndim == 2:
        d_c = xp.einsum("tnd,td->nd", x, d_r)
        d_x = d_r[:, None] * p.contexts
    else:
        flat = p.contexts.reshape(-1, p.contexts.shape[2])
        d_c = (x.reshape(-1, len(flat)).T @ d_r).reshape(p.contexts.shape)
        d_x = (d_r @ flat.T).reshape(x.shape)
    words, (d_words,) = merge_rows(batch.words[batch.present], d_x[batch.present])
    found: dict[str, Gradient] = {"contexts": (None, d_c), "biases": (types, d_b)}
    if len(p.targets):
        return {**found, "words": (words, d_words), "targets": (types, d_q)}
    if types is None:
        d_q[words] += d_words
        return {**found, "words": (None, d_q)}
    rows, (d_rows,) = merge_rows(xp.concatenate([words, types]), xp.concatenate([d_words, d_q]))
    return {**found, "words": (rows, d_rows)}
