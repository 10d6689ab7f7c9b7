"""Tables 4.8 and 4.9: models that lack an eighth of the training text each; bias and variance (section 4.6.6)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from benchmarks.language_models.contexts import EITHER
from benchmarks.language_models.thesis import published
from benchmarks.language_models.thesis.fits import perplexity
from benchmarks.language_models.thesis.recipes import Hierarchical, NGrams, Recipe
from benchmarks.language_models.thesis.study import Study
from benchmarks.language_models.thesis.texts import PARTS

ORDER = 6
_Floats = npt.NDArray[np.float64]


def averaged(scores: _Floats) -> _Floats:
    """Log of the mean probability; ``scores`` (models, tokens)."""
    return np.asarray(np.logaddexp.reduce(scores, axis=0) - np.log(len(scores)))


def bias_variance(scores: _Floats) -> tuple[float, float]:
    """Eqs 4.9 and 4.10, nats a word."""
    mean = averaged(scores)
    return float(-mean.mean()), float((mean - scores.mean(axis=0)).mean())


def main(study: Study) -> None:
    tree = study.plan.eighths_tree
    makers: dict[str, Callable[[int], Recipe]] = {
        "HLBL": lambda part: Hierarchical(tree, without=part),
        f"KN{ORDER}": lambda part: NGrams(ORDER, without=part),
    }
    scores = {
        name: np.stack([study.bench.fit(make(part)).test for part in range(PARTS)])
        for name, make in makers.items()
    }
    rows = []
    for part in range(PARTS):
        ours = {name: perplexity(found[part]) for name, found in scores.items()}
        theirs = {f"{name} APNews": published.EIGHTHS[name][part] for name in makers}
        rows.append({"without eighth": str(part + 1), **ours, **theirs})
    combined = {name: perplexity(averaged(found)) for name, found in scores.items()}
    theirs = {f"{name} APNews": published.COMBINED[name] for name in makers}
    rows.append({"without eighth": "combined", **combined, **theirs})
    told = {
        "tree": f"{tree.name}, of the whole training text, for all eight; APNews: ADAPTIVE(0.4) x 4",
        "combined": "the mean of the eight predicted probabilities",
    }
    parts = []
    for name, found in scores.items():
        bias, variance = bias_variance(found)
        of_thesis = published.BIAS_VARIANCE[name]
        parts.append(
            {
                "model": name,
                "bias": round(bias, 3),
                "variance": round(variance, 3),
                "bias APNews": of_thesis[0],
                "variance APNews": of_thesis[1],
            }
        )
    study.save("eighths", told, rows, EITHER)
    study.save("bias-variance", {**told, "unit": "nats a word, eqs 4.9 and 4.10"}, parts)
