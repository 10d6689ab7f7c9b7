"""Restricted Boltzmann machines for ratings (Mnih 2010, section 5.2)."""
