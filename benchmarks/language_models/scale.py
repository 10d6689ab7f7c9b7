"""Language models of 26 million tokens of Wikipedia: seconds, memory, size on disk and perplexity.

    python -m benchmarks.language_models.scale [--only kneser_ney] [--epochs 3] [--lines 0] [--threads 2]

The good and featured articles of English Wikipedia, from TACENDA_DATA, in the split that comes with
them. Every model has
a process of its own, which reads the corpus, fits, saves, and measures the dev and test parts; the mixture reads what
they have saved. Models are kept under TACENDA_BENCH_CACHE, and a fit that was broken off goes on from its last epoch.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import tacenda
from benchmarks import reporting
from tacenda import Corpus, datasets
from tacenda_lm import HLBL, KneserNey, Mixture
from tacenda_lm.sequences import with_ends

MAX_VOCABULARY = 40_000
PROTOCOL = {
    "text": "good and featured articles of English Wikipedia; a paragraph is a sentence, tokens by the tokenizer "
    "'words'; the 40,000 most frequent words, all others are <unk> and are scored as such",
    "perplexity": "dev and test part, </s> predicted; without_oov leaves words outside the vocabulary out",
    "fit s": "by the clock, reading the corpus left out; CPU s of the processor",
    "peak GB": "the most that was resident in the process, corpus, compiled code and scoring included",
    "mixture": "weights fitted on the dev part",
    "scored tokens/s": "of the test part, ids given, one thread",
}


def cache() -> Path:
    return Path(
        os.environ.get("TACENDA_BENCH_CACHE", Path.home() / ".cache" / "tacenda-benchmarks")
    )


def corpora(lines: int) -> tuple[Corpus, Corpus, Corpus]:
    """Train, dev and test; the training text is tokenized once, and ``lines`` above 0 takes its head."""
    files = datasets.locate("wikipedia-good-articles")
    train = Corpus.from_text(
        files["train"],
        tokenizer="words",
        max_vocabulary=MAX_VOCABULARY,
        cache=cache() / "corpus-lm-wikipedia",
    )
    if lines:
        train = train.head(lines)
    dev, test = (
        Corpus.from_text(files[part], tokenizer="words", vocabulary=train.vocabulary)
        for part in ("dev", "test")
    )
    return train, dev, test


def made(name: str, options: argparse.Namespace) -> KneserNey | HLBL:
    if name == "kneser_ney":
        return KneserNey(order=5)
    return HLBL(epochs=options.epochs, threads=options.threads)


def figures(model: Any, dev: Corpus, test: Corpus) -> dict[str, Any]:
    """Perplexities as the model is meant to be read, and the rate of scoring."""
    context = model.own_context
    found = {k: model.perplexity(t, context=context) for k, t in (("dev", dev), ("test", test))}
    text = with_ends(test.ids, test.offsets, test.vocabulary.boundary_id)
    seconds = reporting.summary(reporting.timed(lambda: model.score_corpus(*text), 3))
    return {
        "context": context,
        **{k: each.value for k, each in found.items()},
        "test without <unk>": found["test"].without_oov,
        "test unknown": found["test"].oov_rate,
        "scored tokens/s": len(text[0]) / seconds["median"],
    }


def fitted(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """One model from the corpus to its figures: what a process of its own does."""
    train, dev, test = corpora(options.lines)
    model = made(name, options)
    wall, processor = time.perf_counter(), time.process_time()
    if name == "hlbl":
        folder = cache() / f"scale-hlbl-{options.lines}-{options.epochs}"
        model.fit(train, dev, checkpoints=folder)
    else:
        model.fit(train)
    seconds = time.perf_counter() - wall, time.process_time() - processor
    folder = cache() / f"scale-{name}"
    model.save(folder)
    return {
        "model": name,
        "tokens": train.n_tokens,
        "types": len(train.vocabulary),
        "threads": options.threads if name == "hlbl" else 1,
        "epochs": options.epochs if name == "hlbl" else None,
        "fit s": seconds[0],
        "CPU s": seconds[1],
        "on disk GB": sum(path.stat().st_size for path in folder.rglob("*")) / 1e9,
        **figures(model, dev, test),
    }


def mixed(options: argparse.Namespace) -> dict[str, Any]:
    _, dev, test = corpora(options.lines)
    models = {name: tacenda.load(cache() / f"scale-{name}") for name in ("kneser_ney", "hlbl")}
    mixture = Mixture(models).fit_weights(dev)
    return {"model": "mixture", "weights": mixture.weights, **figures(mixture, dev, test)}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    names = ["kneser_ney", "hlbl", "mixture"]
    parser.add_argument("--only", nargs="*", choices=names, default=names)
    parser.add_argument("--lines", type=int, default=0, help="paragraphs of the text; 0 takes all")
    parser.add_argument("--epochs", type=int, default=3, help="of the HLBL")
    parser.add_argument("--threads", type=int, default=2, help="of the HLBL's training")
    parser.add_argument("--no-save", action="store_true")
    parser.add_argument("--in-this-process", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.in_this_process:
        name = options.in_this_process
        row = mixed(options) if name == "mixture" else fitted(name, options)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6  # kilobytes
        print(json.dumps({**row, "peak GB": peak}))
        return
    corpora(options.lines)
    rows = []
    for name in options.only:
        command = [sys.executable, "-m", "benchmarks.language_models.scale", *sys.argv[1:]]
        done = subprocess.run(
            [*command, "--in-this-process", name], stdout=subprocess.PIPE, text=True, check=True
        )
        rows.append(json.loads(done.stdout.splitlines()[-1]))
        print(rows[-1], flush=True)
    if not options.no_save and not options.lines:
        reporting.save("lm-scale", PROTOCOL, rows, keep="model")


if __name__ == "__main__":
    main()
