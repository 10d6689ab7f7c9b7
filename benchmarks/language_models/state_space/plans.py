"""The models that are compared: n-grams, the paper's model trained in two ways, and more than the paper's.

All settings but the order and the dimensions were chosen on the excerpts at `letters.TUNING`
(`python -m benchmarks.language_models.state_space.choices`); the README beside this file says how.
"""

from __future__ import annotations

from typing import Any

from benchmarks.language_models.state_space.fits import Plan

__all__ = [
    "BY_GRADIENTS", "BY_RULES", "GRID", "LIMITS", "ORDERS", "RUNS", "SIZES", "dimensions", "gradient",
    "ngrams", "rules", "runs",
]  # fmt: skip

SIZES = ("sparse", "dense")
ORDERS = (1, 2, 3, 5)
#: The dimensions of Figure 2.
GRID = {"internal": (0, 1, 3, 5, 10, 20, 40), "features": (1, 3, 5, 10, 15, 25)}

#: The sum of squares that no matrix exceeds under the rules: the paper's, and one that all but frees them.
LIMITS = (10.0, 100.0)

_RULES: dict[str, dict[str, Any]] = {
    "sparse": {"training": "rules", "epochs": 40, "patience": 8, "learning_rate": 0.2,
               "advanced": {"biases": False, "variance": 0.1, "streams": 16, "piece": 1, "last_piece": 16}},
    "dense": {"training": "rules", "epochs": 10, "learning_rate": 0.1,
              "advanced": {"biases": False, "variance": 0.1, "streams": 100, "piece": 1, "last_piece": 20}},
}  # fmt: skip
_GRADIENT: dict[str, dict[str, Any]] = {
    "sparse": {"epochs": 30, "patience": 6, "dropout": 0.5, "learning_rate": 0.1, "advanced": {"streams": 8}},
    "dense": {"epochs": 6, "dropout": 0.0, "learning_rate": 0.1, "advanced": {"streams": 64}},
}  # fmt: skip
_RUNS: dict[str, dict[str, Any]] = {
    "sparse": {"order": 2, "internal": 0, "features": 15, "epochs": 30, "patience": 5, "dropout": 0.5,
               "learning_rate": 0.1,
               "advanced": {"streams": 8, "joint_order": 5, "joint_dropout": 0.1, "joint_width": 50,
                            "joint_sum": 1e-3}},
    "dense": {"order": 5, "internal": 0, "features": 25, "epochs": 7, "dropout": 0.2,
              "learning_rate": 0.1,
              "advanced": {"streams": 64, "joint_order": 6, "joint_dropout": 0.05, "joint_width": 50,
                           "joint_sum": 1e-5}},
}  # fmt: skip
BY_RULES, BY_GRADIENTS = "state-space, rules", "state-space, gradients"
RUNS = "state-space, gradients, runs of letters"


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


def dimensions(size: str, order: int) -> list[tuple[int, int]]:
    """The pairs N_q and N_l that are tried for an order with gradients.

    Where text is dense only order 2 has an internal state: whether it can stand for the feature vectors of more letters
    is the question that the paper leaves open.
    """
    if order == 1:
        return [(q, 1) for q in (5, 20, 40)]
    if size == "sparse":
        return [(0, 15), (10, 15), (40, 25)]
    return [(0, 15), (40, 25)] if order == 2 else [(0, 15)]


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


def rules(size: str, order: int, pair: tuple[int, int], limit: float = LIMITS[0]) -> Plan:
    """The paper's model, trained by its rules; states are inferred by one step of ascent."""
    base = {**_RULES[size], "advanced": {**_RULES[size]["advanced"], "norm_limit": limit}}
    if order == 1:  # whose input comes through inference alone, and moves little
        base["learning_rate"] = 0.5
    return _state_space(size, order, pair, base, BY_RULES)


def runs(size: str, seed: int = 0) -> Plan:
    """The model with vectors of runs of letters."""
    return Plan("state-space", size, {**_RUNS[size], "seed": seed}, RUNS)
