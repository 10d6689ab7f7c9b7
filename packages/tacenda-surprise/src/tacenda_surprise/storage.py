"""Fitted algorithms on disk: what a folder contains in addition to the model itself.

It has the ratings, raw ids with their types (7 and "7" differ), who has rated what, the model of choices, and users who
were folded in. Folders of older versions may lack any of these.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, TypeVar
from uuid import UUID

import numpy as np
import numpy.typing as npt

from tacenda.arrays import Array, Arrays, Float32, Int32, Int64, Offsets, UInt8, below, named, take
from tacenda.artifact import Artifact
from tacenda.errors import ArtifactError, ConfigurationError, DataError
from tacenda.ratings import Ratings
from tacenda_surprise.catalogue import Catalogue, pack_names, unpack_names
from tacenda_surprise.choices import ImplicitFactors
from tacenda_surprise.identities import Identities
from tacenda_surprise.raw_ids import raw_index
from tacenda_surprise.trainsets import FitData
from tacenda_surprise.users import Given

Packed = dict[str, npt.NDArray[Any]]
C = TypeVar("C")

_PREFIX = "surprise."
_FIELDS = {"class", "scale", "mean", "n_users"}
_TEXT, _WHOLE, _REAL, _UUID = range(4)  # types of raw ids


class _Saved(Arrays):
    """Ratings by user, and the ratings and further rated items of every user who was folded in."""

    offsets: Offsets[Array, "users ratings"]
    item_ids: Int32[Array, "ratings", below("items")]
    values: Float32[Array, "ratings"]
    rated: Int64[Array, "given", below("items"), named("folded.rated")]
    rated_offsets: Offsets[Array, "folded given", named("folded.rated.offsets")]
    rated_values: Float32[Array, "given", named("folded.values")]
    known: Int64[Array, "told", below("items"), named("folded.known")]
    known_offsets: Offsets[Array, "folded told", named("folded.known.offsets")]


def pack_data(data: FitData, given: list[Given]) -> tuple[dict[str, Any], Packed]:
    """Return ratings and users folded in, as JSON values and arrays. Raises ArtifactError."""
    rated, rated_offsets = _join([one.items for one in given], np.int64)
    values, _ = _join([one.values for one in given], np.float32)
    known, known_offsets = _join([one.rated for one in given], np.int64)
    ratings, offsets = data.ratings, data.ratings.user_offsets[: data.n_users + 1]
    arrays = {
        **pack_ids(data.users, "users"),
        **pack_ids(data.items, "items"),
        **pack_ids([one.uid for one in given], "folded"),
        **_Saved(
            offsets, ratings.item_ids, ratings.values, rated, rated_offsets, values, known, known_offsets
        ).to_arrays(),
    }  # fmt: skip
    low, high = ratings.scale
    config = {"scale": [low, high], "mean": float(data.mean), "n_users": data.n_users}
    return config, {_PREFIX + name: array for name, array in arrays.items()}


def _join(parts: list[npt.NDArray[Any]], dtype: Any) -> tuple[Any, npt.NDArray[np.int64]]:
    """Return one array of all parts, and where each begins and ends."""
    joined = np.concatenate([np.empty(0, dtype), *parts]).astype(dtype)
    return joined, np.cumsum([0, *map(len, parts)])


def unpack(
    config: Mapping[str, Any] | None, arrays: Packed, catalogue: Catalogue, *, takes_ratings: bool
) -> tuple[FitData | None, Identities | None, ImplicitFactors | None, list[Given]]:
    """Read ratings, who has rated what, the model of choices, and users folded in; None for what a folder lacks.

    Raises ArtifactError; to be called within `damage`.
    """
    sizes = catalogue.sizes
    has_seen, has_implicit = (
        config is not None or any(name.startswith(prefix) for name in arrays)
        for prefix in ("rated.", "choices.")
    )
    has_implicit &= takes_ratings
    implicit = ImplicitFactors.from_arrays(arrays, "choices.", **sizes) if has_implicit else None
    seen = Identities.from_arrays(arrays, "rated.", **sizes) if has_seen else None
    if config is None:
        return None, seen, implicit, []
    data, given = _unpack_data(config, arrays, sizes)
    if not np.allclose(data.ratings.scale, catalogue.scale):
        raise ArtifactError("the scale of its ratings is not the model's: it is damaged")
    return data, seen, implicit, given


def _unpack_data(
    config: Mapping[str, Any], arrays: Packed, sizes: dict[str, int]
) -> tuple[FitData, list[Given]]:
    unknown = set(config) - _FIELDS
    if unknown:
        raise ArtifactError(f"its 'surprise' has an unknown field: {min(unknown)!r}")
    own = {n.removeprefix(_PREFIX): a for n, a in arrays.items() if n.startswith(_PREFIX)}
    raw_users, raw_items = unpack_ids(own, "users"), unpack_ids(own, "items")
    n_users, n_items = int(config["n_users"]), len(raw_items)
    if (len(raw_users), n_items) != tuple(sizes.values()) or not 0 < n_users <= len(raw_users):
        raise ArtifactError(
            f"its {len(raw_users)} users and {n_items} items are not the model's: it is damaged"
        )
    uids = unpack_ids(own, "folded")
    found = _Saved.from_arrays(own, users=n_users, items=n_items, folded=len(uids))
    more = np.full(len(raw_users) - n_users, len(found.values))
    low, high = (float(end) for end in config["scale"])
    ratings = Ratings.from_csr(
        np.concatenate([found.offsets, more]), found.item_ids, found.values,
        raw_index(raw_users, "user"), raw_index(raw_items, "item"), scale=(low, high),
    )  # fmt: skip
    users, items = ({raw: k for k, raw in enumerate(ids)} for ids in (raw_users, raw_items))
    data = FitData(ratings, None, users, items, n_users, float(config["mean"]))
    rated, values = (
        np.split(a, found.rated_offsets[1:-1]) for a in (found.rated, found.rated_values)
    )
    known = np.split(found.known, found.known_offsets[1:-1])
    return data, list(map(Given, uids, rated, values, known))


@contextmanager
def damage() -> Iterator[None]:
    """Turn errors of a damaged folder into an ArtifactError."""
    try:
        yield
    except ConfigurationError as error:  # it says what is wrong
        raise ArtifactError(str(error)) from error
    except (DataError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise ArtifactError(f"it is damaged: {error!r}") from error


def pack_ids(ids: Iterable[Hashable], name: str) -> Packed:
    """Pack ids as ``<name>.text`` (bytes,), ``<name>.offsets`` (ids + 1,) and ``<name>.types`` (ids,).

    Raises ArtifactError for an id that is neither text nor a number nor a UUID.
    """
    types, texts = [], []
    for one in ids:
        if isinstance(one, str):
            kind, text = _TEXT, one
        elif isinstance(one, int | np.integer):
            kind, text = _WHOLE, str(int(one))
        elif isinstance(one, float | np.floating):
            kind, text = _REAL, repr(float(one))
        elif isinstance(one, UUID):
            kind, text = _UUID, str(one)
        else:
            raise ArtifactError(
                f"the id {one!r} is a {type(one).__name__}; only text, numbers and UUIDs can be saved"
            )
        types.append(kind)
        texts.append(text)
    return {**pack_names(name, texts), f"{name}.types": np.array(types, np.uint8)}


def unpack_ids(arrays: Mapping[str, npt.NDArray[Any]], name: str) -> list[Hashable]:
    """Return the ids that `pack_ids` packed. Raises ArtifactError for arrays that do not fit together."""
    texts = unpack_names(name, arrays)
    types = take(arrays, f"{name}.types", UInt8[Array, "ids"], {"ids": len(texts)})
    if len(types) and types.max() > _UUID:
        raise ArtifactError(f"the array '{name}.types' holds {types.max()}, which is no type")
    read: tuple[Callable[[str], Hashable], ...] = (str, int, float, UUID)
    try:
        found = [read[kind](text) for kind, text in zip(types.tolist(), texts, strict=True)]
    except ValueError as error:
        raise ArtifactError(f"the array '{name}.text' holds an invalid id: {error}") from error
    if len(set(found)) != len(found):
        raise ArtifactError(f"the array '{name}.text' holds an id twice")
    return found


def address_of(cls: type) -> str:
    """Return module and name of a class."""
    return f"{cls.__module__}:{cls.__qualname__}"


def class_at(address: str, base: type[C]) -> type[C]:
    """Find the class with this address, ``base`` or one derived from it, without importing anything.

    Raises ArtifactError for a class that is not known here.
    """
    found = [cls for cls in _walk_subclasses(base) if address_of(cls) == address]
    if not found:
        shown = ascii(address)[1:-1]
        raise ArtifactError(
            f"it is a {shown:.200}, which is no {base.__name__} known here: import its class first, or load "
            "it with a class it is derived from"
        )
    return found[-1]


def _walk_subclasses(base: type[C]) -> Iterator[type[C]]:
    yield base
    for cls in base.__subclasses__():
        yield from _walk_subclasses(cls)


_OURS = "tacenda-surprise"
_BIAS_RATE = 0.06  # the default of biases
_BOTH = {"learning_rate": "lr", "penalty": "reg"}
_PARTS = {"user_bias_": "bu", "item_bias_": "bi", "user_": "pu", "item_": "qi"}
#: Options that had other names: the model's -> today's.
_COMMON = {"epochs": "n_epochs", "advanced.rate_decay": "lr_decay"}
_NAMES = {
    "bias": {"penalty_users": "reg_u", "penalty_items": "reg_i"},
    "pmf": {
        "advanced.init_std": "init_std_dev",
        "side_learning_rate": "lr_yj",
        "side_penalty": "reg_yj",
        **{
            f"advanced.{part}{what}": f"{short}_{own}"
            for what, short in _BOTH.items()
            for part, own in _PARTS.items()
        },
    },
    "rbm": {
        "learning_rate": "lr_all",
        "penalty": "reg_all",
        "side_penalty": "reg_side",
        "advanced.bias_learning_rate": "lr_bias",
        "advanced.bias_penalty": "reg_bias",
    },
    "bayesian_pmf": {},
}


#: Arrays that older versions wrote as JSON.
_ONCE_JSON = {
    "penalties", "used", "variances", "unit", "weight", "wider", "chains", "curve", "penalty", "weights", "center",
    "factor", "usual", "n_users",
}  # fmt: skip


def upgrade(artifact: Artifact) -> Artifact:
    """Return an artifact of an older version in today's form; one of today's unchanged."""
    config, arrays = _reword(artifact), dict(artifact.arrays)
    for name in _ONCE_JSON & set(config) - set(arrays):
        # A value that cannot be converted is missing later, where an error says so.
        with suppress(ArithmeticError, LookupError, TypeError, ValueError):
            value = config[name]
            parts = value.values() if isinstance(value, dict) else [value]
            numbers = np.concatenate([np.ravel(np.asarray(part, np.float64)) for part in parts])
            if name == "variances":
                theta, unit, curve = np.split(numbers, [8, 9])
                found = {"theta": theta, "unit": unit[0], "curve": curve}
                arrays |= {f"variances.{key}": np.asarray(part) for key, part in found.items()}
            else:
                arrays[name] = numbers if isinstance(value, dict | list) else numbers[0]
    return replace(artifact, config=config, arrays=arrays)


def _reword(artifact: Artifact) -> dict[str, Any]:
    """Return the JSON values of an artifact with today's names.

    In older versions an algorithm hosted a model: ``settings`` are the model's, with names of its own, and
    ``arguments`` in ``surprise`` are the algorithm's, with today's names. The arguments are not the model's options if
    the algorithm was a ``Recommender``, or predicted the mean of all ratings because its fit had diverged.
    """
    config = dict(artifact.config)
    own = dict(config.get("surprise") or {})
    arguments = own.pop("arguments", None)
    settings = dict(config.get("settings", {}))
    kind = artifact.name.removeprefix("conditional_")
    if "seed" in config or (arguments is None and artifact.distribution != _OURS):
        return config
    if own:
        hosted_by_name = str(own.get("class", "")).endswith(":Recommender")
        if str(own.get("class", "")).startswith("tacenda_surprise."):
            del own["class"]
        config["surprise"] = own
        after_divergence = kind == "bias" and "biases" not in (arguments or {})
        if arguments is not None and not (hosted_by_name or after_divergence):
            config["settings"] = dict(arguments)
    if artifact.distribution == _OURS:
        config["seed"] = settings.get("seed", 0)
        if artifact.name == "blend":
            # a blend had options of its own only where Surprise had saved it
            of_blend = dict(config.pop("surprise blend", {}))
            config["usual"] = of_blend.get("usual") or [0.0] * len(config["weights"])
            options = ("holdout", "random_state")
            config["settings"] = {name: of_blend[name] for name in options if name in of_blend}
        elif kind in _NAMES and config.get("settings") == settings:
            config["settings"] = rename_options(artifact.name, settings)
    return config


def rename_options(model: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of a model with today's names, without ``advanced`` groups."""
    kind = model.removeprefix("conditional_")
    names = {**_COMMON, **_NAMES.get(kind, {})}
    flat = {name: value for name, value in settings.items() if name not in ("advanced", "seed")}
    flat |= {f"advanced.{name}": value for name, value in settings.get("advanced", {}).items()}
    found: dict[str, Any] = {}
    if kind == "pmf":  # one rate for factors and one for biases: today, one for each side of both
        for what, short in _BOTH.items():
            for path, parts in ((what, ("pu", "qi")), (f"advanced.bias_{what}", ("bu", "bi"))):
                value = flat.pop(path, None)
                idle = not settings.get("biased", True) and "bias" in path
                idle |= short == "lr" and settings.get("solver") == "als"
                if value not in (None, _BIAS_RATE) and not idle:
                    found |= {f"{short}_{part}": value for part in parts}
        if "conditional" in model:
            flat.pop("solver", None)
    for path, value in flat.items():
        name = names.get(path, path.removeprefix("advanced."))
        if value is not None or name not in found:
            found[name] = value
    return found
