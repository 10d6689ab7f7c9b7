"""Probabilistic matrix factorization and RBMs for ratings, as Surprise algorithms."""

from tacenda_surprise.algorithm import RatingAlgorithm
from tacenda_surprise.bayesian import BayesianPMF, ConditionalBayesianPMF
from tacenda_surprise.bias import BiasOnly
from tacenda_surprise.blend import Blend
from tacenda_surprise.frames import SideInfo
from tacenda_surprise.implicit import ImplicitMF
from tacenda_surprise.pmf import PMF, ConditionalPMF
from tacenda_surprise.rbm import RBM, ConditionalRBM
from tacenda_surprise.selection import Recommender, cross_validate_conditional

__version__ = "0.1.0"

__all__ = [
    "PMF", "RBM", "BayesianPMF", "BiasOnly", "Blend", "ConditionalBayesianPMF",
    "ConditionalPMF", "ConditionalRBM", "ImplicitMF", "RatingAlgorithm", "Recommender",
    "SideInfo", "cross_validate_conditional",
]  # fmt: skip
