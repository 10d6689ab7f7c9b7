"""Probabilistic matrix factorisation and RBMs for ratings, as Surprise algorithms."""

from tacit_surprise.bias import BiasOnly
from tacit_surprise.blend import Blend
from tacit_surprise.cross_validation import cross_validate_conditional
from tacit_surprise.pmf import PMF, ConditionalPMF
from tacit_surprise.rbm import RBM, ConditionalRBM
from tacit_surprise.recommender import Recommender
from tacit_surprise.side_info import SideInfo

__version__ = "0.1.0"

__all__ = [
    "PMF",
    "RBM",
    "BiasOnly",
    "Blend",
    "ConditionalPMF",
    "ConditionalRBM",
    "Recommender",
    "SideInfo",
    "cross_validate_conditional",
]
