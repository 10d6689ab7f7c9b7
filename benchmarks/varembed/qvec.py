"""QVEC and QVEC-CCA: what word vectors know of supersenses.

QVEC adds up, over the columns of the vectors, the largest Pearson correlation with a supersense (Tsvetkov et al.
2015). A column that says what another says counts again, so vectors whose variance lies in few directions gain by it,
and a linear classifier would not notice. QVEC-CCA (Tsvetkov et al. 2016), the largest canonical correlation, depends
on what a linear map can find in the vectors and on nothing else; so does the mean of all canonical correlations.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from tacenda.datasets import locate

Make = Callable[[Sequence[str]], np.ndarray]


@cache
def supersenses() -> dict[str, dict[str, float]]:
    """The oracle: how often each word of SemCor has each supersense."""
    path = locate("qvec")["supersenses"]
    lines = (
        line.partition("\t")[::2] for line in path.read_text(encoding="utf8").splitlines() if line
    )
    return {word: json.loads(senses) for word, senses in lines}


def matrices(make: Make, knows: Callable[[str], bool]) -> tuple[np.ndarray, np.ndarray]:
    """Vectors (words, width) and oracle (words, senses) of the oracle's words in the vocabulary, centred."""
    senses = {word: each for word, each in supersenses().items() if knows(word)}
    names = sorted({name for each in senses.values() for name in each})
    oracle = np.array([[each.get(name, 0.0) for name in names] for each in senses.values()])
    vectors = np.nan_to_num(make(list(senses))).astype(np.float64)
    return vectors - vectors.mean(0), oracle - oracle.mean(0)


def score(vectors: np.ndarray, oracle: np.ndarray) -> float:
    """QVEC of centred matrices."""

    def standard(x: np.ndarray) -> np.ndarray:
        return x / np.maximum(np.linalg.norm(x, axis=0), 1e-12)

    return float((standard(vectors).T @ standard(oracle)).max(1).sum())


def canonical(vectors: np.ndarray, oracle: np.ndarray) -> np.ndarray:
    """Canonical correlations of centred matrices x 100, descending."""
    basis, sizes, _ = np.linalg.svd(oracle, full_matrices=False)
    own, lengths, _ = np.linalg.svd(vectors, full_matrices=False)
    kept = own[:, lengths > 1e-9 * lengths.max()]
    return 100 * np.linalg.svd(kept.T @ basis[:, sizes > 1e-9 * sizes.max()])[1]


def measure(make: Make, knows: Callable[[str], bool]) -> dict[str, float]:
    """What `intrinsic` reports."""
    vectors, oracle = matrices(make, knows)
    correlations = canonical(vectors, oracle)
    variances = np.linalg.svd(vectors, compute_uv=False) ** 2
    return {
        "QVEC": score(vectors, oracle),
        "QVEC-CCA": float(correlations[0]),
        "mean canonical correlation": float(correlations.mean()),
        "effective columns": float(variances.sum() ** 2 / np.square(variances).sum()),
    }
