"""Linear mixtures of language models, with weights that are fixed or that follow the text."""

from tacenda_lm.mixture.adaptive import AdaptiveMixture
from tacenda_lm.mixture.fixed import Mixture

__all__ = ["AdaptiveMixture", "Mixture"]
