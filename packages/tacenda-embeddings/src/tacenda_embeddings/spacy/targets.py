"""`Target`: ``Doc.tensor`` or an extension with the vectors of components, and the columns of each of them.

The functions at the end are the hooks through which spaCy's ``similarity`` compares the vectors of a target.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from spacy.errors import Warnings
from spacy.tokens import Doc, Token
from spacy.tokens.underscore import Underscore
from thinc.api import get_array_module, get_current_ops

from tacenda.errors import ConfigurationError, warn


class Target:
    """``Doc.tensor`` or an extension of the document, to which a component writes its vectors.

    The vectors replace those of the target or, in ``append`` mode, become further columns of them. Then
    ``doc._.<target>_columns`` records which component wrote which columns, as in
    ``{"lds_embeddings": [0, 400], "varembed_embeddings": [400, 500]}``. The spans cover all columns. The record stays
    with the document through ``Doc.to_bytes`` and ``nlp.pipe(n_process=2)``.

    Raises ConfigurationError for an unknown mode, and for a name that cannot be an extension, that spaCy uses itself,
    such as "get", or that is the name of an extension that cannot be written to.
    """

    def __init__(self, name: str, mode: str) -> None:
        if mode not in ("replace", "append"):
            raise ConfigurationError(f"mode must be 'replace' or 'append', not {mode!r}")
        if not name.isidentifier() or hasattr(Underscore, name):
            raise ConfigurationError(
                f"target must be 'tensor' or the bare name of an extension, such as 'lds' for doc._.lds, not {name!r}"
            )
        self.name, self.mode = name, mode
        self.is_tensor = name == "tensor"
        self._columns_key = ("._.", f"{name}_columns", None, None)
        # for documents, and for those without a word that the model knows; functions of this module, so that documents
        # can be pickled with them
        vector, has_vector = partial(_compute_vector, name), partial(_has_vector, name)
        self.hooks = {"similarity": cosine, "vector": vector, "has_vector": has_vector}
        zeros = partial(_build_zero_vector, name)
        self.hooks_of_unknown = {**self.hooks, "vector": zeros, "has_vector": _is_blank}
        if not self.is_tensor:
            _register(name)
        if mode == "append":
            _register(f"{name}_columns")

    def write(self, docs: Sequence[Doc], vectors: Sequence[Any], owner: str, before: str) -> None:
        """Write one array ``(n_tokens, width)`` per document.

        ``owner`` is the component that writes; columns without a record are recorded as those of ``before``.
        """
        ops = get_current_ops()
        for doc, rows in zip(docs, vectors, strict=True):
            array = ops.asarray(rows, dtype="float32")
            if self.mode == "append":
                array = self._append(doc, array, owner, before)
            elif doc.user_data:
                doc.user_data.pop(self._columns_key, None)
            if self.is_tensor:
                doc.tensor = array
            else:
                doc._.set(self.name, array)

    def holds(self, doc: Doc, owner: str, width: int | None) -> bool:
        """Return whether a document has the vectors of ``owner``, of this width or, if it is None, of any."""
        present = get_vectors(doc, self.name)
        if present is None or width is None:
            return present is not None
        columns = self._read_columns(doc, present.shape[1])
        if owner not in columns:
            return self.mode == "replace" and present.shape[1] == width
        start, stop = columns[owner]
        return stop - start == width

    def _append(self, doc: Doc, rows: Any, owner: str, before: str) -> Any:
        """Return the existing columns and ours: after them, or instead of our earlier ones.

        Raises ConfigurationError if columns of others do not fit the tokens.
        """
        present = get_vectors(doc, self.name)
        if present is None:
            unfit = read_array(doc, self.name)
            if (
                unfit is not None
                and unfit.ndim == 2
                and set(self._read_columns(doc, unfit.shape[1])) != {owner}
            ):
                raise ConfigurationError(f"{format_target(self.name)} {format_misfit(doc, unfit)}")
            present = rows[:, :0]
        n_columns = present.shape[1]
        columns = self._read_columns(doc, n_columns)
        start, stop = columns.pop(owner, [n_columns, n_columns])
        # the model that wrote our earlier columns may have had another width
        end = start + rows.shape[1]
        for span in columns.values():
            if span[0] >= stop:
                span[:] = [bound + end - stop for bound in span]
        if start and not columns:
            columns[before] = [0, start]
        columns[owner] = [start, end]
        doc.user_data[self._columns_key] = columns
        present = get_current_ops().asarray(present, dtype="float32")
        xp = get_array_module(rows)
        return xp.concatenate([present[:, :start], rows, present[:, stop:]], axis=1)

    def _read_columns(self, doc: Doc, n_columns: int) -> dict[str, list[int]]:
        """Return the recorded columns by component; none if the vectors have been replaced since.

        The spans cover all columns, so the record is of other vectors if it does not end at ``n_columns``.
        """
        columns = doc.user_data.get(self._columns_key) or {}
        if max((stop for _, stop in columns.values()), default=0) != n_columns:
            return {}
        return {name: list(span) for name, span in columns.items()}


def _register(name: str) -> None:
    """Register an extension that can be written to, unless it exists already."""
    if not Doc.has_extension(name):
        Doc.set_extension(name, default=None)
        return
    _, method, getter, setter = Doc.get_extension(name)
    if method is not None or (getter is not None and setter is None):
        raise ConfigurationError(
            f"doc._.{name} is already an extension that cannot be written to: choose another target"
        )


# -- reading a target --------------------------------------------------------------------------------


def get_vectors(doc: Doc, source: str) -> Any:
    """Return the vectors of a document in ``Doc.tensor`` or an extension (n_tokens, width); None if it has none."""
    array = read_array(doc, source)
    if array is None or array.ndim != 2 or array.shape[0] != len(doc):
        return None
    return array


def read_array(doc: Doc, source: str) -> Any:
    """Return the array in ``Doc.tensor`` or an extension, even if it does not fit the tokens; None if not set.

    Raises ConfigurationError for an extension that holds something else.
    """
    if source == "tensor":
        return doc.tensor
    array = doc.user_data.get(("._.", source, None, None))
    if array is None and Doc.has_extension(source):
        array = doc._.get(source)  # a getter may compute it
    if array is not None and not hasattr(array, "ndim"):
        raise ConfigurationError(
            f"{format_target(source)} holds a {type(array).__name__}, not an array (n_tokens, width): name the "
            "extension to which the embedding component writes"
        )
    return array


def format_target(source: str) -> str:
    """Return the name of a target or source in spaCy's pipeline analysis."""
    return "doc.tensor" if source == "tensor" else f"doc._.{source}"


