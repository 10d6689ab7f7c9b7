"""Restricted Boltzmann machines of words: `FRBM` and `TemporalFRBM`."""

from tacenda_lm.boltzmann.frbm import FRBM
from tacenda_lm.boltzmann.temporal_frbm import TemporalFRBM

__all__ = ["FRBM", "TemporalFRBM"]
