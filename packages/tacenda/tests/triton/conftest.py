"""Where the tests of this folder run: on the CPU under Triton's interpreter, else on a CUDA device."""

import copy
import os

import numpy as np
import pytest
import torch

from tacenda import kernels, plugins
from tacenda.kernels import backends
from tacenda.testing.kernels.samples import run_specification


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

    reference = staticmethod(run_specification)

    def arrays(self, value):
        """All results, in order, as numpy has them."""
        if isinstance(value, tuple | list):
            return [array for part in value for array in self.arrays(part)]
        return [value.cpu().numpy() if isinstance(value, torch.Tensor) else value]

    def assert_like(self, found, expected, tolerance, of=1e-3):
        """Shapes, dtypes and numbers; errors relative to the largest, or to what the numbers are differences ``of``."""
        for ours, theirs in zip(self.arrays(found), self.arrays(expected), strict=True):
            assert ours.shape == theirs.shape
            assert ours.dtype == theirs.dtype
            scale = np.abs(theirs[np.isfinite(theirs)]).max(initial=of)
            np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance * scale)

    def check(self, function, *arguments, changed=(), tolerance=2e-5, of=1e-3):
        """Compare a public function, and the arguments that it changes, with its specification; return both results."""
        arguments = copy.deepcopy(arguments)
        given = self.tensors(arguments)
        expected = self.reference(function, *arguments)
        found = function(*given)
        self.assert_like(found, expected, tolerance, of)
        for i in changed:
            self.assert_like(given[i], arguments[i], tolerance)
        return found, expected


@pytest.fixture(scope="session")
def device():
    return Device()


@pytest.fixture(autouse=True)
def only_triton():
    """Public functions run on Triton, also where they are given tensors on the CPU."""
    tested = backends.ModuleBackend("triton", 100, "cuda")
    tested.devices |= {"cpu:0"}
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


class Launch:
    """The addresses that the programs of a launch read and write, and the races among them.

    The threads of a program wait for each other at barriers only, and programs never do. So between barriers a program
    must not read what it has written, whatever layouts a compiler gives to both, nor let one thread change a number
    that all of its threads read. What one program writes no other may touch.
    """

    def __init__(self):
        self.programs = []
        self.pass_barrier()

    def begin_program(self):
        self.programs.append(([], []))
        self.pass_barrier()

    def pass_barrier(self):
        self.new, self.shared = set(), set()

    def load(self, places, size):
        places = places.tolist()
        assert self.new.isdisjoint(places), "a program reads again what it has written"
        if size == 1:
            self.shared.update(places)
        self.programs[-1][0].extend(places)

    def store(self, places):
        places = places.tolist()
        assert self.shared.isdisjoint(places), "a thread changes what others have yet to read"
        self.new.update(places)
        self.programs[-1][1].extend(places)

    def compare_programs(self):
        owner = {}
        for n, (_, written) in enumerate(self.programs):
            for place in set(written):
                assert owner.setdefault(place, n) == n, "two programs write to one place"
        for n, (read, _) in enumerate(self.programs):
            for place in set(read) & owner.keys():
                assert owner[place] == n, "a program reads what another one writes"


@pytest.fixture(autouse=True)
def no_races(monkeypatch):
    """Fail where the programs of a kernel, or the threads of one, would race; only where it is interpreted."""
    if Device.name != "cpu":
        return
    from triton.runtime.interpreter import GridExecutor, InterpreterBuilder

    running = []

    def watched(kind, name, look):
        original = getattr(kind, name)

        def replacement(self, *args, **kwargs):
            look(*args)
            return original(self, *args, **kwargs)

        monkeypatch.setattr(kind, name, replacement)

    watched(InterpreterBuilder, "set_grid_idx", lambda *_: running[-1].begin_program())
    watched(InterpreterBuilder, "create_barrier", lambda: running[-1].pass_barrier())
    watched(
        InterpreterBuilder, "create_masked_load",
        lambda ptrs, mask, *_: running[-1].load(ptrs.data[mask.data.astype(bool)], ptrs.data.size),
    )  # fmt: skip
    watched(
        InterpreterBuilder, "create_masked_store",
        lambda ptrs, value, mask, *_: running[-1].store(ptrs.data[mask.data.astype(bool)]),
    )  # fmt: skip
    launch = GridExecutor.__call__

    def call(self, *args, **kwargs):
        running.append(Launch())
        launch(self, *args, **kwargs)
        running.pop().compare_programs()

    monkeypatch.setattr(GridExecutor, "__call__", call)
