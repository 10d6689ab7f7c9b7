"""`VectorTable`: what spaCy asks of a table of vectors with a row for every word it lists."""

from collections.abc import Iterator
from typing import Any

from spacy.strings import get_string_id
from spacy.vectors import BaseVectors

__all__ = ["VectorTable", "hash_of"]


def hash_of(word: str) -> int:
    """By which spaCy knows a word."""
    return int(get_string_id(word))


class VectorTable(BaseVectors):
    """The part of ``spacy.vectors.Vectors`` that reads a table.

    Attributes
    ----------
    key2row
        The row of every listed word, by its hash.
    data
        (rows, columns) float32, where ``_ops``, of thinc, has its arrays.

    """

    key2row: dict[int, int]
    data: Any
    _ops: Any

    def find(self, *, key: Any = None, keys: Any = None, row: Any = None, rows: Any = None) -> Any:
        """As ``Vectors.find``: rows of keys (-1 for a word outside the vocabulary), or keys of rows."""
        if key is not None:
            return self.key2row.get(hash_of(key) if isinstance(key, str) else int(key), -1)
        if keys is not None:
            return self._ops.xp.asarray([self.find(key=each) for each in keys], dtype="i")
        by_row = list(self.key2row)
        if row is not None:
            return by_row[row]
        return self._ops.xp.asarray([by_row[each] for each in rows], dtype="uint64")

    def most_similar(
        self, queries: Any, *, batch_size: int = 1024, n: int = 1, sort: bool = True
    ) -> tuple[Any, Any, Any]:
        """As ``Vectors.most_similar``: keys, rows and cosines (queries, n) of the nearest words with a row."""
        xp = self._ops.xp
        table = self.data / xp.maximum(xp.linalg.norm(self.data, axis=1, keepdims=True), 1e-12)
        n = min(n, len(table))
        rows, scores = [], []
        for i in range(0, len(queries), batch_size):
            part = xp.asarray(queries[i : i + batch_size], dtype="f")
            part = part / xp.maximum(xp.linalg.norm(part, axis=1, keepdims=True), 1e-12)
            cosines = part @ table.T
            best = xp.argsort(-cosines, axis=1)[:, :n]
            rows.append(best)
            scores.append(xp.take_along_axis(cosines, best, axis=1))
        found = xp.vstack(rows) if rows else xp.zeros((0, n), dtype="i")
        keys = xp.asarray(list(self.key2row), dtype="uint64")[found]
        best_scores = xp.vstack(scores) if scores else xp.zeros((0, n), dtype="f")
        return keys, found, xp.around(best_scores, decimals=4)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of ``data``."""
        rows, columns = self.data.shape
        return rows, columns

    @property
    def size(self) -> int:
        """Numbers in ``data``."""
        return int(self.data.size)

    @property
    def vectors_length(self) -> int:
        """Columns."""
        return self.shape[1]

    @property
    def n_keys(self) -> int:
        """Words with a row."""
        return len(self.key2row)

    def keys(self) -> Any:
        """Hashes of the words with a row, in their order."""
        return self.key2row.keys()

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[int]:
        return iter(self.key2row)

    def to_ops(self, ops: Any) -> None:
        """Move the table, and all that `get_batch` will give, to a device."""
        self.data = ops.asarray2f(self._ops.to_numpy(self.data), dtype="float32")
        self._ops = ops
