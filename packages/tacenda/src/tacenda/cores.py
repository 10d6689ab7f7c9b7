"""How many processor cores this process may use."""

import os


def usable_cores() -> int:
    """Cores this process may run on: fewer than the machine's under taskset or in a container."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
