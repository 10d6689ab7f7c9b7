"""Word similarity (the paper's Table 1) and QVEC (Table 2) of word vectors trained on one text.

    python -m benchmarks.varembed.intrinsic [--tokens 1.5] [--only VarEmbed]

Everything is trained here that is not kept yet: the command can be stopped at any time and goes on where it was. The
whole text takes hours of a core.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from benchmarks import kept, reporting
from benchmarks.reporting import Row, Table
from benchmarks.varembed import models, qvec
from tacenda.datasets import locate, word_similarity

Make = Callable[[Sequence[str]], np.ndarray]

PROTOCOL = {
    "WS353, RW": "Spearman's rho x 100 of cosines with mean human scores; all pairs, a word a model cannot embed "
    "counting as a cosine of 0, and pairs with both words in the vocabulary (50,000 types)",
    "QVEC": "sum over the 128 columns of the largest Pearson correlation with a supersense, over the words of "
    "the oracle in the vocabulary (Tsvetkov et al. 2015); morphemes: vectors made of morphemes alone; QVEC-CCA: "
    "largest canonical correlation x 100 (2016), and the mean of all; effective columns: (sum of the variances of "
    "the principal directions)^2 / sum of their squares",
    "training": "one thread each; gensim reads the same words, rare types replaced alike (min_count 1): 5 epochs, its "
    "default, and as many as take the CPU seconds of VarEmbed, both of seed 0, where these are more",
    "cpu seconds": "the whole fit, segmentation and start included; none for rows that share another row's training",
    "settings": "of each row, with all defaults; gensim's seed is ours and one",
}


def similarity(make: Make, knows: Callable[[str], bool], role: str) -> dict[str, float]:
    pairs = list(word_similarity.read(locate("wordsim")[role]))
    first, second = make([p.first for p in pairs]), make([p.second for p in pairs])
    norms = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    cosines = np.nan_to_num(np.einsum("ij,ij->i", first, second) / np.where(norms > 0, norms, 1))
    scores = np.array([p.score for p in pairs])
    known = np.array([knows(p.first) and knows(p.second) for p in pairs])
    return {
        "all": 100 * float(spearmanr(cosines, scores)[0]),
        "in vocabulary": 100 * float(spearmanr(cosines[known], scores[known])[0]),
        "pairs in vocabulary": int(known.sum()),
    }


def measure(found: models.Vectors) -> dict[str, Any]:
    def knows(word: str) -> bool:
        return word in found.vocabulary

    cell: dict[str, Any] = qvec.measure(found.make, knows)
    for name, role in (("WS353", "ws353"), ("RW", "rare-words")):
        for part, value in similarity(found.make, knows, role).items():
            cell[f"{name} {part}"] = value
    if found.model is not None:
        cell["QVEC morphemes"] = qvec.measure(
            lambda words: found.model.vectors(words, prior=True), knows
        )["QVEC"]
    return {**cell, **found.facts()}


def table(tokens: float) -> Table:
    """Return the table of a text."""

    def rows(options: Any) -> Iterator[Row]:
        cells, text = kept.Cells(f"varembed-intrinsic-{tokens:g}"), models.corpus(tokens)
        for row in options.chosen(models.ROWS):
            found = []
            for seed in options.seeds:
                vectors = models.trained(row, seed, text)
                if vectors is not None:
                    key = kept.cell_key(row=row, seed=seed, model=vectors.key)
                    found.append(cells.measure(key, lambda: measure(vectors)))  # noqa: B023
            if found:
                yield {"row": row, **models.combined(found)}

    def protocol(_: Any) -> dict[str, Any]:
        text = models.corpus(tokens)
        about = (
            f"{text.n_tokens} tokens of Wikipedia, lower case, NUM, {len(text.vocabulary)} types"
        )
        return {**PROTOCOL, "text": about}

    name = f"varembed-intrinsic{f'-{tokens:g}' if tokens else ''}"
    return Table(name, protocol, rows, key="row")


if __name__ == "__main__":
    options = reporting.parse(__doc__, tokens=0.0, seeds=[0, 1, 2])
    options.whole = not options.only and options.seeds == [0, 1, 2]
    table(options.tokens).run(options)
