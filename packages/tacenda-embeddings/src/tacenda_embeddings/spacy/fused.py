"""Embedding layers and the layer that mixes them as one operation, for inference on a CPU.

The mixing layer multiplies the columns of all embeddings, side by side, by one matrix W and adds b. Column by column,

    W [e_1; ...; e_k] + b  =  (W_1 e_1 + ... + b)  +  s (W_t v)  + ...

``spacy.MultiHashEmbed.v2`` sees of a token its attributes (norm, prefix, ...) and perhaps its static vector, and
nothing around it. So the first bracket is one row for each word, and a text has far fewer words than tokens:
`WordRows` keeps these rows from batch to batch. v are the vectors that ``tacenda.DocTensor.v1`` reads, and s scales
each of them; they are multiplied in place, and nothing is put side by side. The result differs from that of the layers
by rounding alone.

Optimizers, and users, may write into the arrays of weights at any time, so nothing is trusted because an array is the
same object. Weights that every row depends on are digested at each batch. The tables of hashed embeddings are too
large for that: each word has a digest of the few rows of them that it reads.
"""

import threading
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from spacy.attrs import intify_attr
from spacy.tokens import Doc
from thinc.api import Model, get_width
from thinc.types import Ragged

from tacenda.forks import renew_in_children
from tacenda.kernels.machinery.compiled import njit
from tacenda_embeddings.spacy.doc_tensor import NAME as DOC_TENSOR
from tacenda_embeddings.spacy.doc_tensor import read_vectors, scales
from tacenda_embeddings.spacy.vectors import MorphologicalVectors

#: Layers that treat every token separately, and see no more of it than its attributes.
_WORD_BY_WORD = frozenset(
    {"extract_features", "list2ragged", "ragged2list", "ints-getitem", "hashembed", "maxout",
     "layernorm", "dropout", "static_vectors"}
)  # fmt: skip

_BLOCK_TOKENS = 512  # what is computed of so many tokens stays in the second-level cache
_FEW = 128  # among so few tokens it does not pay to look for equal words
_IN_ORDER = 2  # numbers that are digested in order in the time of one of a row somewhere in a table
_KEPT_BYTES = 32_000_000  # of rows that a layer keeps before it starts over


class Part(NamedTuple):
    """An embedding layer, and the columns of W that multiply its output."""

    layer: Model[Any, Any]
    start: int
    stop: int


class Plan(NamedTuple):
    """How a model is computed."""

    # of the model and the vectors of the pipeline that the plan is for
    nodes: list[Model[Any, Any]]
    vectors: type
    maxout: Model[Any, Any]
    norm: Model[Any, Any]
    of_words: list[Part]  # whose output is a matter of the word
    of_context: list[Part]
    attributes: list[int]  # spaCy's ids of all that ``of_words`` read
    hashed: list[tuple[Model[Any, Any], int]]  # hashed embeddings, each with its attribute
    weights: list[tuple[Model[Any, Any], str]]  # all other weights that rows of words depend on
    static: bool  # whether these depend on the vectors of the pipeline

    def tables(self, vectors: Any) -> list[np.ndarray]:
        """Return the arrays from which each word reads a few rows."""
        tables = [np.ascontiguousarray(node.get_param("E"), np.float32) for node, _ in self.hashed]
        return [*tables, np.ascontiguousarray(vectors.data, np.float32)] if self.static else tables

    def rows_read(self, values: np.ndarray, vectors: Any) -> np.ndarray:
        """Return which rows of `tables` words read (words, rows) int32, -1 for none.

        ``values`` (words, attributes) has a column for each of ``attributes``.
        """
        column = {attribute: values[:, i] for i, attribute in enumerate(self.attributes)}
        read = [np.empty((len(values), 0))]
        for node, attribute in self.hashed:
            hashes = node.ops.hash(np.ascontiguousarray(column[attribute]), node.attrs["seed"])
            read.append(hashes % len(node.get_param("E")))  # four rows, as thinc's ``hashembed``
        if self.static:
            rows = [vectors.find(key=key) for key in column[vectors.attr].tolist()]
            read.append(np.array(rows).reshape(-1, 1))
        return np.concatenate(read, axis=1).astype(np.int32)


