"""Altered copies of a saved model: adversarial values in its tensors and settings, hashes made right again.

A mutant is what a careful attacker or a bug in another program would write: a well-formed folder whose
checksums hold and whose contents do not make sense. `mutants` draws them at random, and `hostile` goes through
every tensor of a model, those of the models inside it too.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from tacenda.artifact import Artifact
from tacenda.fitting.checkpoint import MANIFEST as CHECKPOINT

INTEGERS = (0, -1, 1, 2, 255, 2**31 - 1, -(2**31), 2**31, 2**62, 2**63 - 1, -(2**63), 10**9)
FLOATS = (0.0, -0.0, -1.0, 1.0, 5.0, 1e-300, 1e30, 3e38, -3e38, 1e308, np.inf, -np.inf, np.nan)
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, 10**30, 10**400, -0.5, 0.5, 5.0, 1e308, "", "x", "x" * 5000, "\x1b[2J\n",
    [], [0], [1e308] * 3, {}, {"a": {"b": [None]}}, [[[[[]]]]],
)  # fmt: skip


def mutants(artifact: Artifact, rng: np.random.Generator) -> Iterator[tuple[str, Artifact]]:
    """Yield altered copies without end, each with a note saying what was altered."""
    names, nested = sorted(artifact.arrays), sorted(artifact.nested)
    while True:
        if nested and rng.random() < 0.4:
            name = str(rng.choice(nested))
            note, part = next(mutants(artifact.nested[name], rng))
            yield f"{name}: {note}", replace(artifact, nested={**artifact.nested, name: part})
        elif names and rng.random() < 0.75:
            name = str(rng.choice(names))
            note, array = mutated(artifact.arrays[name], rng)
            arrays = {k: v for k, v in artifact.arrays.items() if k != name}
            if array is not None:
                arrays[name] = array
            yield f"tensor {name!r} {note}", replace(artifact, arrays=arrays)
        else:
            config = copy.deepcopy(artifact.config)
            note = alter_value(config, rng)
            yield f"setting {note}", replace(artifact, config=config)


def checkpoint_mutants(
    folder: Path, rng: np.random.Generator
) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield what puts altered copies of a checkpoint into its folder, each with a note saying what was altered."""
    manifest = json.loads((folder / CHECKPOINT).read_bytes())
    files = {
        role: (folder / entry["name"]).read_bytes() for role, entry in manifest["files"].items()
    }
    while True:
        altered, data = copy.deepcopy(manifest), dict(files)
        if rng.random() < 0.5:
            note = f"progress {alter_value(altered['progress'], rng)}"
        else:
            role = str(rng.choice(sorted(files)))
            arrays = safetensors.numpy.load(files[role])
            name = str(rng.choice(sorted(arrays)))
            what, array = mutated(arrays.pop(name), rng)
            if array is not None:
                arrays[name] = np.ascontiguousarray(array)
            data[role] = safetensors.numpy.save(arrays)
            digest = hashlib.sha256(data[role]).hexdigest()
            entry = {"name": f"{role}-{digest[:32]}.safetensors", "size": len(data[role])}
            altered["files"][role] = {**entry, "sha256": digest}
            note = f"{role} {name!r} {what}"

        def put(altered: dict[str, Any] = altered, data: dict[str, bytes] = data) -> None:
            for role, entry in altered["files"].items():
                (folder / entry["name"]).write_bytes(data[role])
            (folder / CHECKPOINT).write_text(json.dumps(altered), encoding="utf-8")

        yield note, put


def hostile(artifact: Artifact) -> Iterator[tuple[str, Artifact]]:
    """Yield copies with one tensor altered, for every tensor and every alteration of `_hostile_copies`."""
    for name, array in sorted(artifact.arrays.items()):
        for note, copied in _hostile_copies(array):
            yield (
                f"tensor {name!r} {note}",
                replace(artifact, arrays={**artifact.arrays, name: copied}),
            )
    for name, part in sorted(artifact.nested.items()):
        for note, altered in hostile(part):
            yield f"{name}: {note}", replace(artifact, nested={**artifact.nested, name: altered})


