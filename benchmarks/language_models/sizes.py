"""How long a text lasts: the epochs of HLBL and VLHMM on texts of several sizes.

    python -m benchmarks.language_models.sizes [--model hlbl vlhmm] [--text ptb novels more-novels wikipedia]
    python -m benchmarks.language_models.sizes --tables lm-sizes-chosen [--tokens 100000 300000 900000]

lm-sizes-chosen compares numbers of epochs on mixed prose that no table shows: novels by authors from A to F, and the
training part of the Wikipedia articles. lm-sizes has the defaults fitted to Penn Treebank, to one and to five million
tokens of novels by other authors, and beside them the number of epochs that suits Penn Treebank. Every fit is kept, and
goes on where it was interrupted.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from itertools import product
from typing import Any

from benchmarks.language_models import contexts
from benchmarks.language_models.contexts import Texts
from benchmarks.language_models.scale import corpora as wikipedia
from benchmarks.reporting import Row, Table, main
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
MODELS: dict[str, type[HLBL] | type[VLHMM]] = {"hlbl": HLBL, "vlhmm": VLHMM}
CHOICES = {
    "hlbl": (1, 2, 3, 5, 7, 9, 13),
    "vlhmm": (2, 4, 8, 17, 30),
}  # the last suits Penn Treebank


def novels(first: str, last: str) -> Iterator[list[str]]:
    """Yield the lines, paragraphs mostly, of the novels by authors whose names begin with these letters."""
    place = datasets.locate("english-novels")["novels"]
    with tarfile.open(place) as archive:
        members = {member.name.rpartition("/")[2]: member for member in archive if member.isfile()}
        for name in sorted(members):
            content = archive.extractfile(members[name])
            if content is not None and first <= name[0] <= last:
                lines = io.TextIOWrapper(content, encoding="utf-8")
                yield from filter(None, map(split_words, lines))


def articles() -> Iterator[list[str]]:
    """Yield the paragraphs of the training part of the Wikipedia articles."""
    path = text_file(datasets.locate("wikipedia-good-articles")["train"])
    for block in read_blocks(path, longest=1 << 27):
        yield from filter(None, map(split_words, block))


def up_to(sentences: Iterator[list[str]], n_tokens: int) -> Iterator[list[str]]:
    """Yield the first sentences, until they have so many tokens."""
    for sentence in sentences:
        n_tokens -= len(sentence)
        if n_tokens < 0:
            return
        yield sentence


def mixed(n_tokens: int) -> tuple[Corpus, Corpus]:
    """Return mixed prose to choose on: as much of novels as of articles; other authors and articles are held out.

    Words that occur once are unknown: a model that sees no unknown word in training ever gives them less and less, and
    then its perplexity measures little else.
    """
    encyclopedia = articles()
    train = [*up_to(novels("A", "E"), n_tokens // 2), *up_to(encyclopedia, n_tokens // 2)]
    valid = [*up_to(novels("F", "F"), 30_000), *up_to(encyclopedia, 30_000)]
    corpus = Corpus.from_sentences(train, max_vocabulary=WORDS, min_count=2)
    return corpus, Corpus.from_sentences(valid, vocabulary=corpus.vocabulary)


def read(name: str) -> tuple[Corpus, Corpus, Corpus]:
    """Return train, valid and test of a text of a table."""
    if name == "wikipedia":
        return wikipedia()
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
    """Return a model of the defaults but for its epochs (None: the default too), and its row."""
    model = MODELS[kind]() if epochs is None else MODELS[kind](epochs=epochs)
    on_disk = on if on == "ptb" else f"{on.replace(' ', '-')}-{train.n_tokens}"
    found, row = contexts.fitted(model, on_disk, train, valid)
    course, n_types = found.fitted_on["training"], len(train.vocabulary)
    values = [value for _, _, value in course["evaluations"]]
    held_out = {"held_out": True} if isinstance(model, VLHMM) else {}
    plan = model.settings.plan(train.n_tokens, n_types, **held_out).epochs
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


def choices(options: Any) -> Iterator[Row]:
    for n_tokens, kind in product(options.tokens, options.model):
        train, valid = mixed(n_tokens)
        for epochs in CHOICES[kind]:
            yield fitted(kind, "mixed prose", epochs, train, valid)[1]


def rows(options: Any) -> Iterator[Row]:
    for on, kind in product(options.text, options.model):
        train, valid, test = read(on)
        planned = 0
        for epochs in (None, CHOICES[kind][-1]):
            if epochs == planned:
                continue
            model, row = fitted(kind, on, epochs, train, valid)
            planned = row["planned"]
            yield {**row, "test": model.perplexity(test, context="stream").value}


if __name__ == "__main__":
    main(
        __doc__,
        Table("lm-sizes", PROTOCOL, rows, key="what"),
        Table("lm-sizes-chosen", PROTOCOL, choices, key="what"),
        model=tuple(MODELS),
        text=["ptb", *TOKENS],
        tokens=[100_000, 300_000, 900_000],
    )