def make_plan(
    nodes: list[Model[Any, Any]],
    embeds: Sequence[Model[Any, Any]],
    mix: Model[Any, Any],
    doc: Doc,
) -> Plan | None:
    """Return the plan; None if the mixing layer is not what ``tacenda.ConcatEmbed.v1`` makes, and initialized."""
    inner = {node.name: node for node in _list_leaves(mix)}
    if sorted(node.name for node in _list_leaves(mix)) != ["dropout", "layernorm", "maxout"]:
        return None
    if not all(node.has_param(name) for node in inner.values() for name in node.param_names):
        return None
    vectors = doc.vocab.vectors
    of_words: list[Part] = []
    of_context: list[Part] = []
    attributes: set[int] = set()
    hashed: list[tuple[Model[Any, Any], int]] = []
    weights = [(inner["maxout"], name) for name in inner["maxout"].param_names]
    static, stop = False, 0
    for layer in embeds:
        start, stop = stop, stop + get_width(layer.predict([doc]))
        leaves = _list_leaves(layer)
        columns = _columns_of_words(leaves, vectors)
        if columns is None:
            of_context.append(Part(layer, start, stop))
            continue
        of_words.append(Part(layer, start, stop))
        attributes.update(columns)
        for node in leaves:
            if node.name == "hashembed":
                hashed.append((node, columns[node.attrs["column"]]))
            else:
                weights += [(node, name) for name in node.param_names]
            if node.name == "static_vectors":
                static = True
                attributes.add(vectors.attr)
    return Plan(
        nodes, type(vectors), inner["maxout"], inner["layernorm"], of_words, of_context,
        sorted(attributes), hashed, weights, static,
    )  # fmt: skip


def _list_leaves(layer: Model[Any, Any]) -> list[Model[Any, Any]]:
    return [node for node in layer.walk() if not node.layers]


def _columns_of_words(leaves: list[Model[Any, Any]], vectors: Any) -> list[int] | None:
    """Return the attributes that a layer reads; None if its output for a token is not a matter of these alone.

    Nor is it where spaCy's own table has the vectors, in which words may be mapped to other rows at any time, or where
    it cannot be told which attribute a hashed embedding looks up.
    """
    if not _WORD_BY_WORD.issuperset(node.name for node in leaves):
        return None
    static = any(node.name == "static_vectors" for node in leaves)
    if static and not isinstance(vectors, MorphologicalVectors):
        return None
    extracts = [node for node in leaves if node.name == "extract_features"]
    columns = [node.attrs["column"] for node in leaves if node.name == "hashembed"]
    if len(extracts) > 1 or None in columns or (columns and not extracts):
        return None
    return [int(intify_attr(each)) for node in extracts for each in node.attrs["columns"]]


def _rows_of_words(plan: Plan, W: np.ndarray, b: np.ndarray, words: "Words") -> np.ndarray:
    """Return b plus what layers give for each word (words, outputs times pieces)."""
    total = np.tile(b, (len(words), 1))
    for layer, start, stop in plan.of_words:
        total += _flatten(layer.predict([words])) @ W[:, start:stop].T
    return total


def _rows_of_context(parts: list[Part], kept: "_Kept", docs: list[Doc]) -> np.ndarray:
    """Return what the other layers give (n_tokens, outputs times pieces) float32; no columns without any."""
    found = np.empty((sum(map(len, docs)), 0), np.float32)
    for layer, start, _ in parts:
        W = kept.columns[start]
        if layer.name == DOC_TENSOR:
            arrays = read_vectors(layer, docs, False)
            vectors = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
            product = vectors @ W
            factors = scales(layer, vectors)
            if factors is not None:
                product *= factors
        else:
            product = _flatten(layer.predict(docs)) @ W
        found = found + product if found.size else product
    return found


