"""The modal recurrence on a GPU: one program for each sequence and block of modes.

A mode is a real eigenvalue, with the state x alone, or a conjugate pair, with the states x and y.
In the order of the states the x of mode j is column j whichever it is, and the y of a pair is
column j + n_pairs, so real modes are pairs without a y. A program walks through its sequence with
the states in registers and touches each number once. Long sequences are not split: parallelism is
sequences x modes.

Tensors are torch's, all on one device, float32 or float64; without fast-math, so NaN and infinity
propagate. Works under Triton's interpreter.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
import triton
import triton.language as tl

from tacenda.errors import KernelError
from tacenda.kernels.dynamics.modal_recurrence.arguments import check_eigenvalues
from tacenda.kernels.dynamics.modal_recurrence.naive import Gradients

_BLOCK = 32
"""Modes in one program: a warp."""


@triton.jit
def _forward(  # type: ignore[no-untyped-def]
    re, im, u, offsets, initial, out, n_real, n_pairs,
    REVERSE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    s = tl.program_id(0).to(tl.int64)
    j = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    states = n_real + 2 * n_pairs
    has_x = j < n_real + n_pairs
    has_y = has_x & (j >= n_real)
    a = tl.load(re + j, has_x, 0.0)
    b = tl.load(im + j, has_x, 0.0)
    x = tl.load(initial + s * states + j, has_x, 0.0)
    y = tl.load(initial + s * states + j + n_pairs, has_y, 0.0)
    start = tl.load(offsets + s)
    end = tl.load(offsets + s + 1)
    for i in range(end - start):
        t = start + i
        if REVERSE:
            t = end - 1 - i
        row = t * states + j
        x_next = a * x + b * y + tl.load(u + row, has_x, 0.0)
        y = a * y - b * x + tl.load(u + row + n_pairs, has_y, 0.0)
        x = x_next
        tl.store(out + row, x, has_x)
        tl.store(out + row + n_pairs, y, has_y)


@triton.jit
def _backward(  # type: ignore[no-untyped-def]
    re, im, m, offsets, initial, grad, d_re, d_im, d_u, d_initial, n_real, n_pairs,
    REVERSE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Adjoint s_t = g_t + Lambda^T s_{t+1}; d_re and d_im (sequences, modes) are sums by sequence."""
    s = tl.program_id(0).to(tl.int64)
    j = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    states = n_real + 2 * n_pairs
    has_x = j < n_real + n_pairs
    has_y = has_x & (j >= n_real)
    a = tl.load(re + j, has_x, 0.0)
    b = tl.load(im + j, has_x, 0.0)
    first = s * states + j
    x = a * 0.0
    y = a * 0.0
    sum_re = a * 0.0
    sum_im = a * 0.0
    start = tl.load(offsets + s)
    end = tl.load(offsets + s + 1)
    for i in range(end - start):
        t = end - 1 - i
        if REVERSE:
            t = start + i
        row = t * states + j
        # x and y still belong to the token after t, which was made of m_t (none is after the last).
        m_x = tl.load(m + row, has_x, 0.0)
        m_y = tl.load(m + row + n_pairs, has_y, 0.0)
        sum_re += x * m_x + y * m_y
        sum_im += x * m_y - y * m_x
        x_next = a * x - b * y + tl.load(grad + row, has_x, 0.0)
        y = a * y + b * x + tl.load(grad + row + n_pairs, has_y, 0.0)
        x = x_next
        tl.store(d_u + row, x, has_x)
        tl.store(d_u + row + n_pairs, y, has_y)
    m_x = tl.load(initial + first, has_x, 0.0)
    m_y = tl.load(initial + first + n_pairs, has_y, 0.0)
    sum_re += x * m_x + y * m_y
    sum_im += x * m_y - y * m_x
    modes = s * (n_real + n_pairs) + j
    tl.store(d_re + modes, sum_re, has_x)
    tl.store(d_im + modes, sum_im, has_x)
    tl.store(d_initial + first, a * x - b * y, has_x)
    tl.store(d_initial + first + n_pairs, a * y + b * x, has_y)


