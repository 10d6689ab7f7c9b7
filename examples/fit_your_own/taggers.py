"""Stock spaCy taggers that differ only in the features of words."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import spacy
from materials import Sentence
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import fix_random_seed, minibatch
from thinc.api import Adam

from tacenda.progress import track

WIDTH = 96
EPOCHS = 20

# spaCy's own embedding of a word: its norm, prefix, suffix and shape, hashed
HASH = {
    "@architectures": "spacy.MultiHashEmbed.v2",
    "width": WIDTH,
    "attrs": ["NORM", "PREFIX", "SUFFIX", "SHAPE"],
    "rows": [5000, 1000, 2500, 2500],
    "include_static_vectors": False,
}
CNN = {
    "@architectures": "spacy.MaxoutWindowEncoder.v2",
    "width": WIDTH,
    "depth": 4,
    "window_size": 1,
    "maxout_pieces": 3,
}
# beside it, what the component lds_embeddings has written into Doc.tensor
WITH_LDS = {
    "@architectures": "tacenda.ConcatEmbed.v1",
    "width": WIDTH,
    "embeds": {"hash": HASH, "lds": {"@architectures": "tacenda.DocTensor.v1"}},
}
LAYERS: dict[str, dict[str, Any]] = {
    "word features alone": HASH,
    "word features + CNN (spaCy's default)": {
        "@architectures": "spacy.Tok2Vec.v2",
        "embed": HASH,
        "encode": CNN,
    },
    "word features + LDS vectors": WITH_LDS,
}


def train(name: str, artifact: Path, sentences: list[Sentence]) -> spacy.Language:
    """Train a pipeline with a stock tagger; only its layer of vectors depends on the name."""
    fix_random_seed(0)
    nlp = spacy.blank("en")
    annotates = []
    if LAYERS[name] is WITH_LDS:
        nlp.add_pipe("lds_embeddings").initialize(artifact=artifact)
        annotates = ["lds_embeddings"]
    model = {"@architectures": "spacy.Tagger.v2", "tok2vec": LAYERS[name]}
    nlp.add_pipe("tagger", config={"model": model})
    examples = as_examples(nlp, sentences)
    optimizer = nlp.initialize(lambda: examples)
    optimizer = Adam(0.001, L2=0.01, grad_clip=1.0, L2_is_weight_decay=True)
    for _ in track(range(EPOCHS), name, unit="epoch"):
        random.shuffle(examples)
        for batch in minibatch(examples, 16):
            nlp.update(batch, sgd=optimizer, drop=0.1, annotates=annotates)
    return nlp


def as_examples(nlp: spacy.Language, sentences: list[Sentence]) -> list[Example]:
    """Gold tokens, with gold tags in the reference."""
    return [
        Example(Doc(nlp.vocab, words=words), Doc(nlp.vocab, words=words, tags=tags))
        for words, tags in sentences
    ]


def accuracy(nlp: spacy.Language, sentences: list[Sentence]) -> float:
    """Return the percentage of correctly tagged tokens."""
    return 100 * float(nlp.evaluate(as_examples(nlp, sentences))["tag_acc"])


def speeds(pipelines: list[spacy.Language], sentences: list[Sentence]) -> list[float]:
    """Words per second of nlp.pipe, tokens given: the best of three rounds.

    They take turns, so that a slow moment of the machine hits all of them.
    """
    n_words = sum(len(words) for words, _ in sentences)
    seconds: list[list[float]] = [[] for _ in pipelines]
    for _ in track(range(3), "measuring speed", unit="round"):
        for nlp, times in zip(pipelines, seconds, strict=True):
            docs = [Doc(nlp.vocab, words=words) for words, _ in sentences]
            start = time.perf_counter()
            for _ in nlp.pipe(docs):
                pass
            times.append(time.perf_counter() - start)
    return [n_words / min(times) for times in seconds]
