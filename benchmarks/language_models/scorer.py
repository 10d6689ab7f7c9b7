"""`lm_scorer` in a spaCy pipeline: tokens a second by model, beside the model alone.

    python -m benchmarks.language_models.scorer [--repeats 7]

The test text of Penn Treebank, a document a line, tokens as they are written there. The HLBL is the default one that
`benchmarks.language_models.log_bilinear` fits and keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import spacy
from spacy.tokens import Doc

from benchmarks import reporting
from benchmarks.language_models import contexts, timing
from benchmarks.language_models.log_bilinear import fitted
from tacenda import datasets
from tacenda_lm import KneserNey, LanguageModel, Mixture

PROTOCOL = {
    "scores": "the component's pipe over documents that are there already; attributes are read by nobody",
    "scores and attributes": "the same, and token._.surprisal of every token read",
    "from strings": "nlp.pipe: spaCy's tokenizer, which splits some of these tokens, and the component",
    "the model alone": "token_log_probs of lists of words, without spaCy; </s> counted as a token",
    "repeats": timing.PROTOCOL,
    "load": "processes that wanted a core in the last minute, when the row was done",
}


def works_of(model: LanguageModel, lines: list[str]) -> dict[str, tuple[Callable[[], Any], int]]:
    """What is timed, each with its number of tokens."""
    nlp = spacy.blank("en")
    scorer = nlp.add_pipe("lm_scorer")
    scorer.initialize(lambda: [], nlp=nlp, artifact=model)
    words = [line.split() for line in lines]
    n = sum(map(len, words))
    ready = [Doc(nlp.vocab, words=each) for each in words]

    def apply() -> None:
        for _ in scorer.pipe(iter(ready), batch_size=256):
            pass

    def read() -> float:
        docs = scorer.pipe(iter(ready), batch_size=256)
        return sum(float(token._.surprisal) for doc in docs for token in doc)

    return {
        "scores": (apply, n),
        "scores and attributes": (read, n),
        "from strings": (
            lambda: list(nlp.pipe(lines)),
            sum(len(doc) for doc in nlp.tokenizer.pipe(lines)),
        ),
        "the model alone": (lambda: model.token_log_probs(words), n + len(lines)),
    }


def rows_of(models: dict[str, LanguageModel], lines: list[str], repeats: int) -> Iterator[Any]:
    """One row for each model and way, all of which take turns."""
    works = {
        (name, way): work
        for name, model in models.items()
        for way, work in works_of(model, lines).items()
    }
    calls = {"|".join(key): call for key, (call, _) in works.items()}
    seconds = timing.interleaved(calls, repeats)
    load = reporting.load()
    for (name, way), (_, n) in works.items():
        found = timing.rate(n, seconds[f"{name}|{way}"], "tokens/s")
        yield {"model": name, "what": way, **found, "load": load}


def main() -> None:
    parser = reporting.Command(__doc__, "no-save")
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    texts = contexts.Texts()
    test_file = datasets.locate("ptb")["test"]
    lines = [line for line in test_file.read_text("utf-8").splitlines() if line.strip()]
    hlbl, _ = fitted(texts.train, texts.valid)
    ngrams = KneserNey(order=5).fit(texts.train)
    models: dict[str, LanguageModel] = {
        "KneserNey(5)": ngrams,
        "HLBL, default": hlbl,
        "HLBL + KneserNey(5)": Mixture({"hlbl": hlbl, "kneser_ney": ngrams}),
    }
    rows = list(rows_of(models, lines, options.repeats))
    reporting.save("lm-scorer", PROTOCOL, rows, seeds=(0,), dry=options.no_save)


if __name__ == "__main__":
    main()
