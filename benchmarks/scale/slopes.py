"""What grows with what: processor time of a fit and size of the model, as one thing after another is doubled.

python -m benchmarks.scale.slopes [--only LDS KneserNey] [--size 1] [--runs 3]

A fit takes about a second or more, so that what does not grow, and the clock, are a small part of it.
"""

from __future__ import annotations

import math
import statistics
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.reporting import Row, Table, main
from tacenda import Corpus, Vocabulary, plugins
from tacenda.datasets import synthetic_ratings

PROTOCOL = {
    "text": "words drawn independently by Zipf's law with exponent 1.1, lines of 20",
    "time": "seconds of processor time of a whole fit, the median of so many runs, after one on a small part, in one "
    "thread; of models in epochs, one epoch, and four of ratings",
    "spread": "the longest of the runs by the shortest, less 1, the larger of both sizes",
    "time grows with": "the power of what was doubled: 0 does not grow, 1 in proportion, 2 as its square",
    "model": "bytes of the arrays that are saved, without the vocabulary",
}
_WORDS = 20
#: Of each model: its kind, options, what is doubled from which value on, and what the number of states is called.
MODELS: dict[str, tuple[str, str, dict[str, Any], dict[str, int], str]] = {
    "LDS": ("embedders", "lds", {}, {"tokens": 8_000_000, "vocabulary": 5_000, "states": 50}, "n_states"),
    "KneserNey": ("language_models", "kneser_ney", {},
                  {"tokens": 7_000_000, "vocabulary": 5_000, "states": 3}, "order"),
    "HLBL": ("language_models", "hlbl", {"epochs": 1, "tree": "random", "copies": 1},
             {"tokens": 400_000, "vocabulary": 4_000, "states": 50}, "width"),
    "VLHMM": ("language_models", "vlhmm", {"epochs": 1, "n_classes": 32},
              {"tokens": 800_000, "vocabulary": 2_000, "states": 16}, "states_per_class"),
    "VarEmbed": ("embedders", "varembed", {"epochs": 1},
                 {"tokens": 100_000, "vocabulary": 2_000, "states": 32}, "width"),
    "PMF": ("recommenders", "pmf", {"n_epochs": 4}, {"ratings": 5_000_000, "users": 50_000, "states": 32}, "n_factors"),
}  # fmt: skip


def text(n_tokens: int, n_types: int) -> Corpus:
    """Return a text in memory."""
    shares = np.cumsum(np.arange(1, n_types + 1) ** -1.1)
    drawn = np.random.default_rng(0).random(n_tokens) * shares[-1]
    vocabulary = Vocabulary.from_words(f"w{np.base_repr(i, 36).lower()}" for i in range(n_types))
    ids = np.searchsorted(shares, drawn).astype(np.int32)
    return Corpus(ids, np.append(np.arange(0, n_tokens, _WORDS), n_tokens), vocabulary)


def measure(name: str, at: dict[str, int], runs: int) -> tuple[list[float], int]:
    """Return the seconds of every run of a fit, and the bytes of the model."""
    kind, plugin, options, _, states = MODELS[name]
    if kind == "recommenders":
        data: Any = synthetic_ratings.generate(at["users"], 2_000, at["ratings"], seed=0).ratings
    else:
        data = text(at["tokens"], at["vocabulary"])
    found = []
    for _ in range(runs):
        model = plugins.make(kind, plugin, {**options, states: at["states"]})
        begin = time.process_time()
        model.fit(data)
        found.append(time.process_time() - begin)
    return found, sum(
        array.nbytes for key, array in model.arrays().items() if not key.startswith("vocabulary")
    )


def rows_of(name: str, size: float, runs: int) -> Iterator[Row]:
    """Yield a row for each thing that is doubled."""
    _, _, _, base, states = MODELS[name]

    def sized(factor: float) -> dict[str, int]:
        return {k: int(n * factor) if k in ("tokens", "ratings") else n for k, n in base.items()}

    at = sized(size)
    measure(name, sized(size / 50), 1)  # what is compiled and loaded is not counted
    seconds, n_bytes = measure(name, at, runs)
    for axis, n in at.items():
        more, larger = measure(name, {**at, axis: 2 * n}, runs)
        times = statistics.median(seconds), statistics.median(more)
        yield {
            "what": f"{name}, {states if axis == 'states' else axis}",
            "model": name,
            "grows": states if axis == "states" else axis,
            "from": n,
            "to": 2 * n,
            "seconds": times[0],
            "doubled": times[1],
            "spread": max(max(some) / min(some) - 1 for some in (seconds, more)),
            "time grows with": math.log2(times[1] / times[0]),
            "bytes": n_bytes,
            "model grows with": math.log2(larger / n_bytes),
        }


def rows(options: Any) -> Iterator[Row]:
    warnings.simplefilter("ignore")
    for name in options.chosen(MODELS):
        yield from rows_of(name, options.size, options.runs)


if __name__ == "__main__":
    table = Table("scale-slopes", PROTOCOL, rows, key="what", options=("runs",))
    main(__doc__, table, size=1.0, runs=3)  # size: a factor of tokens and ratings
