"""Who writes ``Doc.tensor`` in a pipeline, who reads it, and whether they mean the same vectors.

``Doc.tensor`` has one owner. spaCy's ``tok2vec`` writes it, and the heads that listen to it read
whatever is there when they run: a second writer in between makes them fail on a matrix shape or,
with equal widths, tag nonsense. spaCy itself does not notice, so the components look for it.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from spacy.pipeline.tok2vec import Tok2Vec, Tok2VecListener
from thinc.api import Model

from tacenda.errors import ConfigurationError
from tacenda_embeddings.spacy.doc_tensor import NAME as DOC_TENSOR
from tacenda_embeddings.spacy.target import Target

__all__ = ["announce_widths", "check_ownership", "earlier_owner"]


class _Reader(NamedTuple):
    """A listener to what another component writes."""

    position: int  # in the pipeline
    name: str
    upstream: str  # the component that it listens to


def check_ownership(nlp: Any, component: Any) -> None:
    """Check that ``component``, if it is in the pipeline, may write ``Doc.tensor``.

    Raises ConfigurationError if listeners to another component would read what it writes, or if a ``tok2vec`` would
    overwrite that before it is read.
    """
    pipeline = list(nlp.pipeline)
    found = [i for i, (_, pipe) in enumerate(pipeline) if pipe is component]
    if not found or not component.target.is_tensor:
        return
    here, name = found[0], pipeline[found[0]][0]
    writers = {pipe_name: i for i, (pipe_name, pipe) in enumerate(pipeline) if _writes_tensor(pipe)}
    appends = component.target.mode == "append"
    for reader in _readers(pipeline, writers):
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
            raise ConfigurationError(
                f"{name!r} cannot write Doc.tensor: {reader.upstream!r} owns it and "
                f"{reader.name!r} listens to it; give {name!r} a target of its own "
                f"(config={{'target': 'lds'}} writes doc._.lds), or, if {reader.name!r} is meant "
                f"to read {name!r}, set its upstream = {name!r}"
            )


def announce_widths(nlp: Any) -> None:
    """Tell every ``tacenda.DocTensor.v1`` of the pipeline how wide the tensor or extension will be.

    spaCy initializes a model on documents that no component has seen, so it cannot learn this from them. Raises
    ConfigurationError if a listener to one of our components is set to another width.
    """
    totals: dict[str, int | None] = {}
    ours: set[str] = set()
    for name, pipe in nlp.pipeline:
        if _is_ours(pipe):
            key, width = pipe.target.name, pipe.width
            if pipe.target.mode == "append" and key in totals:
                before = totals[key]
                width = None if width is None or before is None else before + width
            totals[key] = width
            ours.add(name)
            continue
        for node in _nodes(pipe):
            if node.name == DOC_TENSOR:
                node.attrs["announced"] = totals.get(node.attrs["source"])
            elif isinstance(node, Tok2VecListener) and node.upstream_name in ours:
                _check_listener(name, node, totals.get("tensor"))
        if isinstance(pipe, Tok2Vec):
            totals["tensor"] = pipe.model.maybe_get_dim("nO")


def earlier_owner(nlp: Any, component: Any, target: str) -> str:
    """Return the last component before ``component`` that is known to write ``target``."""
    owner = "other"
    for name, pipe in nlp.pipeline:
        if pipe is component:
            break
        if _is_ours(pipe):
            owner = name if pipe.target.name == target else owner
        elif target == "tensor" and "doc.tensor" in nlp.get_pipe_meta(name).assigns:
            owner = name
    return owner


def _is_ours(pipe: Any) -> bool:
    """Return whether a component writes vectors of an embedder."""
    return isinstance(getattr(pipe, "target", None), Target)


def _writes_tensor(pipe: Any) -> bool:
    """Return whether a component writes ``Doc.tensor``."""
    return isinstance(pipe, Tok2Vec) or (_is_ours(pipe) and pipe.target.is_tensor)


def _appends(pipe: Any) -> bool:
    """Return whether a component adds columns beside those that are there."""
    return _is_ours(pipe) and bool(pipe.target.mode == "append")


def _nodes(pipe: Any) -> Iterator[Any]:
    """Yield the layers of the model of a component."""
    model = getattr(pipe, "model", None)
    if isinstance(model, Model):
        yield from model.walk()


def _readers(pipeline: list[tuple[str, Any]], writers: dict[str, int]) -> Iterator[_Reader]:
    """Yield every listener whose upstream writes ``Doc.tensor`` here."""
    tok2vecs = [name for name, pipe in pipeline if isinstance(pipe, Tok2Vec)]
    for i, (name, pipe) in enumerate(pipeline):
        for node in _nodes(pipe):
            if isinstance(node, Tok2VecListener):
                upstream = node.upstream_name
                if upstream == "*":
                    upstream = tok2vecs[0] if tok2vecs else ""
                if upstream in writers:
                    yield _Reader(i, name, upstream)


def _check_listener(name: str, node: Any, width: int | None) -> None:
    """Raise ConfigurationError if a listener expects another width than will be written."""
    if width is not None and node.get_dim("nO") != width:
        raise ConfigurationError(
            f"{name!r} listens to {node.upstream_name!r} for {node.get_dim('nO')} columns, but it "
            f"writes {width}: set width = {width} in the listener of {name!r}"
        )