class _Problem(NamedTuple):
    rows: torch.Tensor
    offsets: torch.Tensor
    re: torch.Tensor
    im: torch.Tensor
    initial: torch.Tensor
    n_real: int
    n_pairs: int

    @property
    def grid(self) -> tuple[int, int]:
        return len(self.offsets) - 1, triton.cdiv(len(self.re), _BLOCK)


def forward(
    real: Any,
    complex: Any,
    u: torch.Tensor,
    offsets: Any,
    initial: Any = None,
    reverse: bool = False,
    out: torch.Tensor | None = None,
    threads: int = 1,
) -> torch.Tensor:
    """See `tacenda.kernels.dynamics.modal_recurrence.forward`; ``threads`` is without effect."""
    problem = _problem(real, complex, u, offsets, initial, "u")
    if out is None:
        out = torch.empty_like(problem.rows)
    elif out.shape != u.shape or out.dtype != u.dtype or not out.is_contiguous():
        raise KernelError(f"out must be {u.dtype} {tuple(u.shape)} in C order")
    if out.numel():
        _forward[problem.grid](
            problem.re, problem.im, problem.rows, problem.offsets, problem.initial, out,
            problem.n_real, problem.n_pairs, REVERSE=reverse, BLOCK=_BLOCK, num_warps=1,
        )  # fmt: skip
    return out


def backward(
    real: Any,
    complex: Any,
    m: torch.Tensor,
    offsets: Any,
    grad: torch.Tensor,
    initial: Any = None,
    reverse: bool = False,
    threads: int = 1,
) -> Gradients:
    """See `tacenda.kernels.dynamics.modal_recurrence.backward`; ``threads`` is without effect."""
    problem = _problem(real, complex, m, offsets, initial, "m")
    if grad.shape != m.shape:
        raise KernelError(f"grad must be {tuple(m.shape)}, not {tuple(grad.shape)}")
    grad = grad.to(m.dtype).contiguous()
    sequences, modes = len(problem.offsets) - 1, len(problem.re)
    d_re, d_im = (m.new_zeros((sequences, modes)) for _ in range(2))
    d_u, d_initial = torch.empty_like(grad), torch.zeros_like(problem.initial)
    if sequences and modes:
        _backward[problem.grid](
            problem.re, problem.im, problem.rows, problem.offsets, problem.initial, grad,
            d_re, d_im, d_u, d_initial,
            problem.n_real, problem.n_pairs, REVERSE=reverse, BLOCK=_BLOCK, num_warps=1,
        )  # fmt: skip
    n = problem.n_real
    sums = [part.sum(dim=0, dtype=torch.float64).to(m.dtype) for part in (d_re, d_im)]
    pairs: Any = torch.stack([sums[0][n:], sums[1][n:]], dim=-1)
    return Gradients(sums[0][:n], pairs, d_u, d_initial)


def _problem(
    real: Any, complex: Any, rows: torch.Tensor, offsets: Any, initial: Any, what: str
) -> _Problem:
    if rows.ndim != 2 or rows.dtype not in (torch.float32, torch.float64):
        raise KernelError(
            f"{what} must be (tokens, states) in float32 or float64, not {rows.dtype} "
            f"{tuple(rows.shape)}"
        )

    def like(array: Any) -> torch.Tensor:
        return torch.as_tensor(array, dtype=rows.dtype, device=rows.device)

    real, complex = like(real), like(complex)
    check_eigenvalues(real, complex, rows.shape[1])
    at = np.asarray(torch.as_tensor(offsets).cpu())
    if at.ndim != 1 or len(at) == 0 or at[0] != 0 or at[-1] != len(rows) or (np.diff(at) < 0).any():
        raise KernelError(f"offsets must ascend from 0 to the {len(rows)} tokens of {what}")
    shape = (len(at) - 1, rows.shape[1])
    initial = rows.new_zeros(shape) if initial is None else like(initial).contiguous()
    if initial.shape != shape:
        raise KernelError(f"initial must be {shape}, not {tuple(initial.shape)}")
    return _Problem(
        rows.contiguous(),
        torch.as_tensor(at.astype(np.int64), device=rows.device),
        torch.cat([real, complex[:, 0]]),
        torch.cat([torch.zeros_like(real), complex[:, 1]]),
        initial,
        len(real),
        len(complex),
    )
