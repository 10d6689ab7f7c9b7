"""Language models of 26 million tokens of Wikipedia: seconds, memory, size on disk and perplexity.

    python -m benchmarks.language_models.scale [--only kneser_ney] [--epochs 2] [--threads 1]

The good and featured articles of English Wikipedia, from TACENDA_DATA, in the split that comes with them. Every
model has a process of its own, which reads the corpus, fits, and measures the dev and test parts; the mixture reads
the models that were fitted. They are kept: an interrupted fit goes on from its last epoch, and one that is
done is not made again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks import kept
from benchmarks.language_models import contexts
from benchmarks.reporting import Row, Table, in_process, main
from tacenda import Corpus, datasets
from tacenda_lm import HLBL, KneserNey, Mixture

MAX_VOCABULARY = 40_000
NAMES = ("kneser_ney", "hlbl", "mixture")
PROTOCOL = {
    "text": "good and featured articles of English Wikipedia; a paragraph is a sentence, tokens by the tokenizer "
    "'words'; the 40,000 most frequent words, all others are <unk> and are scored as such",
    "perplexity": "dev and test part, </s> predicted; without unknown: words outside the vocabulary left out of "
    "the sum and of the count",
    "context": contexts.PROTOCOL,
    "fit s": "by the clock, reading the corpus left out; CPU s of the processor",
    "peak GB": "the most that was resident in the process up to the end of the fit: corpus and compiled code included",
    "mixture": "weights fitted on the dev part, in the context of the row",
    "settings": "of HLBL the defaults, chosen on Penn Treebank's validation text; two epochs, for the time they take",
}


def corpora() -> tuple[Corpus, Corpus, Corpus]:
    """Return train, dev and test; the training text is tokenized once."""
    files = datasets.locate("wikipedia-good-articles")
    train = Corpus.from_text(
        files["train"],
        tokenizer="words",
        max_vocabulary=MAX_VOCABULARY,
        cache=kept.place() / "corpus-lm-wikipedia",
    )
    dev, test = (
        Corpus.from_text(files[part], tokenizer="words", vocabulary=train.vocabulary)
        for part in ("dev", "test")
    )
    return train, dev, test


def measure(name: str, epochs: int, threads: int) -> list[Row]:
    """Return all rows of one model: what a process of its own does."""
    train, dev, test = corpora()
    models = {"kneser_ney": KneserNey(order=5), "hlbl": HLBL(epochs=epochs, threads=threads)}

    def fitted(each: str) -> tuple[Any, Row]:
        return contexts.fitted(models[each], "wikipedia", train, dev if each == "hlbl" else None)

    rows: list[Row] = []
    if name == "mixture":
        model: Any = Mixture({each: fitted(each)[0] for each in models})
    else:
        model, row = fitted(name)
        row |= {"threads": threads, "epochs": epochs} if name == "hlbl" else {"threads": 1}
        about = {"tokens": train.n_tokens, "types": len(train.vocabulary)}
        rows.append({"what": f"{name}, fit", "part": "fit", **about, **row})
    texts = {"dev": dev, "test": test}
    for row in contexts.perplexities(model, texts, weights_on=dev, without_unknown=True):
        rows.append({"what": f"{name}, {row['context']}", "part": "perplexity", **row})
    return [{**row, "model": name} for row in rows]


def rows(options: Any) -> Iterator[Row]:
    corpora()  # tokenized once, before the processes that read it
    for name in options.chosen(NAMES):
        yield from in_process(measure, name, options.epochs, options.threads)


if __name__ == "__main__":
    main(__doc__, Table("lm-scale", PROTOCOL, rows, key="what"), epochs=2, threads=1)
