"""Run by test_triton.py in a process of its own: the kit, for a backend that is given tensors."""

import os
from dataclasses import replace

import pytest

from tacenda.kernels import backends
from tacenda.testing.kernels import KernelBackendTests

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
OPERATIONS = {
    name: place
    for name, place in backends.triton.operations.items()
    if not INTERPRETED or name.startswith("class_softmax")  # the interpreter is slow
}


class TestTriton(KernelBackendTests):
    backend = replace(
        backends.triton, name="kit", devices=frozenset({"cpu", "cuda"}), operations=OPERATIONS
    )
    device = "cpu:0" if INTERPRETED else "cuda"

    @pytest.mark.skipif(INTERPRETED, reason="the interpreter serves one thread")
    def test_is_reentrant_and_repeatable(self):
        super().test_is_reentrant_and_repeatable()
