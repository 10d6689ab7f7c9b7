"""Measurements of the token embeddings; every module runs as `python -m benchmarks.embeddings.X`."""

from benchmarks import one_thread  # noqa: F401
