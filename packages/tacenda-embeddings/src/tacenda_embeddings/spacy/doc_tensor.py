"""``tacenda.DocTensor.v1``: a layer that reads the vectors an earlier component wrote.

It takes documents and returns one array ``(n_tokens, width)`` float32 for each; no gradient flows back to the
vectors. spaCy's own ``Tok2VecListener`` reads ``Doc.tensor`` too, but it cannot read an extension or a part of
the columns, and cannot be combined with another embedding layer.
"""

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from spacy.tokens import Doc
from thinc.api import Linear, Maxout, Model, chain, with_array
from thinc.types import Floats2d

from tacenda_embeddings.spacy.training_input import forget_training

#: Name of the thinc node that reads; `ownership.announce_pipeline_widths` looks for it.
NAME = "doc_tensor"


def doc_tensor(
    width: int | None = None,
    source: str = "tensor",
    columns: list[int] | None = None,
    normalize: bool = True,
    scale: float = 1.0,
    dropout: float = 0.0,
    projection: int | None = None,
    maxout_pieces: int = 1,
) -> Model[list[Doc], list[Floats2d]]:
    """Read ``Doc.tensor``, some of its columns, or an extension that holds vectors.

    Parameters
    ----------
    width
        The number of columns to read. None takes the length of ``columns``, or else, at initialization,
        the width that the documents have or that the embedding component of the pipeline announces.
    source
        ``"tensor"``, or the extension that is the ``target`` of the embedding component.
    columns
        ``[start, stop]`` reads these columns only, ``stop`` not included.
    normalize
        Whether to scale every row to a mean square of 1, for which layers are initialized; rows of zeros
        stay zeros. On vectors of unit length a head learns many times more slowly.
    scale
        A factor on the rows after that; more than 1 gives them more weight than other layers.
    dropout
        The share of the entries set to zero in training, in addition to ``[training] dropout``.
    projection
        The width of a trained layer on top; None returns the vectors as they are.
    maxout_pieces
        1 makes that layer linear; more make it a maxout layer of so many pieces with layer normalization.

    Raises
    ------
    tacenda.errors.ConfigurationError
        A setting is out of range, or, later, a document has no vectors or too few columns.
    """
    if width is not None and width < 1:
        _fail(f"width must be positive, not {width}")
    if columns is not None:
        if len(columns) != 2 or not 0 <= columns[0] < columns[1]:
            _fail(f"columns must be [start, stop] with 0 <= start < stop, not {columns}")
        if width not in (None, columns[1] - columns[0]):
            _fail(f"columns {columns} are {columns[1] - columns[0]} wide, but width says {width}")
        width = columns[1] - columns[0]
    if not source.isidentifier():
        bare = source.rpartition(".")[2]
        remedy = f": use {bare!r}" if bare.isidentifier() else ", such as 'lds' for doc._.lds"
        _fail(f"source must be 'tensor' or the bare name of an extension, not {source!r}{remedy}")
    if not 0.0 <= dropout < 1.0:
        _fail(f"dropout must be at least 0 and less than 1, not {dropout}")
    if not 0 < scale < float("inf"):
        _fail(f"scale must be positive, not {scale}")
    attrs = {
        "source": source,
        "start": columns[0] if columns else 0,
        "stop": columns[1] if columns else None,
        "normalize": normalize,
        "scale": scale,
        "dropout": dropout,
        "announced": None,  # the width that `ownership.announce_pipeline_widths` found in the pipeline
        "notes": _Notes(),
    }
    read: Model[list[Doc], list[Floats2d]] = Model(
        NAME, forward, init=init, dims={"nO": width}, attrs=attrs
    )
    if projection is None:
        return read
    if projection < 1 or maxout_pieces < 1:
        _fail(f"projection and maxout_pieces must be positive, not {projection}, {maxout_pieces}")
    top: Model[Any, Any] = Linear(nO=projection, nI=width)
    if maxout_pieces > 1:
        top = Maxout(nO=projection, nI=width, nP=maxout_pieces, normalize=True, dropout=0.0)
    return chain(read, with_array(top))


def init(model: Model[Any, Any], X: list[Doc] | None = None, Y: Any = None) -> None:
    """Set the width; the samples of spaCy have passed no component, so they may have no vectors."""
    forget_training(model)
    model.attrs["notes"].samples = list(X or [])
    if model.has_dim("nO"):
        return
    seen = (vectors_of(doc, model.attrs["source"]) for doc in X or [] if len(doc))
    widths = {array.shape[1] for array in seen if array is not None}
    announced = model.attrs["announced"]
    if widths:
        model.set_dim("nO", max(widths))
    elif announced or (announced := model.attrs["notes"].load(model.attrs["source"])):
        model.set_dim("nO", announced)
    elif X is not None:
        place = place_of(model.attrs["source"])
        written, cause = model.attrs["notes"].written, ""
        remedy = "move the embedding component before it and initialize it first, or set width"
        if written and model.attrs["source"] not in written.values():
            name, target = next(reversed(written.items()))
            cause, remedy = f", but {name!r} writes {place_of(target)}", f"set source = {target!r}"
        _fail(
            f"the width of {place} is unknown, because no earlier component says that it writes it{cause}: "
            f"{remedy}"
        )


def forward(
    model: Model[list[Doc], list[Floats2d]], docs: list[Doc], is_train: bool
) -> tuple[list[Floats2d], Callable[[Any], list[Doc]]]:
    """Return one array ``(n_tokens, width)`` per document; the gradient ends here."""
    rows = read_vectors(model, docs, is_train)
    scaled = [array if (s := scales(model, array)) is None else array * s for array in rows]
    rate = model.attrs["dropout"]
    if is_train and rate:
        scaled = [array * model.ops.get_dropout_mask(array.shape, rate) for array in scaled]
    return scaled, lambda dY: []


