"""Who writes ``Doc.tensor`` in a pipeline, who reads it, and whether they mean the same vectors.

``Doc.tensor`` has one owner. spaCy's ``tok2vec`` writes it, and the heads that listen to it read
whatever is there when they run: a second writer in between makes them fail on a matrix shape or,
with equal widths, tag nonsense. spaCy itself does not notice, so the components look for it. The same goes
for an extension that holds vectors.
"""

import warnings
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple, NoReturn

from spacy.pipeline.tok2vec import Tok2Vec, Tok2VecListener
from spacy.tokens import Doc
from thinc.api import get_array_module, get_current_ops

from tacenda.errors import ConfigurationError
from tacenda_embeddings.spacy.doc_tensor import NAME as DOC_TENSOR
from tacenda_embeddings.spacy.doc_tensor import place_of, vectors_of
from tacenda_embeddings.spacy.training_input import Reading, nodes_of


class _Reader(NamedTuple):
    """A component that reads what another one writes."""

    position: int  # in the pipeline
    name: str
    upstream: str | None  # the component that it listens to; None reads whatever is there


def check_ownership(nlp: Any, component: Any) -> None:
    """Check that ``component``, if it is in the pipeline, may write where it writes, and that it comes in time.

    Raises ConfigurationError if another component reads its vectors before they are written, if listeners to another
    component would read what it writes, or if a ``tok2vec`` would overwrite that before it is read. Warns if vectors
    are overwritten that nobody has read.
    """
    pipeline, place = list(nlp.pipeline), component.target.name
    here = next((i for i, (_, pipe) in enumerate(pipeline) if pipe is component), None)
    if here is None:
        return
    name, readers, writers = pipeline[here][0], _readers(pipeline, place), _writers(nlp, place)
    # components after another one that writes the place, disabled ones included, which may read that
    every = [(n, _writes(nlp.get_pipe_meta(n), pipe, place)) for n, pipe in nlp.components]
    first = next((i for i, (_, writes) in enumerate(every) if writes), len(every))
    late = {n for n, _ in every[first + 1 :]}
    for reader in readers:
        ours = reader.upstream == name or (reader.upstream is None and reader.name not in late)
        if reader.position < here and ours:
            raise ConfigurationError(
                f"{reader.name!r} reads {place_of(place)}, which {name!r} writes only after it: move {name!r} "
                f"before it, as with nlp.add_pipe(..., name={name!r}, before={reader.name!r}) or in [nlp] pipeline"
            )
    if component.target.is_tensor:
        _check_listeners(pipeline, here, writers, readers)
    _warn_of_overwriting(pipeline, here, writers, readers)


def _check_listeners(
    pipeline: list[tuple[str, Any]], here: int, writers: dict[str, int], readers: list[_Reader]
) -> None:
    """Raise ConfigurationError if what listeners read in ``Doc.tensor`` is not what they listen to."""
    name, component = pipeline[here]
    appends = component.target.mode == "append"
    for reader in readers:
        if reader.upstream is None or reader.upstream not in writers:
            continue
        written = writers[reader.upstream]
        if reader.upstream == name:
            between = [w for w, i in writers.items() if here < i < reader.position]
            # more columns beside ours are a matter of the listener's width, which is checked below
            spoilers = [w for w in between if not _appends(pipeline[writers[w]][1])]
            if spoilers:
                raise ConfigurationError(
                    f"{spoilers[0]!r} overwrites Doc.tensor before {reader.name!r} reads what "
                    f"{name!r} wrote there: put {name!r} after {spoilers[0]!r}, or give it a "
                    f"target of its own (config={{'target': 'lds'}}) and read that with "
                    "tacenda.DocTensor.v1, source = 'lds'"
                )
        elif appends and (_is_ours(pipeline[written][1]) or reader.position < here):
            continue
        elif written < here:
            _refuse_to_write(name, repr(reader.upstream), reader.name)


def _refuse_to_write(name: str, owner: str, listener: str) -> NoReturn:
    raise ConfigurationError(
        f"{name!r} cannot write Doc.tensor: {owner} owns it and {listener!r} listens to it; give {name!r} a target of "
        f"its own (config={{'target': 'lds'}} writes doc._.lds), or, if {listener!r} is meant to read {name!r}, set "
        f"its upstream = {name!r}"
    )


