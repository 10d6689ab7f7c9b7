"""Word similarity (the paper's Table 1) and QVEC (Table 2) of every model that `models` has trained.

python -m benchmarks.varembed.intrinsic --tokens 6 --seeds 0
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from benchmarks import reporting
from benchmarks.embeddings import common
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
    "training": "gensim: 5 epochs, window 5, otherwise its defaults, one thread",
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


def measure(row: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    found = models.trained(row, seed, options)
    vocabulary = found.vocabulary

    def knows(word: str) -> bool:
        return word in vocabulary

    cell: dict[str, Any] = {"cpu seconds": found.seconds, **qvec.measure(found.make, knows)}
    for name, role in (("WS353", "ws353"), ("RW", "rare-words")):
        for part, value in similarity(found.make, knows, role).items():
            cell[f"{name} {part}"] = value
    if models.ROWS[row]["kind"] in ("VarEmbed", "SumEmbed"):
        cell["epochs"] = models.model(row, seed, options).settings.epochs
        cell["QVEC morphemes"] = qvec.measure(
            lambda words: found.make(words, prior=True),  # type: ignore[call-arg]
            knows,
        )["QVEC"]
    if models.ROWS[row]["kind"] == "VarEmbed":
        for part, value in similarity(
            lambda words: found.make(words, output="logits"),  # type: ignore[call-arg]
            knows,
            "rare-words",
        ).items():
            cell[f"RW logits {part}"] = value
    return cell


def main() -> None:
    options = models.arguments(__doc__).parse_args()
    log = common.logger("varembed", options.cache)
    rows: list[dict[str, Any]] = []
    for row in models.chosen(models.ROWS, options):
        seeds = [seed for seed in options.seeds if models.place(row, seed, options).exists()]
        cells = [measure(row, seed, options) for seed in seeds]
        for seed, cell in zip(seeds, cells, strict=True):
            log.info("%s, seed %d: %s", row, seed, cell)
        if cells:
            spreads = {key: common.spread([c[key] for c in cells]) for key in cells[0]}
            if "epochs" in spreads:
                spreads["epochs"] = cells[0]["epochs"]
            rows.append({"row": row, **spreads})
    found = models.corpus(options)
    protocol = {
        **PROTOCOL,
        "text": f"{found.n_tokens} tokens of Wikipedia, lower case, NUM, {len(found.vocabulary)} types",
        "seeds": options.seeds,
    }
    if not options.no_save:
        reporting.save(
            models.results_name("varembed-intrinsic", options), protocol, rows, keep="row"
        )


if __name__ == "__main__":
    main()
