"""N-gram models: counting, smoothing, the table in which both end, look-ups in it, and ARPA files."""
