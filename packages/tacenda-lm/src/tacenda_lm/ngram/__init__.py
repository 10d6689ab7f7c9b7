"""N-gram models: counts, smoothing, the table that all of them end in, ARPA files."""
