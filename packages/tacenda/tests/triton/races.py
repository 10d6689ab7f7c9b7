"""Run by test_triton.py in a process of its own: the races that every test of this folder looks for."""

import pytest
import torch
import triton
import triton.language as tl


@triton.jit
def _writes_where_others_write(x, N: tl.constexpr):
    tl.store(x + tl.arange(0, N), tl.zeros((N,), tl.float32))


@triton.jit
def _reads_what_others_write(x, N: tl.constexpr):
    n = tl.program_id(0)
    tl.store(x + n, tl.load(x + n + 1) + 1)


@triton.jit
def _reads_again_what_it_wrote(x, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(x + at, tl.load(x + at) + 1)
    tl.store(x + at, tl.sum(tl.load(x + at), 0) + at)


@triton.jit
def _changes_what_all_threads_read(x, N: tl.constexpr):
    at = x + tl.program_id(0) * N
    so_far = tl.load(at) + 1
    tl.store(at, so_far)
    tl.store(at + 1 + tl.arange(0, N // 2), tl.arange(0, N // 2) * so_far)


@triton.jit
def _changes_it_behind_a_barrier(x, N: tl.constexpr):
    at = x + tl.program_id(0) * N
    so_far = tl.load(at) + 1
    tl.debug_barrier()
    tl.store(at, so_far)
    tl.store(at + 1 + tl.arange(0, N // 2), tl.arange(0, N // 2) * so_far)


@pytest.mark.parametrize(
    ("kernel", "race"),
    [
        (_writes_where_others_write, "two programs write to one place"),
        (_reads_what_others_write, "a program reads what another one writes"),
        (_reads_again_what_it_wrote, "a program reads again what it has written"),
        (_changes_what_all_threads_read, "a thread changes what others have yet to read"),
        (_changes_it_behind_a_barrier, None),
    ],
)
def test_races_are_found(device, kernel, race):
    if device.name != "cpu":
        pytest.skip("races are found where kernels are interpreted")
    x = torch.zeros(64)
    if race is None:
        kernel[(3,)](x, 8)
        return
    with pytest.raises(Exception, match=race):
        kernel[(3,)](x, 8)
