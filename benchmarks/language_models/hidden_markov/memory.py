"""Memory of a training step, each measured in a process of its own.

python -m benchmarks.language_models.hidden_markov.memory '{"n_classes": 256, "states_per_class": 64}'
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks import reporting
from benchmarks.language_models.hidden_markov.fits import Row, Texts
from tacenda_lm.hidden_markov.settings import VLHMMSettings
from tacenda_lm.hidden_markov.tables import Observed, sentences_at, text_of
from tacenda_lm.hidden_markov.training import Trainer, draw_network, find_classes

MEMORY_PROTOCOL = (
    "largest resident memory of a process (ru_maxrss), MiB: with the text read and words in classes; after five steps; "
    "after the evaluation of the validation text, which keeps all states. The formula is that of the documentation"
)
_STEPS = 5
_MIB = 1 << 20


def rows_of(plans: dict[str, dict[str, Any]]) -> Iterator[Row]:
    """A row for each plan."""
    for what, settings in plans.items():
        found = reporting.of_process(__spec__.name, json.dumps(settings))
        yield {"what": f"memory, {what}", **found, "settings": settings}


def measure(options: dict[str, Any]) -> Row:
    """In this process."""
    texts = Texts()
    settings = VLHMMSettings(**options)
    train, valid = text_of(texts.train), text_of(texts.valid)
    lexicon = find_classes(settings, texts.train, train[0])
    network = draw_network(settings, lexicon, *train)
    before = _largest()
    trainer = Trainer(settings, network, lexicon, *train, valid)
    borders = np.searchsorted(train[1], np.arange(_STEPS + 1) * settings.batch_words)
    pairs = 0
    for n in range(_STEPS):
        batch = np.arange(borders[n], borders[n + 1])
        pairs = max(pairs, len(Observed.of(*sentences_at(*train, batch), lexicon).sources))
        trainer.step(batch, 1e-3)
    stepped = _largest()
    trainer.evaluate()
    k = round(settings.states_per_class * (1 - settings.state_dropout))
    formula = 4 * pairs * k * (2 * k + settings.width) / _MIB
    return {
        "states": settings.n_states,
        "pairs of classes": pairs,
        "formula": formula,
        "before": before,
        "after steps": stepped,
        "after evaluation": _largest(),
        "parameters": sum(parameter.numel() for parameter in network.parameters()),
    }


def _largest() -> float:
    return reporting.peak() / _MIB


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.argv[1]))))
