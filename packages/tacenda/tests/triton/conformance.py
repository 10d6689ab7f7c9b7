"""Run by test_triton.py in a process of its own: the kit, for a backend that is given tensors."""

import os

import pytest

from tacenda import kernels
from tacenda.kernels import backends
from tacenda.testing.kernels import check_backend

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
OPERATIONS = [
    name
    for name, offered in kernels.operations().items()
    if "triton" in offered
    and (not INTERPRETED or name.startswith("class_softmax"))  # the interpreter is slow
]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_triton_conforms(operation):
    device, threads = ("cpu:0", 1) if INTERPRETED else ("cuda", 4)
    check_backend(backends.triton, device=device, operation=operation, threads=threads)
