"""Write a treebank and sentences with entities as .spacy files, and a file of raw text to learn vectors from.

With UD English EWT and WNUT-17 at hand (a folder in TACENDA_DATA, or `tacenda data fetch`) it is real English;
otherwise an invented language, whose trees, lemmas and categories are made up here and are easy to learn.
"""

import itertools
import random
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import spacy
import typer
from spacy.tokens import Doc, DocBin, Span
from spacy.training.converters import conllu_to_docs

from tacenda import datasets
from tacenda.corpus.lines import numbered_lines, read_blocks
from tacenda.datasets import columns, synthetic_text
from tacenda.errors import DataError

PARTS = ("train", "dev", "test")
REAL = ("ud-english-ewt", "wnut17", "wikipedia-good-articles")
LONGEST = 20  # sentences of a document


def main(
    corpus: Annotated[Path, typer.Argument(help="Folder to write to.")] = Path("corpus"),
    source: Annotated[str, typer.Option(help="ud-english-ewt, synthetic, or auto.")] = "auto",
    n_train: Annotated[int, typer.Option(help="Labeled sentences to train on; 0: all.")] = 250,
    raw_tokens: Annotated[
        int, typer.Option(help="Approximate number of tokens of raw text.")
    ] = 1_000_000,
) -> None:
    if source == "auto":
        source = "ud-english-ewt" if all(map(here, REAL)) else "synthetic"
    vocab = spacy.blank("en").vocab
    corpus.mkdir(parents=True, exist_ok=True)
    for seed, part in enumerate(PARTS):
        if source == "synthetic":
            documents, sentences = invented_treebank(vocab, seed), invented_entities(vocab, seed)
        else:
            documents, sentences = treebank(part), entities(vocab, part)
        limit = n_train if part == "train" and n_train else 10**9
        write(corpus / f"{part}.spacy", up_to(documents, limit))
        write(corpus / f"entities-{part}.spacy", up_to(sentences, limit))
    lines = invented_text() if source == "synthetic" else wikipedia()
    written = write_text(corpus / "raw.txt", lines, raw_tokens)
    print(f"{source}: labeled data and {written:,} words of raw text, in {corpus}")


def here(name: str) -> bool:
    try:
        datasets.locate(name)
    except DataError:
        return False
    return True


# -- English -------------------------------------------------------------------------------------------


def treebank(part: str) -> Iterator[Doc]:
    """Documents of the treebank in an order drawn at random, with their kind of text as category."""
    lines = numbered_lines(datasets.locate("ud-english-ewt")[part])  # also of a compressed file
    text = "\n".join(line for _, line in lines)
    names = re.findall(r"^# sent_id = (.*)-\d+$", text, re.MULTILINE)
    sentences = zip(names, conllu_to_docs(text, n_sents=1, no_print=True), strict=True)
    documents = []
    for name, group in itertools.groupby(sentences, key=lambda each: each[0]):
        kind = name.partition("-")[0]
        some = [doc for _, doc in itertools.islice(group, LONGEST)]
        document = Doc.from_docs(some)
        document.cats = {each: float(each == kind) for each in kinds(names)}
        documents.append(document)
    random.Random(0).shuffle(documents)
    yield from documents


def kinds(names: Iterable[str]) -> list[str]:
    return sorted({name.partition("-")[0] for name in names})


def entities(vocab: spacy.Vocab, part: str) -> Iterator[Doc]:
    """Sentences with entities and no other annotation."""
    for words, tags in columns.read_ner(datasets.locate("wnut17")[part], "iob2"):
        yield Doc(vocab, words=list(words), ents=list(tags))


def wikipedia() -> Iterator[str]:
    for lines in read_blocks(datasets.locate("wikipedia-good-articles")["train"]):
        yield from (line for line in lines if line and not line.startswith("="))


# -- an invented language ------------------------------------------------------------------------------


def invented_treebank(vocab: spacy.Vocab, seed: int) -> Iterator[Doc]:
    """Documents of four sentences, in which words depend on their neighbors; lemmas are first letters."""
    sentences = iter(synthetic_text.generate(400, seed=seed))
    for four in zip(*[sentences] * 4, strict=True):
        docs = [
            Doc(
                vocab,
                words=list(each.words),
                tags=list(each.tags),
                pos=list(each.tags),
                morphs=[
                    f"Ending={word[-1].lower()}" if word.isalpha() else "" for word in each.words
                ],
                lemmas=[word[:5].lower() for word in each.words],
                **tree(len(each.words)),
            )
            for each in four
        ]
        document = Doc.from_docs(docs)
        named = float(any(each.entities for each in four))
        document.cats = {"names": named, "none": 1 - named}
        yield document


def tree(n_words: int) -> dict[str, list[Any]]:
    middle = n_words // 2
    heads = [i + (i < middle) - (i > middle) for i in range(n_words)]
    return {
        "heads": heads,
        "deps": ["ROOT" if head == i else "dep" for i, head in enumerate(heads)],
    }


def invented_entities(vocab: spacy.Vocab, seed: int) -> Iterator[Doc]:
    for each in synthetic_text.generate(400, seed=10 + seed):
        doc = Doc(vocab, words=list(each.words))
        doc.ents = [Span(doc, e.start, e.end, label=e.label) for e in each.entities]
        yield doc


def invented_text() -> Iterator[str]:
    return (" ".join(each.words) for each in synthetic_text.sentences(seed=99))


# -- files ---------------------------------------------------------------------------------------------


def up_to(documents: Iterable[Doc], limit: int) -> Iterator[Doc]:
    """Yield documents until they have so many sentences."""
    seen = 0
    for document in documents:
        if seen >= limit:
            return
        yield document
        seen += len(list(document.sents)) if document.has_annotation("SENT_START") else 1


def write(path: Path, documents: Iterable[Doc]) -> None:
    DocBin(docs=documents, store_user_data=False).to_disk(path)


def write_text(path: Path, lines: Iterable[str], limit: int) -> int:
    written = 0
    with path.open("w", encoding="utf8") as file:
        for line in lines:
            if written >= limit:
                break
            file.write(line + "\n")
            written += line.count(" ") + 1
    return written


if __name__ == "__main__":
    typer.run(main)