def _flatten(output: Any) -> np.ndarray:
    """Return the output of an embedding layer as one array (n_tokens, width)."""
    if isinstance(output, Ragged):
        return np.asarray(output.dataXd)
    return output[0] if len(output) == 1 else np.concatenate(output)


def _blocks(docs: Sequence[Doc]) -> Iterator[list[Doc]]:
    """Yield the documents in order, in runs of few tokens; a longer document goes alone."""
    block: list[Doc] = []
    size = 0
    for doc in docs:
        if block and size + len(doc) > _BLOCK_TOKENS:
            yield block
            block, size = [], 0
        block.append(doc)
        size += len(doc)
    if block:
        yield block


# -- rows of words, kept from batch to batch -----------------------------------------------------------


class Words:
    """Words in place of a document: as much of one as layers read that depend on words alone."""

    def __init__(self, vocab: Any, attributes: list[int], values: np.ndarray) -> None:
        self.vocab = vocab
        self._column = {attribute: i for i, attribute in enumerate(attributes)}
        self._values = values  # (words, attributes) uint64

    def __len__(self) -> int:
        return len(self._values)

    def to_array(self, attributes: Any) -> np.ndarray:
        """Return the values of attributes, (words,) of one or (words, attributes) of a list, as ``Doc.to_array``."""
        if isinstance(attributes, list | tuple):
            columns = [self._column[intify_attr(each)] for each in attributes]
            return self._values[:, columns]
        return np.ascontiguousarray(self._values[:, self._column[intify_attr(attributes)]])


class _Rows(NamedTuple):
    """Rows of words, with space for more."""

    table: np.ndarray  # (words, outputs times pieces) float32
    read: np.ndarray  # (words, rows) int32, which rows of the tables each word reads
    digests: np.ndarray  # (words,) uint64, of these rows


