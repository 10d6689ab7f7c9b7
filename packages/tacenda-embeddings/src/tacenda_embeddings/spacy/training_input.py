"""Checks that the layers of a pipeline are given the vectors that they were trained on.

A layer that reads vectors of an embedder carries, with its weights, the fingerprint of the embedder whose vectors it
was first given (``attrs["trained_on"]`` of the thinc node). So the fingerprint goes with a component that is sourced,
copied or saved. A layer that is initialized again forgets it.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from thinc.api import Model

from tacenda.errors import ConfigurationError, warn
from tacenda_embeddings.fingerprint import SAME, Fingerprint

#: The attribute of a node: by input, `Fingerprint.to_dict` and a digest of the weights when a mismatch was announced.
TRAINED_ON = "trained_on"

#: A component of a pipeline, its name, one of its layers, and which of the inputs of that layer is meant.
Reading = tuple[str, Any, Model[Any, Any], str]


def forget(node: Model[Any, Any]) -> None:
    """Forget what a layer was trained on, because it is trained again."""
    node.attrs.pop(TRAINED_ON, None)


def compare(readings: Iterable[Reading], given: Fingerprint, model: Any, giver: str) -> bool:
    """Warn of layers that were trained on the vectors of another model, and note ``given`` in layers without a record.

    ``given`` is the fingerprint of ``model``, and the warning calls the owner of ``model`` ``giver``. Returns False if
    a layer has no weights yet, so that nothing was noted.
    """
    complete, strange = True, {}
    for name, pipe, node, key in readings:
        noted = dict(node.attrs.get(TRAINED_ON) or {})
        if key not in noted:
            if not _has_weights(pipe):
                complete = False
                continue
            noted[key] = [given.to_dict(), ""]
        else:
            was, weights, likeness = _read(noted[key], model)
            if likeness >= SAME:
                continue
            now = _digest(pipe)
            if weights not in ("", now):  # training went on after the warning
                noted[key] = [given.to_dict(), ""]
            else:
                noted[key] = [was, now]
                strange[name] = likeness
        node.attrs[TRAINED_ON] = noted
    if strange:
        names = ", ".join(map(repr, strange))
        warn(
            f"{names} had other vectors in training than {giver} makes now (cosine {max(strange.values()):.2f}), so "
            f"predictions are unreliable: load the model that {names} was trained with, or train {names} again"
        )
    return complete


def note(readings: Iterable[Reading], given: Fingerprint) -> None:
    """Note in layers that are about to be trained what they will be trained on."""
    for _, _, node, key in readings:
        node.attrs[TRAINED_ON] = {**(node.attrs.get(TRAINED_ON) or {}), key: [given.to_dict(), ""]}


def find_static_readings(pipes: Iterable[tuple[str, Any]]) -> Iterator[Reading]:
    """Yield the layers of components that read the word vectors of the pipeline."""
    for name, pipe in pipes:
        for node in nodes_of(pipe):
            if node.name == "static_vectors":
                yield name, pipe, node, "vectors"


def nodes_of(pipe: Any) -> Iterator[Any]:
    """Yield the layers of the model of a component."""
    model = getattr(pipe, "model", None)
    if isinstance(model, Model):
        yield from model.walk()


def _read(noted: Any, model: Any) -> tuple[Any, str, float]:
    """Return a noted fingerprint, the digest with it, and how like the fingerprint ``model`` is."""
    try:
        was, weights = noted
        return was, str(weights), Fingerprint.from_dict(was).likeness(model)
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigurationError(
            f"a layer of the pipeline carries a damaged record of its training ({error}): train it again"
        ) from error


def _has_weights(pipe: Any) -> bool:
    return any(node.has_param(name) for node in nodes_of(pipe) for name in node.param_names)


def _digest(pipe: Any) -> str:
    """Return a hash of the weights of a component."""
    from tacenda.fitting import fingerprint_arrays

    return fingerprint_arrays(
        [
            node.ops.to_numpy(node.get_param(name))
            for node in nodes_of(pipe)
            for name in node.param_names
            if node.has_param(name)
        ]
    )
