"""Language models: perplexity, speed, and the studies of their sources; one thread unless a row says otherwise."""

from benchmarks import one_thread  # noqa: F401
