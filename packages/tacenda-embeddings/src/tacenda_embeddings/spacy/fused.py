"""Embedding layers and the layer that mixes them as one operation, for inference on a CPU.

The mixing layer multiplies the columns of all embeddings, side by side, by one matrix W and adds b. Column by column,

    W [e_1; ...; e_k] + b  =  (W_1 e_1 + ... + b)  +  s (W_t v)  + ...

where e_1, ... depend on the word alone, so that what is in the first bracket is one row for each word, which `WordRows`
keeps; v are the vectors that ``tacenda.DocTensor.v1`` reads, and s what it scales each of them by. They are multiplied
where they lie: nothing is put side by side. `maxout_rows` has what follows the sum. The result differs from that of the
layers by rounding alone.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from spacy.attrs import intify_attr
from spacy.tokens import Doc
from thinc.api import Model
from thinc.types import Ragged

from tacenda_embeddings.spacy.doc_tensor import NAME as DOC_TENSOR
from tacenda_embeddings.spacy.doc_tensor import as_they_are, scales
from tacenda_embeddings.spacy.word_rows import WordRows, Words, depends_on_words_alone

__all__ = ["can_be_fused", "embed_and_mix", "parameters"]

_BLOCK_TOKENS = 512  # what is computed of so many tokens stays in the second-level cache


def can_be_fused(mix: Model[Any, Any]) -> bool:
    """Return whether the mixing layer is what ``tacenda.ConcatEmbed.v1`` makes, and initialized."""
    names = [node.name for node in mix.walk() if not node.layers]
    return sorted(names) == ["dropout", "layernorm", "maxout"] and all(
        node.has_param(name) for node in mix.walk() for name in node.param_names
    )


def parameters(layers: Sequence[Model[Any, Any]]) -> list[Any]:
    """Return the arrays of weights of layers, in an order that stays."""
    nodes = (node for layer in layers for node in layer.walk())
    return [
        node.get_param(name) for node in nodes for name in node.param_names if node.has_param(name)
    ]


def embed_and_mix(
    rows: WordRows, embeds: Sequence[Model[Any, Any]], mix: Model[Any, Any], docs: Sequence[Doc]
) -> list[np.ndarray]:
    """Return one array ``(n_tokens, width)`` float32 per document, some of which has a token.

    ``rows`` are those of the model that ``embeds`` and ``mix`` belong to.
    """
    from tacenda_embeddings.spacy.maxout_rows import maxout_and_normalize  # loads numba

    inner = {node.name: node for node in mix.walk()}
    maxout, norm = inner["maxout"], inner["layernorm"]
    n_pieces, gain, shift = maxout.get_dim("nP"), norm.get_param("G"), norm.get_param("b")
    parts = _Parts(rows, embeds, maxout, next(doc for doc in docs if len(doc)))
    table, places = parts.of_words(docs)
    mixed = np.empty((len(places), maxout.get_dim("nO")), np.float32)
    stop = 0
    for block in _blocks(docs):
        start, stop = stop, stop + sum(map(len, block))
        if stop > start:
            added = parts.of_context(block, stop - start)
            here = slice(start, stop)
            maxout_and_normalize(table, places[here], added, n_pieces, gain, shift, mixed[here])
    bounds = np.cumsum([0, *map(len, docs)]).tolist()
    return [mixed[start:stop] for start, stop in pairwise(bounds)]


class _Parts:
    """The layers by what they depend on, and the columns of W that belong to each."""

    def __init__(
        self, rows: WordRows, embeds: Sequence[Model[Any, Any]], maxout: Model[Any, Any], doc: Doc
    ) -> None:
        self._rows = rows
        n_columns = maxout.get_dim("nI")
        self._b = maxout.get_param("b").reshape(-1)
        self._width = len(self._b)
        W = maxout.get_param("W").reshape(self._width, n_columns)
        self._of_words: list[tuple[Model[Any, Any], Any]] = []
        self._of_tensors: list[tuple[Model[Any, Any], Any]] = []
        self._others: list[tuple[Model[Any, Any], Any]] = []
        start = 0
        for layer, width in zip(embeds, rows.widths(embeds, doc), strict=True):
            part = (layer, W[:, start : start + width].T)
            start += width
            if layer.name == DOC_TENSOR:
                columns = rows.columns(maxout.get_param("W"), start - width, start)
                self._of_tensors.append((layer, columns))
            elif depends_on_words_alone(layer, doc.vocab):
                self._of_words.append(part)
            else:
                self._others.append(part)
        layers = [layer for layer, _ in self._of_words]
        self._weights = [*parameters([*layers, maxout])]
        self._attributes = sorted(set(_attributes(layers, doc.vocab)))
        if any(node.name == "static_vectors" for layer in layers for node in layer.walk()):
            self._weights.append(doc.vocab.vectors.model)

    def of_words(self, docs: Sequence[Doc]) -> tuple[np.ndarray, np.ndarray]:
        """Return b plus what words give, (rows, outputs times pieces) float32, and the row of every token."""
        if self._of_words:
            return self._rows.find(docs, self._attributes, self._weights, self._of)
        return self._b[None], np.zeros(sum(map(len, docs)), np.int64)

    def of_context(self, docs: Sequence[Doc], n_tokens: int) -> np.ndarray:
        """Return what the other embeddings give (n_tokens, outputs times pieces) float32; no columns without any."""
        found = np.empty((n_tokens, 0), np.float32)
        for layer, W in self._of_tensors:
            arrays = as_they_are(layer, docs, False)
            vectors = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
            product = vectors @ W
            factors = scales(layer, vectors)
            if factors is not None:
                product *= factors
            found = found + product if found.size else product
        for layer, W in self._others:
            product = flat(layer.predict(list(docs))) @ W
            found = found + product if found.size else product
        return found

    def _of(self, words: Words) -> np.ndarray:
        """Return the row of every word (words, outputs times pieces)."""
        total = np.tile(self._b, (len(words), 1))
        for layer, W in self._of_words:
            total += flat(layer.predict([words])) @ W
        return total


def flat(output: Any) -> np.ndarray:
    """Return the output of an embedding layer as one array (n_tokens, width)."""
    if isinstance(output, Ragged):
        return np.asarray(output.dataXd)
    return output[0] if len(output) == 1 else np.concatenate(output)


def _attributes(layers: Sequence[Model[Any, Any]], vocab: Any) -> Iterator[int]:
    """Yield spaCy's ids of the attributes that layers read."""
    for node in (node for layer in layers for node in layer.walk()):
        if node.name == "extract_features":
            yield from map(intify_attr, node.attrs["columns"])
        elif node.name == "static_vectors":
            yield vocab.vectors.attr


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
