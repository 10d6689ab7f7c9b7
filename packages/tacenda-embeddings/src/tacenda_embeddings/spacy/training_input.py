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
from functools import cache
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from thinc.api import Model

from tacenda.errors import ConfigurationError, warn

#: The attribute of a layer: a record by input, as `_make_record` makes it.
TRAINED_ON = "trained_on"

#: Words and columns of the sample, and the most frequent words that it is taken from.
_SAMPLE_WORDS, _SAMPLE_COLUMNS, _FREQUENT_WORDS = 32, 32, 1000
#: The cosine below which vectors belong to another model or are another output of it. In eight bits they keep 0.99 and
#: more; the outputs "mean" and "filtered" of the English LDS have 0.905.
SAME = 0.95


class Reading(NamedTuple):
    """An input of a layer that takes vectors of an embedder."""

    component: str  # its name in the pipeline
    pipe: Any  # the component
    layer: Model[Any, Any]
    input: str  # the key of the input in the layer's record


def forget_training(layer: Model[Any, Any]) -> None:
    """Remove the record of what a layer was trained on, because it will be trained again."""
    layer.attrs.pop(TRAINED_ON, None)


def record_training(readings: Iterable[Reading], model: Any) -> None:
    """Record in layers that are about to be trained the fingerprint of the model that they will be trained on."""
    fingerprint = Fingerprint.of(model)
    for _, _, layer, key in readings:
        layer.attrs[TRAINED_ON] = {**_read_records(layer), key: _make_record(fingerprint)}


def compare_and_record(readings: Iterable[Reading], model: Any, giver: str) -> bool:
    """Warn of components that were trained on the vectors of another model, and record what was compared.

    A layer without a record gets one of ``model``. So does a layer that was trained further after a warning, because it
    has learned to use the new vectors. ``giver`` names the owner of ``model`` in the warning. Returns False if a layer
    has no weights yet, so that it could be neither compared nor recorded. Raises ConfigurationError if a record is
    damaged.
    """
    take_fingerprint = cache(lambda: Fingerprint.of(model))
    complete = True
    mismatched: dict[str, float] = {}  # the lowest cosine of each component
    for component, pipe, layer, key in readings:
        records = _read_records(layer)
        if key not in records:
            if not _has_weights(pipe):
                complete = False
                continue
            records[key] = _make_record(take_fingerprint())
        else:
            recorded, announced_digest = _read_record(records[key])
            cosine, digest = recorded.cosine(model), ""
            if cosine < SAME:
                weights = _digest_weights(pipe)
                if announced_digest in ("", weights):
                    mismatched[component] = min(cosine, mismatched.get(component, 1.0))
                    digest = weights
                else:  # it was trained further after the warning
                    recorded = take_fingerprint()
            records[key] = _make_record(recorded, digest)
        layer.attrs[TRAINED_ON] = records
    for component, cosine in mismatched.items():
        warn(
            f"{component!r} had other vectors in training than {giver} makes now (cosine {cosine:.2f}), so its "
            f"predictions are unreliable: load the model that {component!r} was trained with, or train {component!r} "
            "again"
        )
    return complete


def find_static_readings(pipes: Iterable[tuple[str, Any]]) -> Iterator[Reading]:
    """Yield the inputs of components that read the word vectors of the pipeline."""
    for name, pipe in pipes:
        for layer in iterate_layers(pipe):
            if layer.name == "static_vectors":
                yield Reading(name, pipe, layer, "vectors")


def iterate_layers(pipe: Any) -> Iterator[Model[Any, Any]]:
    """Yield the layers of the model of a component."""
    model = getattr(pipe, "model", None)
    if isinstance(model, Model):
        yield from model.walk()


def _make_record(fingerprint: Fingerprint, digest: str = "") -> list[Any]:
    """Return a record that can be saved; ``digest`` is that of the weights when a mismatch was announced."""
    return [fingerprint.to_dict(), digest]


def _read_records(layer: Model[Any, Any]) -> dict[str, Any]:
    """Return the records of a layer by input. Raises ConfigurationError if they are damaged."""
    records = layer.attrs.get(TRAINED_ON) or {}
    if not isinstance(records, Mapping):
        raise _damage_error(f"it is a {type(records).__name__}")
    return dict(records)


