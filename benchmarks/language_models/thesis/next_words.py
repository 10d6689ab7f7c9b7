"""Tables 3.7 to 3.9: the words that a model expects after a beginning, which was written for this."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.language_models.thesis import recipes
from benchmarks.language_models.thesis.recipes import CONTEXT, Flat, Hierarchical
from benchmarks.language_models.thesis.study import Study
from benchmarks.language_models.thesis.texts import Texts, tokens
from tacenda_lm import KneserNey

SHOWN = 10


def occurrences(texts: Texts, context: str) -> int:
    """How often the last words of the context stand together in the training text."""
    wanted = texts.train.vocabulary.encode(context.split()[-CONTEXT:])
    ids, _ = tokens(texts.train)
    windows = np.lib.stride_tricks.sliding_window_view(ids, len(wanted))
    return int((windows == wanted).all(axis=1).sum())


def main(study: Study) -> None:
    bench = study.bench
    models = {
        "LBL": bench.model(Flat()),
        "HLBL": bench.model(Hierarchical(recipes.BEST)),
        "KN5": KneserNey(order=5).fit(bench.texts.train),
    }
    rows: list[dict[str, Any]] = []
    for context in study.plan.contexts:
        unknown = [word for word in context.split() if word not in bench.texts.train.vocabulary]
        if unknown:
            raise ValueError(f"{context!r}: not in the vocabulary: {', '.join(unknown)}")
        found = {name: model.top_k(context, SHOWN) for name, model in models.items()}
        n = occurrences(bench.texts, context)
        for rank in range(SHOWN):
            row: dict[str, Any] = {"context": context, "rank": rank + 1}
            for name, words in found.items():
                row[name] = words[rank][0]
                row[f"{name} p"] = f"{words[rank][1]:.2g}"
            rows.append({**row, "context in training text": n})
    told = {
        "context": "written for this; 'context in training text' is how often its last five words stand together there",
        "HLBL": recipes.BEST.name,
    }
    study.save("next-words", told, rows)
