"""Resident memory of fits against the length of their text, which lies in a file, and ten times of it.

python -m benchmarks.scale.memory --tokens 10e6 [--scratch FOLDER]

A model is trained for some steps only: memory that grows with the text is taken before the first step or in it.
"""

from __future__ import annotations

import argparse
import json
import signal
from pathlib import Path
from typing import Any

from benchmarks import parts, reporting
from benchmarks.scale.cluster import generate

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
    "VLHMM": (
        "tacenda_lm",
        {"n_classes": 32, "states_per_class": 8, "width": 16, "epochs": 1},
    ),
    "VarEmbed": ("tacenda_embeddings", {"width": 16, "epochs": 1}),
}


def _memory() -> dict[str, int]:
    lines = Path("/proc/self/status").read_text().splitlines()
    found = {key: value for key, _, value in (line.partition(":") for line in lines)}
    return {name: int(found[name].split()[0]) * 1024 for name in ("RssAnon", "VmRSS")}


class _Over(BaseException):
    """There were enough steps."""


def measure(model: str, folder: Path, steps: int) -> dict[str, int]:
    """Fit for some steps in this process; return the largest memory and the tokens."""
    import importlib

    from tacenda import Corpus
    from tacenda.corpus import storage
    from tacenda.fitting import loop

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
    corpus = Corpus.open(folder)

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
        run._callbacks = (Watch(),)
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


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokens", type=float, default=10e6)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--scratch", type=Path, default=parts.kept_folder() / "scale")
    parser.add_argument("--models", nargs="*", default=list(MODELS))
    parser.add_argument("--here", nargs=2, help="a model and a corpus: measure in this process")
    options = parser.parse_args()
    if options.here:
        print(json.dumps(measure(options.here[0], Path(options.here[1]), options.steps)))
        return
    from tacenda import Corpus

    options.scratch.mkdir(parents=True, exist_ok=True)
    folders = []
    for n in (options.tokens, 10 * options.tokens):
        path = options.scratch / f"generated-{n:.0f}.txt"
        generate(path, int(n))
        folders.append(path.with_suffix(".corpus"))
        Corpus.from_text(path, max_vocabulary=10_000, cache=folders[-1])
    rows = []
    for model in options.models:
        found = []
        for folder in folders:
            here = ("--here", model, folder, "--steps", options.steps)
            found.append(reporting.of_process("benchmarks.scale.memory", *here))
        short, long = found
        more = long["tokens"] - short["tokens"]
        rows.append(
            {
                "what": model,
                "tokens": short["tokens"],
                "anonymous MB": short["RssAnon"] / 1e6,
                "anonymous MB 10x": long["RssAnon"] / 1e6,
                "resident MB": short["VmRSS"] / 1e6,
                "resident MB 10x": long["VmRSS"] / 1e6,
                "bytes a token": (long["RssAnon"] - short["RssAnon"]) / more,
                "settings": MODELS[model][1],
            }
        )
        reporting.save(
            "scale-memory",
            {**PROTOCOL, "steps": options.steps},
            rows[-1:],
            seeds=[0],
            keep="what",
        )


if __name__ == "__main__":
    main()
