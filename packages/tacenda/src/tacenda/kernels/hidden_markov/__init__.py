"""Operations of hidden Markov models whose states are divided into classes; the word of a token determines its class.

The first index of a matrix is the state reached, so that passes read rows. A CUDA device runs all operations but
`hmm_features` and its backward pass; tables and results are torch tensors there, and observations stay on the host. All
operations release the GIL, and NaN propagates.
"""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacenda.arrays import Array, Float, Float64, Int32, Int64, Offsets, below
from tacenda.errors import KernelError
from tacenda.kernels.machinery.arguments import check_range, host, in_place
from tacenda.kernels.operation import operation
from tacenda.offsets import rises

# -- forward and backward over blocks of a transition matrix ------------------------------------------


class Sequences(NamedTuple):
    """Observations: sequences of tokens, one after another; any may be empty."""

    #: u (tokens,): the block that leads to each token; ignored for the first token of a sequence.
    pairs: Int32[Array, "tokens", host]
    #: The row of the emissions of each token.
    words: Int32[Array, "tokens", below("rows"), host]
    #: The row of ``starts`` of each sequence; ignored for empty sequences.
    first: Int32[Array, "sequences", host]
    offsets: Offsets[Array, "sequences tokens"]


class Forward(NamedTuple):
    """Natural log c_t and the filtered states a."""

    log_probs: Float64[Array, "tokens"]
    states: Float[Array, "tokens k"]


class Counts(NamedTuple):
    """Expected counts, in the shapes of ``blocks``, ``emissions`` and ``starts``, and p(z_t | x) (tokens, k)."""

    blocks: Any
    emissions: Any
    starts: Any
    posteriors: Any


