"""Probabilistic matrix factorization and its conditional form (Mnih 2010, section 5.3)."""
