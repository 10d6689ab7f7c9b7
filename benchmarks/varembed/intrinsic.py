"""Word similarity (the paper's Table 1) and QVEC (Table 2) of word vectors trained on one text.

    python -m benchmarks.varembed.intrinsic [--tokens 1.5] [--only VarEmbed SumEmbed]

Everything is trained here that is not kept yet: the command can be stopped at any time and goes on where it was. The
whole text takes hours of a core.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
from scipy.stats import spearmanr
from scipy.stats import t as student

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

#: Pairs of rows whose differences are shown.
PAIRS = (
    ("VarEmbed", "SumEmbed"),
    ("VarEmbed", "SumEmbed, base"),
    ("VarEmbed, no base, no refit", "SumEmbed"),
    ("VarEmbed", "VarEmbed, no refit"),
    ("VarEmbed", "VarEmbed, no base"),
    ("VarEmbed", "VarEmbed, no base, no refit"),
    ("VarEmbed", "VarEmbed, start only"),
    ("VarEmbed", "VarEmbed, KL per token"),
    ("VarEmbed", "word2vec CBOW, CPU time of VarEmbed"),
    ("VarEmbed", "word2vec skip-gram, CPU time of VarEmbed"),
    ("VarEmbed", "FastText skip-gram"),
    ("VarEmbed, n-grams", "VarEmbed"),
    ("VarEmbed, n-grams", "FastText skip-gram"),
)
MEASURES = ("WS353 all", "WS353 in vocabulary", "RW all", "RW in vocabulary", "QVEC", "QVEC-CCA")


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


def difference(first: list[float], second: list[float]) -> dict[str, Any]:
    """Mean of first less second over seeds, and half the width of its 95 per cent interval by Student's t."""
    of_seeds = np.array(first) - np.array(second)
    n = len(of_seeds)
    half = float(student.ppf(0.975, n - 1) * of_seeds.std(ddof=1) / np.sqrt(n))
    mean = float(of_seeds.mean())
    shown = f"{mean:+.2f} ± {half:.2f}"
    return {
        "shown": f"**{shown}**" if abs(mean) > half else shown,
        "mean": mean,
        "half width": half,
    }


def differences(cells: dict[str, dict[int, Row]]) -> list[Row]:
    """Rows of paired differences over the seeds that both rows have; none of fewer than two seeds."""
    rows = []
    for first, second in PAIRS:
        seeds = sorted(set(cells.get(first, ())) & set(cells.get(second, ())))
        if len(seeds) < 2:
            continue
        found = {
            key: difference(*([cells[row][seed][key] for seed in seeds] for row in (first, second)))
            for key in MEASURES
        }
        rows.append(
            {
                "difference": f"{first} less {second}",
                "seeds": len(seeds),
                **{key: each["shown"] for key, each in found.items()},
                "figures": found,
            }
        )
    return rows


EXPLAINED = (
    "mean over the seeds that both rows have, ± half the width of its 95 per cent interval (Student's t, "
    "paired by seed); bold where the interval leaves out 0. It says what another seed would give, not "
    "what other words or another text would"
)


def tables(tokens: float) -> tuple[Table, Table]:
    """Return the table of a text, and that of the differences between its rows."""
    found: dict[str, dict[int, Row]] = {}

    def rows(options: Any) -> Iterator[Row]:
        cells, text = kept.Cells(f"varembed-intrinsic-{tokens:g}"), models.corpus(tokens)
        names = options.chosen([*models.ROWS, *(models.ABLATIONS if tokens else ())])
        for seed, row in product(options.seeds, names):
            vectors = models.trained(row, seed, text)
            if vectors is not None:
                key = kept.cell_key(row=row, seed=seed, model=vectors.key)
                cell = cells.measure(key, lambda: measure(vectors))  # noqa: B023
                found.setdefault(row, {})[seed] = cell
        for row, of_seeds in found.items():
            yield {"row": row, **models.combined([of_seeds[seed] for seed in sorted(of_seeds)])}

    def protocol(_: Any) -> dict[str, Any]:
        text = models.corpus(tokens)
        about = (
            f"{text.n_tokens} tokens of Wikipedia, lower case, NUM, {len(text.vocabulary)} types"
        )
        return {**PROTOCOL, "text": about}

    name = f"-{tokens:g}" if tokens else ""
    of = {"seeds": lambda options: options.seeds}
    explained = lambda options: {**protocol(options), "difference": EXPLAINED}  # noqa: E731
    return (
        Table(f"varembed-intrinsic{name}", protocol, rows, key="row", **of),
        Table(
            f"varembed-differences{name}",
            explained,
            lambda _: differences(found),
            "difference",
            **of,
        ),
    )


if __name__ == "__main__":
    options = reporting.parse(__doc__, tokens=0.0, seeds=[0, 1, 2])
    options.whole = not options.only and options.seeds == [0, 1, 2]
    for table in tables(options.tokens):
        table.run(options)
