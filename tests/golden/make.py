"""Write the golden folders: python tests/golden/make.py [NAME ...], with the code that writes the format to keep.

They were written by 3843cd73, the last code with this layout of models. Add a folder when a later format is to stay
readable; never rewrite those that are here.
"""

from __future__ import annotations

import json
import shutil
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import spacy
from golden_uses import HERE, WORDS, golden, predictions, sentences
from spacy.tokens import Doc
from spacy.training import Example
from surprise import Dataset, Reader

from tacenda import Corpus
from tacenda_embeddings import LDS, MorphologicalLDS, SumEmbed, VarEmbed
from tacenda_embeddings.spacy.vectors import use_vectors
from tacenda_lm import (
    FRBM,
    HLBL,
    HMM,
    LBL,
    VLHMM,
    AdaptiveMixture,
    KneserNey,
    Mixture,
    NeuralCache,
    RecurrentLM,
    StateSpaceLM,
    TemporalFRBM,
    UnigramCache,
)
from tacenda_surprise import (
    PMF,
    RBM,
    BayesianPMF,
    BiasOnly,
    Blend,
    ConditionalBayesianPMF,
    ConditionalPMF,
    ConditionalRBM,
    Recommender,
)

CORPUS = Corpus.from_sentences(sentences(200), max_vocabulary=15)
VALID = Corpus.from_sentences(sentences(40, 1), vocabulary=CORPUS.vocabulary)
MORE_WORDS = Corpus.from_sentences(sentences(100) + [[word + "er"] for word in WORDS])
SIDE = [("u1", "i4"), ("u2", "i0"), ("told", "i1"), ("told", "i5")]
LOG_BILINEAR = {"width": 4, "context": 2, "epochs": 2}
MACHINE = {"features": 3, "hidden": 3, "epochs": 2, "batch_words": 100}
STATES = {"n_classes": 4, "states_per_class": 3, "width": 4, "epochs": 2}
WORD_VECTORS = {"width": 4, "epochs": 1, "advanced": {"hidden": 4, "negatives": 8}}
FACTORS = {"n_factors": 2, "n_epochs": 4, "random_state": 0}
SAMPLES = {"n_factors": 2, "burn_in": 2, "n_samples": 4, "n_kept": 2, "random_state": 0}
HIDDEN = {"n_hidden": 2, "n_epochs": 4, "random_state": 0}


def fit(model: Any) -> Any:
    """Fit a language model."""
    return model.fit(CORPUS, VALID)


def from_arpa() -> Any:
    """An n-gram model read from an ARPA file whose distributions do not sum to one."""
    file = HERE / "_arpa"
    KneserNey(order=2).fit(CORPUS).to_arpa(file)
    text = file.read_text("utf-8")
    lines = [
        f"-1.5{line[line.index(chr(9)) :]}" if "\twalk" in line else line
        for line in text.splitlines()
    ]
    file.write_text("\n".join(lines) + "\n", "utf-8")
    model = KneserNey.from_arpa(file)
    file.unlink()
    return model


def trainset() -> Any:
    """A hundred ratings of ten users for twelve items."""
    rng = np.random.default_rng(0)
    pairs = rng.permutation(10 * 12)[:90]
    values = rng.integers(1, 6, 90)
    rows = [
        (f"u{pair // 12}", f"i{pair % 12}", float(value), None)
        for pair, value in zip(pairs.tolist(), values.tolist(), strict=True)
    ]
    return Dataset(Reader(rating_scale=(1, 5))).construct_trainset(rows)


def rate(algorithm: Any, new: bool = False) -> Any:
    """Fit a recommender, and fold a new user in where ``new``."""
    algorithm.fit(trainset())
    if new:
        algorithm.fold_in({"i0": 4.0, "i2": 2.0}, ["i7"], uid="new")
    return algorithm


def pipeline(name: str, artifact: Any, **config: Any) -> Any:
    """A pipeline of one component."""
    nlp = spacy.blank("xx")
    nlp.add_pipe(name, config=config).initialize(artifact=artifact)
    return nlp


