"""Measurements for the cards: the quality of the models, before and after rounding to 8 bits."""

from __future__ import annotations

import random
import statistics
from typing import Any

import numpy as np
import spacy
from scipy.stats import spearmanr
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import fix_random_seed, minibatch
from thinc.api import Adam

from tacenda import Corpus
from tacenda.datasets import conllu, locate, word_similarity
from tacenda_embeddings import text_vectors

Figure = dict[str, Any]

SEEDS = (0, 1, 2)
SENTENCES = 250
EPOCHS = 20

_WIDTH = 96
_HASH = {
    "@architectures": "spacy.MultiHashEmbed.v2",
    "width": _WIDTH,
    "attrs": ["NORM", "PREFIX", "SUFFIX", "SHAPE"],
    "rows": [5000, 1000, 2500, 2500],
    "include_static_vectors": False,
}
_CNN = {
    "@architectures": "spacy.Tok2Vec.v2",
    "embed": _HASH,
    "encode": {
        "@architectures": "spacy.MaxoutWindowEncoder.v2",
        "width": _WIDTH,
        "depth": 4,
        "window_size": 1,
        "maxout_pieces": 3,
    },
}
_WITH_VECTORS = {
    "@architectures": "tacenda.ConcatEmbed.v1",
    "width": _WIDTH,
    "embeds": {"hash": _HASH, "lds": {"@architectures": "tacenda.DocTensor.v1"}},
}


def measure_cosines(model: Any, small: Any) -> Figure:
    """Measure how far rounding turns the vectors of words without context."""
    found = text_vectors.compare(model, small, None, "words")
    return {
        "measure": "cosine similarity to the vectors before rounding",
        "value": round(found.mean, 5),
        "before rounding": 1.0,
        "protocol": f"mean over {found.n_vectors:,} words without context; the lowest is {found.least:.4f}",
    }


def measure_similarity(model: Any, small: Any) -> Figure:
    """Correlate cosines with the scores of WordSim-353, before and after rounding."""
    pairs = list(word_similarity.read(locate("wordsim")["ws353"]))
    (before, _), (after, n_pairs) = (_correlate(each, pairs) for each in (model, small))
    return {
        "measure": "Spearman correlation with WordSim-353",
        "value": round(after, 4),
        "before rounding": round(before, 4),
        "protocol": f"{n_pairs} pairs; unknown words get vectors from their morphemes",
    }


def _correlate(model: Any, pairs: list[word_similarity.WordPair]) -> tuple[float, int]:
    """Return Spearman's correlation of cosines with people's scores, and the number of pairs.

    Only pairs count of which both words have a vector.
    """
    first, second = (
        text_vectors.embed_alone(model, words)
        for words in ([pair.first for pair in pairs], [pair.second for pair in pairs])
    )
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    known = lengths > 0
    cosines = np.einsum("ij,ij->i", first, second)[known] / lengths[known]
    scores = np.array([pair.score for pair in pairs])[known]
    return float(spearmanr(cosines, scores).statistic), int(known.sum())


def measure_tagging(model: Any, small: Any) -> list[Figure]:
    """Measure spaCy's tagger on UD English EWT dev, with the vectors and with spaCy's network."""
    files = locate("ud-english-ewt")
    train, test = (list(conllu.read(files[part])) for part in ("train", "dev"))
    train = [train[i * len(train) // SENTENCES] for i in range(min(SENTENCES, len(train)))]
    protocol = (
        f"development part; trained on {len(train)} evenly spaced sentences of the training part, gold tokens, "
        f"{EPOCHS} epochs; mean and standard deviation over {len(SEEDS)} seeds"
    )
    layer = "spaCy's tagger on hashed word features and these vectors, without convolution"
    return [
        {
            "measure": f"accuracy (%), universal tags of UD English EWT: {layer}",
            "value": _format_accuracy(small, train, test),
            "before rounding": _format_accuracy(model, train, test),
            "protocol": protocol,
        },
        {
            "measure": "the same for spaCy's default tagger, without these vectors",
            "value": _format_accuracy(None, train, test),
            "before rounding": "",
            "protocol": protocol,
        },
    ]


def measure_perplexities(whole: Any, small: Any, test: Corpus) -> list[Figure]:
    """Measure the perplexity of the test part, before and after pruning and rounding."""
    before, after = (each.perplexity(test) for each in (whole, small))
    return [
        {
            "measure": f"perplexity{counted}",
            "value": round(getattr(after, name), 2),
            "before pruning and rounding": round(getattr(before, name), 2),
            "protocol": f"test part of the same text: {after.n_tokens:,} tokens including </s>, "
            f"{after.n_oov:,} of them unknown; each sentence scored independently",
        }
        for counted, name in (("", "value"), (" without unknown words", "without_oov"))
    ]


def _format_accuracy(
    model: Any | None, train: list[conllu.Sentence], test: list[conllu.Sentence]
) -> str:
    """Return the mean and standard deviation of `_tagging_accuracy` over the seeds."""
    found = [_tagging_accuracy(model, train, test, seed) for seed in SEEDS]
    return f"{statistics.mean(found):.2f} ± {statistics.stdev(found):.2f}"


def _tagging_accuracy(
    model: Any | None, train: list[conllu.Sentence], test: list[conllu.Sentence], seed: int
) -> float:
    """Train spaCy's tagger; return the percentage of test tokens that it tags correctly."""
    fix_random_seed(seed)
    nlp = spacy.blank("en")
    if model is not None:
        nlp.add_pipe("lds_embeddings").initialize(artifact=model)
    layer = _CNN if model is None else _WITH_VECTORS
    nlp.add_pipe(
        "tagger", config={"model": {"@architectures": "spacy.Tagger.v2", "tok2vec": layer}}
    )
    learned, tested = (_examples(nlp, part) for part in (train, test))
    nlp.initialize(lambda: learned)
    optimizer = Adam(0.001, L2=0.01, grad_clip=1.0, L2_is_weight_decay=True)
    for _ in range(EPOCHS):
        random.shuffle(learned)
        for batch in minibatch(learned, 16):
            nlp.update(batch, sgd=optimizer, drop=0.1, annotates=nlp.pipe_names[:-1])
    return 100 * float(nlp.evaluate(tested)["tag_acc"])


def _examples(nlp: spacy.Language, sentences: list[conllu.Sentence]) -> list[Example]:
    return [
        Example(
            Doc(nlp.vocab, words=list(each.words)),
            Doc(nlp.vocab, words=list(each.words), tags=list(each.upos)),
        )
        for each in sentences
    ]
