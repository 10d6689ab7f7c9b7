"""A tiny machine in float64, and what it says with every word and every state of its hidden units written out."""

import itertools

import numpy as np

from tacenda_lm.boltzmann.machine import BoltzmannParameters
from tacenda_lm.streams import Contexts


def machine(types=6, features=3, hidden=4, context=2, temporal=False, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)

    def normal(*shape):
        return rng.standard_normal(shape).astype(dtype)

    return BoltzmannParameters(
        words=normal(types, features),
        contexts=normal(context, features, hidden),
        outputs=normal(features, hidden),
        transitions=normal(hidden if temporal else 0, hidden),
        hidden_biases=normal(hidden, 1),
        biases=normal(types, 1),
    )


def contexts(p, tokens=5, seed=1):
    rng, types = np.random.default_rng(seed), len(p.words)
    words = rng.integers(0, types, (tokens, len(p.contexts)))
    return Contexts(words, rng.random(words.shape) < 0.8, rng.integers(0, types, tokens))


def energy(p, word, h, words, earlier=None):
    """Eq 3.2 for the context ``words``, the last one first, -1 where there is none; ``earlier`` is p_{t-1}."""
    b = (
        p.hidden_biases[:, 0]
        if earlier is None
        else p.hidden_biases[:, 0] + p.transitions @ earlier
    )
    total = -p.words[word] @ p.outputs @ h - b @ h - p.biases[word, 0]
    for i, w in enumerate(words):
        if w >= 0:
            total -= p.words[w] @ p.contexts[i] @ h
    return total


def states(p):
    return [np.array(h, float) for h in itertools.product((0, 1), repeat=p.hidden)]


def joint(p, words, earlier=None):
    """P(w, h | context) (types, configurations), eq 3.3."""
    table = [
        [np.exp(-energy(p, w, h, words, earlier)) for h in states(p)] for w in range(len(p.words))
    ]
    return np.array(table) / np.sum(table)


def given_word(p, word, words):
    """P(h | w, context) over all configurations, eq 3.13."""
    row = np.exp([-energy(p, word, h, words) for h in states(p)])
    return row / row.sum()


def given_hidden(p, h, words):
    """P(w | h, context), eq 3.12."""
    row = np.exp([-energy(p, w, h, words) for w in range(len(p.words))])
    return row / row.sum()


def statistics(p, word, h, words):
    """d(-E)/d theta of everything but the context's words (eqs 3.8, 3.9 and the like), flat."""
    outputs = np.outer(p.words[word], h)
    rows = np.zeros_like(p.words)
    rows[word] = p.outputs @ h
    biases = np.zeros(len(p.words))
    biases[word] = 1
    return np.concatenate([rows.ravel(), outputs.ravel(), biases, h])


def single(p):
    """The same in float32."""
    return p.map(lambda table: table.astype(np.float32))


def context_of(batch, t):
    """The words of a context, the last one first; -1 where there is none."""
    return np.where(batch.present[t], batch.words[t], -1)