def with_tagger(layers: str) -> Any:
    """A pipeline whose tagger reads an LDS's vectors, alone or with hashed features."""
    nlp = pipeline("lds_embeddings", LDS(n_states=3).fit(CORPUS))
    doc_tensor = {"@architectures": "tacenda.DocTensor.v1", "normalize": True}
    hashes = {
        "@architectures": "spacy.MultiHashEmbed.v2",
        "width": 4, "attrs": ["NORM"], "rows": [16], "include_static_vectors": False,
    }  # fmt: skip
    both = {
        "@architectures": "tacenda.ConcatEmbed.v1",
        "embeds": {"lds": doc_tensor, "hashes": hashes}, "width": 4,
    }  # fmt: skip
    tok2vec = {"doc_tensor": doc_tensor, "concat_embed": both}[layers]
    nlp.add_pipe(
        "tagger", config={"model": {"@architectures": "spacy.Tagger.v2", "tok2vec": tok2vec}}
    )
    examples = []
    for words in sentences(20):
        tags = ["N" if word.endswith("s") else "V" for word in words]
        examples.append(Example.from_dict(Doc(nlp.vocab, words), {"tags": tags}))
    optimizer = nlp.get_pipe("tagger").initialize(lambda: examples, nlp=nlp)
    optimizer = nlp.resume_training()
    for _ in range(3):
        nlp.update(examples, sgd=optimizer, annotates=["lds_embeddings"])
    return nlp


def with_vectors() -> Any:
    """A pipeline whose word vectors are those of a model."""
    nlp = spacy.blank("xx")
    use_vectors(nlp, VarEmbed(**WORD_VECTORS).fit(CORPUS))
    return nlp


