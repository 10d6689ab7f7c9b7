"""How long a text lasts: the schedules of HLBL and VLHMM on texts of several sizes.

    python -m benchmarks.language_models.sizes choose
    python -m benchmarks.language_models.sizes [--text ptb novels wikipedia] [--model hlbl vlhmm]

`choose` compares ways to end a fit on mixed prose that no table shows: novels by authors from A to F, and the training
part of the Wikipedia articles; it writes lm-sizes-chosen. Without it, the defaults are fitted to Penn Treebank, to a
million tokens of novels by other authors, and to 26 million tokens of Wikipedia, and beside them the plan that does not
look at held-out text while it runs: lm-sizes. Every fit is kept, and goes on where it was broken off; what is not asked
for stays as it was measured.
"""

from __future__ import annotations

import argparse
import io
import tarfile
from collections.abc import Iterator
from typing import Any

from benchmarks import parts, reporting
from benchmarks.language_models.kept import kept
from benchmarks.language_models.scale import corpora as wikipedia
from tacenda import Corpus, datasets
from tacenda.corpus.lines import read_blocks, text_file
from tacenda.tokenizers import split_words
from tacenda_lm import HLBL, VLHMM, LanguageModel

WORDS = 20_000
CHOICES = (0.0, 0.25, 0.5, 1.0)  # of the option annealing; 0 keeps to the plan
MODELS: dict[str, type[LanguageModel]] = {"hlbl": HLBL, "vlhmm": VLHMM}
PROTOCOL = {
    "annealing": "how the learning rate falls: 0, along half a cosine over all epochs of the settings, three (HLBL) or "
    "five (VLHMM) evaluations without a better one ending the fit; otherwise from the first such evaluation and the "
    "best parameters on, within this share of the epochs done",
    "valid": "perplexity of held-out text, </s> predicted; HLBL as a stream, VLHMM sentence by sentence; the best "
    "epoch by it is kept",
    "test": "of text looked at once",
    "words": "20,000 most frequent ones of the novels and of mixed prose, 40,000 of Wikipedia, all of Penn Treebank",
    "CPU s": "of the whole fit, one thread",
}

Row = dict[str, Any]


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
    """Mixed prose to choose on: as much of novels as of articles; other authors and articles are held out."""
    encyclopedia = articles()
    train = [*up_to(novels("A", "E"), n_tokens // 2), *up_to(encyclopedia, n_tokens // 2)]
    valid = [*up_to(novels("F", "F"), 30_000), *up_to(encyclopedia, 30_000)]
    corpus = Corpus.from_sentences(train, max_vocabulary=WORDS)
    return corpus, Corpus.from_sentences(valid, vocabulary=corpus.vocabulary)


def text(name: str) -> tuple[Corpus, Corpus, Corpus]:
    """Train, valid and test of a text of a table."""
    if name == "wikipedia":
        return wikipedia(0)
    if name == "ptb":
        files = datasets.locate("ptb")
        train = Corpus.from_text(files["train"])
        held_out = (
            Corpus.from_text(files[r], vocabulary=train.vocabulary) for r in ("dev", "test")
        )
        return train, *held_out
    train = Corpus.from_sentences(up_to(novels("G", "R"), 1_000_000), max_vocabulary=WORDS)
    names = train.vocabulary
    valid = Corpus.from_sentences(up_to(novels("S", "S"), 80_000), vocabulary=names)
    test = Corpus.from_sentences(up_to(novels("T", "T"), 80_000), vocabulary=names)
    return train, valid, test


def fitted(name: str, on: str, annealing: float, train: Corpus, valid: Corpus) -> tuple[Any, Row]:
    """A model of the defaults but for ``annealing``, and its row."""
    model: Any = MODELS[name](advanced={"annealing": annealing})  # type: ignore[call-arg]
    settings = {**model.settings.to_dict(), "tokens": train.n_tokens}
    measures = {"hlbl": parts.BILINEAR, "vlhmm": parts.MARKOV}[name]
    found, row = kept(
        f"{name}-{on.replace(' ', '-')}",
        settings,
        measures,
        lambda checkpoints: model.fit(train, valid, checkpoints=checkpoints),
    )
    course = found.fitted_on["training"]
    values = [value for _, _, value in course["evaluations"]]
    context = found.own_context
    share = model.settings.advanced.annealing
    about = {
        "what": f"{name}, {on}, {share}",
        "model": name,
        "text": on,
        "tokens": train.n_tokens,
        "types": len(train.vocabulary),
        "annealing": share,
        "epochs": course["epochs"],
        "best epoch": 1 + values.index(min(values)),
        "context": context,
        "valid": found.perplexity(valid, context=context).value,
        "CPU s": row["CPU s"],
    }
    return found, about


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("act", nargs="?", choices=("measure", "choose"), default="measure")
    parser.add_argument("--text", nargs="+", default=("ptb", "novels"))
    parser.add_argument("--model", nargs="+", choices=MODELS, default=("hlbl",))
    parser.add_argument("--tokens", type=int, default=900_000, help="of the text to choose on")
    options = parser.parse_args()
    if options.act == "choose":
        train, valid = mixed(options.tokens)
        for name in options.model:
            for annealing in CHOICES:
                row = fitted(name, "mixed prose", annealing, train, valid)[1]
                reporting.save("lm-sizes-chosen", PROTOCOL, [row], seeds=(0,), keep="what")
        return
    for on in options.text:
        train, valid, test = text(on)
        for name in options.model:
            for annealing in (0.0, 0.5):
                model, row = fitted(name, on, annealing, train, valid)
                row["test"] = model.perplexity(test, context=row["context"]).value
                reporting.save("lm-sizes", PROTOCOL, [row], seeds=(0,), keep="what")


if __name__ == "__main__":
    main()