class _Kept:
    """Rows by the hash of their word, and columns of W, under the same weights; ``lock`` is for those who change it."""

    def __init__(
        self, weights: tuple[Any, ...], plan: Plan, W: np.ndarray, lock: threading.Lock
    ) -> None:
        self.weights, self.lock = weights, lock
        self.places: dict[int, int] = {}
        self.used = 0
        self.whole: bytes | None = None  # digest of the whole tables, which all rows follow
        n_read = 4 * len(plan.hashed) + plan.static
        self.rows = _Rows(
            np.empty((256, len(W)), np.float32),
            np.full((256, n_read), -1, np.int32),
            np.empty(256, np.uint64),
        )
        # transposed, in C order: BLAS multiplies a short text by such a copy faster
        self.columns = {
            start: np.ascontiguousarray(W[:, start:stop].T) for _, start, stop in plan.of_context
        }

    def add(self, keys: list[int], rows: _Rows, tables: list[np.ndarray]) -> bool:
        """Add words under the lock; return False, and add none, if `whole` would vouch for rows that do not follow it.

        First the rows are added, then their places, so that a reader never finds a place without a row.
        """
        if self.whole is not None:
            if not np.array_equal(digest_rows(tables, rows.read), rows.digests):
                return False  # the tables have changed since
            if self.whole != digest(tables):
                self.whole = None  # these rows follow other tables than the rest
        used, self.used = self.used, self.used + len(keys)
        if self.used > len(self.rows.table):
            larger = _Rows(*(np.empty((2 * self.used, *a.shape[1:]), a.dtype) for a in self.rows))
            for new, old in zip(larger, self.rows, strict=True):
                new[:used] = old[:used]
            self.rows = larger
        for mine, more in zip(self.rows, rows, strict=True):
            mine[used : self.used] = more
        self.places.update(zip(keys, range(used, self.used), strict=True))
        return True

    def look_up(self, keys: list[int]) -> tuple[np.ndarray, np.ndarray]:
        """Return the table and the place of every key, -1 for one that it lacks."""
        found = np.array([self.places.get(key, -1) for key in keys])
        return self.rows.table, found  # in this order: every place has its row

    def find(self, keys: list[int], tables: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Return what `look_up` does, and -1 for a key whose rows read have changed too."""
        if len(keys) > _FEW and self._follows(tables, len(set(keys))):
            return self.look_up(keys)
        _, found = self.look_up(keys)
        table, read, digests = self.rows
        used = np.maximum(found, 0)
        if len(found) > _FEW:
            used = np.flatnonzero(np.bincount(used))
        changed = used[digest_rows(tables, read[used]) != digests[used]]
        if len(changed):
            found[np.isin(found, changed)] = -1
        return table, found

    def _follows(self, tables: list[np.ndarray], n_words: int) -> bool:
        """Return whether every row is known to follow the tables; False where finding out costs more than it saves.

        Numbers are digested faster in order than row by row, so that whole tables are digested for a batch of many
        words. Rows that do not follow them are forgotten.
        """
        widths = [table.shape[1] for table in tables]
        hashed = self.rows.read.shape[1] // 4  # four rows are read of each, and one of the vectors
        n_read = n_words * (4 * sum(widths[:hashed]) + sum(widths[hashed:]))
        if sum(table.size for table in tables) > _IN_ORDER * n_read:
            return False
        whole = digest(tables)
        if whole == self.whole:
            return True
        if not self.lock.acquire(blocking=False):
            return False  # another thread is adding rows
        try:
            stale = (
                digest_rows(tables, self.rows.read[: self.used]) != self.rows.digests[: self.used]
            )
            if stale.any():
                self.places = {key: i for key, i in self.places.items() if not stale[i]}
            self.whole = whole
        finally:
            self.lock.release()
        return True


class WordRows:
    """The rows of one model. A copy of the model begins without any.

    Rows are valid as long as every number they depend on is the same; digests check this at each batch. Words are
    distinguished by a hash of the attributes that the layers read. The layers themselves make the rows: they get the
    new words of a batch instead of a document.
    """

    def __init__(self) -> None:
        self._plan: Plan | None = None
        self._kept: _Kept | None = None
        self._lock = threading.Lock()
        renew_in_children(self)

    def renew(self) -> None:
        """Start without rows in a forked child if a thread of its parent, which the child lacks, was adding some."""
        if self._lock.locked():
            self._kept, self._lock = None, threading.Lock()

    def __deepcopy__(self, _: Any) -> Self:
        return type(self)()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), ()

    def embed_and_mix(
        self,
        model: Model[Any, Any],
        embeds: Sequence[Model[Any, Any]],
        mix: Model[Any, Any],
        docs: Sequence[Doc],
    ) -> list[np.ndarray] | None:
        """Return one array ``(n_tokens, width)`` float32 per document; at least one document has a token.

        ``embeds`` and ``mix`` are the layers of ``model``, which these rows belong to. Returns None for layers that
        cannot be taken together.
        """
        first = next(doc for doc in docs if len(doc))
        nodes, vectors = list(model.walk()), first.vocab.vectors
        plan = self._plan
        if plan is None or plan.nodes != nodes or plan.vectors is not type(vectors):
            plan, self._kept = make_plan(nodes, embeds, mix, first), None
            self._plan = plan
            if plan is None:
                return None
        maxout, norm = plan.maxout, plan.norm
        b = maxout.get_param("b").reshape(-1)
        W = maxout.get_param("W").reshape(len(b), -1)
        kept = self._find_kept(plan, vectors, W)
        table, places = b[None], np.zeros(sum(map(len, docs)), np.int64)
        if plan.of_words:
            table, places = self._find(plan, kept, first.vocab, docs, W, b)
        n_pieces, gain, shift = maxout.get_dim("nP"), norm.get_param("G"), norm.get_param("b")
        mixed = np.empty((len(places), maxout.get_dim("nO")), np.float32)
        stop = 0
        for block in _blocks(docs):
            start, stop = stop, stop + sum(map(len, block))
            if stop > start:
                added = _rows_of_context(plan.of_context, kept, block)
                here = slice(start, stop)
                maxout_and_normalize(table, places[here], added, n_pieces, gain, shift, mixed[here])
        bounds = np.cumsum([0, *map(len, docs)]).tolist()
        return [mixed[start:stop] for start, stop in pairwise(bounds)]

    def _find_kept(self, plan: Plan, vectors: Any, W: np.ndarray) -> _Kept:
        """Return what was kept under the weights as they are now, if anything was."""
        weights = (
            digest([node.get_param(name) for node, name in plan.weights]),
            [node.get_param("E").shape for node, _ in plan.hashed],
            (vectors.model, vectors.shape) if plan.static else None,
        )
        kept = self._kept
        if kept is None or kept.weights != weights:
            kept = self._kept = _Kept(weights, plan, W, self._lock)
        return kept

    def _find(
        self, plan: Plan, kept: _Kept, vocab: Any, docs: Sequence[Doc], W: np.ndarray, b: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return rows (n_rows, width) float32, not to be written to, and which one is each token's (n_tokens,)."""
        attributes, tables = plan.attributes, plan.tables(vocab.vectors)
        values = np.concatenate(
            [doc.to_array(attributes).reshape(-1, len(attributes)) for doc in docs]
        )
        # a weighted sum modulo 2^64: words differ in it unless 64 bits happen to agree
        hashes = (values * _multipliers(len(attributes))).sum(axis=1, dtype=np.uint64)
        table, places = kept.find(hashes.tolist(), tables)
        if places.min() >= 0:
            return table, places
        distinct, first, which = np.unique(hashes, return_index=True, return_inverse=True)
        keys, values = distinct.tolist(), values[first]
        new = np.flatnonzero(places[first] < 0)
        read = plan.rows_read(values[new], vocab.vectors)
        digests = digest_rows(tables, read)
        rows = _rows_of_words(plan, W, b, Words(vocab, attributes, values[new]))
        added = False
        # never waits: another thread is adding rows, and these are few
        if self._lock.acquire(blocking=False):
            try:
                if 4 * rows.shape[1] * (kept.used + len(new)) > _KEPT_BYTES:
                    kept = self._kept = _Kept(kept.weights, plan, W, self._lock)
                added = kept.add([keys[i] for i in new], _Rows(rows, read, digests), tables)
            finally:
                self._lock.release()
        table, places = kept.look_up(keys)
        if added and places.min() >= 0:  # otherwise a place may be one before the tables changed
            return table, places[which]
        # nothing can be kept at present: these rows are for these documents alone
        return _rows_of_words(plan, W, b, Words(vocab, attributes, values)), which


@cache
def _multipliers(n: int) -> np.ndarray:
    """Return odd numbers of 64 bits for a hash that is a weighted sum, always the same."""
    return np.random.default_rng(0).integers(0, 2**63, n, np.uint64) * np.uint64(2) + np.uint64(1)


# -- compiled loops ------------------------------------------------------------------------------------

_EPSILON = np.float32(1e-8)  # as thinc's ``layernorm`` adds to the variance
_LANES = 64
_FOLDED = 8  # lanes that are left of a row before they become one number
_FACTOR = np.uint32(2654435761)  # odd, so that a change of any number changes its lane
_LONG_FACTOR = np.uint64(11400714819323198485)
# high bits also count where they are low: otherwise an even number of changed signs in a lane would cancel out, and so
# would as many doubled numbers as a power of two
_SHIFT = np.uint32(15)


def digest(arrays: list[Any]) -> bytes:
    """Return a digest of float32 arrays, at about the speed of reading them."""
    lanes = np.zeros(_LANES, np.uint32)
    for array in arrays:
        _digest(lanes, np.ascontiguousarray(array, np.float32).reshape(-1))
    return lanes.tobytes()


def digest_rows(tables: list[np.ndarray], read: np.ndarray) -> np.ndarray:
    """Return for each word a digest (words,) uint64 of the rows ``read`` (words, rows) of the tables."""
    found = np.zeros(len(read), np.uint64)
    if tables:
        _digest_rows(found, tuple(table.view(np.uint32) for table in tables), read)
    return found


@njit
def _digest(lanes: Any, array: Any) -> None:
    words = array.view(np.uint32)
    whole = len(words) - len(words) % _LANES
    for i in range(0, whole, _LANES):
        for j in range(_LANES):
            word = words[i + j]
            lanes[j] = (lanes[j] + (word ^ (word >> _SHIFT))) * _FACTOR
    for i in range(whole, len(words)):
        lanes[i - whole] = (lanes[i - whole] + (words[i] ^ (words[i] >> _SHIFT))) * _FACTOR


@njit
def _digest_rows(found: Any, tables: Any, read: Any) -> None:
    width = 0
    for table in tables:
        width = max(width, table.shape[1])
    lanes = np.zeros(-(-width // _FOLDED) * _FOLDED, np.uint32)
    folded = np.empty(_FOLDED, np.uint32)
    for i in range(len(found)):
        lanes[:] = 0
        start = 0
        for table in tables:
            # one of the vectors of the pipeline, which come last
            stop = min(start + 4, read.shape[1])
            for k in range(start, stop):
                if read[i, k] >= 0:
                    row = read[i, k]  # an index, because a slice of each row takes longer
                    for j in range(table.shape[1]):
                        word = table[row, j]
                        lanes[j] = (lanes[j] + (word ^ (word >> _SHIFT))) * _FACTOR
            start = stop
        folded[:] = 0
        for first in range(0, len(lanes), _FOLDED):
            for j in range(_FOLDED):
                folded[j] = folded[j] * _FACTOR + lanes[first + j]
        total = np.uint64(0)
        for j in range(_FOLDED):
            total = total * _LONG_FACTOR + np.uint64(folded[j])
        found[i] = total


@njit(fastmath={"contract", "reassoc", "nsz"})
def maxout_and_normalize(
    table: Any, places: Any, added: Any, n_pieces: int, gain: Any, shift: Any, out: Any
) -> None:
    """Fill ``out`` with gain (m - mean(m)) / sd(m) + shift, where m_j is the largest of piece j of the sum.

    The sum of token t is row ``places[t]`` of ``table`` (rows, outputs times pieces) plus ``added[t]``, or the row
    alone where ``added`` (tokens, outputs times pieces) has no columns. ``gain``, ``shift`` (outputs,) and ``out``
    (tokens, outputs) are float32 like both. The sums of a token are read once, while they are in the nearest cache.
    """
    n_out = out.shape[1]
    sums = np.empty(table.shape[1], table.dtype)
    for t in range(len(places)):
        word = table[places[t]]
        if added.shape[1]:
            own = added[t]
            for j in range(len(sums)):
                sums[j] = word[j] + own[j]
        else:
            for j in range(len(sums)):
                sums[j] = word[j]
        row = out[t]
        for j in range(n_out):
            most = sums[j * n_pieces]
            for k in range(1, n_pieces):
                most = max(most, sums[j * n_pieces + k])
            row[j] = most
        mean = np.float32(0)
        for j in range(n_out):
            mean += row[j]
        mean /= np.float32(n_out)
        variance = np.float32(0)
        for j in range(n_out):
            variance += (row[j] - mean) * (row[j] - mean)
        scale = 1 / np.sqrt(variance / np.float32(n_out) + _EPSILON)
        for j in range(n_out):
            row[j] = (row[j] - mean) * scale * gain[j] + shift[j]
