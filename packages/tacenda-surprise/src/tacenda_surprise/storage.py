"""Fitted algorithms on disk: the artefact of their model, and beside it what only Surprise needs.

`tacenda.load` reads such a folder as the model alone, and so does ``tacenda ratings recommend``. Raw ids keep their
type here, unlike those of a model: 7 and "7" are two.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from surprise import Trainset

from tacenda.artifact import Artifact, require
from tacenda.errors import ArtifactError, PluginError, TacendaError
from tacenda.estimator import resolve
from tacenda.offsets import checked_offsets
from tacenda.ratings import Ratings
from tacenda_surprise.models.base import RatingModel
from tacenda_surprise.models.catalogue import pack, unpack
from tacenda_surprise.models.choices import Choices
from tacenda_surprise.models.identities import Identities
from tacenda_surprise.new_users import Given
from tacenda_surprise.side_info import SideInfo
from tacenda_surprise.trainsets import ratings_of, raw_index, trainset_of

Arrays = dict[str, npt.NDArray[Any]]
C = TypeVar("C")

_PREFIX = "surprise."
_TEXT, _WHOLE, _REAL = 0, 1, 2  # types of raw ids


class Saved(NamedTuple):
    """What an algorithm keeps beside its model."""

    address: str  # module and name of its class
    arguments: dict[str, Any]  # of its constructor, as JSON values
    trainset: Trainset  # once loaded, every user's ratings are in the order of the items
    users: dict[Hashable, int]  # raw id -> number, of all users of the model
    seen: Identities  # what users have rated or are known to have rated
    given: list[Given]  # what users were folded in from
    choices: Choices | None  # what lists go by, where it was saved

    def more_rated(self) -> SideInfo | None:
        """What is known to be rated beside the ratings."""
        items, users = list(self.trainset._raw2inner_id_items), list(self.users)
        ratings = ratings_of(self.trainset)
        n = max(len(items), 1)
        rated, every = (
            known.user_ids.astype(np.int64) * n + known.item_ids for known in (ratings, self.seen)
        )
        more = np.setdiff1d(every, rated).tolist()
        return SideInfo((users[cell // n], items[cell % n]) for cell in more) if more else None


def pack_up(model: RatingModel, saved: Saved) -> Artifact:
    """A fitted model and what the algorithm keeps beside it. Raises ArtifactError."""
    found, trainset, given = model.to_artifact(), saved.trainset, saved.given
    ratings = ratings_of(trainset)
    lists = {"rated": [g.items for g in given], "known": [g.rated for g in given]}
    arrays: Arrays = {
        **pack_ids(saved.users, "users"),
        **pack_ids(trainset._raw2inner_id_items, "items"),
        **pack_ids([g.uid for g in given], "folded"),
        "offsets": ratings.user_offsets,
        "item_ids": ratings.item_ids,
        "values": ratings.values,
        "folded.values": np.concatenate([np.empty(0, np.float32), *(g.values for g in given)]),
    }
    for name, parts in lists.items():
        arrays[f"folded.{name}"] = np.concatenate([np.empty(0, np.int64), *parts]).astype(np.int64)
        arrays[f"folded.{name}.offsets"] = np.cumsum([0, *map(len, parts)]).astype(np.int64)
    config = {
        "class": saved.address,
        "arguments": saved.arguments,
        "scale": [float(end) for end in trainset.rating_scale],
        "mean": float(trainset.global_mean),
        "n_users": trainset.n_users,
    }
    return replace(
        found,
        config={**found.config, "surprise": config},
        arrays={
            **found.arrays,
            **({} if saved.choices is None else saved.choices.arrays()),
            **saved.seen.arrays(),
            **{_PREFIX + name: array for name, array in arrays.items()},
        },
    )


@contextmanager
def load_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn what a damaged folder provokes into an ArtifactError that names the folder."""
    try:
        yield
    except (ArtifactError, PluginError) as error:
        raise type(error)(f"cannot load {path}: {error}") from error
    except (TacendaError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise ArtifactError(f"cannot load {path}: it is damaged: {error!r}") from error


def unpacked(found: Artifact) -> tuple[RatingModel, Saved, Ratings]:
    """Read what `pack_up` gave, and the ratings in the numbers of the model, which may have more users.

    Raises ArtifactError, PluginError; to be called within `load_errors`.
    """
    config = found.config.get("surprise")
    if config is None:
        raise ArtifactError(
            "it is a model without its Surprise algorithm, or a blend: tacenda.load loads the one, Blend.load the other"
        )
    strange = set(config) - {"class", "arguments", "scale", "mean", "n_users"}
    if strange:
        raise ArtifactError(f"it says something that is never saved: {min(strange)!r}")
    model = _model(found)
    arrays = {n.removeprefix(_PREFIX): a for n, a in found.arrays.items() if n.startswith(_PREFIX)}
    users, items = unpack_ids(arrays, "users"), unpack_ids(arrays, "items")
    sizes = len(model.catalogue.users), len(model.catalogue.items)
    n_users = int(config["n_users"])
    if (len(users), len(items)) != sizes or not 0 < n_users <= len(users):
        raise ArtifactError(f"its {len(users)} users and {len(items)} items are not the model's")
    low, high = (float(end) for end in config["scale"])
    seen = Identities.found(found.arrays, *sizes)
    if seen is None:
        raise ArtifactError("it does not say who has rated what: it is damaged")
    rated = Identities(*_lists(arrays, "offsets", "item_ids", n_users, len(items), np.int32))
    values = require(arrays, "values", shape=(len(rated.item_ids),), dtype=np.float32, finite=True)
    item_index = raw_index(items, "item")
    rows = rated.user_ids, rated.item_ids, values
    own = Ratings(*rows, raw_index(users[:n_users], "user"), item_index, scale=(low, high))
    everybody = Ratings(*rows, raw_index(users, "user"), item_index, scale=(low, high))
    saved = Saved(
        str(config["class"]),
        dict(config["arguments"]),
        trainset_of(own, users[:n_users], items, float(config["mean"])),
        {user: number for number, user in enumerate(users)},
        seen,
        _given(arrays, len(items)),
        Choices.found(found.arrays, *sizes),
    )
    return model, saved, everybody


def _model(found: Artifact) -> RatingModel:
    """Rebuild the model of an artefact, without what is Surprise's."""
    model: RatingModel = resolve(
        replace(
            found,
            config={name: value for name, value in found.config.items() if name != "surprise"},
            arrays={n: a for n, a in found.arrays.items() if not n.startswith(_PREFIX)},
        )
    )
    return model


def _lists(
    arrays: Arrays, offsets: str, ids: str, n_lists: int, n_items: int, dtype: Any
) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
    """Where each of some lists of items begins, (n_lists + 1,), and all their items."""
    ends = require(arrays, offsets, shape=(n_lists + 1,), dtype=np.int64)
    items = _items(arrays, ids, n_items, dtype)
    checked_offsets(ends, len(items), what=f"the array '{offsets}'", error=ArtifactError)
    return ends, items


def _items(arrays: Mapping[str, Any], name: str, n_items: int, dtype: Any) -> npt.NDArray[Any]:
    found = require(arrays, name, shape=("items",), dtype=dtype)
    if len(found) and not 0 <= found.min() <= found.max() < n_items:
        raise ArtifactError(f"the array '{name}' holds a number off 0 to {n_items - 1}")
    return found


def item_counts(
    arrays: Mapping[str, npt.NDArray[Any]], n_items: int
) -> npt.NDArray[np.int64] | None:
    """How many ratings each item has (items,), without side information; None where an artefact does not say.

    Raises ArtifactError.
    """
    # What blends and `tacenda ratings fit` save of who has rated what is of their ratings alone.
    for name in (f"{_PREFIX}item_ids", "rated.item_ids"):
        if name in arrays:
            return np.bincount(_items(arrays, name, n_items, np.int32), minlength=n_items)
    return None


def _given(arrays: Arrays, n_items: int) -> list[Given]:
    """What users were folded in from."""
    uids = unpack_ids(arrays, "folded")
    (ends, rated), (more_ends, more) = (
        _lists(arrays, f"{name}.offsets", name, len(uids), n_items, np.int64)
        for name in ("folded.rated", "folded.known")
    )
    values = require(arrays, "folded.values", shape=(len(rated),), dtype=np.float32)
    return [
        Given(uid, rated[i:j], values[i:j], more[k:m])
        for uid, (i, j), (k, m) in zip(uids, pairwise(ends), pairwise(more_ends), strict=True)
    ]


def pack_ids(ids: Iterable[Hashable], name: str) -> Arrays:
    """Ids as ``<name>.text`` (bytes,), ``<name>.offsets`` (ids + 1,) and ``<name>.types`` (ids,).

    Raises ArtifactError for an id that is neither text nor a number.
    """
    types, encoded = [], []
    for one in ids:
        if isinstance(one, str):
            kind, text = _TEXT, one
        elif isinstance(one, int | np.integer):
            kind, text = _WHOLE, _digits(int(one))
        elif isinstance(one, float | np.floating):
            kind, text = _REAL, repr(float(one))
        else:
            raise ArtifactError(
                f"the id {one!r} is a {type(one).__name__}; only text and numbers can be saved"
            )
        types.append(kind)
        # surrogates come from files that were read with errors="surrogateescape"
        encoded.append(text.encode("utf-8", "surrogatepass"))
    return {**pack(encoded, name), f"{name}.types": np.array(types, np.uint8)}


def _digits(number: int) -> str:
    try:
        return str(number)
    except ValueError:
        raise ArtifactError(
            "an id is a number of more than 4,300 digits; give it as text, or a shorter one"
        ) from None


def unpack_ids(arrays: Mapping[str, npt.NDArray[Any]], name: str) -> list[Hashable]:
    """Return what `pack_ids` was given. Raises ArtifactError for arrays that do not fit each other."""
    encoded = unpack(arrays, name)
    types = require(arrays, f"{name}.types", shape=(len(encoded),), dtype=np.uint8)
    if len(types) and types.max() > _REAL:
        raise ArtifactError(f"the array '{name}.types' holds {types.max()}, which is no type")
    read = (lambda raw: raw, int, float)
    try:
        found = [
            read[kind](raw.decode("utf-8", "surrogatepass"))
            for kind, raw in zip(types.tolist(), encoded, strict=True)
        ]
    except ValueError as error:
        raise ArtifactError(f"the array '{name}.text' holds an invalid id: {error}") from error
    if len(set(found)) != len(found):
        raise ArtifactError(f"the array '{name}.text' holds an id twice")
    return found


def address_of(cls: type) -> str:
    """Module and name of a class."""
    return f"{cls.__module__}:{cls.__qualname__}"


def class_at(address: str, base: type[C]) -> type[C]:
    """Find the class of that address, ``base`` or one derived from it; this imports nothing.

    Raises ArtifactError for a class that is not known here.
    """
    found = [cls for cls in _derived(base) if address_of(cls) == address]
    if not found:
        raise ArtifactError(
            f"it is a {address}, which is no {base.__name__} known here: import its class first, or load "
            "it with a class it is derived from"
        )
    return found[-1]


def _derived(base: type[C]) -> Iterator[type[C]]:
    yield base
    for cls in base.__subclasses__():
        yield from _derived(cls)
