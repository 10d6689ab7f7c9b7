"""The terms of the lower bound, in torch (Bhatia, Guthrie and Eisenstein, EMNLP 2016, eqs 19 to 23).

    L = sum_t log P(x_t | x_{1:t-1}; E_q[b]) - KL(Q(b) || P(b))

The likelihood is taken at the expected embeddings (eqs 18 and 19), so L is an approximation of the bound,
not a bound itself, as soon as the network is not linear in them.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import softplus

__all__ = ["bernoulli_kl", "exact_loss", "sampled_loss"]


def bernoulli_kl(logits: Tensor, prior: Tensor) -> Tensor:
    """KL(q || p) in nats of rows of Bernoulli vectors, (rows, width) logits of q and of p to (rows,).

    softplus(s) - softplus(g) + sigma(g) (g - s): the negative of the paper's eq 23, which has the sign of the
    bound's term and not of a divergence.
    """
    return (softplus(prior) - softplus(logits) + logits.sigmoid() * (logits - prior)).sum(1)


def exact_loss(hidden: Tensor, targets: Tensor, outputs: Tensor, biases: Tensor) -> Tensor:
    """-sum log softmax(V h)[target] in nats (eq 7).

    hidden (tokens, hidden), targets int64 (tokens,), outputs V (types, hidden), biases (types,).
    """
    scores = torch.addmm(biases, hidden, outputs.T)
    return (scores.logsumexp(1) - scores.gather(1, targets[:, None])[:, 0]).sum()


def sampled_loss(
    hidden: Tensor,
    own: tuple[Tensor, Tensor],
    noise: tuple[Tensor, Tensor],
    log_expected: tuple[Tensor, Tensor],
    hits: Tensor,
) -> Tensor:
    """The loss of a softmax over the target and words of noise that a whole batch shares, in nats.

    Scores are corrected by how often a word is expected among those drawn (Bengio and Senecal 2008; Jean et
    al. 2015, eq 8 with the correction), so that the gradient approaches the exact one with the number drawn.

    Args:
        hidden: (tokens, hidden).
        own: output vectors (tokens, hidden) and biases (tokens,) of the targets.
        noise: the same of the words drawn, (drawn, hidden) and (drawn,).
        log_expected: log of the expected number of draws of each target (tokens,) and each word drawn (drawn,).
        hits: bool (tokens, drawn): the word drawn is the target itself, and is left out.
    """
    right = (hidden * own[0]).sum(1) + own[1] - log_expected[0]
    wrong = torch.addmm(noise[1] - log_expected[1], hidden, noise[0].T)
    wrong = wrong.masked_fill(hits, -torch.inf)
    return (torch.logaddexp(right, wrong.logsumexp(1)) - right).sum()
