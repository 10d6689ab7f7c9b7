"""QVEC, and what it measures: the same vectors with their columns mixed, cut, or evened out.

    python -m benchmarks.varembed.qvec --tokens 0

QVEC adds up, over the columns of the vectors, the largest Pearson correlation with a supersense (Tsvetkov et al.
2015). A column that says what another says counts again, so vectors whose variance lies in few directions gain by it,
and a linear classifier would not notice. QVEC-CCA (Tsvetkov et al. 2016), the largest canonical correlation, depends
on what a linear map can find in the vectors and on nothing else; so does the mean of all canonical correlations.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np

from benchmarks.reporting import Row, Table, main
from benchmarks.varembed import models
from tacenda.datasets import locate

Make = Callable[[Sequence[str]], np.ndarray]

ROWS = ("word2vec CBOW", "word2vec skip-gram", "FastText skip-gram", "SumEmbed", "VarEmbed")
FEW = 4  # leading directions that are kept where vectors are cut


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


def mixed(make: Make, knows: Callable[[str], bool], seed: int) -> dict[str, float]:
    """QVEC of the same vectors, changed in ways that take nothing away but for the cut."""
    vectors, oracle = matrices(make, knows)
    U, S, _ = np.linalg.svd(vectors, full_matrices=False)
    width = len(S)
    turn = np.linalg.qr(np.random.default_rng(seed).standard_normal((width, width)))[0]
    cut = np.where(np.arange(width) < FEW, S, 0.0)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    one_length = vectors / np.maximum(lengths, 1e-12)
    return {
        "QVEC": score(vectors, oracle),
        "turned at random": score(U * S @ turn, oracle),
        f"{FEW} leading directions turned": score(U * cut @ turn, oracle),
        "all directions alike turned": score(U @ turn, oracle),
        "rows of one length": score(one_length - one_length.mean(0), oracle),
    }


def protocol(options: Any) -> dict[str, Any]:
    return {
        "what": "QVEC of vectors as they are, and changed: turned by a random rotation, cut to the directions of "
        "most variance and turned, all directions given the same variance, rows given the same length",
        "text": f"{models.corpus(options.tokens).n_tokens} tokens of Wikipedia",
        "seeds": "of the vectors and of the rotation",
    }


def rows(options: Any) -> Iterator[Row]:
    text = models.corpus(options.tokens)
    for row in options.chosen(ROWS):
        cells = []
        for seed in options.seeds:
            found = models.trained(row, seed, text)
            if found is not None:
                cell = mixed(found.make, found.vocabulary.__contains__, seed)
                cells.append({**cell, **found.facts()})
        yield {"row": row, **models.combined(cells)}


if __name__ == "__main__":
    table = Table("varembed-qvec", protocol, rows, key="row", seeds=lambda options: options.seeds)
    main(__doc__, table, tokens=0.0, seeds=[0, 1, 2])
