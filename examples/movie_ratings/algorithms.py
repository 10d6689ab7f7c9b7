"""The algorithms to compare: Surprise's and Tacenda's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from surprise import SVD, AlgoBase, KNNBaseline

from tacenda.errors import ConfigurationError
from tacenda_surprise import PMF, Blend, ConditionalBayesianPMF, ConditionalPMF, ConditionalRBM

SEED = 0


def every(*, quick: bool) -> dict[str, AlgoBase]:
    """Make all of them with their defaults; ``quick`` makes few epochs."""
    few: dict[str, Any] = {"n_epochs": 5} if quick else {}
    return {
        "Surprise SVD": SVD(random_state=SEED),
        "Surprise KNNBaseline": KNNBaseline(verbose=False),
        "PMF": PMF(random_state=SEED, **few),
        "ConditionalPMF": ConditionalPMF(random_state=SEED, **few),
        "ConditionalRBM": ConditionalRBM(random_state=SEED, **few),
        "Blend of the conditional ones": Blend(
            [ConditionalPMF(random_state=SEED, **few), ConditionalRBM(random_state=SEED, **few)],
            random_state=SEED,
        ),
    }


def named(parts: Sequence[str], *, quick: bool) -> dict[str, AlgoBase]:
    """Make those whose names contain one of ``parts``, or all. Raises ConfigurationError for none."""
    all_of_them = every(quick=quick)
    found = {
        name: algo
        for name, algo in all_of_them.items()
        if not parts or any(part.lower() in name.lower() for part in parts)
    }
    if not found:
        raise ConfigurationError(f"--only finds none of {', '.join(all_of_them)}")
    return found


def bayesian(*, quick: bool) -> ConditionalBayesianPMF:
    """Make the algorithm whose standard deviations are measured."""
    few: dict[str, Any] = {"n_samples": 5, "burn_in": 2} if quick else {}
    return ConditionalBayesianPMF(random_state=SEED, **few)
