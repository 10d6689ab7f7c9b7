"""What embedding layers make of a word, kept from batch to batch while their weights are the same.

``spacy.MultiHashEmbed.v2`` sees of a token its attributes (norm, prefix, ...) and perhaps its static vector, and
nothing around it. So its output, multiplied by the weights of the layer that mixes it with others, is a row for each
word, and a text has far fewer words than tokens. `WordRows` keeps these rows in inference; training never uses them.

Words are told apart by a hash of the attributes that the layers read. Rows are made by the layers themselves, which get
the new words of a batch in the place of a document.
"""

import threading
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Self

import numpy as np
from spacy.attrs import intify_attr
from spacy.tokens import Doc
from thinc.api import Model, get_width

__all__ = ["WordRows", "Words", "depends_on_words_alone"]

#: Layers that treat every token apart, and see no more of it than its attributes.
_WORD_BY_WORD = frozenset(
    {"extract_features", "list2ragged", "ragged2list", "ints-getitem", "hashembed", "maxout",
     "layernorm", "dropout", "static_vectors"}
)  # fmt: skip

#: Bytes of rows that a layer keeps before it begins anew.
_KEPT_BYTES = 64_000_000


class Words:
    """Words in the place of a document: as much of one as layers read that depend on words alone."""

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


def depends_on_words_alone(layer: Model[Any, Any], vocab: Any) -> bool:
    """Return whether the output for a token is a matter of its word, which cannot change while weights stay."""
    from tacenda_embeddings.spacy.vectors import MorphologicalVectors

    names = {node.name for node in layer.walk() if not node.layers}
    # a table of spaCy's can be written to at any time
    constant = "static_vectors" not in names or isinstance(vocab.vectors, MorphologicalVectors)
    return constant and names <= _WORD_BY_WORD


class _Kept:
    """Rows by the hash of their word, under weights that stay the same objects."""

    def __init__(self, weights: list[Any], width: int) -> None:
        self.weights = weights
        self.places: dict[int, int] = {}
        self.table = np.empty((256, width), np.float32)

    def is_of(self, weights: list[Any]) -> bool:
        return len(weights) == len(self.weights) and all(
            a is b for a, b in zip(weights, self.weights, strict=True)
        )

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


class WordRows:
    """The rows of one model. A copy of it, by whatever means, begins without any.

    thinc replaces the array of a weight whenever it sets it: a step of Adam, ``use_params``, ``from_bytes``. So rows
    are good as long as the arrays are the same objects. Plain gradient descent changes an array in place, but not
    before a pass in training, after which the arrays of that pass are trusted no more.
    """

    def __init__(self) -> None:
        self._kept: _Kept | None = None
        self._in_training: list[Any] = []
        self._widths: list[int] | None = None
        self._columns: dict[tuple[int, int], tuple[Any, np.ndarray]] = {}
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

    def columns(self, W: Any, start: int, stop: int) -> np.ndarray:
        """Return columns of the last axis of W, transposed (columns, outputs) and in the order of rows.

        BLAS multiplies by such a copy a tenth faster than by the columns where they lie.
        """
        known, copy = self._columns.get((start, stop), (None, None))
        if copy is None or known is not W:
            copy = np.ascontiguousarray(W.reshape(-1, W.shape[-1])[:, start:stop].T)
            if all(each is not W for each in self._in_training):
                self._columns[start, stop] = W, copy
        return copy

    def train(self, weights: list[Any]) -> None:
        """Note that these weights may now change in place."""
        self._in_training = weights
        self._kept = None
        self._columns.clear()

    def find(
        self,
        docs: Sequence[Doc],
        attributes: list[int],
        weights: list[Any],
        make: Callable[[Words], np.ndarray],
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return rows (n_rows, width) float32, not to be written to, and which one is each token's (n_tokens,).

        Parameters
        ----------
        docs
            At least one document with a token.
        attributes
            spaCy's ids of all attributes that the layers read.
        weights
            All arrays that the rows depend on.
        make
            From words to their rows.
        """
        values = np.concatenate(
            [doc.to_array(attributes).reshape(-1, len(attributes)) for doc in docs]
        )
        hashes = (values * _multipliers(len(attributes))).sum(axis=1, dtype=np.uint64)
        found = self._look_up(hashes.tolist(), weights)
        if found is not None:
            return found
        distinct, first, which = np.unique(hashes, return_index=True, return_inverse=True)
        keys = distinct.tolist()
        known = () if (kept := self._of(weights)) is None else kept.places
        new = [i for i, key in enumerate(keys) if key not in known]
        rows = make(Words(docs[0].vocab, attributes, values[first[new]]))
        self._keep(weights, [keys[i] for i in new], rows)
        found = self._look_up(keys, weights)
        if found is None:
            # nothing can be kept at present: these rows are for these documents alone
            if len(new) < len(keys):
                rows = make(Words(docs[0].vocab, attributes, values[first]))
            return rows, which
        table, places = found
        return table, places[which]

    def _look_up(self, keys: list[int], weights: list[Any]) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the table that is kept and the place of every key, or None if it lacks one."""
        kept = self._of(weights)
        if kept is None:
            return None
        places: list[Any] = list(map(kept.places.get, keys))
        table = kept.table  # after the places, which it has rows for
        return None if None in places else (table, np.array(places))

    def _of(self, weights: list[Any]) -> _Kept | None:
        """Return the rows that are good under these weights."""
        kept = self._kept
        return kept if kept is not None and kept.is_of(weights) else None

    def _keep(self, weights: list[Any], keys: list[int], rows: np.ndarray) -> None:
        """Keep rows, unless the weights may change in place or another thread is at it."""
        trained = {id(each) for each in self._in_training}
        # never waits: the lock of a forked child may be held by a thread that it does not have
        if trained.intersection(map(id, weights)) or not self._lock.acquire(blocking=False):
            return
        try:
            kept = self._of(weights)
            if kept is None or 4 * rows.shape[1] * (len(kept.places) + len(keys)) > _KEPT_BYTES:
                kept = self._kept = _Kept(weights, rows.shape[1])
            added = [i for i, key in enumerate(keys) if key not in kept.places]
            kept.add([keys[i] for i in added], rows[added])
        finally:
            self._lock.release()


@cache
def _multipliers(n: int) -> np.ndarray:
    """Return odd numbers of 64 bits for a hash that is a weighted sum, always the same."""
    return np.random.default_rng(0).integers(0, 2**63, n, np.uint64) * np.uint64(2) + np.uint64(1)
