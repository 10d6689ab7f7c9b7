"""Altered copies of a saved model in which every part is sound: only that they do not belong together.

Tables exchanged between models of equal shape, vocabularies and ids in another order, settings and nested models of
another model, rows exchanged, numbers scaled. The oracle is the model itself: what loads and answers otherwise than it,
without a warning, is a silent wrong answer.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from children import InvalidError, require_equal
from specimens import exercise, fitted, load, other_data, specimens

from tacenda import artifact
from tacenda.artifact import Artifact
from tacenda.offsets import pack_words, unpack_words

Rng = np.random.Generator
_FACTORS = (1e-6, 1e-3, 0.1, -1.0, 10.0, 1e3, 1e6)


def relatives(name: str, folder: Path) -> list[Artifact]:
    """Return saved models of the same class and the same vocabulary or ids: fitted to other data."""
    specimen = specimens()[name]
    found = []
    for number, data in enumerate(other_data(specimen.data)):
        model = specimen.make().fit(data)
        model.precision = specimen.precision
        model.save(folder / f"relative-{number}")
        found.append(artifact.read(folder / f"relative-{number}"))
    return found


def mutants(
    whole: Artifact, others: Sequence[Artifact], rng: Rng
) -> Iterator[tuple[str, Artifact]]:
    """Yield altered copies without end, each with a note: what was done, and to what."""
    ways = (_exchange, _exchange, _reorder, _rearrange, _scale, _adopt_settings, _exchange_nested)
    while True:
        other = others[rng.integers(len(others))]
        names = sorted(whole.nested.keys() & other.nested.keys())
        if names and rng.random() < 0.5:
            name = str(rng.choice(names))
            found = next(mutants(whole.nested[name], [other.nested[name]], rng))
            yield found[0], replace(whole, nested={**whole.nested, name: found[1]})
        elif found := ways[rng.integers(len(ways))](whole, other, rng):
            yield found


def _exchange(whole: Artifact, other: Artifact, rng: Rng) -> tuple[str, Artifact] | None:
    """Take tables of the other model that have the same shape: one, or some."""
    alike = [
        name
        for name, array in sorted(whole.arrays.items())
        if name in other.arrays
        and (array.dtype, array.shape) == (other.arrays[name].dtype, other.arrays[name].shape)
        and not np.array_equal(array, other.arrays[name])
    ]
    if not alike:
        return None
    chosen = rng.choice(alike, rng.integers(1, len(alike) + 1), replace=False).tolist()
    arrays = {**whole.arrays, **{name: other.arrays[name] for name in chosen}}
    return f"tables exchanged: {', '.join(chosen)}", replace(whole, arrays=arrays)


def _reorder(whole: Artifact, other: Artifact, rng: Rng) -> tuple[str, Artifact] | None:
    """Put the words of a vocabulary, or the ids of users or items, in another order; some, or two of them."""
    lists = [name[: -len(".offsets")] for name in sorted(whole.arrays) if name.endswith(".offsets")]
    lists = [name for name in lists if f"{name}.text" in whole.arrays]
    if not lists:
        return None
    name = str(rng.choice(lists))
    packed = whole.arrays[f"{name}.text"], whole.arrays[f"{name}.offsets"]
    words = unpack_words(*packed, name)
    if len(words) < 2:
        return None
    n = len(words) if rng.random() < 0.5 else 2
    places = rng.choice(len(words), n, replace=False)
    reordered = list(words)
    for place, source in zip(places, np.roll(places, 1), strict=True):
        reordered[place] = words[source]
    text, offsets = pack_words(reordered)
    arrays = {**whole.arrays, f"{name}.text": text, f"{name}.offsets": offsets}
    return f"reordered: {n} of {name}", replace(whole, arrays=arrays)


def _rearrange(whole: Artifact, other: Artifact, rng: Rng) -> tuple[str, Artifact] | None:
    """Exchange rows or columns of a table."""
    tables = [
        name for name, array in sorted(whole.arrays.items()) if max(array.shape, default=0) > 1
    ]
    if not tables:
        return None
    name = str(rng.choice(tables))
    array = whole.arrays[name].copy()
    axis = int(rng.choice([k for k, size in enumerate(array.shape) if size > 1]))
    order = np.arange(array.shape[axis])
    some = rng.choice(len(order), len(order) if rng.random() < 0.5 else 2, replace=False)
    order[some] = order[np.roll(some, 1)]
    arrays = {**whole.arrays, name: np.take(array, order, axis)}
    return f"rearranged: {len(some)} of axis {axis} of {name}", replace(whole, arrays=arrays)


def _scale(whole: Artifact, other: Artifact, rng: Rng) -> tuple[str, Artifact] | None:
    """Multiply the floats of a table, or of all tables."""
    floats = [name for name, array in sorted(whole.arrays.items()) if array.dtype.kind == "f"]
    if not floats:
        return None
    factor = float(rng.choice(_FACTORS))
    chosen = floats if rng.random() < 0.2 else [str(rng.choice(floats))]
    with np.errstate(all="ignore"):
        scaled = {n: (whole.arrays[n] * factor).astype(whole.arrays[n].dtype) for n in chosen}
    what = f"scaled: {', '.join(chosen)} by {factor:g}"
    return what, replace(whole, arrays={**whole.arrays, **scaled})


def _adopt_settings(whole: Artifact, other: Artifact, rng: Rng) -> tuple[str, Artifact] | None:
    """Change one setting to what another model may have."""
    config = copy.deepcopy(whole.config)
    places = list(_leaves(config, ()))
    if not places:
        return None
    path, value = places[rng.integers(len(places))]
    changed: Any = (not value) if isinstance(value, bool) else value * 2 or type(value)(1)
    if not isinstance(value, bool) and rng.random() < 0.5:
        changed = value + 1
    place: Any = config
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = changed
    what = f"settings of another: {'.'.join(map(str, path))} {value!r} -> {changed!r}"
    return what, replace(whole, config=config)


def _leaves(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield where numbers and truth values are."""
    if isinstance(value, bool | int | float):
        yield path, value
    inner: Any = value.items() if isinstance(value, dict) else ()
    if isinstance(value, list):
        inner = enumerate(value)
    for key, each in inner:
        yield from _leaves(each, (*path, key))


