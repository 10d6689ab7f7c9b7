"""Factored restricted Boltzmann machines of words: their predictions, what they learn from, and training."""

from tacenda_lm.boltzmann.model import FRBM, TemporalFRBM

__all__ = ["FRBM", "TemporalFRBM"]
