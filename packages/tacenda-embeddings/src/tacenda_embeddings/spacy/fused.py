"""Embedding layers and the layer that mixes them as one operation, for inference on a CPU.

The mixing layer multiplies the concatenated columns of all embeddings by one matrix W and adds b. By embedding,

    W [e_1; ...; e_k] + b  =  (W_1 e_1 + ... + b)  +  s (W_t v)  + ...

``spacy.MultiHashEmbed.v2`` reads only attributes of a token (norm, prefix, ...) and perhaps its static vector, and not
its context. So the first bracket is one row for each word, and a text has far fewer words than tokens: `WordRows`
caches these rows over batches. v are the vectors that ``tacenda.DocTensor.v1`` reads, and s scales each of them; they
are multiplied without being concatenated. The result differs from that of the layers only by rounding.

Optimizers and users may write into the arrays of weights at any time, so an array is not trusted for being the same
object. Weights that every row depends on are digested at each batch. The tables of hashed embeddings are too large for
that: each word has a digest of the few rows of them that it reads.
"""

import threading
from collections.abc import Sequence
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
from tacenda.spacy.documents import token_batches
from tacenda_embeddings.spacy.doc_tensor import NAME as DOC_TENSOR
from tacenda_embeddings.spacy.doc_tensor import compute_scales, read_vectors
from tacenda_embeddings.spacy.vectors import MorphologicalVectors

#: Layers that treat every token separately, and read only its attributes.
_WORD_BY_WORD = frozenset(
    {"extract_features", "list2ragged", "ragged2list", "ints-getitem", "hashembed", "maxout",
     "layernorm", "dropout", "static_vectors"}
)  # fmt: skip

_BLOCK_TOKENS = 512  # whose results stay in the second-level cache
_FEW_TOKENS = 128  # it does not pay to look for equal words among them
_FIRST_ROWS = 4096  # that a cache has space for at first; only rows that are written take memory
_HASHES = 4  # rows of a table whose sum is the output of thinc's ``hashembed``
_CACHE_BYTES = 32_000_000  # of rows that a layer caches before it starts again


class Part(NamedTuple):
    """An embedding layer, and the columns of W that multiply its output."""

    layer: Model[Any, Any]
    start: int
    stop: int


class Plan:
    """The parts of a model, by how they are computed, for pipelines with this class of vectors."""

    def __init__(
        self,
        nodes: list[Model[Any, Any]],
        embeds: Sequence[Model[Any, Any]],
        maxout: Model[Any, Any],
        norm: Model[Any, Any],
        doc: Doc,
    ) -> None:
        vectors = doc.vocab.vectors
        self.nodes, self.vectors = nodes, type(vectors)  # what the plan is for
        self.maxout, self.norm = maxout, norm
        self.word_parts: list[Part] = []  # their output depends on the word only
        self.context_parts: list[Part] = []
        #: Hashed embeddings, each with the attribute that it looks up.
        self.hashed: list[tuple[Model[Any, Any], int]] = []
        #: All other weights that rows of words depend on.
        self.weights = [(maxout, name) for name in maxout.param_names]
        self.static = False  # whether rows of words depend on the vectors of the pipeline
        read: set[int] = set()
        stop = 0
        for layer in embeds:
            start, stop = stop, stop + get_width(layer.predict([doc]))
            leaves = _list_leaves(layer)
            columns = _find_word_attributes(leaves, vectors)
            if columns is None:
                self.context_parts.append(Part(layer, start, stop))
                continue
            self.word_parts.append(Part(layer, start, stop))
            read.update(columns)
            for node in leaves:
                if node.name == "hashembed":
                    self.hashed.append((node, columns[node.attrs["column"]]))
                else:
                    self.weights += [(node, name) for name in node.param_names]
                if node.name == "static_vectors":
                    self.static = True
                    read.add(vectors.attr)
        self.attributes = sorted(read)  # spaCy's ids of all attributes that ``word_parts`` read

    def get_mix(self) -> tuple[np.ndarray, np.ndarray]:
        """Return W (outputs times pieces, columns) and b (outputs times pieces,)."""
        b = self.maxout.get_param("b").reshape(-1)
        return self.maxout.get_param("W").reshape(len(b), -1), b

    def get_tables(self, vectors: Any) -> list[np.ndarray]:
        """Return the float32 arrays from which each word reads a few rows."""
        tables = [node.get_param("E") for node, _ in self.hashed]
        if self.static:
            tables.append(vectors.data)
        return [np.ascontiguousarray(table, np.float32) for table in tables]

    def find_rows_read(self, words: "Words") -> np.ndarray:
        """Return which rows of the tables words read (words, tables, `_HASHES`) int32, -1 for none."""
        read = np.full((len(words), len(self.hashed) + self.static, _HASHES), -1, np.int32)
        for i, (node, attribute) in enumerate(self.hashed):
            hashes = node.ops.hash(words.to_array(attribute), node.attrs["seed"])
            read[:, i] = hashes % len(node.get_param("E"))
        if self.static:
            vectors = words.vocab.vectors
            read[:, -1, 0] = vectors.find(keys=words.to_array(vectors.attr).tolist())
        return read

    def compute_word_rows(self, words: "Words") -> np.ndarray:
        """Return b plus the products of the word parts for each word (words, outputs times pieces)."""
        W, b = self.get_mix()
        total = np.tile(b, (len(words), 1))
        for layer, start, stop in self.word_parts:
            total += _flatten(layer.predict([words])) @ W[:, start:stop].T
        return total