def format_misfit(doc: Doc, array: Any) -> str:
    """Return what is wrong with an array whose rows do not fit the tokens, and what to do about it."""
    return (
        f"has rows for {len(array)} tokens where the document has {len(doc)}: tokens were merged or split since, so "
        "move the component that does this before the embedding component"
    )


# -- similarity in context -------------------------------------------------------------------------


def cosine(one: Any, other: Any) -> float:
    """Return the cosine of the vectors of two tokens, spans or documents; 0 if one of them is zero or missing.

    Raises ConfigurationError if they have different widths.
    """
    a, b = one.vector, other.vector
    if a.size and b.size and a.shape != b.shape:
        raise ConfigurationError(
            f"a {type(one).__name__} whose vector has {len(a)} columns cannot be compared with a "
            f"{type(other).__name__} whose vector has {len(b)}: process both with the same pipeline"
        )
    xp = get_array_module(a)
    lengths = xp.linalg.norm(a) * xp.linalg.norm(b)
    if not lengths:
        if not (one.has_vector and other.has_vector):
            warn(Warnings.W008.format(obj=type(one).__name__), UserWarning)
        return 0.0
    return float(a @ b / lengths)


def _get_rows(source: str, given: Any) -> Any:
    """Return the rows of a token (1, width), or of a span or document (n_tokens, width); None without vectors."""
    doc = given if isinstance(given, Doc) else given.doc
    rows = get_vectors(doc, source)
    if rows is None or isinstance(given, Doc):
        return rows
    if isinstance(given, Token):
        return rows[given.i : given.i + 1]
    return rows[given.start : given.end]


def _compute_vector(source: str, given: Any) -> Any:
    """Return the mean of the rows of a token, span or document (width,)."""
    rows = _get_rows(source, given)
    if rows is None:
        return get_array_module(given.vocab.vectors.data).zeros(0, dtype="f")
    return rows.mean(axis=0) if len(rows) else rows.sum(axis=0)


def _build_zero_vector(source: str, given: Any) -> Any:
    """Return zeros (width,), for a text in which the model knows no word."""
    return 0 * _compute_vector(source, given)


def _has_vector(source: str, given: Any) -> bool:
    """Return whether a token, span or document has a vector that is not zero, or consists of whitespace."""
    rows = _get_rows(source, given)
    return rows is not None and (bool(rows.any()) or _is_blank(given))


def _is_blank(given: Any) -> bool:
    """Return whether a token, span or document consists of whitespace."""
    return not given.text.strip()
