"""Awkward inputs for all operations: empty, one of everything, widths beside those of a vector register.

A sample is a label, which says what is awkward about it, and the positional arguments of the operation's public
function. Every call makes new inputs, so that a test can tell whether an operation changes them.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tacenda import kernels
from tacenda.kernels import boltzmann, contexts, ratings, trees
from tacenda.kernels import hidden_markov as hmm
from tacenda.kernels.counts import Counts
from tacenda.kernels.dispatch import REFERENCE
from tacenda.kernels.sequences import Modes

Sample = tuple[str, tuple[Any, ...]]

SPECIFICATION = f"{REFERENCE}@tacenda"
"""The backend that others are compared with, also while it is itself under test."""


# -- counts ------------------------------------------------------------------------------------------


def lagged_counts() -> Iterator[Sample]:
    """Streams shorter than the lags, one word type, a word so frequent that it fills its row."""
    for vocabulary in (1, 2, 63, 65, 5000):
        for length in (0, 1, 3, 7, 8, 300):
            # a set, as two of them are the same for a stream without words
            for n_lags, n_history in sorted({(1, 0), (7, 0), (7, min(7, length)), (3, length)}):
                rng = np.random.default_rng(length)
                stream = np.minimum(rng.zipf(1.3, length) - 1, vocabulary - 1).astype(np.int32)
                label = (
                    f"length {length}, vocabulary {vocabulary}, {n_lags} lags, {n_history} before"
                )
                yield label, (stream, n_lags, vocabulary, n_history)


def merge_counts() -> Iterator[Sample]:
    """One part, empty rows, no entries at all, parts that overlap in every entry or in none."""
    for dtype in (np.int32, np.float32):
        for rows, vocabulary, densities in ((1, 1, (0, 1)), (5, 63, (0, 1)), (9, 5000, (0.01,))):
            for n in (1, 2, 5):
                for density in densities:
                    seeds = range(n)
                    parts = [random_counts(rows, vocabulary, density, dtype, s) for s in seeds]
                    label = f"{n} parts of {dtype.__name__}, {rows} rows, {vocabulary} columns"
                    yield f"{label}, density {density}", (parts, vocabulary)


def random_counts(rows: int, columns: int, density: float, dtype: Any, seed: int) -> Counts:
    """Return a random table as CSR, integers in ``data``."""
    rng = np.random.default_rng(seed)
    present = rng.random((rows, columns)) < density
    indptr = np.concatenate([[0], np.cumsum(present.sum(axis=1))]).astype(np.int64)
    indices = np.nonzero(present)[1].astype(np.int32)
    return Counts(indptr, indices, rng.integers(1, 1000, len(indices)).astype(dtype))


# -- sequences ---------------------------------------------------------------------------------------


def linear_recurrence() -> Iterator[Sample]:
    """No tokens, empty sequences, one state, both directions."""
    for states in (1, 3, 63):
        rng = np.random.default_rng(states)
        F = (rng.standard_normal((states, states)) * 0.5 / np.sqrt(states)).astype(np.float32)
        for label, ids, offsets, reverse in _sequences():
            u = _normal(rng, len(ids), states)
            yield f"{states} states, {label}", (F, u, offsets, reverse)


def modal_scan() -> Iterator[Sample]:
    """The same sequences; only real or only complex eigenvalues, and states kept in a wider array or not at all."""
    for n_real, n_pairs in ((1, 0), (0, 1), (3, 2), (15, 24)):
        states = n_real + 2 * n_pairs
        rng = np.random.default_rng(n_real)
        real = rng.uniform(-0.9, 0.9, n_real).astype(np.float32)
        pairs = rng.uniform(-0.6, 0.6, (n_pairs, 2)).astype(np.float32)
        table = _normal(rng, 5, states)
        for label, ids, offsets, reverse in _sequences():
            initial = _normal(rng, len(offsets) - 1, states)
            given = initial if n_pairs != 1 else None
            label = f"{n_real} real, {n_pairs} pairs, {label}"
            for out in (None, np.zeros((len(ids) + 2, states + 2), np.float32)):
                kept = "not kept" if out is None else "kept"
                arguments = (Modes(real, pairs), table, ids, offsets, given, reverse, out, 1)
                yield f"{label}, states {kept}", arguments


def unit_rows() -> Iterator[Sample]:
    """No rows, no columns, one of each, and a row of zeros."""
    for rows, width in ((0, 2), (5, 0), (1, 1), (63, 7)):
        yield f"{rows} rows of {width}", (_normal(np.random.default_rng(rows), rows, width),)
    yield "63 rows of 7, zeros", (np.zeros((63, 7), np.float32),)


def _sequences() -> Iterator[tuple[Any, ...]]:
    """A label, ids and offsets of no sequence, an empty one, one of a token, and all together; both directions."""
    for lengths in ([], [0], [1], [5, 0, 63, 1]):
        for reverse in (False, True):
            ids = np.random.default_rng(len(lengths)).integers(0, 5, sum(lengths))
            yield f"lengths {lengths}, reverse={reverse}", ids, _offsets(lengths), reverse


# -- shared ------------------------------------------------------------------------------------------


def sparse_product() -> Iterator[Sample]:
    """Without rows or entries, with one column."""
    for rows, columns in ((0, 3), (1, 1), (9, 63)):
        for width in (0, 1, 15, 63):
            counts = random_counts(rows, columns, 0.3, np.int32, seed=rows)
            dense = _normal(np.random.default_rng(width), columns, width)
            yield f"{rows} x {columns} by {width}", (*counts, dense)


def adagrad() -> Iterator[Sample]:
    """No rows, one column, rows that have had a step and rows that have not, in both widths of integers."""
    for n, width, integers in ((0, 3, np.int32), (1, 1, np.int64), (4, 63, np.int32)):
        rng = np.random.default_rng(n)
        table, sums = _normal(rng, 5, width), np.full(5, 1e-8, np.float32)
        sums[0] = 3
        gradient = _normal(rng, n, width)
        arguments = (table, sums, rng.permutation(5)[:n].astype(integers), gradient, 0.1, 1)
        yield f"{n} rows, {width} wide, {integers.__name__}", arguments


def adam() -> Iterator[Sample]:
    """Nothing, one number, two dimensions; the first step and a later one."""
    for shape in ((0, 3), (1,), (9, 63)):
        for t in (1, 1000):
            rng = np.random.default_rng(t)
            table, mean, square, gradient = (_normal(rng, *shape) for _ in range(4))
            yield f"{shape}, step {t}", (table, mean, square**2, gradient, 0.01, t)


# -- trees -------------------------------------------------------------------------------------------

#: Three words, the last with two codes.
_CODES = trees.Codes(
    [0, 1, 2, 4], [0, 1, 3, 6, 9], [0, 0, 1, 0, 1, 2, 0, 1, 2], [1, -1, 1, -1, -1, 1, -1, -1, -1]
)


def tree_softmax() -> Iterator[Sample]:
    """No tokens, one word and no node, words with several codes."""
    one = trees.Codes([0, 1], [0, 0], np.empty(0, np.int32), np.empty(0, np.int8))
    for codes in (one, _CODES):
        for tokens, width in ((0, 3), (1, 1), (9, 15), (20, 33)):
            rng = np.random.default_rng(tokens)
            r = _normal(rng, tokens, width)
            q = _normal(rng, codes.n_nodes, width)
            words = rng.integers(0, codes.n_words, tokens).astype(np.int32)
            nodes = trees.Nodes(q, rng.standard_normal(codes.n_nodes).astype(np.float32))
            label = f"{codes.n_words} words, {tokens} tokens, {width} wide"
            yield label, (r, words, codes, nodes)


def tree_softmax_step() -> Iterator[Sample]:
    """The inputs of `tree_softmax`, nodes with steps behind them and nodes without."""
    for label, given in tree_softmax():
        grad = np.linspace(-1, 1, len(given[1]), dtype=np.float32)
        sums = np.linspace(1e-8, 2, len(given[3].biases), dtype=np.float32)
        yield label, (*given, grad, trees.NodeSums(sums, sums[::-1].copy()), 0.1, 1)


def tree_softmax_distribution() -> Iterator[Sample]:
    """The inputs of `tree_softmax`, without words."""
    for label, (vectors, _, codes, nodes) in tree_softmax():
        yield label, (vectors, codes, nodes)


def context_sum() -> Iterator[Sample]:
    """No tokens, empty sequences, no positions, no tails, spans over ends."""
    for lengths in ([], [0], [1], [5, 0, 63, 1]):
        for n, tails, width in ((0, 1, 1), (2, 0, 15), (3, 2, 17)):
            rng = np.random.default_rng(n)
            tokens = sum(lengths)
            table = _normal(rng, 3, width)
            context = contexts.Context(
                _normal(rng, n, width),
                _normal(rng, width),
                np.linspace(0.5, 0.9, tails, dtype=np.float32),
                _normal(rng, tails, width),
            )
            ids = rng.integers(0, 3, tokens).astype(np.int32)
            borders = np.array([0, tokens // 3, tokens, tokens + 1])
            text = contexts.Spans(ids, _offsets(lengths), borders[:-1], borders[1:])
            label = f"lengths {lengths}, {n} positions, {tails} tails, {width} wide"
            yield label, (table, text, context, None, 1)


def context_sum_backward() -> Iterator[Sample]:
    """The inputs and results of `context_sum`."""
    for label, (table, text, context, _, threads) in context_sum():
        found = run_specification(contexts.context_sum, table, text, context)
        grad = np.cos(found.vectors)
        yield label, (table, text, context, found.before, grad, threads)


# -- hidden Markov models ----------------------------------------------------------------------------

_LENGTHS = ((), (0,), (1,), (0, 5, 1, 0, 63), (1, 1, 1))


def hmm_block() -> Iterator[Sample]:
    """No sequences, empty ones, one token, one state."""
    for k in (1, 3, 16, 33):
        for lengths in _LENGTHS:
            rng = np.random.default_rng([k, len(lengths)])
            offsets = _offsets(lengths)
            n = int(offsets[-1])
            emissions, words = _stochastic(rng, 7, k), rng.integers(0, 7, n)
            firsts = rng.integers(0, 5, n), words, rng.integers(0, 4, len(lengths))
            arguments = (_stochastic(rng, 5, k, k), emissions, _stochastic(rng, k, 4).T.copy())
            label = f"{k} states, lengths {lengths}"
            yield label, (*arguments, hmm.Sequences(*firsts, offsets))


def hmm_block_backward() -> Iterator[Sample]:
    """The inputs and results of `hmm_block`."""
    for label, arguments in hmm_block():
        yield label, (*arguments, run_specification(hmm.hmm_block, *arguments))


def hmm_features() -> Iterator[Sample]:
    """The sequences of `hmm_block`, one feature and more features than states."""
    for classes, k, width in ((1, 1, 1), (1, 7, 3), (4, 3, 5)):
        for lengths in _LENGTHS:
            rng = np.random.default_rng([k, len(lengths)])
            offsets = _offsets(lengths)
            n = int(offsets[-1])
            x, y = (rng.random((classes, k, width), np.float32) for _ in range(2))
            x /= (x @ y.sum((0, 1)))[:, :, None]
            starts = rng.random((classes, k), np.float32)
            model = hmm.FeatureModel(x, y, _stochastic(rng, 7, k), starts)
            observed = hmm.Classed(rng.integers(0, classes, n), rng.integers(0, 7, n), offsets)
            yield f"{classes} x {k} states, {width} features, {lengths}", (model, observed)


def hmm_features_backward() -> Iterator[Sample]:
    """The inputs and results of `hmm_features`."""
    for label, arguments in hmm_features():
        yield label, (*arguments, run_specification(hmm.hmm_features, *arguments))


def block_softmax() -> Iterator[Sample]:
    """No pairs, one state, sources without pairs; two levels and one."""
    for k, width in ((1, 1), (3, 5), (16, 15), (33, 8)):
        rng = np.random.default_rng(k)
        tables = _normal(rng, 4, k, width), _normal(rng, 4, k, width), _normal(rng, 4, k)
        for pairs in (0, 1, 9):
            sources = np.sort(rng.choice([0, 2, 3], pairs))
            targets = rng.integers(0, 4, pairs)
            weights = rng.random((pairs, k), np.float32) + np.float32(0.1)
            norms = np.abs(_normal(rng, 4, k)) + np.float32(3)
            for two in (True, False):
                label = f"{pairs} pairs of {k} states, {'two levels' if two else 'one level'}"
                chosen = (weights, None) if two else (None, norms)
                yield label, (hmm.Vectors(*tables), sources, targets, *chosen)


def block_softmax_backward() -> Iterator[Sample]:
    """The inputs and results of `block_softmax`."""
    for label, arguments in block_softmax():
        blocks = run_specification(hmm.block_softmax, *arguments)
        counts = np.abs(np.cos(blocks * 9)).astype(np.float32)
        yield label, (*arguments[:3], blocks, counts, arguments[3])


def class_softmax() -> Iterator[Sample]:
    """An empty class, a class of one word, one state."""
    for k, width in ((1, 1), (3, 4), (17, 9)):
        rng = np.random.default_rng(k)
        for cuts in ((0, 0, 1, 9, 9), (0, 5), (0, 0)):
            n = cuts[-1]
            states = _normal(rng, len(cuts) - 1, k, width)
            arguments = (_normal(rng, n, width), _normal(rng, n), states, np.array(cuts))
            yield f"classes cut at {cuts}, {k} states", arguments


def class_softmax_backward() -> Iterator[Sample]:
    """The inputs and results of `class_softmax`."""
    for label, arguments in class_softmax():
        found = run_specification(hmm.class_softmax, *arguments)
        yield label, (*arguments, found, np.abs(np.cos(found * 9)))


def streaming_logsumexp() -> Iterator[Sample]:
    """No rows, one column, more than a tile of both, columns left out, large scores."""
    for rows, columns, width in ((0, 1, 1), (1, 1, 1), (5, 63, 7), (515, 1030, 3)):
        rng = np.random.default_rng(columns)
        arguments = [_normal(rng, n, width) for n in (rows, columns)]
        bias = _normal(rng, columns)
        yield f"{rows} x {columns}", (*arguments, bias)
        yield f"{rows} x {columns}, large", (arguments[0], arguments[1], bias * np.float32(30))
        if columns > 1:
            some = np.where(np.arange(columns), np.float32(-np.inf), bias)
            yield f"{rows} x {columns}, one left", (*arguments, some)


def streaming_logsumexp_backward() -> Iterator[Sample]:
    """The inputs and results of `streaming_logsumexp`."""
    for label, arguments in streaming_logsumexp():
        found = run_specification(hmm.streaming_logsumexp, *arguments)
        yield label, (*arguments, found, np.cos(found))


# -- ratings -----------------------------------------------------------------------------------------


def rating_sgd() -> Iterator[Sample]:
    """One factor, a user without ratings, a single rating, with and without identities and biases."""
    for n_users, n_items, n, factors in ((1, 1, 1, 1), (3, 5, 6, 63), (9, 4, 20, 16), (2, 2, 0, 3)):
        for side in (False, True):
            rng = np.random.default_rng(n)
            cells = np.sort(rng.permutation(n_users * n_items)[:n])
            ids = (cells % n_items).astype(np.int32)
            offsets = np.searchsorted(cells, np.arange(n_users + 1) * n_items)
            tables = ratings.Tables(
                _normal(rng, n_users, factors),
                _normal(rng, n_items, factors),
                _normal(rng, n_users),
                _normal(rng, n_items),
                _normal(rng, n_items if side else 0, factors),
            )
            rates = ratings.Rates(0.02, 0.03, 0.01 if n_users > 1 else 0.0, 0.02, 0.5)
            rows = (rng.random(len(table), np.float32) for table in tables[:4])
            penalties = ratings.Penalties._make([*rows, 0.3])
            values, users = rng.integers(1, 6, n).astype(np.float32), rng.permutation(n_users)
            rated = ratings.ByUser(offsets, ids, values, 0.5 + rng.random(n_users, np.float32))
            sides = ratings.Identities(offsets, ids) if side else None
            arguments = (rated, users, tables, 3.5, rates, penalties, 7, sides)
            yield f"{n} ratings, {factors} factors, identities={side}", arguments


def rating_visits() -> Iterator[Sample]:
    """A row without ratings, a single rating, more than a tile of them, with and without a prior."""
    for n, others, most, width in ((1, 1, 1, 1), (4, 9, 40, 63), (3, 5, 17, 16), (0, 2, 0, 3)):
        for known in (False, True):
            rng = np.random.default_rng(most)
            sizes = rng.integers(0, most + 1, n)
            sizes[:1] = most
            offsets = _offsets(sizes)
            tables = [_normal(rng, rows, width) for rows in (n + 2, others)]
            biases = [_normal(rng, rows) for rows in (n + 2, others)]
            lambdas, etas = (rng.random(n + 2, np.float32) for _ in range(2))
            weights = [0.5 + rng.random(rows, np.float32) for rows in (n + 2, others)]
            ids = rng.integers(0, others, offsets[-1]).astype(np.int32)
            values = rng.integers(1, 6, offsets[-1]).astype(np.float32)
            arguments = (
                ratings.Visits(offsets, ids, values, rng.permutation(n + 2)[:n]),
                ratings.Side(tables[0], biases[0], lambdas, etas, weights[0]),
                ratings.Others(tables[1], biases[1], weights[1]),
                3.5,
                (0.02, 0.03),
                7,
                _normal(rng, n, width) if known else None,
            )
            yield f"{n} rows of at most {most} ratings, {width} wide, prior={known}", arguments


def rating_scores() -> Iterator[Sample]:
    """No pairs, one factor, users and items that are unknown."""
    for n, factors in ((0, 3), (1, 1), (50, 63)):
        rng = np.random.default_rng(n)
        tables = [_normal(rng, rows, factors) for rows in (4, 6)]
        biases = [_normal(rng, rows) for rows in (4, 6)]
        users, items = rng.integers(-1, 4, n), rng.integers(-1, 6, n)
        yield f"{n} pairs, {factors} factors", (users, items, *tables, *biases, 3.5)


def rating_solves() -> Iterator[Sample]:
    """Width 1, rows without targets, fewer targets than columns, with and without noise."""
    for rows, width in ((0, 2), (1, 1), (5, 3), (4, 17)):
        for noisy in (False, True):
            for scaled in (False, True):
                rng = np.random.default_rng(width)
                offsets, ids, _ = random_counts(rows, 6, 0.5, np.float32, rows)
                root = rng.standard_normal((width, width))
                targets = ratings.Targets(offsets, ids, _normal(rng, len(ids)))
                means = _normal(rng, *((rows, width) if scaled else (width,)))
                arguments = (
                    targets, _normal(rng, 6, width), means, root @ root.T + np.eye(width),
                    1 + rng.random(rows), _normal(rng, rows, width) if noisy else None, scaled,
                )  # fmt: skip
                yield f"{rows} rows, {width} wide, noise={noisy}, scaled={scaled}", arguments


def link_draws() -> Iterator[Sample]:
    """Width 1, links of no row, more links than rows, and no links."""
    for links, rows, width in ((0, 2, 2), (1, 1, 1), (5, 3, 3), (4, 6, 17)):
        rng = np.random.default_rng(width)
        offsets, ids, _ = random_counts(links, rows, 0.5, np.float32, links)
        columns = ratings.Targets(offsets, ids, _normal(rng, len(ids)))
        tables = _normal(rng, rows, width), _normal(rng, links, width)
        yield f"{links} links, {rows} rows, {width} wide", (columns, *tables, 1.5, tables[1] + 1)


def choice_steps() -> Iterator[Sample]:
    """Width 1, rows without choices, fewer choices than columns, no steps and more than there are columns."""
    for rows, width, steps in ((0, 2, 1), (1, 1, 1), (5, 3, 0), (5, 3, 4), (4, 17, 3)):
        rng = np.random.default_rng(width)
        offsets, ids, _ = random_counts(rows, 6, 0.5, np.float32, rows)
        table, start = _normal(rng, 6, width), _normal(rng, rows, width)
        precision = table.T @ table + 2 * np.eye(width, dtype=np.float32)
        yield (
            f"{rows} rows, {width} wide, {steps} steps",
            (offsets, ids, table, start, precision, 0.7, steps),
        )


# -- Boltzmann machines ------------------------------------------------------------------------------


def boltzmann_divergence() -> Iterator[Sample]:
    """One hidden unit, two levels, a case without ratings, tied and untied weights, identities."""
    for n_cases, visible, hidden, K in ((1, 1, 1, 2), (4, 6, 63, 5), (3, 2, 5, 10)):
        for tied in (False, True):
            for side in (False, True):
                rng = np.random.default_rng(K)
                offsets, ids, _ = random_counts(n_cases, visible, 0.6, np.float32, seed=n_cases)
                levels, chosen = rng.integers(0, K, len(ids)), rng.permutation(n_cases)
                shape = (visible, hidden) if tied else (visible, K, hidden)
                machine = boltzmann.Machine(
                    _normal(rng, *shape),
                    _normal(rng, visible, K),
                    _normal(rng, hidden),
                    _normal(rng, visible if side else 0, hidden),
                    np.linspace(-1, 1, K, dtype=np.float32),
                )
                sides = (offsets, ids) if side else (None, None)
                cases = boltzmann.Cases(offsets, ids, levels, _normal(rng, n_cases), *sides)
                label = f"{hidden} hidden, {K} levels, tied={tied}, identities={side}"
                yield label, (cases, chosen, machine, 3)


def boltzmann_descent() -> Iterator[Sample]:
    """The inputs of `boltzmann_divergence`, with penalties that a few steps show."""
    for label, (cases, chosen, machine, seed) in boltzmann_divergence():
        own = boltzmann.Machine(*(table.copy() for table in machine))
        yield label, (cases, chosen, own, seed, boltzmann.Descent(0.05, 0.02, 0.4, 0.3, 0.2))


def boltzmann_expectations() -> Iterator[Sample]:
    """No pairs, one hidden unit, two levels and ten, what is unknown; tied and untied weights."""
    for n, hidden, K in ((0, 3, 5), (1, 1, 2), (50, 63, 10)):
        for tied in (False, True):
            rng = np.random.default_rng(n)
            shape = (6, hidden) if tied else (6, K, hidden)
            arguments = (
                rng.integers(-1, 6, n), rng.integers(-1, 4, n), _normal(rng, *shape), _normal(rng, 6, K),
                rng.random((4, hidden), np.float32), np.linspace(-1, 1, K, dtype=np.float32), _normal(rng, 4),
            )  # fmt: skip
            yield f"{n} pairs, {hidden} hidden, {K} levels, tied={tied}", arguments


def hidden_sums() -> Iterator[Sample]:
    """No contexts, one word, one hidden unit, words and contexts beside whole vectors, numbers of every size."""
    for n_contexts, types, hidden, size in (
        (0, 3, 2, 1.0), (1, 1, 1, 1.0), (3, 17, 1, 30.0), (5, 33, 63, 0.1), (9, 15, 100, 3.0),
    ):  # fmt: skip
        rng = np.random.default_rng(hidden)
        inputs = (rng.standard_normal((types, hidden)) * size).astype(np.float32)
        given = (rng.standard_normal((n_contexts, hidden)) * size).astype(np.float32)
        label = f"{n_contexts} contexts, {types} words, {hidden} units, numbers about {size}"
        yield label, (boltzmann.pack_inputs(inputs), given)


# -- numbers -----------------------------------------------------------------------------------------


def run_specification(function: Any, *arguments: Any, **options: Any) -> Any:
    """Return the result of a public function on the backend `SPECIFICATION`."""
    with kernels.use(SPECIFICATION):
        return function(*arguments, **options)


def _offsets(lengths: Any) -> Any:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _normal(rng: np.random.Generator, *shape: int) -> Any:
    return rng.standard_normal(shape, np.float32)


def _stochastic(rng: np.random.Generator, *shape: int) -> Any:
    """Return positive random numbers, float32, that sum to one over the second axis from the end."""
    found = rng.random(shape, np.float32) + np.float32(0.01)
    return found / found.sum(axis=-2, keepdims=True)


SAMPLES: dict[str, Callable[[], Iterator[Sample]]] = {
    function.__name__: function
    for function in (
        lagged_counts, merge_counts, linear_recurrence, modal_scan, sparse_product, adagrad, adam, unit_rows,
        hidden_sums, tree_softmax, tree_softmax_step, tree_softmax_distribution, context_sum, context_sum_backward,
        hmm_block, hmm_block_backward, hmm_features, hmm_features_backward, block_softmax, block_softmax_backward,
        class_softmax, class_softmax_backward, streaming_logsumexp, streaming_logsumexp_backward, rating_sgd,
        rating_visits, rating_scores, rating_solves, link_draws, choice_steps, boltzmann_divergence,
        boltzmann_descent, boltzmann_expectations,
    )
}  # fmt: skip
"""Operation -> its inputs."""
