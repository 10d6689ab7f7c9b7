"""Fitted algorithms on disk: the artefact of their model, and beside it what only Surprise needs.

`tacenda.load` reads such a folder as the model alone, and so does ``tacenda ratings recommend``.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Hashable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from surprise import AlgoBase, Trainset

from tacenda import artifact
from tacenda.artifact import Artifact, require
from tacenda.artifact.saveable import resolve
from tacenda.errors import ArtifactError, PluginError, TacendaError
from tacenda.ratings import Ratings
from tacenda_surprise import raw_ids
from tacenda_surprise.folded import Given
from tacenda_surprise.models.base import RatingModel
from tacenda_surprise.models.identities import Identities
from tacenda_surprise.side_info import SideInfo
from tacenda_surprise.trainsets import ratings_of, raw_index, trainset_of

if TYPE_CHECKING:
    from tacenda_surprise.algorithm import TacendaAlgorithm

_PREFIX = "surprise."
_NOT_KEPT = {"self", "rated", "callbacks", "checkpoints"}  # `rated` is kept as identities


class Stored(NamedTuple):
    """What `read` found.

    Attributes
    ----------
    algorithm
        With its settings, unfitted.
    model
        Fitted.
    trainset
        As it was, every user's ratings in the order of the items.
    ratings
        The same in the numbers of the model, whose users may be more.
    users
        Raw id -> number, of all users of the model.
    seen
        What users have rated or are known to have rated.
    folded
        What users were folded in from.
    """

    algorithm: TacendaAlgorithm
    model: RatingModel
    trainset: Trainset
    ratings: Ratings
    users: dict[Hashable, int]
    seen: Identities
    folded: list[Given]


def write(algo: TacendaAlgorithm, path: str | os.PathLike[str]) -> None:
    """Save a fitted algorithm. Raises ArtifactError, NotFittedError."""
    found, trainset = algo._fitted().to_artifact(), algo.trainset
    ratings, seen = ratings_of(trainset), algo._seen
    given = [user.given for user in algo._folded.values()]
    lists = {"rated": [g.items for g in given], "known": [g.rated for g in given]}
    arrays: dict[str, npt.NDArray[Any]] = {
        **raw_ids.pack(algo._users, "users"),
        **raw_ids.pack(algo._items, "items"),
        **raw_ids.pack([g.uid for g in given], "folded"),
        "offsets": ratings.user_offsets,
        "item_ids": ratings.item_ids,
        "values": ratings.values,
        "seen.offsets": seen.offsets,
        "seen.item_ids": seen.item_ids,
        "folded.values": np.concatenate([np.empty(0, np.float32), *(g.values for g in given)]),
    }
    for name, parts in lists.items():
        arrays[f"folded.{name}"] = np.concatenate([np.empty(0, np.int64), *parts]).astype(np.int64)
        arrays[f"folded.{name}.offsets"] = np.cumsum([0, *map(len, parts)]).astype(np.int64)
    config = {
        "class": _address(type(algo)),
        "arguments": {name: _plain(value) for name, value in algo._arguments().items()},
        "scale": [float(end) for end in trainset.rating_scale],
        "mean": float(trainset.global_mean),
        "n_users": trainset.n_users,
    }
    artifact.write(
        path,
        replace(
            found,
            config={**found.config, "surprise": config},
            arrays={**found.arrays, **{_PREFIX + name: array for name, array in arrays.items()}},
        ),
    )


def arguments_of(algo: AlgoBase) -> dict[str, Any]:
    """What ``__init__`` was given, by the names of its parameters in the class and its bases."""
    values: dict[str, Any] = {}
    for cls in type(algo).__mro__[: type(algo).__mro__.index(AlgoBase)]:
        if "__init__" not in vars(cls):
            continue
        for parameter in inspect.signature(cls.__init__).parameters.values():  # type: ignore[misc]
            named = parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
            if named and parameter.name not in _NOT_KEPT and hasattr(algo, parameter.name):
                values.setdefault(parameter.name, getattr(algo, parameter.name))
    return values


def read(path: str | os.PathLike[str], base: type[TacendaAlgorithm]) -> Stored:
    """A saved algorithm of ``base`` or a class derived from it. Raises ArtifactError, PluginError."""
    found = artifact.read(path)
    try:
        return _stored(found, base)
    except (ArtifactError, PluginError) as error:
        raise type(error)(f"cannot load {os.fspath(path)}: {error}") from error
    except (TacendaError, KeyError, TypeError, ValueError) as error:
        raise ArtifactError(f"cannot load {os.fspath(path)}: it is damaged: {error!r}") from error


def _stored(found: Artifact, base: type[TacendaAlgorithm]) -> Stored:
    config = found.config.get("surprise")
    if config is None:
        raise ArtifactError("it is a model without its Surprise algorithm: tacenda.load loads it")
    algo = _class(str(config["class"]), base)(**config["arguments"])
    arrays = {n.removeprefix(_PREFIX): a for n, a in found.arrays.items() if n.startswith(_PREFIX)}
    model: RatingModel = resolve(
        replace(
            found,
            config={name: value for name, value in found.config.items() if name != "surprise"},
            arrays={n: a for n, a in found.arrays.items() if not n.startswith(_PREFIX)},
        )
    )
    users, items = raw_ids.unpack(arrays, "users"), raw_ids.unpack(arrays, "items")
    sizes = len(model.catalogue.users), len(model.catalogue.items)
    n_users = int(config["n_users"])
    if (len(users), len(items)) != sizes or not 0 < n_users <= len(users):
        raise ArtifactError(f"its {len(users)} users and {len(items)} items are not the model's")
    low, high = (float(end) for end in config["scale"])
    given = _identities(arrays, "", n_users, len(items))
    values = require(arrays, "values", shape=(len(given.item_ids),), dtype=np.float32, finite=True)
    item_index = raw_index(items, "item")
    rows = given.user_ids, given.item_ids, values
    own = Ratings(*rows, raw_index(users[:n_users], "user"), item_index, scale=(low, high))
    everybody = Ratings(*rows, raw_index(users, "user"), item_index, scale=(low, high))
    trainset = trainset_of(own, users[:n_users], items, float(config["mean"]))
    seen = _identities(arrays, "seen.", len(users), len(items))
    if algo.conditional:
        algo.rated = _beyond(given, seen, users, items)
    numbered = {user: number for number, user in enumerate(users)}
    folded = list(_folded(arrays, len(items)))
    return Stored(algo, model, trainset, everybody, numbered, seen, folded)


def _identities(arrays: Any, prefix: str, n_users: int, n_items: int) -> Identities:
    offsets = require(arrays, f"{prefix}offsets", shape=(n_users + 1,), dtype=np.int64)
    ids = require(arrays, f"{prefix}item_ids", shape=("pairs",), dtype=np.int32)
    if offsets[0] or offsets[-1] != len(ids) or (np.diff(offsets) < 0).any():
        raise ArtifactError(f"the array '{prefix}offsets' does not fit '{prefix}item_ids'")
    if len(ids) and not 0 <= ids.min() <= ids.max() < n_items:
        raise ArtifactError(f"the array '{prefix}item_ids' holds a number off 0 to {n_items - 1}")
    return Identities(offsets, ids)


def _beyond(
    given: Identities, seen: Identities, users: list[Hashable], items: list[Hashable]
) -> SideInfo | None:
    """What is known to be rated beside the ratings."""
    n = max(len(items), 1)
    every, rated = (known.user_ids * n + known.item_ids for known in (seen, given))
    more = np.setdiff1d(every, rated).tolist()
    return SideInfo((users[cell // n], items[cell % n]) for cell in more) if more else None


def _folded(arrays: Any, n_items: int) -> Iterator[Given]:
    uids = raw_ids.unpack(arrays, "folded")
    parts: dict[str, Any] = {}
    for name in ("rated", "known"):
        ids = require(arrays, f"folded.{name}", shape=(name,), dtype=np.int64)
        ends = require(arrays, f"folded.{name}.offsets", shape=(len(uids) + 1,), dtype=np.int64)
        if ends[0] or ends[-1] != len(ids) or (np.diff(ends) < 0).any():
            raise ArtifactError(f"the array 'folded.{name}.offsets' does not fit the items")
        if len(ids) and not 0 <= ids.min() <= ids.max() < n_items:
            raise ArtifactError(f"the array 'folded.{name}' holds a number off 0 to {n_items - 1}")
        parts[name] = np.split(ids, ends[1:-1]) if uids else []
        if name == "rated":
            values = require(arrays, "folded.values", shape=(len(ids),), dtype=np.float32)
            parts["values"] = np.split(values, ends[1:-1]) if uids else []
    rows = zip(uids, parts["rated"], parts["values"], parts["known"], strict=True)
    yield from (Given(*row) for row in rows)


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    return None if isinstance(value, np.random.RandomState) else value


def _address(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def _class(address: str, base: type[TacendaAlgorithm]) -> type[TacendaAlgorithm]:
    """The class of that address among those that are imported: loading imports nothing."""
    found = [cls for cls in _derived(base) if _address(cls) == address]
    if not found:
        raise ArtifactError(
            f"it is a {address}, which is no {base.__name__} known here: import its class first, or load "
            "it with a class it is derived from"
        )
    return found[-1]


def _derived(base: type[TacendaAlgorithm]) -> Iterator[type[TacendaAlgorithm]]:
    yield base
    for cls in base.__subclasses__():
        yield from _derived(cls)
