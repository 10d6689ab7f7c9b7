"""Resident memory of fits against the length of their text, which lies in a file, and ten times of it.

    python -m benchmarks.scale.memory [--tokens 10e6]

A model is trained for some steps only: memory that grows with the text is taken before the first step or in it.
"""

from __future__ import annotations

import importlib
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.reporting import Row, Table, in_process, main
from benchmarks.scale.cluster import generated
from tacenda import Corpus
from tacenda.corpus import storage
from tacenda.fitting import loop

PROTOCOL = {
    "text": "generated as for scale-cluster, a corpus with cache=, 10,000 word types",
    "files": "arrays of the text of more than a megabyte lie in files here, where it is 128 otherwise",
    "anonymous": "bytes, the largest of RssAnon of /proc, what a process cannot give back, sampled every 50 ms of "
    "processor time from opening the corpus to the end of training, which is broken off after so many steps",
    "resident": "likewise VmRSS, with the pages of files",
    "bytes a token": "difference between ten times the text and the text, by the difference in tokens",
}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "HLBL": ("tacenda_lm", {"width": 16, "context": 4, "tree": "random", "copies": 1, "epochs": 1}),
    "VLHMM": ("tacenda_lm", {"n_classes": 32, "states_per_class": 8, "width": 16, "epochs": 1}),
    "VarEmbed": ("tacenda_embeddings", {"width": 16, "epochs": 1}),
}


def _memory() -> dict[str, int]:
    lines = Path("/proc/self/status").read_text().splitlines()
    found = {key: value for key, _, value in (line.partition(":") for line in lines)}
    return {name: int(found[name].split()[0]) * 1024 for name in ("RssAnon", "VmRSS")}


class _Over(BaseException):
    """There were enough steps."""


def measure(model: str, n_tokens: int, steps: int) -> dict[str, int]:
    """Fit for some steps in this process; return the largest memory and the tokens."""
    storage.SPILL_BYTES = 1 << 20
    package, options = MODELS[model]
    unfitted = getattr(importlib.import_module(package), model)(**options)
    unfitted.fit(
        Corpus.from_text(
            "a b c d e f g h i j k l m n o p q r s t u v w x y z aa bb cc dd ee ff gg hh ii jj kk ll\n"
            * 50
        )
    )  # so that what is loaded and compiled is there
    most = _memory()
    corpus = text(n_tokens)

    def sample(*_: object) -> None:
        for name, now in _memory().items():
            most[name] = max(most[name], now)

    class Watch(loop.Callback):
        def on_step(self, run: loop.FitLoop) -> None:
            if run.step >= steps:
                sample()
                raise _Over

    start = loop.FitLoop.run

    def watched(run: loop.FitLoop, *arguments: Any) -> Any:
        run._run = replace(run._run, callbacks=(Watch(),))
        return start(run, *arguments)

    loop.FitLoop.run = watched  # type: ignore[method-assign]
    signal.signal(signal.SIGPROF, sample)
    signal.setitimer(signal.ITIMER_PROF, 0.05, 0.05)
    try:
        getattr(importlib.import_module(package), model)(**options).fit(corpus)
    except _Over:
        pass
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return {"tokens": corpus.n_tokens, **most}


def text(n_tokens: int) -> Corpus:
    """Return the generated text as a corpus in a cache."""
    path = generated(n_tokens)
    return Corpus.from_text(path, max_vocabulary=10_000, cache=path.with_suffix(".corpus"))


def rows(options: Any) -> Iterator[Row]:
    sizes = int(options.tokens), int(10 * options.tokens)
    for n in sizes:
        text(n)  # made once, before the processes that read it
    for model in options.chosen(MODELS):
        short, long = (in_process(measure, model, n, options.steps) for n in sizes)
        more = long["tokens"] - short["tokens"]
        yield {
            "what": model,
            "tokens": short["tokens"],
            "anonymous MB": short["RssAnon"] / 1e6,
            "anonymous MB 10x": long["RssAnon"] / 1e6,
            "resident MB": short["VmRSS"] / 1e6,
            "resident MB 10x": long["VmRSS"] / 1e6,
            "bytes a token": (long["RssAnon"] - short["RssAnon"]) / more,
            "settings": MODELS[model][1],
        }


if __name__ == "__main__":
    table = Table("scale-memory", PROTOCOL, rows, key="what", options=("steps",))
    main(__doc__, table, tokens=10e6, steps=50)
