"""`lm_scorer` in a spaCy pipeline: tokens a second by model, beside the model alone.

    python -m benchmarks.language_models.scorer [--repeats 7]

The test text of Penn Treebank, a document a line, tokens as they are written there. The HLBL is the one that
`benchmarks.language_models.log_bilinear` fits and keeps under TACENDA_BENCH_CACHE. One thread.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import spacy
from spacy.tokens import Doc

from benchmarks import reporting
from benchmarks.language_models.log_bilinear import fitted
from tacenda import Corpus, datasets
from tacenda_lm import KneserNey, Mixture

PROTOCOL = {
    "tokens/s": "the component's pipe over 3,761 documents that are there already; attributes are read by nobody",
    "with attributes": "the same, and token._.surprisal of every token read",
    "nlp.pipe": "from strings: spaCy's tokenizer, which splits some of these tokens, and the component",
    "statistic": "tokens by the median of repeated runs, by the clock",
}


def rate(call: Any, n: int, repeats: int) -> float:
    return n / reporting.summary(reporting.timed(call, repeats))["median"]


def measured(name: str, model: Any, lines: list[str], repeats: int) -> dict[str, Any]:
    nlp = spacy.blank("en")
    scorer = nlp.add_pipe("lm_scorer")
    scorer.initialize(lambda: [], nlp=nlp, artifact=model)
    words = [line.split() for line in lines]
    n = sum(map(len, words))

    def docs() -> list[Doc]:
        return [Doc(nlp.vocab, words=each) for each in words]

    def apply() -> None:
        for _ in scorer.pipe(iter(ready), batch_size=256):
            pass

    def read() -> float:
        return sum(t._.surprisal for doc in scorer.pipe(iter(ready), batch_size=256) for t in doc)

    ready = docs()
    split = sum(len(doc) for doc in nlp.tokenizer.pipe(lines))
    return {
        "model": name,
        "tokens/s": rate(apply, n, repeats),
        "with attributes": rate(read, n, max(3, repeats // 2)),
        "nlp.pipe": rate(lambda: list(nlp.pipe(lines)), split, max(3, repeats // 2)),
        "model alone": rate(lambda: model.token_log_probs(words), n + len(lines), repeats),
    }


def main() -> None:
    cache = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "tacenda-bench"
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument(
        "--cache", type=Path, default=Path(os.environ.get("TACENDA_BENCH_CACHE", cache))
    )
    options = parser.parse_args()
    files = datasets.locate("ptb")
    train = Corpus.from_text(files["train"])
    valid = Corpus.from_text(files["dev"], vocabulary=train.vocabulary)
    lines = [line for line in files["test"].read_text("utf-8").splitlines() if line.strip()]
    hlbl, _ = fitted(options.cache, False, train, valid)
    ngrams = KneserNey(order=5).fit(train)
    models = {
        "KneserNey(5)": ngrams,
        "HLBL, default": hlbl,
        "HLBL + KneserNey(5)": Mixture({"hlbl": hlbl, "kneser_ney": ngrams}),
    }
    rows = [measured(name, model, lines, options.repeats) for name, model in models.items()]
    reporting.save("lm-scorer", PROTOCOL, rows)


if __name__ == "__main__":
    main()
