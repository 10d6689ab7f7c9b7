"""Measurements of VarEmbed; every module runs as `python -m benchmarks.varembed.X`."""

from benchmarks import one_thread  # noqa: F401