def _read_record(record: Any) -> tuple[Fingerprint, str]:
    """Return the fingerprint and the digest of a record. Raises ConfigurationError if it is damaged."""
    try:
        fingerprint, digest = record
        return Fingerprint.from_dict(fingerprint), str(digest)
    except (TypeError, ValueError) as error:
        raise _damage_error(str(error)) from error


def _damage_error(fault: str) -> ConfigurationError:
    return ConfigurationError(
        f"a layer of the pipeline carries a damaged record of its training ({fault}): train it again"
    )


def _has_weights(pipe: Any) -> bool:
    """Return whether a component has a parameter that is set."""
    return any(
        layer.has_param(name) for layer in iterate_layers(pipe) for name in layer.param_names
    )


def _digest_weights(pipe: Any) -> str:
    """Return a hash of the weights of a component."""
    from tacenda.fitting import fingerprint_arrays

    return fingerprint_arrays(
        [
            layer.ops.to_numpy(layer.get_param(name))
            for layer in iterate_layers(pipe)
            for name in layer.param_names
            if layer.has_param(name)
        ]
    )


# -- fingerprints of embedders ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Fingerprint:
    """A sample of the vectors that an embedder gives to a few words of its vocabulary, as one sentence.

    Attributes
    ----------
    words
        At most 32 words; none if the vocabulary has only special types.
    width
        The number of columns of a whole vector.
    sample
        float16 (words, min(width, 32)), some of the columns divided by the largest absolute value in them.
    """

    words: tuple[str, ...]
    width: int
    sample: npt.NDArray[np.float16]

    @classmethod
    def of(cls, model: Any) -> Self:
        """Take the fingerprint of a fitted embedder, from words spread over its most frequent ones."""
        vocabulary = model.vocabulary
        known = [
            word
            for word in vocabulary.words[:_FREQUENT_WORDS]
            if word.strip() and not vocabulary.is_reserved(word)
        ]
        ranks = np.linspace(0, max(len(known) - 1, 0), min(_SAMPLE_WORDS, len(known))).astype(int)
        words = tuple(known[i] for i in ranks)
        return cls(words, int(model.width), _sample_vectors(model, words))

    def cosine(self, model: Any) -> float:
        """Return the cosine of this sample and that of ``model`` for the same words; 0 if the widths differ.

        Two samples of zeros have a cosine of 1.
        """
        if int(model.width) != self.width:
            return 0.0
        ours = self.sample.astype(np.float64).ravel()
        theirs = _sample_vectors(model, self.words).astype(np.float64).ravel()
        lengths = float(np.linalg.norm(ours) * np.linalg.norm(theirs))
        if lengths == 0:
            return float(ours.any() == theirs.any())
        return float(ours @ theirs) / lengths

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary of a list, a number and bytes, as `from_dict` takes it."""
        return {"words": list(self.words), "width": self.width, "numbers": self.sample.tobytes()}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Self:
        """Rebuild a fingerprint. Raises ValueError for anything that `to_dict` did not give."""
        match saved:
            case {"words": [*words], "width": int(width), "numbers": bytes(numbers)} if (
                width > 0 and all(isinstance(word, str) for word in words)
            ):
                sample = np.frombuffer(numbers, np.float16)
                sample = sample.reshape(len(words), min(_SAMPLE_COLUMNS, width))
                if np.isfinite(sample).all():
                    return cls(tuple(words), width, sample)
        raise ValueError("its words, width or numbers are invalid")


def _sample_vectors(model: Any, words: tuple[str, ...]) -> npt.NDArray[np.float16]:
    """Return the `Fingerprint.sample` of the vectors that ``model`` gives to words."""
    width = int(model.width)
    columns = np.linspace(0, width - 1, min(_SAMPLE_COLUMNS, width)).astype(int)
    [vectors] = model.transform([list(words)])
    sample = np.asarray(vectors)[:, columns]
    return (sample / max(float(np.abs(sample).max(initial=0)), 1e-30)).astype(np.float16)