def check_sourced(nlp: Any, component: Any, later: list[Any]) -> None:
    """Check a component that is in another pipeline than ``nlp``, of which only what comes ``later`` is known.

    A component that was sourced keeps its reference to the pipeline it was made in, until it is initialized. Raises
    ConfigurationError if a listener to another component would read what it writes to ``Doc.tensor``.
    """
    pipes = [] if nlp is None else [pipe for _, pipe in nlp.components]
    here = next((i for i, pipe in enumerate(pipes) if pipe is component), len(pipes))
    after = {id(pipe) for pipe in pipes[here + 1 :]}
    at_home = here < len(pipes) and all(id(pipe) in after for pipe in later)
    if at_home or not component.target.is_tensor or component.target.mode != "replace":
        return
    passed = {component.name}
    for pipe in later:
        for node in nodes_of(pipe):
            if isinstance(node, Tok2VecListener) and node.upstream_name not in passed:
                upstream = node.upstream_name
                owner = "an earlier tok2vec" if upstream == "*" else repr(upstream)
                _refuse_to_write(component.name, owner, pipe.name)
        if isinstance(pipe, Tok2Vec) or (_is_ours(pipe) and pipe.target.is_tensor):
            return  # which writes anew: that is what later listeners read
        passed.add(getattr(pipe, "name", ""))


def _warn_of_overwriting(
    pipeline: list[tuple[str, Any]], here: int, writers: dict[str, int], readers: list[_Reader]
) -> None:
    """Warn if the component at ``here`` overwrites vectors, or its vectors are overwritten, before they are read."""
    name, component = pipeline[here]
    in_order = sorted(writers.items(), key=lambda item: item[1])
    for (first, i), (second, j) in pairwise(in_order):
        # of two components of ours the second one says it
        concerned = j == here or (i == here and not _is_ours(pipeline[j][1]))
        if not concerned or _appends(pipeline[j][1]):
            continue
        if any(i < r.position <= j and r.upstream in (None, first) for r in readers):
            continue
        place = place_of(component.target.name)
        warnings.warn(
            f"{second!r} overwrites what {first!r} wrote to {place}, and no component between them reads it: give "
            f"{name!r} a target of its own (config={{'target': 'lds'}}) or mode = 'append', or leave {first!r} out",
            stacklevel=6,
        )


def announce_width(component: Any, other: Any) -> None:
    """Tell every ``tacenda.DocTensor.v1`` of a later component what ``component`` writes, and how wide it is.

    spaCy links components in the order of the pipeline, so that widths of those that append add up.
    """
    target = component.target
    for node in nodes_of(other):
        if node.name != DOC_TENSOR:
            continue
        notes = node.attrs["notes"]
        notes.written.pop(component.name, None)
        notes.written[component.name] = target.name
        notes.components[component.name] = weakref.ref(component)
        if node.attrs["source"] != target.name:
            continue
        notes.widths.pop(component.name, None)
        if target.mode == "replace":
            notes.widths.clear()
        notes.widths[component.name] = component.width
        known = None not in notes.widths.values()
        node.attrs["announced"] = sum(notes.widths.values()) if known else None


def find_readings(component: Any, pipes: Iterable[Any]) -> Iterator[Reading]:
    """Yield the layers of ``pipes`` that read what ``component`` writes, an input by its place among all writers."""
    for pipe in pipes:
        for node in nodes_of(pipe):
            name = getattr(pipe, "name", "")
            if node.name == DOC_TENSOR:
                writers = list(node.attrs["notes"].widths)
                if component.name in writers and node.attrs["source"] == component.target.name:
                    yield name, pipe, node, str(writers.index(component.name))
            elif isinstance(node, Tok2VecListener) and node.upstream_name == component.name:
                yield name, pipe, node, "0"


def announce_widths(nlp: Any) -> None:
    """Tell every ``tacenda.DocTensor.v1`` of the pipeline how wide the tensor or extension will be.

    spaCy initializes a model on documents that no component has seen, so it cannot learn this from them. Sourced and
    frozen components, which are disabled meanwhile, write too. Raises ConfigurationError if a listener to one of our
    components is set to another width.
    """
    totals: dict[str, int | None] = {}
    ours: dict[str, str] = {}  # by name, where they write
    for name, pipe in nlp.components:
        if _is_ours(pipe):
            key, width = pipe.target.name, pipe.width
            if pipe.target.mode == "append" and key in totals:
                before = totals[key]
                width = None if width is None or before is None else before + width
            totals[key] = width
            ours[name] = key
            continue
        for node in nodes_of(pipe):
            if node.name == DOC_TENSOR:
                node.attrs["announced"] = totals.get(node.attrs["source"])
                node.attrs["notes"].written = dict(ours)
            elif isinstance(node, Tok2VecListener) and node.upstream_name in ours:
                width = totals.get("tensor")
                if width is not None and node.get_dim("nO") != width:
                    raise ConfigurationError(
                        f"{name!r} listens to {node.upstream_name!r} for {node.get_dim('nO')} columns, but it "
                        f"writes {width}: set width = {width} in the listener of {name!r}"
                    )
        if isinstance(pipe, Tok2Vec):
            totals["tensor"] = pipe.model.maybe_get_dim("nO")