def make_plan(
    nodes: list[Model[Any, Any]], embeds: Sequence[Model[Any, Any]], mix: Model[Any, Any], doc: Doc
) -> Plan | None:
    """Return the plan; None if the mixing layer is not initialized, or not as ``tacenda.ConcatEmbed.v1`` makes it."""
    inner = sorted(_list_leaves(mix), key=lambda node: node.name)
    if [node.name for node in inner] != ["dropout", "layernorm", "maxout"]:
        return None
    if not all(node.has_param(name) for node in inner for name in node.param_names):
        return None
    _, norm, maxout = inner
    return Plan(nodes, embeds, maxout, norm, doc)


def _list_leaves(layer: Model[Any, Any]) -> list[Model[Any, Any]]:
    """Return the layers in a layer that have no layers themselves."""
    return [node for node in layer.walk() if not node.layers]


def _find_word_attributes(leaves: list[Model[Any, Any]], vectors: Any) -> list[int] | None:
    """Return the attributes that a layer reads; None if its output for a token may depend on more than these.

    It may if the layer reads spaCy's own table of vectors, in which words may be mapped to other rows at any time, or
    if it is unknown which attribute a hashed embedding looks up.
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
    return [int(intify_attr(name)) for node in extracts for name in node.attrs["columns"]]


def _compute_context_rows(parts: list[Part], cache: "_Cache", docs: list[Doc]) -> np.ndarray:
    """Return the products of the context parts (n_tokens, outputs times pieces), float32; no columns without parts."""
    total = np.empty((sum(map(len, docs)), 0), np.float32)
    for layer, start, _ in parts:
        W = cache.columns[start]
        if layer.name == DOC_TENSOR:
            arrays = read_vectors(layer, docs, False)
            vectors = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
            product = vectors @ W
            factors = compute_scales(layer, vectors)
            if factors is not None:
                product *= factors
        else:
            product = _flatten(layer.predict(docs)) @ W
        total = total + product if total.size else product
    return total


def _flatten(output: Any) -> np.ndarray:
    """Return the output of an embedding layer as one array (n_tokens, width)."""
    if isinstance(output, Ragged):
        return np.asarray(output.dataXd)
    return output[0] if len(output) == 1 else np.concatenate(output)


# -- the cache of rows of words ------------------------------------------------------------------------


class Words:
    """Words in place of a document, for layers that read only attributes of its tokens."""

    def __init__(self, vocab: Any, attributes: list[int], values: np.ndarray) -> None:
        self.vocab = vocab
        self._column = {attribute: i for i, attribute in enumerate(attributes)}
        self._values = values  # (words, attributes) uint64

    def __len__(self) -> int:
        return len(self._values)

    def to_array(self, attributes: Any) -> np.ndarray:
        """Return the values of one attribute (words,) or of a list (words, attributes), as ``Doc.to_array`` does."""
        if isinstance(attributes, list | tuple):
            columns = [self._column[intify_attr(attribute)] for attribute in attributes]
            return self._values[:, columns]
        return np.ascontiguousarray(self._values[:, self._column[intify_attr(attributes)]])


class _Rows(NamedTuple):
    """Rows of words, with space for more."""

    table: np.ndarray  # (words, outputs times pieces) float32
    # (words, tables, `_HASHES`) int32, the rows of each table that each word reads
    read: np.ndarray
    digests: np.ndarray  # (words,) uint64, of these rows


class _Cache:
    """Rows by the hash of their word, and columns of W, for the same weights."""

    def __init__(self, weights: tuple[Any, ...], plan: Plan) -> None:
        self.weights = weights
        self.places: dict[int, int] = {}  # the row of each word, by its hash
        W, _ = plan.get_mix()
        n_tables = len(plan.hashed) + plan.static
        self.rows = _Rows(
            np.empty((_FIRST_ROWS, len(W)), np.float32),
            np.full((_FIRST_ROWS, n_tables, _HASHES), -1, np.int32),
            np.empty(_FIRST_ROWS, np.uint64),
        )
        self.used = 0
        # transposed, in C order: BLAS multiplies a short text by such a copy faster
        self.columns = {
            start: np.ascontiguousarray(W[:, start:stop].T) for _, start, stop in plan.context_parts
        }

    def add(self, keys: list[int], rows: _Rows) -> None:
        """Add words; only the holder of the lock of `WordRows` may do so.

        The rows are added before their places, so that a reader never finds a place without a row.
        """
        used, self.used = self.used, self.used + len(keys)
        if self.used > len(self.rows.table):
            larger = _Rows(*(np.empty((2 * self.used, *a.shape[1:]), a.dtype) for a in self.rows))
            for new, old in zip(larger, self.rows, strict=True):
                new[:used] = old[:used]
            self.rows = larger
        for mine, more in zip(self.rows, rows, strict=True):
            mine[used : self.used] = more
        self.places.update(zip(keys, range(used, self.used), strict=True))

    def look_up(self, keys: list[int]) -> tuple[_Rows, np.ndarray]:
        """Return all rows and the place of every key among them, -1 for a key that is not cached."""
        # the places before the rows, so that every place has its row
        places = np.array([self.places.get(key, -1) for key in keys])
        return self.rows, places


class WordRows:
    """The cached rows of one model; a copy of the model begins without any.

    A row is valid as long as every number that it depends on is the same; digests check this at each batch. Words are
    distinguished by a hash of the attributes that the layers read. The layers themselves compute the rows: they get the
    new words of a batch instead of a document.
    """

    def __init__(self) -> None:
        self._plan: Plan | None = None
        self._cache: _Cache | None = None
        self._lock = threading.Lock()
        renew_in_children(self)

    def renew(self) -> None:
        """Start without rows in a forked child if a thread of its parent was adding some, which the child lacks."""
        if self._lock.locked():
            self._cache, self._lock = None, threading.Lock()

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

        ``embeds`` and ``mix`` are the layers of ``model``, which these rows belong to. Returns None if the layers
        cannot be computed as one operation.
        """
        first = next(doc for doc in docs if len(doc))
        nodes, vectors = list(model.walk()), first.vocab.vectors
        plan = self._plan
        if plan is None or plan.nodes != nodes or plan.vectors is not type(vectors):
            plan = self._plan = make_plan(nodes, embeds, mix, first)
            self._cache = None
            if plan is None:
                return None
        weights = (
            digest([node.get_param(name) for node, name in plan.weights]),
            [node.get_param("E").shape for node, _ in plan.hashed],
            (vectors.model, vectors.version) if plan.static else None,
        )
        cache = self._cache
        if cache is None or cache.weights != weights:
            cache = self._cache = _Cache(weights, plan)
        if plan.word_parts:
            table, places = self._find_rows(plan, cache, docs)
        else:
            table, places = plan.get_mix()[1][None], np.zeros(sum(map(len, docs)), np.int64)
        maxout, norm = plan.maxout, plan.norm
        n_pieces, gain, shift = maxout.get_dim("nP"), norm.get_param("G"), norm.get_param("b")
        mixed = np.empty((len(places), maxout.get_dim("nO")), np.float32)
        stop = 0
        for block in token_batches(docs, _BLOCK_TOKENS, len(docs)):
            start, stop = stop, stop + sum(map(len, block))
            if stop > start:
                added = _compute_context_rows(plan.context_parts, cache, block)
                here = slice(start, stop)
                maxout_and_normalize(table, places[here], added, n_pieces, gain, shift, mixed[here])
        bounds = np.cumsum([0, *map(len, docs)]).tolist()
        return [mixed[start:stop] for start, stop in pairwise(bounds)]

    def _find_rows(
        self, plan: Plan, cache: _Cache, docs: Sequence[Doc]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return read-only rows (n_rows, width) float32, and the index of the row of each token (n_tokens,)."""
        vocab, attributes = docs[0].vocab, plan.attributes
        tables = plan.get_tables(vocab.vectors)
        values = np.concatenate(
            [doc.to_array(attributes).reshape(-1, len(attributes)) for doc in docs]
        )
        # a weighted sum modulo 2^64: words differ in it unless 64 bits happen to agree
        hashes = (values * _draw_multipliers(len(attributes))).sum(axis=1, dtype=np.uint64)
        rows, places = cache.look_up(hashes.tolist())
        # the rows whose numbers in the tables have changed
        used = np.maximum(places, 0)
        if len(used) > _FEW_TOKENS:
            used = np.flatnonzero(np.bincount(used))
        changed = used[digest_rows(tables, rows.read[used]) != rows.digests[used]]
        if len(changed):
            places[np.isin(places, changed)] = -1
        if places.min() >= 0:
            return rows.table, places
        distinct, first, word_of_token = np.unique(hashes, return_index=True, return_inverse=True)
        is_new = places[first] < 0
        if rows.table[0].nbytes * (cache.used + is_new.sum()) > _CACHE_BYTES:
            cache = self._cache = _Cache(cache.weights, plan)
            is_new[:] = True
        words = Words(vocab, attributes, values[first[is_new]])
        read = plan.find_rows_read(words)
        # the digests first: if another thread changes a table meanwhile, they are of other numbers than the rows
        digests = digest_rows(tables, read)
        new = _Rows(plan.compute_word_rows(words), read, digests)
        with self._lock:
            cache.add(distinct[is_new].tolist(), new)
        rows, places = cache.look_up(distinct.tolist())
        return rows.table, places[word_of_token]


@cache
def _draw_multipliers(n: int) -> np.ndarray:
    """Return n odd numbers of 64 bits for a hash that is a weighted sum; they are the same at each call."""
    return np.random.default_rng(0).integers(0, 2**63, n, np.uint64) * np.uint64(2) + np.uint64(1)


# -- compiled loops ------------------------------------------------------------------------------------

_EPSILON = np.float32(1e-8)  # as thinc's ``layernorm`` adds to the variance
_FOLDED_LANES = 8  # that the lanes of a row are folded into before they become one number
_FACTOR = np.uint32(2654435761)  # odd, so that a change of any number changes its lane
_LONG_FACTOR = np.uint64(11400714819323198485)
# High bits are also added to low ones: otherwise an even number of changed signs in a lane would cancel out, and so
# would a power of two of doubled numbers.
_SHIFT = np.uint32(15)


def digest(arrays: list[Any]) -> list[int]:
    """Return digests of float32 arrays, at about the speed of reading them."""
    digests = []
    for array in arrays:
        table = np.ascontiguousarray(array, np.float32)
        table = np.atleast_2d(table).reshape(-1, table.shape[-1])
        every_row = np.arange(len(table), dtype=np.int32)[None, None]
        digests += digest_rows([table], every_row).tolist()
    return digests


def digest_rows(tables: list[np.ndarray], read: np.ndarray) -> np.ndarray:
    """Return for each word a digest (words,) uint64 of the rows ``read`` (words, tables, rows) of the tables."""
    digests = np.zeros(len(read), np.uint64)
    if tables:
        _digest_rows(digests, tuple(table.view(np.uint32) for table in tables), read)
    return digests


@njit
def _digest_rows(digests: Any, tables: Any, read: Any) -> None:
    """Fill ``digests`` as `digest_rows` does, from tables that are viewed as uint32."""
    width = 0
    for table in tables:
        width = max(width, table.shape[1])
    lanes = np.zeros(-(-width // _FOLDED_LANES) * _FOLDED_LANES, np.uint32)
    folded = np.empty(_FOLDED_LANES, np.uint64)
    for i in range(len(digests)):
        lanes[:] = 0
        for t, table in enumerate(tables):
            for k in range(read.shape[2]):
                if read[i, t, k] >= 0:
                    row = read[i, t, k]  # an index, because a slice of each row takes longer
                    for j in range(table.shape[1]):
                        word = table[row, j]
                        lanes[j] = (lanes[j] + (word ^ (word >> _SHIFT))) * _FACTOR
        folded[:] = 0
        for first in range(0, len(lanes), _FOLDED_LANES):
            for j in range(_FOLDED_LANES):
                folded[j] = folded[j] * _LONG_FACTOR + np.uint64(lanes[first + j])
        total = np.uint64(0)
        for j in range(_FOLDED_LANES):
            total = total * _LONG_FACTOR + folded[j]
        digests[i] = total


@njit(fastmath={"contract", "reassoc", "nsz"})
def maxout_and_normalize(
    table: Any, places: Any, added: Any, n_pieces: int, gain: Any, shift: Any, out: Any
) -> None:
    """Fill ``out`` with gain (m - mean(m)) / sd(m) + shift, where m_j is the largest of the pieces of output j.

    The pieces of token t are row ``places[t]`` of ``table`` (rows, outputs times pieces), plus ``added[t]`` if
    ``added`` (tokens, outputs times pieces) has columns. All are float32, as are ``gain`` and ``shift`` (outputs,) and
    ``out`` (tokens, outputs). The sums of a token are used while they are in the nearest cache.
    """
    n_out = out.shape[1]
    sums = np.empty(table.shape[1], table.dtype)
    for t in range(len(places)):
        word = table[places[t]]
        if added.shape[1]:
            context = added[t]
            for j in range(len(sums)):
                sums[j] = word[j] + context[j]
        else:
            for j in range(len(sums)):
                sums[j] = word[j]
        row = out[t]
        for j in range(n_out):
            largest = sums[j * n_pieces]
            for k in range(1, n_pieces):
                largest = max(largest, sums[j * n_pieces + k])
            row[j] = largest
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
