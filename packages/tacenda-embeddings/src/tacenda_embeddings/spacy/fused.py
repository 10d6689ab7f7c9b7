"""Embedding layers and the layer that mixes them as one operation, for inference on a CPU.

The mixing layer multiplies the columns of all embeddings, side by side, by one matrix W and adds b. Column by column,

    W [e_1; ...; e_k] + b  =  (W_1 e_1 + ... + b)  +  s (W_t v)  + ...

``spacy.MultiHashEmbed.v2`` sees of a token its attributes (norm, prefix, ...) and perhaps its static vector, and
nothing around it. So the first bracket is one row for each word, and a text has far fewer words than tokens:
`WordRows` keeps these rows from batch to batch. v are the vectors that ``tacenda.DocTensor.v1`` reads, and s scales
each of them; they are multiplied in place, and nothing is put side by side. `fused_kernels` has what follows the sum.
The result differs from that of the layers by rounding alone.
"""

import threading
from collections.abc import Iterator, Sequence
from functools import cache, partial
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from spacy.attrs import intify_attr
from spacy.tokens import Doc
from thinc.api import Model, get_width
from thinc.types import Ragged

from tacenda_embeddings.spacy.doc_tensor import NAME as DOC_TENSOR
from tacenda_embeddings.spacy.doc_tensor import as_they_are, scales

#: Layers that treat every token separately, and see no more of it than its attributes.
_WORD_BY_WORD = frozenset(
    {"extract_features", "list2ragged", "ragged2list", "ints-getitem", "hashembed", "maxout",
     "layernorm", "dropout", "static_vectors"}
)  # fmt: skip

_BLOCK_TOKENS = 512  # what is computed of so many tokens stays in the second-level cache
_KEPT_BYTES = 64_000_000  # of rows that a layer keeps before it starts over


def can_be_fused(mix: Model[Any, Any]) -> bool:
    """Return whether the mixing layer is what ``tacenda.ConcatEmbed.v1`` makes, and initialized."""
    names = [node.name for node in mix.walk() if not node.layers]
    return sorted(names) == ["dropout", "layernorm", "maxout"] and all(
        node.has_param(name) for node in mix.walk() for name in node.param_names
    )


def embed_and_mix(
    rows: "WordRows", embeds: Sequence[Model[Any, Any]], mix: Model[Any, Any], docs: Sequence[Doc]
) -> list[np.ndarray]:
    """Return one array ``(n_tokens, width)`` float32 per document, some of which has a token.

    ``rows`` are those of the model that ``embeds`` and ``mix`` belong to.
    """
    from tacenda_embeddings.spacy.fused_kernels import maxout_and_normalize  # loads numba

    inner = {node.name: node for node in mix.walk()}
    maxout, norm = inner["maxout"], inner["layernorm"]
    b = maxout.get_param("b").reshape(-1)
    W = maxout.get_param("W").reshape(len(b), -1)
    first = next(doc for doc in docs if len(doc))
    of_words, of_context = [], []
    kept = rows.under_weights([*embeds, mix], first.vocab.vectors, len(b))
    start = 0
    for layer, width in zip(embeds, rows.widths(embeds, first), strict=True):
        stop = start + width
        if layer.name != DOC_TENSOR and _depends_on_words_alone(layer, first.vocab):
            of_words.append((layer, W[:, start:stop].T))
        else:
            of_context.append((layer, kept.columns(W, start, stop)))
        start = stop
    if of_words:
        make = partial(_rows_of_words, of_words, b)
        attributes = _attributes([layer for layer, _ in of_words], first.vocab)
        table, places = rows.find(kept, docs, attributes, make)
    else:
        table, places = b[None], np.zeros(sum(map(len, docs)), np.int64)
    n_pieces, gain, shift = maxout.get_dim("nP"), norm.get_param("G"), norm.get_param("b")
    mixed = np.empty((len(places), maxout.get_dim("nO")), np.float32)
    stop = 0
    for block in _blocks(docs):
        start, stop = stop, stop + sum(map(len, block))
        if stop > start:
            added = _rows_of_context(of_context, block, stop - start)
            here = slice(start, stop)
            maxout_and_normalize(table, places[here], added, n_pieces, gain, shift, mixed[here])
    bounds = np.cumsum([0, *map(len, docs)]).tolist()
    return [mixed[start:stop] for start, stop in pairwise(bounds)]


Parts = list[tuple[Model[Any, Any], np.ndarray]]
"""Layers, and for each the columns of W that belong to it, transposed."""


def _rows_of_words(parts: Parts, b: np.ndarray, words: "Words") -> np.ndarray:
    """Return b plus what layers give for each word (words, outputs times pieces)."""
    total = np.tile(b, (len(words), 1))
    for layer, W in parts:
        total += _flatten(layer.predict([words])) @ W
    return total


def _rows_of_context(parts: Parts, docs: list[Doc], n_tokens: int) -> np.ndarray:
    """Return what the other layers give (n_tokens, outputs times pieces) float32; no columns without any."""
    found = np.empty((n_tokens, 0), np.float32)
    for layer, W in parts:
        if layer.name == DOC_TENSOR:
            arrays = as_they_are(layer, docs, False)
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


def _attributes(layers: Sequence[Model[Any, Any]], vocab: Any) -> list[int]:
    """Return spaCy's ids of the attributes that layers read."""
    found: set[int] = set()
    for node in (node for layer in layers for node in layer.walk()):
        if node.name == "extract_features":
            found.update(map(intify_attr, node.attrs["columns"]))
        elif node.name == "static_vectors":
            found.add(vocab.vectors.attr)
    return sorted(found)


