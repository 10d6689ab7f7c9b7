"""The random numbers of `tacenda.kernels.ratings.xorshift` in Triton kernels, bit for bit; imports torch and triton."""

import torch
import triton
import triton.language as tl


def seed_on(device: torch.device, seed: int) -> torch.Tensor:
    """The seed, 0 to 2^64 - 1, where a kernel loads it: int64 (1,), of the same bits."""
    signed = seed - (1 << 64) if seed >= 1 << 63 else seed
    return torch.tensor([signed], dtype=torch.int64, device=device)


@triton.jit
def seeded(seed, row):  # type: ignore[no-untyped-def]
    """The states, uint64, from which the numbers of ``row`` start; seed and row are int64."""
    state = seed.to(tl.uint64) * 0x9E3779B97F4A7C15
    state += (row + 1).to(tl.uint64) * 0xBF58476D1CE4E5B9
    return ((state ^ (state >> 30)) * 0x94D049BB133111EB) | 1


@triton.jit
def advanced(state):  # type: ignore[no-untyped-def]
    """The next state of each."""
    state ^= state << 13
    state ^= state >> 7
    state ^= state << 17
    return state