def read_vectors(
    model: Model[list[Doc], list[Floats2d]], docs: Sequence[Doc], is_train: bool
) -> list[Any]:
    """Return the columns of each document (n_tokens, width), not scaled; zeros for samples of initialization."""
    ops, source, width = model.ops, model.attrs["source"], model.get_dim("nO")
    whole = model.attrs["stop"] is None
    rows = []
    for doc in docs:
        array = vectors_of(doc, source)
        if array is None or not whole or array.shape[1] != width:
            array = _columns(model, doc, array, is_train)
        elif len(doc):
            model.attrs["notes"].samples = []
        rows.append(ops.asarray2f(array))
    return rows


def _columns(model: Model[Any, Any], doc: Doc, array: Any, is_train: bool) -> Any:
    """Return what stands for the vectors of a document, or raise ConfigurationError."""
    width, start, stop = model.get_dim("nO"), model.attrs["start"], model.attrs["stop"]
    place = place_of(model.attrs["source"])
    if not len(doc):
        return model.ops.alloc2f(0, width)
    notes, source = model.attrs["notes"], model.attrs["source"]
    if array is None:
        if not is_train and any(doc is sample for sample in notes.samples):
            return model.ops.alloc2f(len(doc), width)
        if notes.supply(doc, source):
            array = vectors_of(doc, source)
    if array is None:
        there = _array(doc, model.attrs["source"])
        if there is not None and there.ndim == 2:
            _fail(
                f"{place} has rows for {len(there)} tokens where the document has {len(doc)}: tokens were "
                "merged or split since, so move the component that does this before the embedding component, or "
                "after the one that reads the vectors"
            )
        _fail(
            f"{place} holds no vectors for a document of {len(doc)} tokens: add the embedding "
            "component, or move it, before the one that reads it, and in training list it in [training] "
            "annotating_components (nlp.update(..., annotates=[...])), and before nlp.rehearse apply it to each "
            "example.predicted; a DocBin keeps no tensor"
        )
    model.attrs["notes"].samples = []
    have = array.shape[1]
    if (stop is None and have != width) or (stop is not None and have < stop):
        need = f"{width}" if stop is None else f"at least {stop}"
        _fail(
            f"{place} has {have} columns where {need} are needed: another component wrote "
            "it, or the embedding model has changed since; set width or columns to match, or give "
            "each component a target of its own"
        )
    return array if stop is None else array[:, start:stop]


def scales(model: Model[list[Doc], list[Floats2d]], array: Any) -> Any:
    """Return what each row of ``array`` is multiplied by, (n_tokens, 1) float32; None where nothing changes."""
    xp, scale = model.ops.xp, model.attrs["scale"]
    if model.attrs["normalize"]:
        squares = xp.einsum("ij,ij->i", array, array)[:, None] / array.shape[1]
        return xp.asarray(scale / xp.sqrt(xp.where(squares == 0, 1, squares)), dtype="float32")
    return None if scale == 1.0 else xp.full((len(array), 1), scale, dtype="float32")


def vectors_of(doc: Doc, source: str) -> Any:
    """Return what ``Doc.tensor`` or an extension holds for the tokens of a document (n_tokens, width), or None."""
    array = _array(doc, source)
    if array is None or array.ndim != 2 or array.shape[0] != len(doc):
        return None
    return array


class _Notes:
    """Facts about the pipeline around a layer; thinc does not save them, because this is an object.

    Attributes
    ----------
    written
        By component, the target of every embedding component before this layer.
    widths
        By component, how many columns it writes to what this layer reads; None if it has no model yet.
    components
        By name, weak references to the embedding components before this layer.
    samples
        The documents of initialization, until vectors have been read. spaCy initializes on samples that no component
        has seen: that these have no vectors is no mistake.
    """

    def __init__(self, written: dict[str, str] | None = None) -> None:
        self.written = written or {}
        self.widths: dict[str, int | None] = {}
        self.components: dict[str, Callable[[], Any]] = {}
        self.samples: list[Doc] = []

    def load(self, source: str) -> int | None:
        """Let the components that write ``source`` load their models; return its width, if it is known then."""
        writers = self._writers(source)
        known = bool(writers) and all(each.load_for_reader() for each in writers)
        return sum(each.width for each in writers) if known else None

    def supply(self, doc: Doc, source: str) -> bool:
        """Write vectors that a document lacks, where training would have written them; return whether it has them now.

        ``spacy pretrain``, ``spacy debug model`` and ``nlp.rehearse`` read documents that no component has seen.
        """
        writers = self._writers(source)
        return bool(writers) and all(each.supply(doc) for each in writers)

    def _writers(self, source: str) -> list[Any]:
        """Return the components that write what the layer reads, as `ownership.announce_writer` told it."""
        names = [name for name in self.widths if self.written.get(name) == source]
        found = [self.components[name]() for name in names if name in self.components]
        return [] if None in found else found

    def __reduce__(self) -> tuple[Any, ...]:
        return _Notes, (dict(self.written),)  # a copy has not been initialized


def _array(doc: Doc, source: str) -> Any:
    """Return what a document holds, for whichever tokens."""
    if source == "tensor":
        return doc.tensor
    array = doc.user_data.get(("._.", source, None, None))
    if array is None and Doc.has_extension(source):
        array = doc._.get(source)  # whose getter may know it
    return array


def place_of(source: str) -> str:
    """Return a target or source as spaCy's analysis writes it."""
    return "doc.tensor" if source == "tensor" else f"doc._.{source}"


def _fail(message: str) -> NoReturn:
    from tacenda.errors import ConfigurationError

    raise ConfigurationError(f"tacenda.DocTensor.v1: {message}")
