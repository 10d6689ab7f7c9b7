"""Checks of which components of a pipeline write ``Doc.tensor`` and which read it, and whether these match.

``Doc.tensor`` has one owner. spaCy's ``tok2vec`` writes it, and the components that listen to it read whatever it
holds when they run: after a second writer they fail on a matrix shape or, with equal widths, predict nonsense. spaCy
does not notice, so the embedding components check it. An extension that holds vectors has one owner too.
"""

import weakref
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple, NoReturn

from spacy.pipeline.tok2vec import Tok2Vec, Tok2VecListener

from tacenda.errors import ConfigurationError, warn
from tacenda_embeddings.spacy.doc_tensor import NAME as DOC_TENSOR
from tacenda_embeddings.spacy.targets import Target, format_target
from tacenda_embeddings.spacy.training_input import Reading, iterate_layers


class _Reader(NamedTuple):
    """A component that reads vectors from a document."""

    position: int  # in the pipeline
    name: str
    upstream: str | None  # the component that it listens to; None if it reads any vectors


def check_ownership(nlp: Any, component: Any) -> None:
    """Check that ``component``, if it is in the pipeline, may write its target, and writes it before it is read.

    Warns if vectors are overwritten that no component has read. Raises ConfigurationError if another component reads
    the vectors before they are written, listeners to another component would read them, or another component would
    overwrite them before they are read.
    """
    pipeline, target = list(nlp.pipeline), component.target.name
    here = next((i for i, (_, pipe) in enumerate(pipeline) if pipe is component), None)
    if here is None:
        return
    name = pipeline[here][0]
    readers, writers = _find_readers(pipeline, target), _find_writers(nlp, target)
    # a reader after another writer, even a disabled one, may be meant to read what that one writes
    components = [(n, _writes(nlp.get_pipe_meta(n), pipe, target)) for n, pipe in nlp.components]
    first_writer = next((i for i, (_, writes) in enumerate(components) if writes), len(components))
    components_after_first_writer = {n for n, _ in components[first_writer + 1 :]}
    for reader in readers:
        if reader.upstream is None:
            reads_ours = reader.name not in components_after_first_writer
        else:
            reads_ours = reader.upstream == name
        if reader.position < here and reads_ours:
            raise ConfigurationError(
                f"{reader.name!r} reads {format_target(target)}, which {name!r} writes only after it: move {name!r} "
                f"before it, as with nlp.add_pipe(..., name={name!r}, before={reader.name!r}) or in [nlp] pipeline"
            )
    if component.target.is_tensor:
        _check_listeners(pipeline, here, writers, readers)
    _warn_of_overwriting(pipeline, here, writers, readers)


def _check_listeners(
    pipeline: list[tuple[str, Any]], here: int, writers: dict[str, int], readers: list[_Reader]
) -> None:
    """Raise ConfigurationError if a listener would read in ``Doc.tensor`` what it does not listen to.

    The component at ``here`` may write ``Doc.tensor`` depending on what a listener listens to:

    =====================  ==============================================================================
    the component itself   if no component between the two overwrites ``Doc.tensor``
    an earlier component   if it appends columns, and the listener has read before or counts these columns
    a later component      always: that component writes ``Doc.tensor`` afterwards
    =====================  ==============================================================================
    """
    name, component = pipeline[here]
    for reader in readers:
        if reader.upstream == name:
            for writer, position in writers.items():
                # columns that are appended change the width alone, which `announce_pipeline_widths` checks
                if here < position < reader.position and not _appends(pipeline[position][1]):
                    raise ConfigurationError(
                        f"{writer!r} overwrites Doc.tensor before {reader.name!r} reads what {name!r} wrote there: "
                        f"put {name!r} after {writer!r}, or give it another target "
                        "(config={'target': 'lds'}) and read that with tacenda.DocTensor.v1, source = 'lds'"
                    )
        elif reader.upstream is not None and writers.get(reader.upstream, here) < here:
            # of two components of ours, `announce_pipeline_widths` checks the width that the listener reads
            fits = _is_ours(pipeline[writers[reader.upstream]][1])
            if component.target.mode != "append" or not (fits or reader.position < here):
                _refuse_to_write(name, repr(reader.upstream), reader.name)