def _exchange_nested(whole: Artifact, other: Artifact, rng: Rng) -> tuple[str, Artifact] | None:
    """Take a nested model of the other model."""
    names = sorted(whole.nested.keys() & other.nested.keys())
    if not names:
        return None
    name = str(rng.choice(names))
    nested = {**whole.nested, name: other.nested[name]}
    return f"nested model exchanged: {name}", replace(whole, nested=nested)


def attempts(
    name: str, by_hand: bool, folder: Path, rng: Rng
) -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield notes and what tries each mutant: files whose hashes were made to fit ``by_hand``, or a model saved anew.

    A trial returns what came of a mutant that loads: "told" (a warning), "harmless" (the answers of the model), or
    "silent" (other answers, where it was saved anew: nobody can tell it from a model that was fitted so). Silence about
    files put together by hand is an `InvalidError`.
    """
    fitted(name).save(folder / "whole")
    whole, others = artifact.read(folder / "whole"), relatives(name, folder)
    seal = json.loads((folder / "whole" / "model.json").read_bytes())["seal"]
    usual: list[str] = []
    wanted = exercise(load(folder / "whole", name), usual)
    for note, mutant in mutants(whole, others, rng):

        def attempt(mutant: Artifact = mutant) -> str:
            place = folder / "mutant"
            artifact.write(place, mutant)
            if by_hand:
                head = json.loads((place / "model.json").read_bytes())
                (place / "model.json").write_text(json.dumps({**head, "seal": seal}))
            said: list[str] = []
            answers = exercise(load(place, name, said), said)
            try:
                require_equal(answers, wanted, "another answer")
            except InvalidError as error:
                if set(said) - set(usual):
                    return "told"
                if by_hand:
                    raise InvalidError(f"{error}, without a word") from error
                return "silent"
            return "harmless"

        yield note, attempt
