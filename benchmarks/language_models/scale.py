"""Language models of 26 million tokens of Wikipedia: seconds, memory, size on disk and perplexity.

    python -m benchmarks.language_models.scale [--only kneser_ney] [--epochs 2] [--lines 0] [--threads 1]

The good and featured articles of English Wikipedia, from TACENDA_DATA, in the split that comes with them. Every
model has a process of its own, which reads the corpus, fits, and measures the dev and test parts; the mixture reads
the models that were fitted. They are kept: a fit that was broken off goes on from its last epoch, and one that is
done is not made again.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from benchmarks import parts, reporting
from benchmarks.language_models import contexts
from benchmarks.language_models.kept import kept
from tacenda import Corpus, datasets
from tacenda_lm import HLBL, KneserNey, Mixture

Row = dict[str, Any]
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


def corpora(lines: int) -> tuple[Corpus, Corpus, Corpus]:
    """Train, dev and test; the training text is tokenized once, and ``lines`` above 0 takes its head."""
    files = datasets.locate("wikipedia-good-articles")
    train = Corpus.from_text(
        files["train"],
        tokenizer="words",
        max_vocabulary=MAX_VOCABULARY,
        cache=parts.kept_folder() / "corpus-lm-wikipedia",
    )
    if lines:
        train = train.head(lines)
    dev, test = (
        Corpus.from_text(files[part], tokenizer="words", vocabulary=train.vocabulary)
        for part in ("dev", "test")
    )
    return train, dev, test


def fitted(name: str, train: Corpus, dev: Corpus, options: argparse.Namespace) -> tuple[Any, Row]:
    """A model and the row of its fit."""
    folder = f"{name}-wikipedia-{options.lines}"
    if name == "hlbl":
        lm = HLBL(epochs=options.epochs, threads=options.threads)
        model, row = kept(
            folder,
            lm.settings.to_dict(),
            parts.BILINEAR,
            lambda checkpoints: lm.fit(train, dev, checkpoints=checkpoints),
        )
        row |= {"threads": options.threads, "epochs": options.epochs}
    else:
        ngrams = KneserNey(order=5)
        settings = ngrams.settings.to_dict()
        model, row = kept(folder, settings, parts.NGRAMS, lambda _: ngrams.fit(train))
        row |= {"threads": 1}
    return model, {"tokens": train.n_tokens, "types": len(train.vocabulary), **row}


def rows_of(name: str, options: argparse.Namespace) -> list[Row]:
    """All rows of one model: what a process of its own does."""
    train, dev, test = corpora(options.lines)
    rows: list[Row] = []
    if name == "mixture":
        model = Mixture({each: fitted(each, train, dev, options)[0] for each in NAMES[:2]})
    else:
        model, row = fitted(name, train, dev, options)
        rows.append({"what": f"{name}, fit", "part": "fit", **row})
    for row in contexts.perplexities(
        model, {"dev": dev, "test": test}, weights_on=dev, without_unknown=True
    ):
        rows.append({"what": f"{name}, {row['context']}", "part": "perplexity", **row})
    return [{**row, "model": name} for row in rows]


def main() -> None:
    parser = reporting.Command(__doc__)
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--lines", type=int, default=0, help="paragraphs of the text; 0 takes all")
    parser.add_argument("--epochs", type=int, default=2, help="of the HLBL")
    parser.add_argument("--threads", type=int, default=1, help="of the HLBL's training")
    parser.add_argument("--in-this-process", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.in_this_process:
        print(json.dumps(rows_of(options.in_this_process, options)))
        return
    corpora(options.lines)  # tokenized once, before the processes that read it
    for name in options.only:
        here = (*sys.argv[1:], "--in-this-process", name)
        rows = reporting.of_process("benchmarks.language_models.scale", *here)
        dry = bool(options.lines)
        reporting.save("lm-scale", PROTOCOL, rows, seeds=(0,), keep="what", dry=dry)


if __name__ == "__main__":
    main()
