"""What the models do, within a minute: vectors, tags, surprisal and a recommendation.

    python examples/demo/demo.py

The English models are those of the package tacenda-en. The tagger learns from eighty sentences (`tagged.txt`), and the
viewers of films whose ratings the recommendation is made from are invented (`films.py`).
"""

from __future__ import annotations

import time
from pathlib import Path

import films
import spacy
import tagger
from spacy.tokens import Doc

import tacenda
from tacenda_embeddings.text_vectors import nearest_words
from tacenda_surprise import ConditionalPMF

WORDS = ("physicist", "goalkeeper", "neighbourhoods")
SAWS = {
    "She saw the house .": "saw",
    "She heard the song .": "heard",
    "She bought a saw .": "saw",
    "She bought a hammer .": "hammer",
}
SENTENCE = "The young duchess quickly hid two letters behind the old clock ."
GARDEN_PATH = "The old man the boats in winter ."
TASTE = {"Alien": 5, "Blade Runner": 5, "Notting Hill": 1}
BAR = 30


def main() -> None:
    start = time.perf_counter()
    nearest()
    contexts()
    tags()
    surprisals()
    recommendations()
    print(NEXT.format(seconds=time.perf_counter() - start))


def nearest() -> None:
    heading("The nearest words, by vectors made of morphemes (SumEmbed)")
    model = tacenda.load("en-words-small")
    for word in WORDS:
        if word not in model.vocabulary:
            pieces = (piece.strip("▁") for piece in model.pieces(word))  # ▁ begins a word
            print(f"  {word} was never seen: {' + '.join(pieces)}")
        found = nearest_words(model, word, 5)
        print(f"  {word:16}", ", ".join(f"{other} {cosine:.2f}" for other, cosine in found))


def contexts() -> None:
    heading("One word in two contexts: cosines of the vectors of tokens (LDS)")
    nlp = spacy.blank("en")
    mean = {"output": "mean"}  # the state behind a token; the other outputs are for training on
    nlp.add_pipe("lds_embeddings", config=mean).initialize(artifact="en-lds-small")
    tokens = []
    for sentence, word in SAWS.items():
        doc = nlp(Doc(nlp.vocab, words=sentence.split()))
        tokens.append(next(token for token in doc if token.text == word))
    print(" " * 24, *(f"{token.text:>8}" for token in tokens))
    for sentence, token in zip(SAWS, tokens, strict=True):
        cosines = (f"{token.similarity(other):8.2f}" for other in tokens)
        print(f"  {sentence:22}", *cosines)


def tags() -> None:
    sentences = tagger.read(Path(__file__).with_name("tagged.txt"))
    heading(f"A stock spaCy tagger on such vectors, trained on {len(sentences)} sentences")
    nlp = tagger.train(sentences, "en-lds-small")
    doc = nlp(Doc(nlp.vocab, words=SENTENCE.split()))
    print("  " + " ".join(f"{token.text}/{token.tag_}" for token in doc))


def surprisals() -> None:
    heading("Bits of surprisal, word by word (KneserNey)")
    nlp = spacy.blank("en")
    nlp.add_pipe("lm_scorer").initialize(artifact="en-ngrams-small")
    doc = nlp(Doc(nlp.vocab, words=GARDEN_PATH.split()))
    for token in doc:
        bits = token._.surprisal
        print(f"  {token.text:8}{bits:6.1f}  {'#' * min(round(2 * bits), 2 * BAR)}")


def recommendations() -> None:
    heading(
        "Films for somebody new, by the ratings of invented viewers (ConditionalPMF, in Surprise)"
    )
    algo = ConditionalPMF(random_state=0).fit(films.ratings(seed=1))
    newcomer = algo.fold_in(TASTE, uid="somebody new")
    print("  rated:      ", ", ".join(f"{title} {rating}" for title, rating in TASTE.items()))
    best = (f"{title} {rating:.1f}" for title, rating in newcomer.top_n(3, by="rating"))
    print("  recommended:", ", ".join(best))


def heading(text: str) -> None:
    print(f"\n{text}\n", flush=True)


NEXT = """
{seconds:.0f} seconds. In your own code: tacenda.load("en-lds-small"), or artifact="en-lds-small" in a spaCy component.
Next: `make demo-fit` fits an LDS and compares three taggers; `make test` checks everything."""

if __name__ == "__main__":
    main()