def _depends_on_words_alone(layer: Model[Any, Any], vocab: Any) -> bool:
    """Return whether the output for a token is a matter of its word."""
    from tacenda_embeddings.spacy.vectors import MorphologicalVectors

    names = {node.name for node in layer.walk() if not node.layers}
    # in a table of spaCy's, words may be mapped to other rows at any time
    fixed = "static_vectors" not in names or isinstance(vocab.vectors, MorphologicalVectors)
    return fixed and names <= _WORD_BY_WORD


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


class _Weights(NamedTuple):
    """What the rows depend on."""

    digest: bytes  # of every number
    model: Any  # behind the vectors of the pipeline; None without


class _Kept:
    """Rows by the hash of their word, and columns of W, under the same weights."""

    def __init__(self, weights: _Weights, width: int) -> None:
        self.weights = weights
        self.places: dict[int, int] = {}
        self.table = np.empty((256, width), np.float32)
        self._columns: dict[tuple[int, int], np.ndarray] = {}

    def columns(self, W: np.ndarray, start: int, stop: int) -> np.ndarray:
        """Return columns of W transposed, in C order: BLAS multiplies by such a copy a tenth faster."""
        if (start, stop) not in self._columns:
            self._columns[start, stop] = np.ascontiguousarray(W[:, start:stop].T)
        return self._columns[start, stop]

    def add(self, keys: list[int], rows: np.ndarray) -> None:
        """Add words: first the rows, then their places, so that a reader never finds a place without a row."""
        used = len(self.places)
        stop = used + len(keys)
        if stop > len(self.table):
            larger = np.empty((2 * stop, self.table.shape[1]), np.float32)
            larger[:used] = self.table[:used]
            self.table = larger
        self.table[used:stop] = rows
        self.places.update(zip(keys, range(used, stop), strict=True))

    def find(self, keys: list[int]) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the table and the place of every key, or None if it lacks one."""
        places: list[Any] = list(map(self.places.get, keys))
        table = self.table  # after the places, which it has rows for
        return None if None in places else (table, np.array(places))


class WordRows:
    """The rows of one model. A copy of it, by whatever means, begins without any.

    Rows are good as long as every number they depend on is the same, which a digest of the weights tells at each
    batch: optimizers, and users, may write into the arrays. Words are told apart by a hash of the attributes that
    the layers read. Rows are made by the layers themselves, which get the new words of a batch in place of a document.
    """

    def __init__(self) -> None:
        self._kept: _Kept | None = None
        self._widths: list[int] | None = None
        self._lock = threading.Lock()

    def __deepcopy__(self, _: Any) -> Self:
        return type(self)()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), ()

    def widths(self, layers: Sequence[Model[Any, Any]], doc: Doc) -> list[int]:
        """Return how many columns each layer of the model gives, which a document with tokens tells the first time."""
        if self._widths is None:
            self._widths = [get_width(layer.predict([doc])) for layer in layers]
        return self._widths

    def under_weights(self, layers: list[Model[Any, Any]], vectors: Any, width: int) -> _Kept:
        """Return what was kept under the weights of the layers as they are now, if anything was."""
        from tacenda_embeddings.spacy.fused_kernels import digest

        nodes = [node for layer in layers for node in layer.walk()]
        arrays = [
            node.get_param(n) for node in nodes for n in node.param_names if node.has_param(n)
        ]
        model = None
        if any(node.name == "static_vectors" for node in nodes) and hasattr(vectors, "model"):
            model = vectors.model
            arrays.append(vectors.data)
        weights, kept = _Weights(digest(arrays), model), self._kept
        if kept is None or kept.weights.digest != weights.digest or kept.weights.model is not model:
            kept = self._kept = _Kept(weights, width)
        return kept

    def find(
        self, kept: _Kept, docs: Sequence[Doc], attributes: list[int], make: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return rows (n_rows, width) float32, not to be written to, and which one is each token's (n_tokens,).

        ``attributes`` are spaCy's ids of all that the layers read; ``make`` gives `Words` their rows.
        """
        values = np.concatenate(
            [doc.to_array(attributes).reshape(-1, len(attributes)) for doc in docs]
        )
        hashes = (values * _multipliers(len(attributes))).sum(axis=1, dtype=np.uint64)
        found = kept.find(hashes.tolist())
        if found is not None:
            return found
        distinct, first, which = np.unique(hashes, return_index=True, return_inverse=True)
        keys = distinct.tolist()
        new = [i for i, key in enumerate(keys) if key not in kept.places]
        rows = make(Words(docs[0].vocab, attributes, values[first[new]]))
        # never waits: the lock of a forked child may be held by a thread that it does not have
        if self._lock.acquire(blocking=False):
            try:
                if 4 * rows.shape[1] * (len(kept.places) + len(new)) > _KEPT_BYTES:
                    kept = self._kept = _Kept(kept.weights, rows.shape[1])
                lacking = [j for j, i in enumerate(new) if keys[i] not in kept.places]
                kept.add([keys[new[j]] for j in lacking], rows[lacking])
            finally:
                self._lock.release()
        found = kept.find(keys)
        if found is not None:
            return found[0], found[1][which]
        # nothing can be kept at present: these rows are for these documents alone
        if len(new) < len(keys):
            rows = make(Words(docs[0].vocab, attributes, values[first]))
        return rows, which


@cache
def _multipliers(n: int) -> np.ndarray:
    """Return odd numbers of 64 bits for a hash that is a weighted sum, always the same."""
    return np.random.default_rng(0).integers(0, 2**63, n, np.uint64) * np.uint64(2) + np.uint64(1)
