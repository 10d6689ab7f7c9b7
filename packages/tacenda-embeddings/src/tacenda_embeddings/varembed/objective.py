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
    """Return KL(q || p) in nats (rows,) of Bernoulli vectors, from logits (rows, width) of q and of p.

    It is softplus(s) - softplus(g) + sigma(g) (g - s), the negative of eq 23 in the paper, which has the
    sign of the term in the bound and not that of a divergence.
    """
    return (softplus(prior) - softplus(logits) + logits.sigmoid() * (logits - prior)).sum(1)


def exact_loss(hidden: Tensor, targets: Tensor, outputs: Tensor, biases: Tensor) -> Tensor:
    """Return -sum log softmax(V h)[target] in nats (eq 7).

    Takes hidden (tokens, hidden), targets int64 (tokens,), outputs V (types, hidden), biases (types,).
    """
    scores = torch.addmm(biases, hidden, outputs.T)
    return (scores.logsumexp(1) - scores.gather(1, targets[:, None])[:, 0]).sum()


def sampled_loss(
    hidden: Tensor,
    own: tuple[Tensor, Tensor],
    noise: tuple[Tensor, Tensor],
    log_expected: tuple[Tensor, Tensor],
) -> Tensor:
    """Return the loss, in nats, of a softmax over the target and words of noise that a whole batch shares.

        -s_x + log(e^{s_x} / E_x + sum over the words j drawn of e^{s_j} / E_j)

    E_j is how often j is expected among the words drawn. The sum estimates the normaliser, and the gradient is
    that of the ranking objective of noise-contrastive estimation, whose optimum is that of the softmax however
    many words are drawn (Ma and Collins 2018, section 3). A word drawn that is the target stays in: taking it
    out would bias the scores of frequent words.

    Parameters
    ----------
    hidden
        (tokens, hidden).
    own
        Output vectors (tokens, hidden) and biases (tokens,) of the targets x.
    noise
        The same of the words drawn, (drawn, hidden) and (drawn,).
    log_expected
        log E of each target (tokens,) and of each word drawn (drawn,).
    """
    right = (hidden * own[0]).sum(1) + own[1]
    wrong = torch.addmm(noise[1] - log_expected[1], hidden, noise[0].T)
    return (torch.logaddexp(right - log_expected[0], wrong.logsumexp(1)) - right).sum()
