"""Tables 3.5 and 3.6: where one model finds a word of the test text far more probable than the other.

Of each case only the last word before it and the word itself are written down, and every pair once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.language_models.thesis import flat
from benchmarks.language_models.thesis.recipes import Flat
from benchmarks.language_models.thesis.study import Study

SHOWN = 15


def main(study: Study) -> None:
    texts = study.bench.texts
    lbl, grams = study.bench.fit(Flat()).test, study.bench.fit(flat.GRAMS).test
    order = np.argsort(grams - lbl, kind="stable")
    rows: list[dict[str, Any]] = []
    for better, ranked in (("LBL", order), ("KN5", order[::-1])):
        seen: set[tuple[int, int]] = set()
        for token in ranked:
            pair = int(texts.before[token]), int(texts.tested[token])
            if pair in seen:
                continue
            seen.add(pair)
            before, word = texts.words(np.array(pair))
            rows.append(
                {
                    "better": better,
                    "last word": before,
                    "next word": word,
                    "ratio": f"{np.exp(lbl[token] - grams[token]):.0e}",
                    "LBL": f"{np.exp(lbl[token]):.0e}",
                    "KN5": f"{np.exp(grams[token]):.0e}",
                }
            )
            if len(seen) == SHOWN:
                break
    told = {
        "ratio": "of the probability by the LBL (5 words) to that by KN5",
        "shown": "the last word of the context and the next one, of the most extreme cases of the test text",
    }
    study.save("pairs", told, rows)
