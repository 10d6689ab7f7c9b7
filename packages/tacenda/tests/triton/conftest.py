"""Where the tests of this folder run: on the CPU under Triton's interpreter, else on a CUDA device."""

import os

import numpy as np
import pytest
import torch

from tacenda import kernels, plugins
from tacenda.kernels import backends


class Device:
    """Takes arrays there and results back."""

    name = "cpu" if os.environ.get("TRITON_INTERPRET") == "1" else "cuda"

    def tensors(self, value):
        """Floating arrays, also those of tuples, as tensors of their own memory; all else as it is."""
        if isinstance(value, np.ndarray) and value.dtype.kind == "f":
            return torch.tensor(value, device=self.name)
        if isinstance(value, tuple):
            parts = map(self.tensors, value)
            return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
        return value

    def reference(self, function, *arguments):
        """What the specification of a public function returns, for arrays."""
        with kernels.use("reference"):
            return function(*arguments)

    def arrays(self, value):
        """All results, in order, as numpy has them."""
        if isinstance(value, tuple):
            return [array for part in value for array in self.arrays(part)]
        return [value.cpu().numpy() if isinstance(value, torch.Tensor) else value]

    def assert_like(self, found, expected, tolerance):
        """Shapes, dtypes and numbers; errors relative to the largest."""
        for ours, theirs in zip(self.arrays(found), self.arrays(expected), strict=True):
            assert ours.shape == theirs.shape
            assert ours.dtype == theirs.dtype
            scale = np.abs(theirs[np.isfinite(theirs)]).max(initial=1e-3)
            np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance * scale)


@pytest.fixture(scope="session")
def device():
    return Device()


@pytest.fixture(autouse=True)
def only_triton():
    """Public functions run on Triton, also where they are given tensors on the CPU."""
    tested = backends.Files("triton", 100, "cuda")
    tested.devices |= {"cpu"}
    plugins.register("kernels", "tested", tested)
    try:
        with kernels.use("tested"):
            yield
    finally:
        plugins.unregister("kernels", "tested")


@pytest.fixture(autouse=True)
def approximations(monkeypatch):
    """Let the interpreter err as a card may, where the compiler chooses its approximate instructions for float32.

    Those are ``ex2.approx`` and ``div.full`` (relative errors up to 2^-22) and ``sqrt.approx`` (2^-23): the error here
    is the largest that is allowed, its sign as good as random. `compilation.py` checks that there are no others.
    """
    if Device.name != "cpu":
        return
    from triton.runtime.interpreter import InterpreterBuilder

    def with_errors(function, largest):
        def approximate(*given):
            found = function(*given)
            if found.dtype != np.float32:
                return found
            signs = np.where(np.asarray(found, np.float32).view(np.uint32) & 1, 1.0, -1.0)
            return (found.astype(np.float64) * (1 + largest * signs)).astype(np.float32)

        return approximate

    def exponential(x):
        if x.dtype != np.float32:
            return np.exp(x)
        scaled = x * np.float32(
            1.4426950408889634
        )  # rounded, as in the card: large numbers lose digits here
        return np.exp2(scaled.astype(np.float64)).astype(np.float32)

    exp, sqrt = with_errors(exponential, 2.0**-22), with_errors(np.sqrt, 2.0**-23)
    divide = with_errors(np.divide, 2.0**-22)
    for name, operation in {
        "create_exp": lambda self, arg: self.unary_op(arg, exp),
        "create_sqrt": lambda self, arg: self.unary_op(arg, sqrt),
        "create_fdiv": lambda self, lhs, rhs: self.binary_op(lhs, rhs, divide),
    }.items():
        monkeypatch.setattr(InterpreterBuilder, name, operation)


@pytest.fixture
def backwards(monkeypatch):
    """Starts the programs of a kernel from the last to the first, where they are interpreted, one after another."""
    if Device.name != "cpu":
        pytest.skip("a device orders its programs itself")
    from triton.runtime.interpreter import interpreter_builder

    def turn():
        forwards = interpreter_builder.set_grid_idx

        def set_grid_idx(*place):
            dims = interpreter_builder.grid_dim
            forwards(*(n - 1 - at for n, at in zip(dims, place, strict=True)))

        monkeypatch.setattr(interpreter_builder, "set_grid_idx", set_grid_idx)

    return turn
