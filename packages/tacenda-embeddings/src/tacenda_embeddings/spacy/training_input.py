"""Checks that the layers of a pipeline are given the vectors that they were trained on.

A layer that reads vectors of an embedder carries, with its weights, the fingerprint of the embedder whose vectors it
was first given (``attrs["trained_on"]`` of the thinc node). So the fingerprint goes with a component that is sourced,
copied or saved. A layer that is initialized again forgets it.

A fingerprint is a sample of the vectors and not a hash, because layers still work with the same model in 8 bits a
number, on another machine, or after a little more text. A model that is fitted again has other axes, and with it they
do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from thinc.api import Model

from tacenda.errors import ConfigurationError, warn

#: The attribute of a node: by input, `Fingerprint.to_dict` and a digest of the weights when a mismatch was announced.
TRAINED_ON = "trained_on"

#: Words and columns of the sample, and the most frequent words that it is taken from.
_WORDS, _COLUMNS, _FREQUENT = 32, 32, 1000
#: The cosine below which vectors belong to another model or are another output of it. In eight bits they keep 0.99 and
#: more; the outputs "mean" and "filtered" of the English LDS have 0.905.
SAME = 0.95
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
            if not any(n.has_param(param) for n in nodes_of(pipe) for param in n.param_names):
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


# -- fingerprints of embedders ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Fingerprint:
    """Vectors of a few words of a vocabulary, as one sentence.

    Attributes
    ----------
    words
        The words.
    width
        The columns of a vector.
    numbers
        Some of these columns (words, at most 32) float16, divided by the largest.
    """

    words: tuple[str, ...]
    width: int
    numbers: npt.NDArray[np.float16]

    @classmethod
    def of(cls, model: Any) -> Self:
        """Take the fingerprint of a fitted embedder."""
        vocabulary = model.vocabulary
        known = [
            word
            for word in vocabulary.words[:_FREQUENT]
            if word.strip() and not vocabulary.is_reserved(word)
        ]
        places = np.linspace(0, max(len(known) - 1, 0), min(_WORDS, len(known))).astype(int)
        words = tuple(known[i] for i in places)
        return cls(words, int(model.width), _sample(model, words))

    def likeness(self, model: Any) -> float:
        """Return the cosine of these vectors and those that ``model`` gives the same words; 0 for another width."""
        if int(model.width) != self.width:
            return 0.0
        ours, theirs = (
            each.astype(np.float64).ravel() for each in (self.numbers, _sample(model, self.words))
        )
        lengths = float(np.linalg.norm(ours) * np.linalg.norm(theirs))
        return float(ours @ theirs) / lengths if lengths else float(ours.any() == theirs.any())

    def to_dict(self) -> dict[str, Any]:
        """Return what `from_dict` takes: a dictionary of a list, a number and bytes."""
        return {"words": list(self.words), "width": self.width, "numbers": self.numbers.tobytes()}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Self:
        """Rebuild one. Raises KeyError, TypeError or ValueError for anything that `to_dict` did not give."""
        words, width = tuple(map(str, given["words"])), int(given["width"])
        numbers = np.frombuffer(given["numbers"], np.float16).reshape(len(words), -1)
        return cls(words, width, numbers)


def _sample(model: Any, words: tuple[str, ...]) -> npt.NDArray[np.float16]:
    """Return some columns of the vectors of words (words, at most 32), divided by the largest."""
    if not words:
        return np.zeros((0, 0), np.float16)
    [rows] = model.transform([list(words)])
    width = rows.shape[1]
    some = np.asarray(rows)[:, np.linspace(0, width - 1, min(_COLUMNS, width)).astype(int)]
    return (some / max(float(np.abs(some).max()), 1e-30)).astype(np.float16)
