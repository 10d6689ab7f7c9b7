"""Folders that older versions saved: their options in today's words.

A folder was of a model, with options of its own, or of an algorithm of Surprise that hosted one, with these words
already. Names of arrays are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tacenda.artifact import Artifact

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


def upgrade(artifact: Artifact) -> Artifact:
    """Return an artifact of an older version as today's would be; one of today's as it is."""
    config = dict(artifact.config)
    own = dict(config.get("surprise") or {})
    arguments = own.pop("arguments", None)
    settings = dict(config.get("settings", {}))
    kind = artifact.name.removeprefix("conditional_")
    if "seed" in config or (arguments is None and artifact.distribution != _OURS):
        return artifact
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
            _upgrade_blend(config)
        elif kind in _NAMES and config.get("settings") == settings:
            config["settings"] = rename_options(artifact.name, settings)
    return replace(artifact, config=config)


def rename_options(model: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of a model in today's words; ``advanced`` groups are opened."""
    kind = model.removeprefix("conditional_")
    names = {**_COMMON, **_NAMES.get(kind, {})}
    flat = {name: value for name, value in settings.items() if name not in ("advanced", "seed")}
    flat |= {f"advanced.{name}": value for name, value in settings.get("advanced", {}).items()}
    found: dict[str, Any] = {}
    if (
        kind == "pmf"
    ):  # one rate for factors and one for biases: in today's words, one for each side of both
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


def _upgrade_blend(config: dict[str, Any]) -> None:
    """A blend had options of its own only where Surprise had saved it."""
    own = dict(config.pop("surprise blend", {}))
    config["usual"] = own.get("usual")
    options = ("holdout", "random_state")
    config["settings"] = {name: own[name] for name in options if name in own}
