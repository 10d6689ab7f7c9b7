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
from benchmarks.language_models import contexts
from benchmarks.reporting import Row, Table, main
from tacenda_lm import HLBL, KneserNey, LanguageModel, Mixture

PROTOCOL = {
    "scores": "the component's pipe over documents that are there already; attributes are read by nobody",
    "scores and attributes": "the same, and token._.surprisal of every token read",
    "from strings": "nlp.pipe: spaCy's tokenizer, which splits some of these tokens, and the component",
    "the model alone": "token_log_probs of lists of words, without spaCy; </s> counted as a token",
    "repeats": reporting.TURNS,
    "load": "processes that wanted a core in the last minute, when the row was done",
}


def works_of(model: LanguageModel, lines: list[str]) -> dict[str, tuple[Callable[[], Any], int]]:
    """Return what is timed, each with its number of tokens."""
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

    of_strings = sum(len(doc) for doc in nlp.tokenizer.pipe(lines))
    return {
        "scores": (apply, n),
        "scores and attributes": (read, n),
        "from strings": (lambda: list(nlp.pipe(lines)), of_strings),
        "the model alone": (lambda: model.token_log_probs(words), n + len(lines)),
    }


def rows(options: Any) -> Iterator[Row]:
    texts = contexts.Texts()
    hlbl, _ = contexts.fitted(HLBL(), "ptb", texts.train, texts.valid)
    ngrams = KneserNey(order=5).fit(texts.train)
    models: dict[str, LanguageModel] = {
        "KneserNey(5)": ngrams,
        "HLBL, default": hlbl,
        "HLBL + KneserNey(5)": Mixture({"hlbl": hlbl, "kneser_ney": ngrams}),
    }
    works = {
        (name, way): work
        for name, model in models.items()
        for way, work in works_of(model, texts.test_lines).items()
    }
    seconds = reporting.interleaved(
        {key: call for key, (call, _) in works.items()}, options.repeats
    )
    for (name, way), (_, n) in works.items():
        found = reporting.rate(n, seconds[name, way], "tokens/s")
        yield {"model": name, "what": way, **found, "load": reporting.load()}


if __name__ == "__main__":
    main(__doc__, Table("lm-scorer", PROTOCOL, rows), repeats=7)
