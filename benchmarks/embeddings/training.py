"""spaCy's own training, until the dev part stops improving, as the benchmarks of pipelines train."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

import spacy
from spacy.training import Example
from spacy.training.batchers import minibatch_by_words
from spacy.training.loop import train_while_improving
from thinc.api import Adam, compounding

EVERY, PATIENCE, MOST_STEPS = 200, 1600, 20_000  # steps, as `spacy init config` sets them
KIND = f"patience {PATIENCE}"  # in the key of a cell: what was trained otherwise does not count
PROTOCOL = (
    "spaCy's own loop with its default Adam, batches (100 to 1000 words) and dropout 0.1; {} scored every "
    f"{EVERY} steps, until {PATIENCE} have brought no better score; the best step on the dev part"
)


def train(
    nlp: spacy.Language,
    examples: list[Example],
    on_dev: Callable[[], tuple[float, dict[str, float]]],
    annotating: Sequence[str] = (),
) -> dict[str, Any]:
    """Train a pipeline until the dev part says stop, and leave it with the weights of its best step.

    `on_dev` scores the pipeline as it is: the score that decides, and others. Returned are those of the best step
    ("dev", "others"), which it is ("step"), how many there were ("steps"), and the seconds of the processor.
    """
    start = time.process_time()
    adam = Adam(0.001, L2=0.01, grad_clip=1.0, L2_is_weight_decay=True, use_averages=False)
    optimizer = nlp.initialize(lambda: examples, sgd=adam)
    steps = train_while_improving(
        nlp,
        optimizer,
        _batches(examples),
        on_dev,
        dropout=0.1,
        eval_frequency=EVERY,
        accumulate_gradient=1,
        patience=PATIENCE,
        max_steps=MOST_STEPS,
        exclude=[],
        annotating_components=list(annotating),
        before_update=None,
    )
    best: dict[str, Any] = {"score": -1.0, "step": 0, "other_scores": {}}
    weights = b""
    for _, info, is_best in steps:
        if is_best and info["score"] > best["score"]:
            best, weights = info, nlp.to_bytes(exclude=["vocab"])
    seconds = time.process_time() - start
    nlp.from_bytes(weights, exclude=["vocab"])
    return {
        "dev": best["score"],
        "others": best["other_scores"],
        "step": best["step"],
        "steps": info["step"],
        "seconds": round(seconds, 1),
    }


def _batches(examples: list[Example]) -> Iterator[tuple[int, list[Example]]]:
    """Batches with the number of their epoch, without end."""
    sizes = compounding(100, 1000, 1.001)
    for epoch in count():
        random.shuffle(examples)
        for batch in minibatch_by_words(
            examples, size=sizes, tolerance=0.2, discard_oversize=False
        ):
            yield epoch, batch
