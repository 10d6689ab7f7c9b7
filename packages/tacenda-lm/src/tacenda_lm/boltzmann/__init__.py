"""Restricted Boltzmann machines of words: `FRBM` and `TemporalFRBM`."""