def _hostile_copies(array: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Yield what stands in the place of a tensor, by hand: extremes where loops begin and end, and other shapes."""
    n = array.size
    whole = np.issubdtype(array.dtype, np.integer)
    extremes: Any = (0, -1, 2**31 - 1, 2**62, 2**63 - 1, -(2**63)) if whole else FLOATS[2::2]
    places = {"first": [0], "middle": [n // 2], "last": [-1], "each": slice(None)}
    with np.errstate(all="ignore"):
        for value in extremes if n > 1 else ():
            for where, place in places.items():
                changed = array.copy()
                changed.reshape(-1)[place] = np.array(value).astype(array.dtype)
                yield f"is {value} in {where} place", changed
        if n > 3 and whole:
            # steps that wrap around, so that each looks like one forward
            for at in (1, n // 2, n - 3):
                changed = array.copy()
                changed.reshape(-1)[at : at + 2] = np.array([2**63 - 1, -2]).astype(array.dtype)
                yield f"has steps that wrap at {at}", changed
        yield "is reversed", np.ascontiguousarray(array[::-1]) if array.ndim else array
        yield "is empty", np.empty((0,) * max(array.ndim, 1), array.dtype)
        yield "is one number", np.array(1).astype(array.dtype)
        yield "has one element more", np.append(array.reshape(-1), array.reshape(-1)[-1:])
        yield "is one dimension deeper", array[None]
        for kind in ("float16", "float64", "int32", "int64", "bool"):
            yield f"is of type {kind}", array.astype(kind)


def mutated(array: np.ndarray, rng: np.random.Generator) -> tuple[str, np.ndarray | None]:
    """Return what was done to a tensor, and the altered copy; None where it is left out."""
    way = int(rng.integers(12))
    changed = array.copy()
    flat = changed.reshape(-1)
    whole = np.issubdtype(array.dtype, np.integer)
    extremes: Any = INTEGERS if whole else FLOATS
    with np.errstate(all="ignore"):
        if way <= 4 and flat.size:
            value = np.array(extremes[rng.integers(len(extremes))]).astype(array.dtype)
            everywhere = way == 4
            n = flat.size if everywhere else int(rng.integers(1, 4))
            places = np.arange(n) if everywhere else rng.integers(flat.size, size=n)
            flat[places] = value
            return f"is {value} at {places[:3].tolist()}{' and on' * everywhere}", changed
        if way == 5 and flat.size > 3 and whole:
            # the differences of these wrap around: each step looks like one forward
            middle = int(rng.integers(1, flat.size - 2))
            flat[middle : middle + 2] = np.array([2**63 - 1, -2]).astype(array.dtype)
            return f"has steps that wrap at {middle}", changed
        if way == 6 and flat.size > 1:
            i, j = rng.integers(flat.size, size=2)
            flat[i], flat[j] = flat[j], flat[i]
            return f"has its elements {i} and {j} exchanged", changed
        if way == 7:
            return "is cut short", changed[: len(changed) // 2] if changed.ndim else changed
        if way == 8:
            return "is doubled", np.concatenate([changed, changed]) if changed.ndim else changed
        if way == 9:
            kinds = ("float16", "float32", "float64", "int8", "int32", "int64", "uint8", "bool")
            kind = str(rng.choice(kinds))
            return f"is of type {kind}", changed.astype(kind)
        if way == 10:
            return "has another shape", np.ascontiguousarray(changed.T)[..., None]
    return "is missing", None


def alter_value(config: dict[str, Any], rng: np.random.Generator) -> str:
    """Put an adversarial JSON value in the place of one value, at any depth; say which."""
    paths = list(_paths(config, ()))
    if not paths:
        config["strange"] = 1
        return "strange is added"
    path = paths[rng.integers(len(paths))]
    *outer, last = path
    place: Any = config
    for key in outer:
        place = place[key]
    name, way = ".".join(map(str, path)), int(rng.integers(8))
    if way == 0 and isinstance(place, dict):
        del place[last]
        return f"{name} is missing"
    if way == 1 and isinstance(place, dict):
        place[f"{last}x"] = place[last]
        return f"{name}x is added"
    place[last] = VALUES[rng.integers(len(VALUES))]
    return f"{name} = {place[last]!r:.60}"


def _paths(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    inner: Any = ()
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = enumerate(value)
    for key, each in inner:
        yield (*path, key)
        yield from _paths(each, (*path, key))