def describe_pipes(nlp: Any) -> None:
    """Let ``nlp.analyze_pipes`` say where our components write, and which components read it.

    spaCy knows what a factory assigns and requires, but not what a component does by its settings or by the layers
    of its model.
    """
    for name, pipe in nlp.pipeline:
        meta = nlp.get_pipe_meta(name)
        if _is_ours(pipe):
            sentences = ["token.is_sent_start"] if pipe.context == "sentence" else []
            changed = {"assigns": [place_of(pipe.target.name)], "requires": sentences}
        else:
            read = {place_of(n.attrs["source"]) for n in nodes_of(pipe) if n.name == DOC_TENSOR}
            changed = {"requires": sorted({*meta.requires, *read})}
        if any(list(getattr(meta, key)) != value for key, value in changed.items()):
            # a copy: the original is that of all components of this factory
            nlp._pipe_meta[name] = replace(meta, **changed)


def find_earlier_owner(nlp: Any, component: Any, target: str) -> str:
    """Return the last component before ``component`` that is known to write ``target``."""
    owner = "other"
    for name in _writers(nlp, target):
        if nlp.get_pipe(name) is component:
            break
        owner = name
    return owner


def _is_ours(pipe: Any) -> bool:
    """Return whether a component writes vectors of an embedder."""
    return isinstance(getattr(pipe, "target", None), Target)


def _writers(nlp: Any, place: str) -> dict[str, int]:
    """Return the components that write ``Doc.tensor``, or an extension, and their positions."""
    return {
        name: i
        for i, (name, pipe) in enumerate(nlp.pipeline)
        if _writes(nlp.get_pipe_meta(name), pipe, place)
    }


def _writes(meta: Any, pipe: Any, place: str) -> bool:
    if _is_ours(pipe):
        return bool(pipe.target.name == place)
    return place_of(place) in meta.assigns or (place == "tensor" and isinstance(pipe, Tok2Vec))


def _appends(pipe: Any) -> bool:
    """Return whether a component adds columns to the existing ones."""
    return _is_ours(pipe) and bool(pipe.target.mode == "append")


def _readers(pipeline: list[tuple[str, Any]], place: str) -> list[_Reader]:
    """Return every layer that reads ``Doc.tensor``, or an extension, and every listener to a component."""
    tok2vecs = [name for name, pipe in pipeline if isinstance(pipe, Tok2Vec)]
    found = []
    for i, (name, pipe) in enumerate(pipeline):
        for node in nodes_of(pipe):
            if node.name == DOC_TENSOR and node.attrs["source"] == place:
                found.append(_Reader(i, name, None))
            elif isinstance(node, Tok2VecListener) and place == "tensor":
                upstream = node.upstream_name
                if upstream == "*":
                    upstream = tok2vecs[0] if tok2vecs else ""
                found.append(_Reader(i, name, upstream))
    return found


# -- where vectors are written ---------------------------------------------------------------------


class Target:
    """Where a component writes its vectors: ``Doc.tensor``, or an extension of the document.

    The vectors replace what is there or, in ``append`` mode, become further columns of it. Then
    ``doc._.<target>_columns`` records which component wrote which columns, as in
    ``{"lds_embeddings": [0, 400], "varembed_embeddings": [400, 500]}``; the record stays with the document
    through ``Doc.to_bytes`` and ``nlp.pipe(n_process=2)``.

    Raises ConfigurationError for an unknown mode, or a name that cannot be an extension or is one that cannot be
    written to.
    """

    def __init__(self, name: str, mode: str) -> None:
        if mode not in ("replace", "append"):
            raise ConfigurationError(f"mode must be 'replace' or 'append', not {mode!r}")
        if not name.isidentifier():
            raise ConfigurationError(
                "target must be 'tensor' or the bare name of an extension, such as 'lds' for "
                f"doc._.lds, not {name!r}"
            )
        self.name, self.mode = name, mode
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
                array = self._append(doc, array, owner, before)
            elif doc.user_data:
                doc.user_data.pop(self._columns_key, None)
            if self.is_tensor:
                doc.tensor = array
            else:
                doc._.set(self.name, array)

    def holds(self, doc: Doc, owner: str, width: int | None) -> bool:
        """Return whether a document has the vectors of ``owner``; None as their width takes any."""
        there = vectors_of(doc, self.name)
        if there is None or width is None:
            return there is not None
        recorded = doc.user_data.get(self._columns_key) or {}
        if owner not in recorded:
            return self.mode == "replace" and there.shape[1] == width
        start, stop = recorded[owner]
        return bool(stop - start == width and stop <= there.shape[1])

    def _append(self, doc: Doc, rows: Any, owner: str, before: str) -> Any:
        """Return the existing columns and ours: after them, or instead of our earlier ones."""
        there = vectors_of(doc, self.name)
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
        there = get_current_ops().asarray(there, dtype="float32")
        xp = get_array_module(rows)
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
