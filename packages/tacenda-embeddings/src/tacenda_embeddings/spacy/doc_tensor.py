"""``tacenda.DocTensor.v1``: a layer that reads the vectors that an earlier component wrote.

It takes documents and returns one array ``(n_tokens, width)`` float32 for each. The gradient ends here. spaCy's own
``Tok2VecListener`` reads ``Doc.tensor`` too, but it cannot read an extension or a part of the columns, and cannot be
combined with another embedding layer.
"""

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from spacy.tokens import Doc
from thinc.api import Linear, Maxout, Model, chain, with_array
from thinc.types import Floats2d

from tacenda.errors import ConfigurationError, warn
from tacenda_embeddings.spacy.targets import format_misfit, format_target, get_vectors, read_array
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
        The number of columns to read. None means the length of ``columns`` or, without them, the width of the
        documents at initialization or of the embedding component of the pipeline.
    source
        ``"tensor"``, or the extension that is the ``target`` of the embedding component.
    columns
        ``[start, stop]`` reads these columns only, ``stop`` not included.
    normalize
        Whether to scale every row to a mean square of 1, which the initialization of layers expects; rows of zeros
        stay zeros. With vectors of unit length a head learns many times more slowly.
    scale
        A factor of the rows after that; more than 1 gives them more weight than other layers.
    dropout
        The share of the entries set to zero in training, in addition to ``[training] dropout``.
    projection
        The width of a trained layer on top; None returns the vectors as they are.
    maxout_pieces
        1 makes that layer linear; a larger number makes it a maxout layer with layer normalization. Without
        ``projection`` it has no effect, and causes a warning.

    Raises
    ------
    tacenda.errors.ConfigurationError
        A setting is out of range. The layer itself raises it for a document with too few columns or without vectors,
        and for an extension that holds no array.
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
    if projection is not None and (projection < 1 or maxout_pieces < 1):
        _fail(f"projection and maxout_pieces must be positive, not {projection}, {maxout_pieces}")
    if projection is None and maxout_pieces != 1:
        warn(
            f"tacenda.DocTensor.v1: maxout_pieces = {maxout_pieces} has no effect without projection: set projection "
            "to the width of the layer, or leave maxout_pieces out"
        )
    start, stop = columns or (0, None)
    attrs = {
        "source": source,
        "start": start,
        "stop": stop,
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
    top: Model[Any, Any] = Linear(nO=projection, nI=width)
    if maxout_pieces > 1:
        top = Maxout(nO=projection, nI=width, nP=maxout_pieces, normalize=True, dropout=0.0)
    return chain(read, with_array(top))


def init(model: Model[Any, Any], X: list[Doc] | None = None, Y: Any = None) -> None:
    """Set the width; samples of spaCy may have no vectors, because no component has processed them."""
    forget_training(model)
    notes, source = model.attrs["notes"], model.attrs["source"]
    notes.samples = list(X or [])
    if model.has_dim("nO"):
        return
    arrays = (get_vectors(doc, source) for doc in X or [] if len(doc))
    widths = [array.shape[1] for array in arrays if array is not None]
    width = max(widths) if widths else model.attrs["announced"] or notes.load(source)
    if width:
        model.set_dim("nO", width)
    elif X is not None:
        cause = ""
        remedy = "move the embedding component before it and initialize it first, or set width"
        if notes.written and source not in notes.written.values():
            name, target = next(reversed(notes.written.items()))
            cause, remedy = (
                f", but {name!r} writes {format_target(target)}",
                f"set source = {target!r}",
            )
        _fail(
            f"the width of {format_target(source)} is unknown, because no earlier component says that it writes it"
            f"{cause}: {remedy}"
        )


def forward(
    model: Model[list[Doc], list[Floats2d]], docs: list[Doc], is_train: bool
) -> tuple[list[Floats2d], Callable[[Any], list[Doc]]]:
    """Return one array ``(n_tokens, width)`` per document; the gradient ends here."""
    rate = model.attrs["dropout"]
    outputs = []
    for array in read_vectors(model, docs, is_train):
        factors = compute_scales(model, array)
        if factors is not None:
            array = array * factors
        if is_train and rate:
            array = array * model.ops.get_dropout_mask(array.shape, rate)
        outputs.append(array)
    return outputs, lambda dY: []


def read_vectors(
    model: Model[list[Doc], list[Floats2d]], docs: Sequence[Doc], is_train: bool
) -> list[Any]:
    """Return the columns of each document (n_tokens, width) without scaling; zeros for samples of initialization."""
    return [model.ops.asarray2f(_read_columns(model, doc, is_train)) for doc in docs]


def _read_columns(model: Model[Any, Any], doc: Doc, is_train: bool) -> Any:
    """Return the columns of one document.

    Lets an earlier component write vectors that are missing. Raises ConfigurationError if none can, or if there are too
    few columns.
    """
    width, start, stop = model.get_dim("nO"), model.attrs["start"], model.attrs["stop"]
    notes, source = model.attrs["notes"], model.attrs["source"]
    if not len(doc):
        return model.ops.alloc2f(0, width)
    array, place = get_vectors(doc, source), format_target(source)
    if array is None:
        if not is_train and any(doc is sample for sample in notes.samples):
            return model.ops.alloc2f(len(doc), width)
        if notes.supply(doc, source):
            array = get_vectors(doc, source)
    if array is None:
        unfit = read_array(doc, source)
        if unfit is not None and unfit.ndim == 2:
            _fail(f"{place} {format_misfit(doc, unfit)}, or after the one that reads the vectors")
        _fail(
            f"{place} holds no vectors for a document of {len(doc)} tokens: add the embedding component, or move it, "
            "before the one that reads it, and in training list it in [training] annotating_components "
            "(nlp.update(..., annotates=[...])), and before nlp.rehearse apply it to each example.predicted; a DocBin "
            "keeps no tensor"
        )
    notes.samples = []
    n_columns = array.shape[1]
    enough = n_columns == width if stop is None else n_columns >= stop
    if not enough:
        needed = f"{width}" if stop is None else f"at least {stop}"
        _fail(
            f"{place} has {n_columns} columns where {needed} are needed: another component wrote it, or the embedding "
            "model has changed since; set width or columns to match, or give each component a target of its own"
        )
    return array[:, start:stop]


def compute_scales(model: Model[list[Doc], list[Floats2d]], array: Any) -> Any:
    """Return the factor of each row of ``array``, (n_tokens, 1) float32; None if all are 1."""
    xp, scale = model.ops.xp, model.attrs["scale"]
    if model.attrs["normalize"]:
        squares = xp.einsum("ij,ij->i", array, array)[:, None] / array.shape[1]
        return xp.asarray(scale / xp.sqrt(xp.where(squares == 0, 1, squares)), dtype="float32")
    return None if scale == 1.0 else xp.full((len(array), 1), scale, dtype="float32")


class _Notes:
    """Facts about the pipeline of a layer. thinc does not save them, because they are an object.

    Attributes
    ----------
    written
        By name, the target of every embedding component before this layer.
    widths
        By name, the columns of every component that writes the source of this layer; None if it has no model yet.
    components
        By name, weak references to the embedding components before this layer.
    samples
        The documents of initialization, until vectors have been read. They need no vectors, because spaCy initializes
        layers on samples that no component has processed.
    """

    def __init__(self, written: dict[str, str] | None = None) -> None:
        self.written = written or {}
        self.widths: dict[str, int | None] = {}
        self.components: dict[str, Callable[[], Any]] = {}
        self.samples: list[Doc] = []

    def load(self, source: str) -> int | None:
        """Let the components that write ``source`` load their models; return its width, or None if it is unknown."""
        writers = self._find_writers(source)
        if not writers or not all(writer.load_for_reader() for writer in writers):
            return None
        return int(sum(writer.width for writer in writers))

    def supply(self, doc: Doc, source: str) -> bool:
        """Write missing vectors of a document if training would have written them; return whether it has them now.

        ``spacy pretrain``, ``spacy debug model`` and ``nlp.rehearse`` read documents that no component has processed.
        """
        writers = self._find_writers(source)
        return bool(writers) and all(writer.supply(doc) for writer in writers)

    def _find_writers(self, source: str) -> list[Any]:
        """Return the components that write what the layer reads, as `ownership.announce_writer` told it."""
        names = [name for name in self.widths if self.written.get(name) == source]
        writers = [self.components[name]() for name in names if name in self.components]
        return [] if None in writers else writers

    def __reduce__(self) -> tuple[Any, ...]:
        return _Notes, (dict(self.written),)  # a copy has not been initialized


def _fail(message: str) -> NoReturn:
    raise ConfigurationError(f"tacenda.DocTensor.v1: {message}")
