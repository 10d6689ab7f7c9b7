"""The parts of `make bench`: what each one runs, which result files it makes, and which code those measure."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = Path(__file__).resolve().parent / "results"
SOURCES = {
    "core": Path("packages/tacenda/src/tacenda"),
    "embeddings": Path("packages/tacenda-embeddings/src/tacenda_embeddings"),
    "lm": Path("packages/tacenda-lm/src/tacenda_lm"),
    "surprise": Path("packages/tacenda-surprise/src/tacenda_surprise"),
}

LDS = ("embeddings/lds", "core/kernels/sequences", "core/corpus/pair_counts.py")
LDS_IN_SPACY = (*LDS, "embeddings/spacy", "core/spacy")
VAREMBED = (
    "embeddings/varembed",
    "embeddings/lds/lagged_counts.py",
    "core/corpus/pair_counts.py",
    "core/kernels/sequences",
)
NGRAMS = ("lm/ngram",)
TRAINING = ("core/fitting", "lm/training.py")
STREAMS = (*TRAINING, "lm/streams.py")
BILINEAR = (*STREAMS, "lm/log_bilinear", "core/kernels/trees")
MACHINES = (*STREAMS, "lm/boltzmann.py", "core/kernels/shared")
MARKOV = ("lm/hidden_markov", "core/kernels/hidden_markov", "core/word_classes.py")
RECURRENT = (*STREAMS, "lm/recurrent.py")
CACHES = ("lm/cache.py", "lm/compiled.py")
ON_CLUSTER = (
    "core/dask",
    "core/kernels/sequences",
    "embeddings/dask.py",
    "lm/dask.py",
    "lm/ngram/counting.py",
)
STATE_SPACE = (*STREAMS, "lm/state_space.py", "lm/compiled.py")
MIXTURE = ("lm/mixture.py",)
RATINGS = (
    "surprise/bayesian.py",
    "surprise/bias.py",
    "surprise/boltzmann.py",
    "surprise/catalogue.py",
    "surprise/factorization.py",
    "surprise/gibbs.py",
    "surprise/top_n.py",
    "surprise/pmf.py",
    "surprise/rbm.py",
    "surprise/samples.py",
    "surprise/variance.py",
    "core/kernels/ratings",
)


@dataclass(frozen=True)
class Part:
    """One process of `make bench`.

    Attributes
    ----------
    name
        The module below `benchmarks`, as `language_models.ngrams`; with a word after it where one module makes
        several parts, as `ratings.accuracy ml-1m`.
    results
        The names of the result files it writes.
    measures
        Files and folders of the packages that its figures depend on, as `lm/ngram`. One of another part's figures
        that it uses is measured there.
    arguments
        Of the command line.
    timed
        Whether it times anything: such a part wants a quiet machine.
    """

    name: str
    results: tuple[str, ...]
    measures: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    timed: bool = False

    @property
    def module(self) -> str:
        return "benchmarks." + self.name.split()[0]


def _of_texts(*studies: str) -> tuple[str, ...]:
    return tuple(f"lm-thesis-{study}-{data}" for data in ("ptb", "wikitext-2") for study in studies)


PARTS = (
    Part("embeddings.local", ("embeddings-local",), LDS),
    Part("embeddings.start", ("embeddings-start",), LDS_IN_SPACY),
    Part("embeddings.spacy_rows", ("embeddings-spacy",), LDS_IN_SPACY),
    Part("embeddings.unseen", ("embeddings-unseen",), LDS_IN_SPACY),
    Part("embeddings.whole", ("embeddings-whole",), (*LDS_IN_SPACY, *VAREMBED)),
    Part("embeddings.variants", ("embeddings-variants",), (*LDS_IN_SPACY, *VAREMBED)),
    Part("embeddings.raw_text", ("embeddings-raw-text",), (*LDS_IN_SPACY, *VAREMBED)),
    Part(
        "embeddings.lexicalized", ("embeddings-lexicalized",), (*LDS, "lm/hidden_markov/brown.py")
    ),
    Part(
        "embeddings.pipeline_speed",
        ("embeddings-pipeline-speed",),
        LDS_IN_SPACY,
        timed=True,
    ),
    Part(
        "embeddings.training_speed",
        ("embeddings-training-speed",),
        LDS_IN_SPACY,
        timed=True,
    ),
    Part("embeddings.fit", ("embeddings-fit",), LDS, timed=True),
    Part("embeddings.smoothing", ("embeddings-smoothing",), LDS, timed=True),
    Part(
        "varembed.intrinsic",
        ("varembed-intrinsic", "varembed-differences"),
        VAREMBED,
        timed=True,  # gensim gets as many epochs as take our CPU time
    ),
    Part(
        "varembed.intrinsic 1.5",
        ("varembed-intrinsic-1.5", "varembed-differences-1.5"),
        VAREMBED,
        ("--tokens", "1.5"),
        timed=True,
    ),
    Part("varembed.qvec", ("varembed-qvec",), VAREMBED),
    Part("varembed.tagging", ("varembed-tagging",), VAREMBED),
    Part(
        "varembed.unseen",
        ("varembed-unseen",),
        (*VAREMBED, *LDS, "embeddings/morphological_lds.py"),
    ),
    Part("varembed.turkish", ("varembed-turkish",), VAREMBED),
    Part("varembed.static", ("varembed-static",), (*VAREMBED, "embeddings/spacy/vectors.py")),
    Part("varembed.speed", ("varembed-speed",), VAREMBED, ("--tokens", "1"), timed=True),
    Part("scale.cluster", ("scale-cluster",), ON_CLUSTER, timed=True),
    Part("scale.arithmetic", ("scale-arithmetic", "scale-ratings"), ON_CLUSTER),
    Part(
        "scale.slopes",
        ("scale-slopes",),
        (*LDS, *NGRAMS, *BILINEAR, *MARKOV, *VAREMBED),
        timed=True,
    ),
    Part(
        "scale.memory",
        ("scale-memory",),
        (*BILINEAR, *MARKOV, *VAREMBED, "core/corpus"),
    ),
    Part("ratings.defaults", ("ratings-defaults",), RATINGS),
    Part("ratings.peer_settings ml-100k", ("ratings-peer-settings-ml-100k",), ()),
    Part("ratings.peer_settings ml-1m", ("ratings-peer-settings-ml-1m",), (), ("--data", "ml-1m")),
    Part(
        "ratings.accuracy ml-100k",
        ("ratings-ml-100k",),
        (*RATINGS, "surprise/blend.py"),
        timed=True,
    ),
    Part(
        "ratings.accuracy ml-1m",
        ("ratings-ml-1m",),
        (*RATINGS, "surprise/blend.py"),
        ("--data", "ml-1m"),
        timed=True,
    ),
    Part(
        "ratings.uncertainty",
        ("ratings-uncertainty",),
        (*RATINGS, "surprise/variance.py"),
    ),
    Part("ratings.lists", ("ratings-lists",), RATINGS, timed=True),
    Part("ratings.speed", ("ratings-speed",), RATINGS, timed=True),
    Part("ratings.scale", ("ratings-scale",), RATINGS, timed=True),
    Part(
        "ratings.thesis",
        (
            *("ratings-thesis-" + study for study in ("biases", "cold", "conditioning")),
            *("ratings-thesis-" + study for study in ("factorizations", "frequency", "machines")),
            *("ratings-thesis-" + study for study in ("parameters", "spread")),
        ),
        RATINGS,
    ),
    Part("language_models.ngrams", ("lm-ngrams",), NGRAMS),
    Part("language_models.ngrams_speed", ("lm-ngrams-speed",), NGRAMS, timed=True),
    Part(
        "language_models.ngrams_size",
        ("lm-ngrams-training", "lm-ngrams-files"),
        NGRAMS,
        timed=True,
    ),
    Part("language_models.log_bilinear", ("lm-log-bilinear",), (*BILINEAR, *NGRAMS, *MIXTURE)),
    Part("language_models.log_bilinear_speed", ("lm-log-bilinear-speed",), BILINEAR, timed=True),
    Part("language_models.recurrent", ("lm-recurrent",), (*RECURRENT, *LDS)),
    Part(
        "language_models.recurrent choice",
        ("lm-recurrent-choice",),
        (*RECURRENT, *LDS),
        ("--choose",),
    ),
    Part("language_models.caches", ("lm-caches",), (*CACHES, *BILINEAR, *NGRAMS, *MIXTURE)),
    Part("language_models.budgets", ("lm-budgets",), (*BILINEAR, *MIXTURE)),
    Part(
        "language_models.budgets choice",
        ("lm-budgets-chosen",),
        BILINEAR,
        ("choose",),
    ),
    Part(
        "language_models.mixtures",
        ("lm-mixtures",),
        (*TRAINING, *MARKOV, *NGRAMS, *BILINEAR, *MACHINES, *CACHES, *RECURRENT, *MIXTURE),
    ),
    Part("language_models.scale", ("lm-scale",), (*NGRAMS, *BILINEAR, *MIXTURE)),
    Part(
        "language_models.unknown",
        ("lm-unknown",),
        (*NGRAMS, "lm/surprisal", "lm/unknown_words.py"),
    ),
    Part(
        "language_models.reading",
        ("lm-reading",),
        (
            *NGRAMS,
            *BILINEAR,
            *MARKOV,
            *MIXTURE,
            "lm/surprisal",
            "lm/unknown_words.py",
        ),
    ),
    Part("language_models.sizes", ("lm-sizes",), (*BILINEAR, *MARKOV)),
    Part(
        "language_models.sizes choice",
        ("lm-sizes-chosen",),
        (*BILINEAR, *MARKOV),
        ("choose",),
    ),
    Part(
        "language_models.scorer",
        ("lm-scorer",),
        (*NGRAMS, *BILINEAR, *MIXTURE, "lm/spacy", "core/spacy"),
        timed=True,
    ),
    Part(
        "language_models.hidden_markov",
        ("lm-hidden-markov",),
        (*TRAINING, *MARKOV, *NGRAMS, *MIXTURE),
    ),
    Part(
        "language_models.hidden_markov speed",
        ("lm-hidden-markov-speed",),
        MARKOV,
        ("--only", "classes", "step", "scoring"),
        timed=True,
    ),
    Part(
        "language_models.hidden_markov memory",
        ("lm-hidden-markov-memory",),
        MARKOV,
        ("--only", "memory"),
    ),
    Part(
        "language_models.hidden_markov studies",
        ("lm-hidden-markov-studies",),
        (*TRAINING, *MARKOV),
        ("--only", "studies"),
    ),
    Part(
        "language_models.hidden_markov mixtures",
        ("lm-hidden-markov-mixtures",),
        (*TRAINING, *MARKOV, *NGRAMS, *BILINEAR, *MIXTURE),
        ("--only", "mixtures"),
    ),
    Part(
        "language_models.hidden_markov baselines",
        ("lm-hidden-markov-baselines",),
        (*TRAINING, *MARKOV, *NGRAMS),
        ("--only", "baselines"),
    ),
    Part(
        "language_models.hidden_markov wikitext-2",
        ("lm-hidden-markov-wikitext-2",),
        (*TRAINING, *MARKOV, *NGRAMS, *MIXTURE),
        ("--only", "wikitext-2"),
    ),
    Part(
        "language_models.thesis",
        (
            *_of_texts("bias-variance", "diversity", "eighths", "flat", "last-word", "neighbours"),
            *_of_texts("next-word", "next-words", "pairs", "predictions", "random-trees"),
            *_of_texts("tags", "tree-figures", "trees", "widths", "windows"),
        ),
        (*BILINEAR, *NGRAMS, *MIXTURE),
        ("--without", "speed", "machines"),
    ),
    Part(
        "language_models.thesis machines",
        _of_texts("machines"),
        (*MACHINES, *NGRAMS),
        ("--only", "machines"),
    ),
    Part(
        "language_models.boltzmann_ways",
        ("lm-boltzmann-ways",),
        (*MACHINES, *NGRAMS, *MIXTURE),
    ),
    Part(
        "language_models.thesis speed",
        _of_texts("speed"),
        BILINEAR,
        ("--only", "speed"),
        timed=True,
    ),
    Part(
        "language_models.state_space",
        ("lm-state-space",),
        (*STATE_SPACE, *NGRAMS),
    ),
    Part("vectors", ("kernel-vectors",), ("core/kernels",), timed=True),
    Part(
        "gpu",
        ("gpu",),
        (
            "core/kernels",
            "embeddings/lds",
            "embeddings/varembed",
            *BILINEAR,
            "surprise/bayesian.py",
            "surprise/boltzmann.py",
            "surprise/factorization.py",
            "surprise/gibbs.py",
            "surprise/pmf.py",
            "surprise/rbm.py",
        ),
        timed=True,
    ),
    Part("lagged_counts", ("lagged_counts",), ("core/kernels/sequences",), timed=True),
)


def kept_folder() -> Path:
    """Where benchmarks keep corpora, models and unfinished work: TACENDA_BENCH_CACHE, or below the user's cache."""
    user = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "tacenda-bench"
    return Path(os.environ.get("TACENDA_BENCH_CACHE", user))


def part_of(result: str) -> Part | None:
    """The part that makes this result file; None if no part of `make bench` does."""
    return next((part for part in PARTS if result in part.results), None)
