"""The place a component writes its vectors to: ``Doc.tensor``, or an extension of the document.

The vectors replace what is there or, in ``append`` mode, become further columns of it. Then
``doc._.<target>_columns`` records which component wrote which columns, as in
``{"lds_embeddings": [0, 400], "varembed_embeddings": [400, 500]}``; the record stays with the document
through ``Doc.to_bytes`` and ``nlp.pipe(n_process=2)``.
"""

from collections.abc import Sequence
from typing import Any

from spacy.tokens import Doc
from thinc.api import get_array_module, get_current_ops

from tacenda.errors import ConfigurationError
from tacenda_embeddings.spacy.doc_tensor import vectors_of

__all__ = ["Target"]

MODES = ("replace", "append")


class Target:
    """Writes the vectors of one component.

    Raises ConfigurationError for an unknown mode, or a name that cannot be an extension or is one that cannot be
    written to.
    """

    def __init__(self, name: str, mode: str) -> None:
        if mode not in MODES:
            raise ConfigurationError(f"mode must be 'replace' or 'append', not {mode!r}")
        if not name.isidentifier():
            raise ConfigurationError(
                "target must be 'tensor' or the bare name of an extension, such as 'lds' for "
                f"doc._.lds, not {name!r}"
            )
        self.name = name
        self.mode = mode
        self.is_tensor = name == "tensor"
        self._columns_key = ("._.", f"{name}_columns", None, None)
        if not self.is_tensor:
            _register(name)
        if mode == "append":
            _register(f"{name}_columns")

    def write(self, docs: Sequence[Doc], vectors: Sequence[Any], owner: str, before: str) -> None:
        """Write one array ``(n_tokens, width)`` per document.

        ``owner`` is the component that writes; ``before`` is the one that columns without a record are ascribed to.
        """
        ops = get_current_ops()
        for doc, rows in zip(docs, vectors, strict=True):
            array = ops.asarray(rows, dtype="float32")
            if self.mode == "append":
                array = self._beside(doc, array, owner, before)
            elif doc.user_data:
                doc.user_data.pop(self._columns_key, None)
            if self.is_tensor:
                doc.tensor = array
            else:
                doc._.set(self.name, array)

    def read(self, doc: Doc) -> Any:
        """Return the vectors of a document (n_tokens, width), or None where nothing has been written for its tokens."""
        return vectors_of(doc, self.name)

    def holds(self, doc: Doc, owner: str, width: int | None) -> bool:
        """Return whether a document has the vectors of ``owner``; None as their width takes any."""
        there = self.read(doc)
        if there is None or width is None:
            return there is not None
        recorded = doc.user_data.get(self._columns_key) or {}
        if owner not in recorded:
            return self.mode == "replace" and there.shape[1] == width
        start, stop = recorded[owner]
        return bool(stop - start == width and stop <= there.shape[1])

    def _beside(self, doc: Doc, rows: Any, owner: str, before: str) -> Any:
        """Return the columns that are there and our own: after them, or in place of our earlier ones."""
        there = self.read(doc)
        if there is None:
            there = rows[:, :0]
        have, width = there.shape[1], rows.shape[1]
        recorded = doc.user_data.get(self._columns_key) or {}
        columns = {
            name: list(span) for name, span in recorded.items() if span[1] <= have and name != owner
        }
        start, stop = recorded.get(owner, (have, have))
        if stop > have:
            # the record is of columns that have been replaced since
            start = stop = have
        end = start + width  # the model may have another width than the one that wrote our columns
        for span in columns.values():
            if span[0] >= stop:
                span[:] = [bound + end - stop for bound in span]
        if have and not columns and start:
            columns[before] = [0, start]
        columns[owner] = [start, end]
        doc.user_data[self._columns_key] = columns
        xp = get_array_module(rows)
        there = get_current_ops().asarray(there, dtype="float32")
        return xp.concatenate([there[:, :start], rows, there[:, stop:]], axis=1)


def _register(name: str) -> None:
    """Register an extension that can be written to, unless there is one."""
    if not Doc.has_extension(name):
        Doc.set_extension(name, default=None)
        return
    _, method, getter, setter = Doc.get_extension(name)
    if method is not None or (getter is not None and setter is None):
        raise ConfigurationError(
            f"doc._.{name} is already an extension that cannot be written to: choose another target"
        )
