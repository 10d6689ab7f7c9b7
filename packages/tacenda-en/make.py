"""Make the models of this package and its README: `make models`, with TACENDA_DATA set.

    python packages/tacenda-en/make.py [--lines 10000] [--output FOLDER] [--work FOLDER]

The text is English Wikipedia's good and featured articles (26 million tokens), tokenized once for each model. Finished
steps are kept in the work folder, so an interrupted run loses only the step that it was in. On one machine, the same
text gives the same bytes.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import figures
import numpy as np

import tacenda
from tacenda import Corpus
from tacenda.artifact.packaging import CARD, ModelCard, render_card
from tacenda.corpus.lines import numbered_lines
from tacenda.datasets import locate
from tacenda.errors import TacendaError
from tacenda_embeddings import LDS, SumEmbed
from tacenda_lm import KneserNey

HERE = Path(__file__).parent
TEXT = "wikipedia-good-articles"
FITTED_ON = "good and featured articles of English Wikipedia in 2019, training part"
LICENSE = "CC-BY-SA-3.0"
AUTHORS = (
    "The text is by the authors of English Wikipedia, who are named in the history of each article at "
    "<https://en.wikipedia.org>."
)

# A sentence ends after one of these, and after the closing marks that follow it.
_ENDS = (".", "!", "?")
_CLOSING = ('"', "”", "’", ")", "]")


@dataclass(frozen=True)
class Text:
    """Where the text is, how much of it is read, and where its tokens are kept."""

    lines: int | None
    work: Path

    def corpus(self, **options: Any) -> Corpus:
        """Return the training part, each paragraph as a sentence; the options are those of `Corpus.from_text`."""
        path = locate(TEXT)["train"]
        if self.lines is not None:
            lines = (line for _, line in islice(numbered_lines(path), self.lines))
            return Corpus.from_text(lines, tokenizer="words", **options)
        folder = self.work / "-".join(["text", *map(str, options.values())])
        return Corpus.from_text(path, tokenizer="words", cache=folder, **options)

    def test(self, model: Any) -> Corpus:
        """Return the test part in a model's vocabulary, each paragraph as a sentence."""
        return Corpus.from_text(
            locate(TEXT)["test"], tokenizer="words", vocabulary=model.vocabulary
        )


def split_sentences(paragraphs: Corpus) -> Corpus:
    """Return the same tokens, cut after the marks that end a sentence."""
    vocabulary, ids = paragraphs.vocabulary, np.asarray(paragraphs.ids)
    final, closing = (
        np.isin(ids, [vocabulary.id_of(mark) for mark in marks if mark in vocabulary])
        for marks in (_ENDS, _CLOSING)
    )
    for _ in range(2):  # as in: (He said: "No.")
        final[1:] |= final[:-1] & closing[1:]
    cuts = 1 + np.flatnonzero(final[:-1] & ~final[1:])
    offsets = np.union1d(paragraphs.offsets, cuts).astype(np.int64)
    return Corpus(ids, offsets, vocabulary, paragraphs.origin)


def make_lds(text: Text) -> LDS:
    """Make vectors of tokens in context, with 50 states."""
    options = {"max_vocabulary": 40_000, "digits": True, "oov": "classes"}
    whole = fit(LDS(n_states=50), text, lambda: text.corpus(**options))
    small = whole.rounded("int8")
    small.figures = [
        figures.measure_cosines(whole, small),
        *figures.measure_tagging(whole, small),
    ]
    return small


def make_words(text: Text) -> SumEmbed:
    """Make vectors of words from their morphemes, 100 wide: from counts, without training."""
    options = {"max_vocabulary": 20_000, "digits": True, "lowercase": True}
    whole = fit(SumEmbed(width=100), text, lambda: text.corpus(**options))
    small = whole.rounded("int8")
    small.figures = [
        figures.measure_cosines(whole, small),
        figures.measure_similarity(whole, small),
    ]
    return small