def _refuse_to_write(name: str, owner: str, listener: str) -> NoReturn:
    raise ConfigurationError(
        f"{name!r} cannot write Doc.tensor: {owner} owns it and {listener!r} listens to it; give {name!r} a target of "
        f"its own (config={{'target': 'lds'}} writes doc._.lds), or, if {listener!r} is meant to read {name!r}, set "
        f"its upstream = {name!r}"
    )


def check_sourced(nlp: Any, component: Any, later: list[Any]) -> None:
    """Check a component that was sourced into a pipeline of which only the components ``later`` are known.

    Until it is initialized, a sourced component knows only the pipeline ``nlp`` that it was made in. Raises
    ConfigurationError if a listener to another component would read what it writes to ``Doc.tensor``.
    """
    after = list_after(nlp, component)
    at_home = after is not None and set(map(id, after)) == set(map(id, later))
    if at_home or not component.target.is_tensor or component.target.mode != "replace":
        return
    passed = {component.name}
    for pipe in later:
        for layer in iterate_layers(pipe):
            if isinstance(layer, Tok2VecListener) and layer.upstream_name not in passed:
                upstream = layer.upstream_name
                owner = "an earlier tok2vec" if upstream == "*" else repr(upstream)
                _refuse_to_write(component.name, owner, pipe.name)
        if isinstance(pipe, Tok2Vec) or (_is_ours(pipe) and pipe.target.is_tensor):
            return  # it overwrites the tensor, and later listeners read what it writes
        passed.add(getattr(pipe, "name", ""))


def list_after(nlp: Any, component: Any) -> list[Any] | None:
    """Return the components of a pipeline after ``component``, disabled ones too; None if it is not in there."""
    pipes = [] if nlp is None else [pipe for _, pipe in nlp.components]
    return next((pipes[i + 1 :] for i, pipe in enumerate(pipes) if pipe is component), None)


def _warn_of_overwriting(
    pipeline: list[tuple[str, Any]], here: int, writers: dict[str, int], readers: list[_Reader]
) -> None:
    """Warn if the component at ``here`` overwrites vectors, or its vectors are overwritten, before they are read."""
    name, component = pipeline[here]
    in_order = sorted(writers.items(), key=lambda item: item[1])
    for (first, i), (second, j) in pairwise(in_order):
        # if both are ours, the check of the second one warns
        is_concerned = j == here or (i == here and not _is_ours(pipeline[j][1]))
        is_read = any(i < r.position <= j and r.upstream in (None, first) for r in readers)
        if is_concerned and not is_read and not _appends(pipeline[j][1]):
            warn(
                f"{second!r} overwrites what {first!r} wrote to {format_target(component.target.name)}, and no "
                f"component between them reads it: give {name!r} a target of its own (config={{'target': 'lds'}}) or "
                f"mode = 'append', or leave {first!r} out"
            )


def announce_writer(component: Any, later: Any) -> None:
    """Tell every ``tacenda.DocTensor.v1`` of a later component where ``component`` writes, and how many columns.

    spaCy links components in the order of the pipeline, so the widths of components that append add up.
    """
    target = component.target
    for layer in iterate_layers(later):
        if layer.name != DOC_TENSOR:
            continue
        notes = layer.attrs["notes"]
        notes.written.pop(component.name, None)
        notes.written[component.name] = target.name
        notes.components[component.name] = weakref.ref(component)
        if layer.attrs["source"] != target.name:
            continue
        notes.widths.pop(component.name, None)
        if target.mode == "replace":
            notes.widths.clear()
        notes.widths[component.name] = component.width
        is_known = None not in notes.widths.values()
        layer.attrs["announced"] = sum(notes.widths.values()) if is_known else None


def find_readings(component: Any, pipes: Iterable[Any]) -> Iterator[Reading]:
    """Yield the layers of ``pipes`` that read what ``component`` writes.

    The key of an input is the position of the component among all that write to the source of the layer: components
    may have other names in the pipeline that a layer is sourced into.
    """
    for pipe in pipes:
        for layer in iterate_layers(pipe):
            name = getattr(pipe, "name", "")
            if layer.name == DOC_TENSOR:
                writers = list(layer.attrs["notes"].widths)
                if component.name in writers and layer.attrs["source"] == component.target.name:
                    yield Reading(name, pipe, layer, str(writers.index(component.name)))
            elif isinstance(layer, Tok2VecListener) and layer.upstream_name == component.name:
                yield Reading(name, pipe, layer, "0")


