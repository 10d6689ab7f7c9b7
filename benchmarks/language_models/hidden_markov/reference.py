"""The log-space formulation of the paper's own implementation, in plain torch: what a step is measured against.

Transitions are one softmax over all active states, stored whole; emissions one softmax over all words with a mask for
those of other classes; potentials are gathered for every token, the forward and backward recurrences are log-sum-exps
over k x k, and the loss is the sum of marginals times potentials, through which torch differentiates the
parameterisation. Shorter sentences are padded to the longest. Its two large products may be NumPy's, as ours are:
torch has another library for them, which is slower on some processors.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch

from tacenda_lm.hidden_markov.training import Network

__all__ = ["PRODUCTS", "reference_step"]


class _NumpyProduct(torch.autograd.Function):
    """rows @ columns.T and its gradients by NumPy."""

    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(rows, columns)
        return torch.from_numpy(rows.detach().numpy() @ columns.detach().numpy().T)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        rows, columns = (each.detach().numpy() for each in ctx.saved_tensors)
        above = gradient.numpy()
        return torch.from_numpy(above @ columns), torch.from_numpy(above.T @ rows)


Product = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
PRODUCTS: dict[str, Product] = {
    "torch": lambda rows, columns: rows @ columns.T,
    "NumPy": _NumpyProduct.apply,
}


def reference_step(
    network: Network,
    kept: torch.Tensor,
    sentences: list[list[int]],
    classes: torch.Tensor,
    order: torch.Tensor,
    optimizer: torch.optim.Optimizer,
    product: Product,
) -> float:
    """One step on a batch of sentences; the mean log-probability of a word before it."""
    optimizer.zero_grad(set_to_none=True)
    out = network(kept)
    M, k, h = out.left.shape
    Z = M * k
    scores = product(out.left.reshape(Z, h), out.reached.reshape(Z, h)) + out.bias.ravel()
    transitions = scores.log_softmax(1)
    states_of = torch.arange(M, device=scores.device).repeat_interleave(k)
    words = product(out.emitting.reshape(Z, h), out.words) + out.word_bias
    masked = words.masked_fill(states_of[:, None] != classes[order], float("-inf"))
    emissions = masked.log_softmax(1)
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order))
    potentials, alive = _potentials(
        transitions.view(M, k, M, k), emissions.view(M, k, -1), out.log_starts, sentences, classes, place
    )  # fmt: skip
    with torch.no_grad():
        marginals, total = _marginals(potentials, alive)
    n = sum(map(len, sentences))
    loss = -sum((m * p).sum() for m, p in zip(marginals, potentials, strict=True)) / n
    loss.backward()
    torch.nn.utils.clip_grad_norm_(network.parameters(), 5.0)
    optimizer.step()
    return total / n


def _potentials(
    transitions: torch.Tensor,
    emissions: torch.Tensor,
    log_starts: torch.Tensor,
    sentences: list[list[int]],
    classes: torch.Tensor,
    place: torch.Tensor,
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Log-potentials: of the first token (batch, k), then (batch, k, k) for each later one, with who is alive."""
    T = max(map(len, sentences))
    words = torch.zeros(len(sentences), T, dtype=torch.long)
    for row, sentence in enumerate(sentences):
        words[row, : len(sentence)] = torch.tensor(sentence)
    words = words.to(classes.device)
    lengths = torch.tensor([len(sentence) for sentence in sentences], device=classes.device)
    group = classes[words]
    emitted = emissions[group, :, place[words]]  # (batch, T, k)
    found = [log_starts[group[:, 0]] + emitted[:, 0]]
    for t in range(1, T):
        moved = transitions[group[:, t - 1], :, group[:, t]]
        found.append(torch.where((lengths > t)[:, None, None], moved + emitted[:, t, None, :], 0.0))
    return found, [lengths > t for t in range(T)]


def _marginals(potentials: list[torch.Tensor], alive: list[torch.Tensor]) -> Any:
    """Posterior probabilities of every potential by two log-space recurrences, and log p of the batch."""
    alpha = [potentials[0]]
    for potential, here in zip(potentials[1:], alive[1:], strict=True):
        after = torch.logsumexp(alpha[-1][:, :, None] + potential, 1)
        alpha.append(torch.where(here[:, None], after, alpha[-1]))
    total = torch.logsumexp(alpha[-1], 1)
    beta = torch.zeros_like(alpha[-1])
    found = []
    for t in range(len(potentials) - 1, 0, -1):
        joint = alpha[t - 1][:, :, None] + potentials[t] + beta[:, None, :]
        here = alive[t][:, None, None]
        found.append(torch.where(here, (joint - total[:, None, None]).exp(), 0.0))
        before = torch.logsumexp(potentials[t] + beta[:, None, :], 2)
        beta = torch.where(alive[t][:, None], before, beta)
    found.append((alpha[0] + beta - total[:, None]).exp())
    return list(itertools.chain(reversed(found))), float(total.sum())