def make_ngrams(text: Text) -> KneserNey:
    """Make a trigram model of sentences, without n-grams that change little, 8 bits per number."""
    options = {"max_vocabulary": 40_000}
    whole = fit(KneserNey(order=3), text, lambda: split_sentences(text.corpus(**options)))
    small = whole.smaller(prune=6e-7, bits=8)
    small.figures = figures.measure_perplexities(whole, small, split_sentences(text.test(whole)))
    return small


def fit(model: Any, text: Text, read_corpus: Callable[[], Corpus]) -> Any:
    """Return the model fitted to a corpus, with facts for its card; load it if an earlier run has fitted it."""
    folder = text.work / f"whole-{model.name}"
    if not (folder / "model.json").exists():
        corpus = read_corpus()
        model.fit(corpus)
        model.fitted_on = {
            "text": FITTED_ON,
            "tokens": corpus.n_tokens,
            "types": len(corpus.vocabulary),
            "tokenizer": "words",
        }
        model.save(folder)
    return tacenda.load(folder)


MODELS: dict[str, tuple[Callable[[Text], Any], str]] = {
    "en-lds-small": (
        make_lds,
        "Token vectors in context: a linear dynamical system with 50 states, 8 bits per number.",
    ),
    "en-words-small": (
        make_words,
        "Word vectors from morphemes, even for unseen words: 100 columns, 8 bits per number.",
    ),
    "en-ngrams-small": (
        make_ngrams,
        "Trigrams with interpolated modified Kneser-Ney smoothing, pruned, 8 bits per number.",
    ),
}


def main() -> None:
    """Make the models, and README.md from their cards."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--lines", type=int, help="paragraphs to read, for a trial; default: all")
    parser.add_argument("--output", type=Path, default=HERE, help="folder for src and README.md")
    parser.add_argument(
        "--work", type=Path, default=HERE / "build", help="folder for finished steps"
    )
    options = parser.parse_args()
    try:
        text = Text(options.lines, options.work / f"lines-{options.lines or 'all'}")
        cards = [make_model(name, text, options.output / "src") for name in MODELS]
    except TacendaError as error:
        sys.exit(f"error: {error}")
    (options.output / "README.md").write_text("\n".join([HEAD, *cards]), encoding="utf8")


def make_model(name: str, text: Text, output: Path) -> str:
    """Make a model, unless an earlier run has made it, and its card; return the card as a section of README.md."""
    make, summary = MODELS[name]
    module = name.replace("-small", "").replace("-", "_")
    finished, folder = text.work / name, output / f"tacenda_{module}"
    if not (finished / "model.json").exists():
        print(f"* {name}", flush=True)
        make(text).save(finished)
    if folder.exists():
        shutil.rmtree(folder)
    shutil.copytree(finished, folder)
    size = sum(path.stat().st_size for path in folder.iterdir()) / 1e6
    print(f"{name}: {size:.1f} MB", flush=True)
    about = ModelCard(name, tacenda.__version__, LICENSE, summary, AUTHORS)
    card = render_card(tacenda.artifact.read(folder), about)
    (folder / CARD).write_text(card, encoding="utf8")
    return re.sub(r"^#", "##", card, flags=re.MULTILINE)


HEAD = """\
# tacenda-en

This package contains three small pretrained English models, 3 to 4 MB each. Once it is installed, `tacenda.load` and
the spaCy components load the models by name. If you need a larger model, or a model for other text, fit one with
`tacenda embed fit` or `tacenda lm fit`.

<!-- install: tacenda-en[spacy] -->
<!-- /install -->

The extra `spacy` installs the packages that spaCy pipelines need, and the extra `lm` installs the package that loads
the n-grams.

All three were fitted to the good and featured articles of English Wikipedia in 2019. The history of each article at
<https://en.wikipedia.org> names its authors. The articles and these models are licensed under
[CC BY-SA 3.0](https://creativecommons.org/licenses/by-sa/3.0/): if you share the models, changed or not, credit the
authors of Wikipedia and keep the license. The models do not contain the text, only counts of short word sequences and
numbers computed from them. `make models` in the repository fits them again.
"""

if __name__ == "__main__":
    main()
