"""A stock spaCy tagger on the vectors of an LDS and spaCy's own word features, without a convolutional network."""

from __future__ import annotations

import random
from pathlib import Path

import spacy
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import fix_random_seed, minibatch

Sentence = tuple[list[str], list[str]]
"""Words, and a universal tag for each."""

WIDTH = 96
EPOCHS = 15
LAYERS = {
    "@architectures": "tacenda.ConcatEmbed.v1",
    "width": WIDTH,
    "embeds": {
        "hash": {
            "@architectures": "spacy.MultiHashEmbed.v2",
            "width": WIDTH,
            "attrs": ["NORM", "PREFIX", "SUFFIX", "SHAPE"],
            "rows": [2000, 500, 1000, 500],
            "include_static_vectors": False,
        },
        "lds": {"@architectures": "tacenda.DocTensor.v1"},
    },
}


def read(path: Path) -> list[Sentence]:
    """Sentences of a file: one on each line, as word/TAG word/TAG."""
    lines = path.read_text(encoding="utf8").splitlines()
    rows = [[each.rpartition("/")[::2] for each in line.split()] for line in lines]
    return [([word for word, _ in row], [tag for _, tag in row]) for row in rows]


def train(sentences: list[Sentence], artifact: str) -> spacy.Language:
    """Train a pipeline: the vectors of a saved model or an installed one, and a tagger on them."""
    fix_random_seed(0)
    nlp = spacy.blank("en")
    nlp.add_pipe("lds_embeddings").initialize(artifact=artifact)
    model = {"@architectures": "spacy.Tagger.v2", "tok2vec": LAYERS}
    nlp.add_pipe("tagger", config={"model": model})
    examples = [
        Example(Doc(nlp.vocab, words=words), Doc(nlp.vocab, words=words, tags=tags))
        for words, tags in sentences
    ]
    optimizer = nlp.initialize(lambda: examples)
    for _ in range(EPOCHS):
        random.shuffle(examples)
        for batch in minibatch(examples, 8):
            nlp.update(batch, sgd=optimizer, drop=0.1, annotates=["lds_embeddings"])
    return nlp
