"""Ratings: accuracy and speed beside the algorithms Surprise users have today."""

from benchmarks import one_thread  # noqa: F401
