"""The random numbers of `tacenda.kernels.machinery.xorshift` in Triton kernels, bit for bit."""

import numpy as np
import torch
import triton
import triton.language as tl

from tacenda.kernels.machinery.xorshift import wrap_seed


def load_seed(device: torch.device, seed: int) -> torch.Tensor:
    """Return the seed, modulo 2^64, as a tensor that a kernel loads: int64 (1,), of the same bits."""
    return torch.tensor([wrap_seed(seed).view(np.int64)], dtype=torch.int64, device=device)


@triton.jit
def seed_state(seed, row):
    """Return the first states of rows, uint64; seed and row are int64."""
    state = seed.to(tl.uint64) * 0x9E3779B97F4A7C15
    state += (row + 1).to(tl.uint64) * 0xBF58476D1CE4E5B9
    return ((state ^ (state >> 30)) * 0x94D049BB133111EB) | 1


@triton.jit
def advance(state):
    """Return the states after these."""
    state ^= state << 13
    state ^= state >> 7
    state ^= state << 17
    return state
