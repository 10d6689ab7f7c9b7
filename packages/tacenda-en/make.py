"""Makes the models of this package, the same bytes every time on one machine: `make models`.

    TACENDA_DATA=... python packages/tacenda-en/make.py [--lines 10000] [--output FOLDER]

The text is English Wikipedia's good and featured articles (26 million tokens), one paragraph a line, cut into sentences
for the n-grams. What is finished is not made again: delete a folder to make it anew.
"""

from __future__ import annotations

import argparse
import lzma
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import spacy

import tacenda
from tacenda import Corpus
from tacenda.artifact.packaging import ModelCard, card
from tacenda.datasets import locate
from tacenda_embeddings import LDS, SumEmbed
from tacenda_embeddings.text_vectors import loss
from tacenda_lm import KneserNey

HERE = Path(__file__).parent
TEXT = "English Wikipedia, good and featured articles, 2019 (wikipedia-good-articles)"
ATTRIBUTION = (
    "Fitted to the text of English Wikipedia's good and featured articles of 2019, whose authors the history of each "
    "article names: <https://en.wikipedia.org>. The text is under CC BY-SA 3.0, and so are these models. No model "
    "holds the text: they hold counts of short runs of words and numbers made from such counts."
)


def paragraphs(lines: int | None) -> Iterator[str]:
    """The paragraphs of the training part, without headings."""
    with lzma.open(locate("wikipedia-good-articles")["train"], "rt", encoding="utf8") as stream:
        text = (line for line in stream if line.strip() and not line.startswith("="))
        yield from islice(text, lines)


def sentences(lines: Iterator[str]) -> Iterator[str]:
    """The sentences of paragraphs, by spaCy's rules for punctuation."""
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    for doc in nlp.pipe(lines, batch_size=200):
        yield from (sentence.text.strip() for sentence in doc.sents)


def lds(lines: int | None, folder: Path) -> None:
    """Token vectors in context, 50 states."""
    corpus = Corpus.from_text(
        paragraphs(lines), tokenizer="words", max_vocabulary=30_000, digits=True, oov="classes"
    )
    model = LDS(n_states=50).fit(corpus)
    model.save(folder, precision="int8")
    note(model, folder)


def words(lines: int | None, folder: Path) -> None:
    """Word vectors made of morphemes, 64 wide: of counts, without training."""
    corpus = Corpus.from_text(
        paragraphs(lines), tokenizer="words", max_vocabulary=20_000, digits=True, lowercase=True
    )
    model = SumEmbed(width=64, epochs=0).fit(corpus)
    model.save(folder, precision="int8")
    note(model, folder)


def note(model: LDS | SumEmbed, folder: Path) -> None:
    """Write into the saved model what its compact form loses."""
    small = tacenda.load(folder)
    lost = loss(model, small, None, "words")
    small.fitted_on |= {"text": TEXT}
    small.figures.append(
        {
            "measure": "cosine with the vectors before rounding to 8 bits",
            "value": round(lost.mean, 5),
            "protocol": f"mean over {lost.n_vectors:,} words, each alone; the least is {lost.least:.4f}",
        }
    )
    small.save(folder)


def ngrams(lines: int | None, folder: Path) -> None:
    """A trigram model of sentences, without what occurred too rarely."""
    corpus = Corpus.from_text(
        sentences(paragraphs(lines)), tokenizer="words", max_vocabulary=20_000
    )
    model = KneserNey(order=3, prune=(1, 4, 8)).fit(corpus)
    model.fitted_on |= {"text": TEXT}
    test = Corpus.from_text(
        sentences(iter(locate("wikipedia-good-articles")["test"].read_text("utf8").splitlines())),
        tokenizer="words",
        vocabulary=model.vocabulary,
    )
    model.record(test, "the test part of the same collection, sentences apart")
    model.save(folder)


MODELS = {
    "en-lds-small": (
        lds,
        "Token vectors of a linear dynamical system, 50 states, 8 bits a number.",
    ),
    "en-words-small": (words, "Word vectors made of morphemes, 64 wide, 8 bits a number."),
    "en-ngrams-small": (ngrams, "A trigram model with interpolated modified Kneser-Ney smoothing."),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--lines", type=int, help="paragraphs to read, for a try; all if not given")
    parser.add_argument("--output", type=Path, default=HERE)
    options = parser.parse_args()
    cards = []
    for name, (make, summary) in MODELS.items():
        folder = options.output / name.replace("-small", "").replace("en-", "tacenda_en_")
        if not (folder / "model.json").exists():
            print(f"making {name}", flush=True)
            make(options.lines, folder)
        size = sum(path.stat().st_size for path in folder.iterdir())
        print(f"{name}: {size / 1e6:.1f} MB", flush=True)
        about = ModelCard(name, tacenda.__version__, "CC-BY-SA-3.0", summary, ATTRIBUTION)
        cards.append(card(tacenda.artifact.read(folder), about))
    (options.output / "README.md").write_text("\n".join([HEAD, *cards]), encoding="utf8")


HEAD = """\
# Small English models for Tacenda

Three models to begin with, in one package: install it, and `tacenda.load` knows them by name. They are small, so that
they come quickly; models of your own text, and larger ones, are a command away (`tacenda embed fit`, `tacenda lm fit`).
`make models` in the repository makes these.
"""

if __name__ == "__main__":
    main()
