"""How far one machine goes: memory against the length of text, counting on a cluster, and what follows for more."""

from benchmarks import one_thread  # noqa: F401
