"""Language models of 26 million tokens of Wikipedia: seconds, memory, size on disk and perplexity.

    python -m benchmarks.language_models.scale [--only kneser_ney] [--epochs 2] [--lines 0] [--threads 1]

The good and featured articles of English Wikipedia, from TACENDA_DATA, in the split that comes with them. Every
model has a process of its own, which reads the corpus, fits, saves, and measures the dev and test parts; the
mixture reads what they have saved. Models are kept under TACENDA_BENCH_CACHE: a fit that was broken off goes on
from its last epoch, and one that is done is measured again without fitting.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tacenda
from benchmarks import reporting
from tacenda import Corpus, datasets
from tacenda_lm import HLBL, KneserNey, LanguageModel, Mixture
from tacenda_lm.perplexity import Context
from tacenda_lm.sequences import with_ends

Row = dict[str, Any]
MAX_VOCABULARY = 40_000
CONTEXTS: tuple[Context, ...] = ("sentence", "stream")
PROTOCOL = {
    "text": "good and featured articles of English Wikipedia; a paragraph is a sentence, tokens by the tokenizer "
    "'words'; the 40,000 most frequent words, all others are <unk> and are scored as such",
    "perplexity": "dev and test part, </s> predicted; without <unk> leaves words outside the vocabulary out",
    "context": "sentence: each paragraph by itself, after <s>; stream: the running text, each paragraph after all "
    "before it. KneserNey sees no word before </s>, so that both are the same",
    "fit s": "by the clock, reading the corpus left out; CPU s of the processor",
    "peak GB": "the most that was resident in the process that fitted: corpus, compiled code and scoring included",
    "mixture": "weights fitted on the dev part, in the context of the row",
    "scored tokens/s": "of the test part by sentence, ids given, one thread, median of three",
    "settings": "of HLBL the defaults, chosen on Penn Treebank's validation text; two epochs",
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


def folder_of(name: str, options: argparse.Namespace) -> Path:
    return cache() / f"scale-{name}-{options.lines}-{options.epochs}"


def perplexities(name: str, model: LanguageModel, dev: Corpus, test: Corpus) -> Iterator[Row]:
    """One row a context; a mixture fits its weights in that context first."""
    for context in CONTEXTS:
        row: Row = {"what": f"{name}, {context}", "model": name, "context": context}
        if isinstance(model, Mixture):
            row["weights"] = model.fit_weights(dev, context=context).weights
        row["dev"] = model.perplexity(dev, context=context).value
        found = model.perplexity(test, context=context)
        yield {
            **row,
            "test": found.value,
            "test without <unk>": found.without_oov,
            "test unknown": found.oov_rate,
        }


def fitted(name: str, train: Corpus, dev: Corpus, options: argparse.Namespace) -> Row:
    """The figures of a model's fit; the model itself is saved."""
    folder = folder_of(name, options)
    threads, epochs = (options.threads, options.epochs) if name == "hlbl" else (1, None)
    wall, processor = time.perf_counter(), time.process_time()
    model: KneserNey | HLBL
    if name == "hlbl":
        checkpoints = folder.with_name(folder.name + "-checkpoints")
        model = HLBL(epochs=options.epochs, threads=threads).fit(
            train, dev, checkpoints=checkpoints
        )
    else:
        model = KneserNey(order=5).fit(train)
    seconds = time.perf_counter() - wall, time.process_time() - processor
    model.save(folder)
    return {
        "what": f"{name}, fit",
        "model": name,
        "tokens": train.n_tokens,
        "types": len(train.vocabulary),
        "threads": threads,
        "epochs": epochs,
        "fit s": seconds[0],
        "CPU s": seconds[1],
        "on disk GB": sum(path.stat().st_size for path in folder.rglob("*")) / 1e9,
    }


def rows_of(name: str, options: argparse.Namespace) -> list[Row]:
    """All rows of one model: what a process of its own does."""
    train, dev, test = corpora(options.lines)
    model: LanguageModel
    if name == "mixture":
        parts = ("kneser_ney", "hlbl")
        model = Mixture({part: tacenda.load(folder_of(part, options)) for part in parts})
        fit: Row = {"what": "mixture, fit", "model": "mixture"}
    else:
        done = folder_of(name, options).with_suffix(".json")
        fit = json.loads(done.read_text("utf-8")) if done.exists() else {}
        if not fit:
            fit = fitted(name, train, dev, options)
        model = tacenda.load(folder_of(name, options))
        rows = list(perplexities(name, model, dev, test))
        # What the process that fitted had resident, so only that process may write it.
        fit.setdefault("peak GB", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6)
        done.write_text(json.dumps(fit), "utf-8")
    if name == "mixture":
        rows = list(perplexities(name, model, dev, test))
    text = with_ends(test.ids, test.offsets, test.vocabulary.boundary_id)
    seconds = reporting.summary(reporting.timed(lambda: model.score_corpus(*text), 3))
    return [{**fit, "scored tokens/s": len(text[0]) / seconds["median"]}, *rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    names = ["kneser_ney", "hlbl", "mixture"]
    parser.add_argument("--only", nargs="*", choices=names, default=names)
    parser.add_argument("--lines", type=int, default=0, help="paragraphs of the text; 0 takes all")
    parser.add_argument("--epochs", type=int, default=2, help="of the HLBL")
    parser.add_argument("--threads", type=int, default=1, help="of the HLBL's training")
    parser.add_argument("--in-this-process", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.in_this_process:
        print(json.dumps(rows_of(options.in_this_process, options)))
        return
    corpora(options.lines)  # tokenized once, before the processes that read it
    rows = []
    for name in options.only:
        command = [sys.executable, "-m", "benchmarks.language_models.scale", *sys.argv[1:]]
        done = subprocess.run(
            [*command, "--in-this-process", name], stdout=subprocess.PIPE, text=True, check=True
        )
        rows += json.loads(done.stdout.splitlines()[-1])
    if options.lines:
        reporting.print_table(rows)
    else:
        reporting.save("lm-scale", PROTOCOL, rows, keep="what")


if __name__ == "__main__":
    main()
