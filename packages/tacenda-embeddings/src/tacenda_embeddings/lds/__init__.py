"""The linear dynamical system for text: counts, subspace identification, ASOS-EM, smoothing, vectors."""
