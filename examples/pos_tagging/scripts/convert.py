"""Write the labelled sentences as .spacy files, and a file of raw text to learn vectors from.

With UD English EWT at hand (a folder in TACENDA_DATA, or `tacenda data fetch ud-english-ewt`) it is real
English; otherwise sentences of an invented language with known structure.
"""

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import spacy
import typer
from spacy.tokens import Doc, DocBin

from tacenda import datasets
from tacenda.corpus.lines import read_blocks
from tacenda.datasets import conllu, synthetic_text
from tacenda.errors import DataError
from tacenda.tokenizers import get_tokenizer

Sentence = tuple[list[str], list[str]]  # words and tags


def main(
    corpus: Annotated[Path, typer.Argument(help="Folder to write to.")] = Path("corpus"),
    source: Annotated[str, typer.Option(help="ud-english-ewt, synthetic, or auto.")] = "auto",
    n_train: Annotated[int, typer.Option(help="Labeled sentences to train on; 0: all.")] = 250,
    raw_tokens: Annotated[
        int, typer.Option(help="Maximum number of tokens of raw text.")
    ] = 3_000_000,
) -> None:
    if source == "auto":
        source = "ud-english-ewt" if here("ud-english-ewt") else "synthetic"
    parts = treebank() if source == "ud-english-ewt" else invented(raw_tokens)
    corpus.mkdir(parents=True, exist_ok=True)
    # raw text holds no sentence that is tested on
    raw = itertools.chain((words for words, _ in parts["train"]), parts.pop("raw"))
    parts["train"] = parts["train"][: n_train or None]
    blank = spacy.blank("en")
    for name, sentences in parts.items():
        write_docs(corpus / f"{name}.spacy", blank.vocab, sentences)
    n_tokens = write_text(corpus / "raw.txt", raw, raw_tokens)
    sizes = ", ".join(f"{len(sentences):,} {name}" for name, sentences in parts.items())
    print(f"{source}: {sizes} sentences; {n_tokens:,} tokens of raw text, in {corpus}")


def here(name: str) -> bool:
    try:
        datasets.locate(name)
    except DataError:
        return False
    return True


def treebank() -> dict[str, Any]:
    files = datasets.locate("ud-english-ewt")
    parts: dict[str, Any] = {}
    for part in ("train", "dev", "test"):
        parts[part] = [(list(each.words), list(each.upos)) for each in conllu.read(files[part])]
    parts["raw"] = wikipedia() if here("wikipedia-good-articles") else iter(())
    return parts


def wikipedia() -> Iterator[list[str]]:
    file = datasets.locate("wikipedia-good-articles")["train"]
    split = get_tokenizer("words")
    for lines in read_blocks(file):
        yield from (split(line) for line in lines if line and not line.startswith("="))


def invented(n_tokens: int) -> dict[str, Any]:
    labelled = [
        (list(each.words), list(each.tags)) for each in synthetic_text.generate(3000, seed=1)
    ]
    parts: dict[str, Any] = {
        "train": labelled[:2000],
        "dev": labelled[2000:2500],
        "test": labelled[2500:],
    }
    more = synthetic_text.sentences(seed=2)
    parts["raw"] = (list(each.words) for each in itertools.islice(more, n_tokens // 20))
    return parts


def write_docs(path: Path, vocab: Any, sentences: Iterable[Sentence]) -> None:
    docs = DocBin(attrs=["TAG", "SENT_START"])
    for words, tags in sentences:
        starts = [i == 0 for i in range(len(words))]
        docs.add(Doc(vocab, words=words, tags=tags, sent_starts=starts))
    docs.to_disk(path)


def write_text(path: Path, sentences: Iterable[list[str]], limit: int) -> int:
    written = 0
    with path.open("w", encoding="utf8") as file:
        for words in sentences:
            if written >= limit:
                break
            file.write(" ".join(words) + "\n")
            written += len(words)
    return written


if __name__ == "__main__":
    typer.run(main)
