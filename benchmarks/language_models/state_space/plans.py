"""The models that are compared: n-grams, the paper's model trained in two ways, and more than the paper's.

All settings but the order and the dimensions were chosen on the excerpts at `letters.TUNING`
(`python -m benchmarks.language_models.state_space.choices`); the README beside this file says how.
"""

from __future__ import annotations

from typing import Any

from benchmarks.language_models.state_space.fits import Plan

__all__ = [
    "BY_GRADIENTS", "BY_RULES", "GRID", "MOST_PROBABLE", "ORDERS", "RUNS", "SIZES", "dimensions", "gradient",
    "ngrams", "rules", "runs",
]  # fmt: skip

SIZES = ("sparse", "dense")
ORDERS = (1, 2, 3, 5)
#: The dimensions of Figure 2.
GRID = {"internal": (0, 1, 3, 5, 10, 20, 40), "features": (1, 3, 5, 10, 15, 25)}

_PAPER: dict[str, Any] = {"training": "rules", "inference": "map"}
_RULES: dict[str, dict[str, Any]] = {
    "sparse": {**_PAPER, "epochs": 100, "patience": 20, "learning_rate": 0.5,
               "advanced": {"biases": False, "streams": 4, "piece": 4, "last_piece": 60}},
    "dense": {**_PAPER, "epochs": 12, "learning_rate": 0.5,
              "advanced": {"biases": False, "streams": 50, "piece": 1, "last_piece": 20}},
}  # fmt: skip
_GRADIENT: dict[str, dict[str, Any]] = {
    "sparse": {"epochs": 40, "patience": 8, "dropout": 0.3, "learning_rate": 0.05, "advanced": {"streams": 8}},
    "dense": {"epochs": 10, "dropout": 0.0, "learning_rate": 0.1, "advanced": {"streams": 64}},
}  # fmt: skip
_RUNS: dict[str, dict[str, Any]] = {
    "sparse": {**_GRADIENT["sparse"], "order": 3, "internal": 10, "features": 15,
               "advanced": {"streams": 8, "joint_order": 3, "joint_width": 25, "joint_dropout": 0.7}},
    "dense": {**_GRADIENT["dense"], "order": 5, "internal": 40, "features": 25,
              "advanced": {"streams": 64, "joint_order": 6, "joint_width": 25, "joint_dropout": 0.5}},
}  # fmt: skip
BY_RULES, BY_GRADIENTS = "state-space, rules", "state-space, gradients"
RUNS = "state-space, gradients, runs of letters"
MOST_PROBABLE = "state-space, gradients through the most probable state"


def ngrams(size: str) -> list[Plan]:
    """N-grams of both kinds; the best is chosen on the development texts."""
    found = [Plan("n-gram", size, {"order": order}, "Kneser-Ney") for order in range(2, 9)]
    for order in range(2, 7):
        for min_count in (1, 2):
            for cutoff in (3, 7):
                settings = {
                    "order": order,
                    "smoothing": "good_turing",
                    "min_count": min_count,
                    "cutoff": cutoff,
                }
                found.append(Plan("n-gram", size, settings, "Good-Turing"))
    return found


def dimensions(size: str, order: int, whole: bool) -> list[tuple[int, int]]:
    """The pairs N_q and N_l that are tried for an order: those of the whole of Figure 2, or some."""
    if whole:
        return [(q, n) for q in GRID["internal"] for n in GRID["features"]]
    if order == 1:
        return [(q, 1) for q in (5, 10, 20, 40)]
    if size == "sparse":
        return [(q, n) for q in (0, 10, 40) for n in (5, 15, 25)]
    return [(0, 15), (0, 25), (5, 25), (40, 25)]


def _state_space(
    size: str, order: int, pair: tuple[int, int], base: dict[str, Any], name: str
) -> Plan:
    settings = {**base, "order": order, "internal": pair[0]}
    if order > 1:
        settings["features"] = pair[1]
    if not pair[0]:
        settings.pop("inference", None)
    return Plan("state-space", size, settings, name)


def gradient(size: str, order: int, pair: tuple[int, int], **others: Any) -> Plan:
    """The paper's model, trained by gradients."""
    return _state_space(size, order, pair, {**_GRADIENT[size], **others}, BY_GRADIENTS)


def rules(size: str, order: int, pair: tuple[int, int]) -> Plan:
    """The paper's model, trained by its rules."""
    return _state_space(size, order, pair, _RULES[size], BY_RULES)


def runs(size: str, seed: int = 0) -> Plan:
    """The model with vectors of runs of letters."""
    return Plan("state-space", size, {**_RUNS[size], "seed": seed}, RUNS)