def announce_pipeline_widths(nlp: Any) -> None:
    """Tell every ``tacenda.DocTensor.v1`` of the pipeline how wide the tensor or extension will be.

    spaCy initializes a model on documents that no component has processed, so the layer cannot learn the width from
    them. Sourced and frozen components count too, although they are disabled meanwhile. Raises ConfigurationError if a
    listener to one of our components is set to another width.
    """
    totals: dict[str, int | None] = {}  # by target; None if it is unknown
    targets: dict[str, str] = {}  # by our component
    for name, pipe in nlp.components:
        if _is_ours(pipe):
            key, width = pipe.target.name, pipe.width
            if pipe.target.mode == "append" and key in totals:
                before = totals[key]
                width = None if width is None or before is None else before + width
            totals[key] = width
            targets[name] = key
            continue
        for layer in iterate_layers(pipe):
            if layer.name == DOC_TENSOR:
                layer.attrs["announced"] = totals.get(layer.attrs["source"])
                layer.attrs["notes"].written = dict(targets)
            elif isinstance(layer, Tok2VecListener) and layer.upstream_name in targets:
                width = totals.get("tensor")
                if width is not None and layer.get_dim("nO") != width:
                    raise ConfigurationError(
                        f"{name!r} listens to {layer.upstream_name!r} for {layer.get_dim('nO')} columns, but it "
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
            changed = {"assigns": [format_target(pipe.target.name)], "requires": sentences}
        else:
            sources = {
                format_target(layer.attrs["source"])
                for layer in iterate_layers(pipe)
                if layer.name == DOC_TENSOR
            }
            changed = {"requires": sorted({*meta.requires, *sources})}
        if any(list(getattr(meta, key)) != value for key, value in changed.items()):
            # a copy, because all components of the factory share the original
            nlp._pipe_meta[name] = replace(meta, **changed)


def find_earlier_owner(nlp: Any, component: Any) -> str:
    """Return the name of the last component before ``component`` that writes its target; "other" if none is known."""
    owner = "other"
    for name in _find_writers(nlp, component.target.name):
        if nlp.get_pipe(name) is component:
            break
        owner = name
    return owner


def _is_ours(pipe: Any) -> bool:
    """Return whether a component writes vectors of an embedder."""
    return isinstance(getattr(pipe, "target", None), Target)


def _find_writers(nlp: Any, target: str) -> dict[str, int]:
    """Return the position in the pipeline of every component that writes a target, by name."""
    return {
        name: i
        for i, (name, pipe) in enumerate(nlp.pipeline)
        if _writes(nlp.get_pipe_meta(name), pipe, target)
    }


def _writes(meta: Any, pipe: Any, target: str) -> bool:
    """Return whether a component writes a target."""
    if _is_ours(pipe):
        return bool(pipe.target.name == target)
    return format_target(target) in meta.assigns or (
        target == "tensor" and isinstance(pipe, Tok2Vec)
    )


def _appends(pipe: Any) -> bool:
    """Return whether a component adds columns to the existing ones."""
    return _is_ours(pipe) and bool(pipe.target.mode == "append")


def _find_readers(pipeline: list[tuple[str, Any]], target: str) -> list[_Reader]:
    """Return every layer that reads a target, and for ``Doc.tensor`` every listener to a component."""
    tok2vecs = [name for name, pipe in pipeline if isinstance(pipe, Tok2Vec)]
    readers = []
    for i, (name, pipe) in enumerate(pipeline):
        for layer in iterate_layers(pipe):
            if layer.name == DOC_TENSOR and layer.attrs["source"] == target:
                readers.append(_Reader(i, name, None))
            elif isinstance(layer, Tok2VecListener) and target == "tensor":
                upstream = layer.upstream_name
                if upstream == "*":  # spaCy's name for the first tok2vec
                    upstream = tok2vecs[0] if tok2vecs else ""
                readers.append(_Reader(i, name, upstream))
    return readers