def inner_tokens(offsets: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """Return the tokens that are not the first of their sequence, ascending."""
    inner = np.ones(int(offsets[-1]), bool)
    inner[offsets[:-1][np.diff(offsets) > 0]] = False
    return np.flatnonzero(inner)


def _check_sequences(blocks: Any, starts: Any, observed: Sequences) -> None:
    pairs, _words, first, offsets = observed
    check_range(pairs[inner_tokens(offsets)], len(blocks), "pairs")
    check_range(first[np.diff(offsets) > 0], len(starts), "first")


@operation(prepare=_check_sequences)
def hmm_block(
    blocks: Float[Array, "blocks k k"],
    emissions: Float[Array, "rows k"],
    starts: Float[Array, "first_states k"],
    observed: Sequences,
    threads: int = 1,
) -> Forward:
    """Compute the filtered states, and the log-probability of every token given the tokens before it.

    Only one block A_u of the transition matrix, for the pair u of their classes, leads from a token to the next. With

        A_u[j, i] = p(z_t = j | z_{t-1} = i),    o_t[j] = p(x_t | z_t = j) of ``emissions``,    s of ``starts``

    the forward pass is (Rabiner 1989, section V.A; Chiu and Rush 2020, section 3)

        a_1 = (s o o_1) / c_1,    a_t = (A_u a_{t-1} o o_t) / c_t,    c_t = the sum of the numerator

    so that log p(x_t | x_<t) = log c_t, natural. A token of probability zero, and every later token of its sequence,
    has the log-probability -inf and a state of zeros. ``threads`` share the sequences, and change no result.
    """
    pairs, words, first, offsets = observed
    A, o, s = (array.astype(np.float64) for array in (blocks, emissions, starts))
    c = np.empty(len(words))
    a = np.empty((len(words), emissions.shape[1]))
    for n, (begin, end) in enumerate(pairwise(offsets.tolist())):
        for t in range(begin, end):
            reached = s[first[n]] if t == begin else A[pairs[t]] @ a[t - 1]
            a[t] = reached * o[words[t]]
            c[t] = a[t].sum()
            if c[t] != 0:
                a[t] /= c[t]
    with np.errstate(divide="ignore"):
        return Forward(np.log(c), a.astype(blocks.dtype))


@operation(prepare=_check_sequences)
def hmm_block_backward(
    blocks: Float[Array, "blocks k k"],
    emissions: Float[Array, "rows k"],
    starts: Float[Array, "first_states k"],
    observed: Sequences,
    found: Forward,
    threads: int = 1,
) -> Counts:
    """Compute the expected counts of transitions, emissions and starts; ``found`` is the result of `hmm_block`.

        b_n = 1,    v_t = o_t o b_t / c_t,    b_{t-1} = A_u^T v_t
        N_u[j, i] = sum_t A_u[j, i] v_t[j] a_{t-1}[i],    p(z_t = j | x) = a_t[j] b_t[j]

    The counts are the gradient of the summed log-probabilities in the logarithms of blocks, emissions and starts. They
    are summed token by token, pair by pair, in the order of the text whatever the number of threads.
    """
    pairs, words, first, offsets = observed
    A, o, s = (array.astype(np.float64) for array in (blocks, emissions, starts))
    c, a = np.exp(found.log_probs), found.states.astype(np.float64)
    N, E, S = np.zeros_like(A), np.zeros_like(o), np.zeros_like(s)
    posteriors = np.zeros_like(a)
    for n, (begin, end) in enumerate(pairwise(offsets.tolist())):
        b = np.ones(emissions.shape[1])
        for t in range(end - 1, begin - 1, -1):
            posteriors[t] = a[t] * b
            E[words[t]] += posteriors[t]
            v = o[words[t]] * b / c[t] if c[t] != 0 else 0 * b
            if t == begin:
                S[first[n]] += s[first[n]] * v
            else:
                N[pairs[t]] += A[pairs[t]] * np.outer(v, a[t - 1])
                b = A[pairs[t]].T @ v
    return Counts(*(array.astype(blocks.dtype) for array in (N, E, S, posteriors)))


# -- forward and backward for transitions that are products of positive features ---------------------


class FeatureModel(NamedTuple):
    """x of the state left, y of the state reached, p(word | state), and s, probabilities of the first state."""

    left: Float[Array, "classes k features"]
    reached: Float[Array, "classes k features"]
    emissions: Float[Array, "rows k"]
    starts: Float[Array, "classes k"]


class Classed(NamedTuple):
    """Observations: the class of each token, its row of the emissions, and where each sequence begins."""

    classes: Int64[Array, "tokens", below("classes"), host]
    words: Int64[Array, "tokens", below("rows"), host]
    offsets: Offsets[Array, "sequences tokens"]


class FeatureCounts(NamedTuple):
    """Gradients with respect to ``left`` and ``reached``; expected counts of ``emissions`` and ``starts``."""

    left: Any
    reached: Any
    emissions: Any
    starts: Any


@operation
def hmm_features(model: FeatureModel, observed: Classed) -> Forward:
    """Compute the results of `hmm_block` for p(z_t = j | z_{t-1} = i) = x_i . y_j, in O(Z f) instead of O(Z^2).

    x is scaled so that probabilities sum to one. The sum over previous states is computed first (Chiu and Rush 2021,
    generalized softmax): m_t = X^T a_t, a_t = (Y m_{t-1} o o_t) / c_t. On the CPU, all sequences that are in the same
    class at the same time make one product of matrices.
    """
    classes, words, offsets = observed
    x, y, o, s = (array.astype(np.float64) for array in model)
    c, a = np.empty(len(words)), np.empty((len(words), o.shape[1]))
    for begin, end in pairwise(offsets.tolist()):
        for t in range(begin, end):
            reached = s[classes[t]]
            if t > begin:
                reached = y[classes[t]] @ (x[classes[t - 1]].T @ a[t - 1])
            a[t] = reached * o[words[t]]
            c[t] = a[t].sum()
            if c[t] != 0:
                a[t] /= c[t]
    with np.errstate(divide="ignore"):
        return Forward(np.log(c), a.astype(model.left.dtype))


@operation
def hmm_features_backward(model: FeatureModel, observed: Classed, found: Forward) -> FeatureCounts:
    """Compute gradients and expected counts; ``found`` is the result of `hmm_features` for the same arguments.

    b_n = 1,    v_t = o_t o b_t / c_t,    w_t = Y^T v_t,    b_{t-1} = X w_t
    dX = sum_t a_{t-1} w_t^T,    dY = sum_t v_t m_{t-1}^T
    """
    classes, words, offsets = observed
    x, y, o, s = (array.astype(np.float64) for array in model)
    c, a = np.exp(found.log_probs), found.states.astype(np.float64)
    dx, dy, E, S = (np.zeros_like(array) for array in (x, y, o, s))
    for begin, end in pairwise(offsets.tolist()):
        b = np.ones(o.shape[1])
        for t in range(end - 1, begin - 1, -1):
            posterior = a[t] * b
            E[words[t]] += posterior
            if t == begin:
                S[classes[t]] += posterior
                continue
            v = o[words[t]] * b / c[t] if c[t] != 0 else 0 * b
            w = y[classes[t]].T @ v
            dx[classes[t - 1]] += np.outer(a[t - 1], w)
            dy[classes[t]] += np.outer(v, x[classes[t - 1]].T @ a[t - 1])
            b = x[classes[t - 1]] @ w
    return FeatureCounts(*(array.astype(model.left.dtype) for array in (dx, dy, E, S)))


# -- blocks of a transition matrix from vectors of the states ----------------------------------------


class Vectors(NamedTuple):
    """x of the state left, y of the state reached, and biases b of the latter."""

    left: Float[Array, "classes k width"]
    reached: Float[Array, "classes k width"]
    bias: Float[Array, "classes k"]


class VectorGradients(NamedTuple):
    """Gradients in the shapes of `Vectors`, and departures."""

    left: Any
    reached: Any
    bias: Any
    #: n (pairs, k): the gradient with respect to the logarithms of the weights, or of the factors exp(-l) of norms.
    departures: Any


def _check_sources(sources: Any) -> None:
    if not rises(sources):
        raise KernelError("the pairs must be sorted by their sources")


def _check_scales(sources: Any, weights: Any, norms: Any) -> None:
    _check_sources(sources)
    if (weights is None) == (norms is None):
        raise KernelError("give either weights or norms")


@operation(prepare=_check_scales)
def block_softmax(
    vectors: Vectors,
    sources: Int64[Array, "pairs", below("classes"), host],
    targets: Int64[Array, "pairs", below("classes"), host],
    weights: Float[Array, "pairs k"] | None = None,
    norms: Float[Array, "classes k"] | None = None,
    threads: int = 1,
) -> NDArray[Any]:
    """Compute the blocks A (pairs, k, k) that lead from the classes c of ``sources`` to c' of ``targets``.

        A_u[j, i] = w_u[i] softmax_j (x_{c,i} . y_{c',j} + b_{c',j})    with weights (two levels: class, then state)
        A_u[j, i] = exp(x_{c,i} . y_{c',j} + b_{c',j} - l_{c,i})         with norms l (one softmax over all states)

    On the CPU, float32 exponentials have a relative error of 2e-6, and are between 1e-38 and 1.7e38. ``threads`` share
    the pairs, and change no result. Raises KernelError unless the pairs are sorted by their sources.
    """
    x, y, b = (array.astype(np.float64) for array in vectors)
    A = np.empty((len(sources), x.shape[1], x.shape[1]))
    for u, (c, to) in enumerate(zip(sources, targets, strict=True)):
        scores = y[to] @ x[c].T + b[to][:, None]
        if weights is not None:
            p = np.exp(scores - scores.max(axis=0, initial=-np.inf))
            A[u] = weights[u] * p / p.sum(axis=0)
        elif norms is not None:
            A[u] = np.exp(scores - norms[c])
    return A.astype(vectors.left.dtype)


@operation(prepare=_check_sources)
def block_softmax_backward(
    vectors: Vectors,
    sources: Int64[Array, "pairs", below("classes"), host],
    targets: Int64[Array, "pairs", below("classes"), host],
    blocks: Float[Array, "pairs k k"],
    counts: Float[Array, "pairs k k"],
    weights: Float[Array, "pairs k"] | None = None,
    threads: int = 1,
) -> VectorGradients:
    """Compute the gradient of ``(counts * log(blocks)).sum()`` with fixed counts N.

    Without ``weights`` the blocks were made with norms. With n_u[i] = sum_j N_u[j, i] the gradients are

        D_u = N_u - (A_u / w_u) n_u,    or D_u = N_u with norms:
        dx_c += D_u^T y_{c'},    dy_{c'} += D_u x_c,    db_{c'} += sum_i D_u
    """
    x, y, b = (array.astype(np.float64) for array in vectors)
    dx, dy, db = np.zeros_like(x), np.zeros_like(y), np.zeros_like(b)
    departures = counts.sum(axis=1, dtype=np.float64)
    for u, (c, to) in enumerate(zip(sources, targets, strict=True)):
        D = counts[u].astype(np.float64)
        if weights is not None:
            D = D - blocks[u] * (departures[u] / weights[u])
        dx[c] += D.T @ y[to]
        dy[to] += D @ x[c]
        db[to] += D.sum(axis=1)
    return VectorGradients(*(array.astype(counts.dtype) for array in (dx, dy, db, departures)))


# -- a softmax over the words of each class ----------------------------------------------------------


class WordGradients(NamedTuple):
    """Gradients in the shapes of ``words``, ``bias`` and ``states``."""

    words: Any
    bias: Any
    states: Any


@operation
def class_softmax(
    words: Float[Array, "words width"],
    bias: Float[Array, "words"],
    states: Float[Array, "classes k width"],
    offsets: Offsets[Array, "classes words"],
) -> NDArray[Any]:
    """Compute p(word | state) for the states of the word's class c: o (words, k).

        o_w[j] = exp(y_w . x_{c,j} + b_w) / sum_{w' in c} exp(y_{w'} . x_{c,j} + b_{w'})

    Words are sorted by class, so that each class is a product of two small matrices: k V d multiplications in all with
    k states per class, instead of Z V d. A class may be empty. Exponentials are those of `block_softmax`.
    """
    o = np.empty((len(words), states.shape[1]))
    for c, x in enumerate(states.astype(np.float64)):
        own = slice(offsets[c], offsets[c + 1])
        scores = words[own].astype(np.float64) @ x.T + bias[own, None]
        p = np.exp(scores - scores.max(axis=0, initial=-np.inf))
        o[own] = p / p.sum(axis=0)
    return o.astype(words.dtype)


@operation
def class_softmax_backward(
    words: Float[Array, "words width"],
    bias: Float[Array, "words"],
    states: Float[Array, "classes k width"],
    offsets: Offsets[Array, "classes words"],
    found: Float[Array, "words k"],
    counts: Float[Array, "words k"],
) -> WordGradients:
    """Compute the gradient of ``(counts * log(found)).sum()`` with fixed counts E.

    D = E - o sum_{w in c} E;    dy_w = D_w x_c,    dx_c = D^T y,    db_w = sum_j D_w[j]
    """
    y, x, E, o = (array.astype(np.float64) for array in (words, states, counts, found))
    D, dx = np.empty_like(E), np.empty_like(x)
    dy = np.empty_like(y)
    for c in range(len(states)):
        own = slice(offsets[c], offsets[c + 1])
        D[own] = E[own] - o[own] * E[own].sum(axis=0)
        dy[own], dx[c] = D[own] @ x[c], D[own].T @ y[own]
    return WordGradients(*(array.astype(words.dtype) for array in (dy, D.sum(axis=1), dx)))


# -- the normalizer of a softmax over very many columns ----------------------------------------------


class SumGradients(NamedTuple):
    """Gradients in the shapes of ``rows``, ``columns`` and ``bias``."""

    rows: Any
    columns: Any
    bias: Any


def _check_columns(rows: Any, columns: Any, kept: Any) -> None:
    if not len(columns) or (kept is not None and len(kept) > len(rows)):
        raise KernelError("there must be at least one column, and no more rows kept than there are")


@operation(prepare=_check_columns)
def streaming_logsumexp(
    rows: Float[Array, "rows width"],
    columns: Float[Array, "columns width"],
    bias: Float[Array, "columns"],
    kept: Float[Array, "kept columns", in_place] | None = None,
) -> NDArray[Any]:
    """Compute the natural logarithm l_i = log sum_j exp(x_i . y_j + b_j) of every row, without the matrix of scores.

    The scores are computed tile by tile; for each row, only the largest score so far and the sum of exponentials below
    it are stored (Milakov and Gimelshein 2018; Dao et al. 2022, section 3.1). A flat transition matrix of Z states so
    needs Z x d numbers of memory instead of Z x Z. A bias of -inf excludes a column.

    ``kept`` (kept, columns) is filled with p_ij = exp(x_i . y_j + b_j - l_i) of the first rows, which the backward pass
    then need not compute again. If all columns are excluded, l is -inf and p is 0.
    """
    scores = _scores(rows, columns, bias)
    largest = scores.max(axis=1, keepdims=True)
    shift = np.where(np.isneginf(largest), 0, largest)  # -inf - -inf is no number
    with np.errstate(divide="ignore"):
        found = shift[:, 0] + np.log(np.exp(scores - shift).sum(axis=1))
    if kept is not None:
        n = len(kept)
        kept[...] = np.exp(scores[:n] - np.where(np.isneginf(found), 0, found)[:n, None])
    return np.asarray(found, rows.dtype)


@operation(prepare=_check_columns)
def streaming_logsumexp_backward(
    rows: Float[Array, "rows width"],
    columns: Float[Array, "columns width"],
    bias: Float[Array, "columns"],
    found: Float[Array, "rows"],
    gradient: Float[Array, "rows"],
    kept: Float[Array, "kept columns"] | None = None,
) -> SumGradients:
    """Compute the gradient of ``(gradient * streaming_logsumexp(rows, columns, bias)).sum()``.

        dx_i = g_i sum_j p_ij y_j,    dy_j = sum_i g_i p_ij x_i,    db_j = sum_i g_i p_ij

    ``found`` is the result of the forward pass, and ``kept`` is as it filled it.
    """
    log_sums = np.where(np.isneginf(found), 0, found).astype(np.float64)  # as above
    p = np.exp(_scores(rows, columns, bias) - log_sums[:, None])
    weighted = p * gradient.astype(np.float64)[:, None]
    grads = (weighted @ columns, weighted.T @ rows, weighted.sum(axis=0))
    return SumGradients(*(grad.astype(rows.dtype) for grad in grads))


def _scores(rows: Any, columns: Any, bias: Any) -> Any:
    """Return x_i . y_j + b_j, in float64."""
    return np.asarray(rows.astype(np.float64) @ columns.astype(np.float64).T + bias)