MODELS: dict[str, Callable[[], Any]] = {
    "embedder-lds": lambda: LDS(n_states=3).fit(CORPUS),
    "embedder-lds_mean_diagonal": lambda: LDS(
        n_states=3, output="mean", advanced={"noise": "diagonal", "ends": "zero"}
    ).fit(CORPUS),
    "embedder-lds_int8": lambda: LDS(n_states=3).fit(CORPUS),
    "embedder-varembed": lambda: VarEmbed(**WORD_VECTORS).fit(CORPUS),
    "embedder-sumembed": lambda: SumEmbed(segmenter="ngrams", **WORD_VECTORS).fit(CORPUS),
    "embedder-sumembed_float16": lambda: SumEmbed(**WORD_VECTORS).fit(CORPUS),
    "embedder-morphological_lds": lambda: MorphologicalLDS(
        lds={"n_states": 3}, words=WORD_VECTORS
    ).fit(MORE_WORDS),
    "embedder-morphological_lds_joined": lambda: MorphologicalLDS.join(
        LDS(n_states=3).fit(MORE_WORDS), SumEmbed(**WORD_VECTORS).fit(MORE_WORDS)
    ),
    "lm-kneser_ney": lambda: fit(KneserNey(order=3)),
    "lm-kneser_ney_backoff": lambda: fit(KneserNey(order=3, smoothing="backoff")),
    "lm-kneser_ney_quantized": lambda: fit(KneserNey(order=3, prune=1e-4, bits=4)),
    "lm-kneser_ney_arpa": from_arpa,
    "lm-lbl": lambda: fit(LBL(**LOG_BILINEAR)),
    "lm-lbl_nce_untied": lambda: fit(
        LBL(
            **LOG_BILINEAR,
            loss="nce",
            advanced={"tied": False, "context_matrices": "diagonal", "noise_words": 8},
        )
    ),
    "lm-hlbl": lambda: fit(HLBL(**LOG_BILINEAR, copies=2)),
    "lm-hlbl_far_words": lambda: fit(
        HLBL(**LOG_BILINEAR, tree="balanced", copies=1, advanced={"far_words": True})
    ),
    "lm-hlbl_eight_bits": lambda: fit(
        HLBL(**LOG_BILINEAR, copies=1, advanced={"eight_bits": True, "tail_rates": ()})
    ),
    "hmm-hmm": lambda: fit(HMM(n_states=3, epochs=2)),
    "hmm-vlhmm_two_level": lambda: fit(VLHMM(**STATES)),
    "hmm-vlhmm_flat": lambda: fit(VLHMM(**STATES, transitions="flat")),
    "hmm-vlhmm_features": lambda: fit(
        VLHMM(**STATES, transitions="features", advanced={"n_features": 3})
    ),
    "hmm-vlhmm_tables": lambda: fit(
        VLHMM(n_classes=4, states_per_class=3, epochs=2, advanced={"neural": False})
    ),
    "lm-frbm": lambda: fit(FRBM(**MACHINE)),
    "lm-temporal_frbm": lambda: fit(TemporalFRBM(**MACHINE, frbm_epochs=1)),
    "lm-state_space": lambda: fit(
        StateSpaceLM(order=3, internal=2, features=3, epochs=2, inference="map")
    ),
    "lm-state_space_joint": lambda: fit(
        StateSpaceLM(
            order=2, internal=0, features=3, epochs=2, advanced={"joint_order": 2, "joint_width": 2}
        )
    ),
    "lm-recurrent": lambda: fit(RecurrentLM(width=4, epochs=2, streams=4)),
    "lm-recurrent_float16": lambda: fit(RecurrentLM(width=4, epochs=2, streams=4)),
    "lm-unigram_cache": lambda: fit(UnigramCache(window=30)),
    "lm-neural_cache": lambda: fit(NeuralCache(window=30, hlbl={**LOG_BILINEAR, "copies": 1})),
    "lm-neural_cache_over": lambda: fit(
        NeuralCache.over(fit(RecurrentLM(width=4, epochs=1, streams=4)), window=30)
    ),
    "lm-mixture": lambda: fit(
        Mixture({"lbl": LBL(**LOG_BILINEAR), "hmm": HMM(n_states=3, epochs=2)})
    ),
    "lm-adaptive_mixture": lambda: fit(
        AdaptiveMixture({"lbl": LBL(**LOG_BILINEAR), "hmm": HMM(n_states=3, epochs=2)})
    ),
    "ratings-BiasOnly": lambda: rate(BiasOnly()),
    "ratings-PMF": lambda: rate(PMF(**FACTORS), new=True),
    "ratings-PMF-als": lambda: rate(PMF(**FACTORS, solver="als")),
    "ratings-PMF-unbiased": lambda: rate(PMF(**FACTORS, biased=False)),
    "ratings-ConditionalPMF": lambda: rate(ConditionalPMF(**FACTORS)),
    "ratings-ConditionalPMF-told": lambda: rate(ConditionalPMF(**FACTORS, rated=SIDE), new=True),
    "ratings-BayesianPMF": lambda: rate(BayesianPMF(**SAMPLES), new=True),
    "ratings-ConditionalBayesianPMF": lambda: rate(
        ConditionalBayesianPMF(**SAMPLES, rated=SIDE), new=True
    ),
    "ratings-RBM": lambda: rate(RBM(**HIDDEN), new=True),
    "ratings-ConditionalRBM": lambda: rate(ConditionalRBM(**HIDDEN, rated=SIDE), new=True),
    "ratings-Recommender": lambda: rate(
        Recommender(name="pmf", settings={"n_factors": 2, "epochs": 4}, random_state=0)
    ),
    "ratings-Blend": lambda: rate(
        Blend(
            [ConditionalPMF(**FACTORS, rated=SIDE), RBM(**HIDDEN), BiasOnly()],
            holdout=0.2,
            random_state=0,
        ),
        new=True,
    ),
    "model-conditional_pmf": lambda: rate(ConditionalPMF(**FACTORS)).model,
    "spacy-lds_embeddings": lambda: pipeline("lds_embeddings", LDS(n_states=3).fit(CORPUS)),
    "spacy-varembed_embeddings": lambda: pipeline(
        "varembed_embeddings", VarEmbed(**WORD_VECTORS).fit(CORPUS), output="probabilities"
    ),
    "spacy-token_embeddings": lambda: pipeline(
        "token_embeddings", SumEmbed(**WORD_VECTORS).fit(CORPUS), embedder="sumembed"
    ),
    "spacy-lm_scorer": lambda: pipeline("lm_scorer", KneserNey(order=2).fit(CORPUS)),
    "spacy-vectors": with_vectors,
    "spacy-doc_tensor": lambda: with_tagger("doc_tensor"),
    "spacy-concat_embed": lambda: with_tagger("concat_embed"),
}


def main() -> None:
    """Write the folders that are named, or all, and what is predicted from them."""
    warnings.simplefilter("ignore")
    file = HERE / "predictions.json"
    found = golden() if file.exists() else {}
    for name in sys.argv[1:] or MODELS:
        folder = HERE / name
        shutil.rmtree(folder, ignore_errors=True)
        model = MODELS[name]()
        ending = name.rpartition("_")[2]
        if name.startswith("spacy-"):
            model.to_disk(folder)
        elif ending in ("int8", "float16"):
            model.save(folder, precision=ending)
        else:
            model.save(folder)
        found[name] = predictions(name)
        size = sum(each.stat().st_size for each in Path(folder).rglob("*") if each.is_file())
        print(f"{name}: {size:,} bytes, {len(found[name])} numbers")
        lines = ",\n".join(f'"{name}": {json.dumps(found[name])}' for name in sorted(found))
        file.write_text(f"{{\n{lines}\n}}\n", "utf-8")


if __name__ == "__main__":
    main()
