"""How long a text lasts: the epochs of HLBL and VLHMM on texts of several sizes.

    python -m benchmarks.language_models.sizes choose [--model hlbl vlhmm] [--tokens 100000 300000 900000]
    python -m benchmarks.language_models.sizes [--model hlbl vlhmm] [--text ptb novels more-novels wikipedia]

`choose` compares numbers of epochs on mixed prose that no table shows: novels by authors from A to F, and the training
part of the Wikipedia articles; it writes lm-sizes-chosen. Without it, the defaults are fitted to Penn Treebank, to one
and to five million tokens of novels by other authors, and to 26 million tokens of Wikipedia, and beside them the number
of epochs that suits Penn Treebank: lm-sizes. Every fit is kept, and goes on where it was broken off; what is not asked
for stays as it was measured.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

from benchmarks import parts, reporting
from benchmarks.language_models.contexts import Texts
from benchmarks.language_models.kept import kept
from benchmarks.language_models.scale import corpora as wikipedia
from tacenda import Corpus, datasets
from tacenda.corpus.lines import read_blocks, text_file
from tacenda.tokenizers import split_words
from tacenda_lm import HLBL, VLHMM

WORDS = 20_000
TOKENS = {"novels": 1_000_000, "more-novels": 5_000_000}
PROTOCOL = {
    "epochs": "planned: the rate falls along half a cosine over them; done: less where three evaluations were no "
    "better than the best, whose parameters are kept",
    "tokens of a type": "of the training text, by types of the vocabulary",
    "valid": "perplexity of held-out text as a stream, </s> predicted; the best epoch by it is kept",
    "last": "perplexity of held-out text after the last epoch done, as if none had told when to stop",
    "test": "of text looked at once",
    "words": "20,000 most frequent ones of the novels, as many of mixed prose if they occur twice, 40,000 of Wikipedia,"
    " all of Penn Treebank",
    "CPU s": "of the whole fit, one thread",
}

Row = dict[str, Any]


class Kind(NamedTuple):
    """A model whose epochs are studied."""

    model: type[HLBL] | type[VLHMM]
    measures: tuple[str, ...]
    choices: tuple[int, ...]  # of epochs; the last suits Penn Treebank


KINDS = {
    "hlbl": Kind(HLBL, parts.BILINEAR, (1, 2, 3, 5, 7, 9, 13)),
    "vlhmm": Kind(VLHMM, (*parts.TRAINING, *parts.MARKOV), (2, 4, 8, 17, 30)),
}


def novels(first: str, last: str) -> Iterator[list[str]]:
    """The lines, paragraphs mostly, of the novels by authors whose names begin with these letters and those between."""
    place = datasets.locate("english-novels")["novels"]
    with tarfile.open(place) as archive:
        members = {member.name.rpartition("/")[2]: member for member in archive if member.isfile()}
        for name in sorted(members):
            content = archive.extractfile(members[name])
            if content is not None and first <= name[0] <= last:
                lines = io.TextIOWrapper(content, encoding="utf-8")
                yield from filter(None, map(split_words, lines))


def articles() -> Iterator[list[str]]:
    """The paragraphs of the training part of the Wikipedia articles."""
    path = text_file(datasets.locate("wikipedia-good-articles")["train"])
    for block in read_blocks(path, longest=1 << 27):
        yield from filter(None, map(split_words, block))


def up_to(sentences: Iterator[list[str]], n_tokens: int) -> Iterator[list[str]]:
    """The first sentences, until they have so many tokens."""
    for sentence in sentences:
        n_tokens -= len(sentence)
        if n_tokens < 0:
            return
        yield sentence


def mixed(n_tokens: int) -> tuple[Corpus, Corpus]:
    """Mixed prose to choose on: as much of novels as of articles; other authors and articles are held out.

    Words that occur once are unknown: a model that sees no unknown word in training ever gives them less and less, and
    then its perplexity measures little else.
    """
    encyclopedia = articles()
    train = [*up_to(novels("A", "E"), n_tokens // 2), *up_to(encyclopedia, n_tokens // 2)]
    valid = [*up_to(novels("F", "F"), 30_000), *up_to(encyclopedia, 30_000)]
    corpus = Corpus.from_sentences(train, max_vocabulary=WORDS, min_count=2)
    return corpus, Corpus.from_sentences(valid, vocabulary=corpus.vocabulary)


def text(name: str) -> tuple[Corpus, Corpus, Corpus]:
    """Train, valid and test of a text of a table."""
    if name == "wikipedia":
        return wikipedia(0)
    if name == "ptb":
        texts = Texts()
        return texts.train, texts.valid, texts.test
    train = Corpus.from_sentences(up_to(novels("G", "R"), TOKENS[name]), max_vocabulary=WORDS)
    names = train.vocabulary
    valid = Corpus.from_sentences(up_to(novels("S", "S"), 80_000), vocabulary=names)
    test = Corpus.from_sentences(up_to(novels("T", "T"), 80_000), vocabulary=names)
    return train, valid, test


def fitted(
    kind: str, on: str, epochs: int | None, train: Corpus, valid: Corpus
) -> tuple[HLBL | VLHMM, Row]:
    """A model of the defaults but for its epochs (None: the default too), and its row."""
    chosen = KINDS[kind]
    model = chosen.model() if epochs is None else chosen.model(epochs=epochs)
    settings = {**model.settings.to_dict(), "tokens": train.n_tokens}
    found, row = kept(
        f"{kind}-{on.replace(' ', '-')}",
        settings,
        chosen.measures,
        lambda checkpoints: model.fit(train, valid, checkpoints=checkpoints),
    )
    course, n_types = found.fitted_on["training"], len(train.vocabulary)
    values = [value for _, _, value in course["evaluations"]]
    if isinstance(model, HLBL):
        plan = model.settings.plan(train.n_tokens, n_types).epochs
    else:
        plan = model.settings.plan(train.n_tokens, n_types, held_out=True).epochs
    return found, {
        "what": f"{kind}: {on}, {train.n_tokens:,} tokens, {plan} epochs",
        "model": kind,
        "text": on,
        "tokens": train.n_tokens,
        "tokens of a type": train.n_tokens / n_types,
        "planned": plan,
        "done": course["epochs"],
        "best epoch": 1 + values.index(min(values)),
        "valid": found.perplexity(valid, context="stream").value,
        "last": values[-1],
        "CPU s": row["CPU s"],
    }


def main() -> None:
    parser = reporting.Command(__doc__)
    parser.add_argument("act", nargs="?", choices=("measure", "choose"), default="measure")
    parser.add_argument("--model", nargs="+", choices=KINDS, default=tuple(KINDS))
    parser.add_argument("--text", nargs="+", default=("ptb", *TOKENS))
    parser.add_argument("--tokens", type=int, nargs="+", default=(100_000, 300_000, 900_000))
    parser.add_argument(
        "--epochs",
        type=int,
        nargs="+",
        help="by default several to choose from, and to measure the plan",
    )
    options = parser.parse_args()
    rows: list[Row] = []
    if options.act == "choose":
        for n_tokens, kind in product(options.tokens, options.model):
            train, valid = mixed(n_tokens)
            for epochs in options.epochs or KINDS[kind].choices:
                rows.append(fitted(kind, "mixed prose", epochs, train, valid)[1])
                reporting.save("lm-sizes-chosen", PROTOCOL, rows, seeds=(0,), keep="what")
        return
    for on, kind in product(options.text, options.model):
        train, valid, test = text(on)
        known = 0
        for epochs in options.epochs or (None, KINDS[kind].choices[-1]):
            if epochs == known:
                continue  # as planned
            model, row = fitted(kind, on, epochs, train, valid)
            known = row["planned"]
            rows.append({**row, "test": model.perplexity(test, context="stream").value})
            reporting.save("lm-sizes", PROTOCOL, rows, seeds=(0,), keep="what")


if __name__ == "__main__":
    main()
