"""The parts of `make bench`: the modules that measure, and the results files that each of them writes."""

from __future__ import annotations

from typing import NamedTuple


class Part(NamedTuple):
    """What one process of `make bench` measures.

    Attributes
    ----------
    module
        Below `benchmarks`, as `language_models.ngrams`.
    results
        The names of the result files.
    timed
        Whether it times anything: such a part wants a quiet machine.
    arguments
        Of the command line; by default the module writes all of its tables.
    """

    module: str
    results: tuple[str, ...]
    timed: bool = False
    arguments: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What tells it from other parts: its module, and the last words of the arguments."""
        return " ".join(
            (self.module, *(each for each in self.arguments if not each.startswith("--")))
        )


def _part(module: str, results: str, timed: bool = False, arguments: str = "") -> Part:
    return Part(module, tuple(results.split()), timed, tuple(arguments.split()))


def _of_texts(studies: str) -> str:
    texts = "ptb", "wikitext-2"
    return " ".join(f"lm-thesis-{study}-{text}" for text in texts for study in studies.split())


PARTS = (
    *(
        _part(f"embeddings.{name}", f"embeddings-{name.replace('_', '-')}")
        for name in (
            *("local", "start", "unseen", "languages", "multiword", "peers"),
            *("text_classes", "whole", "raw_text", "lexicalized"),
        )
    ),
    _part("embeddings.spacy_rows", "embeddings-spacy"),
    *(
        _part(f"embeddings.{name}", f"embeddings-{name.replace('_', '-')}", timed=True)
        for name in ("pipeline_speed", "peers_speed", "training_speed", "fit", "smoothing")
    ),
    # gensim gets as many epochs as take our CPU time
    _part("varembed.intrinsic", "varembed-intrinsic varembed-differences", timed=True),
    _part(
        "varembed.intrinsic",
        "varembed-intrinsic-1.5 varembed-differences-1.5",
        timed=True,
        arguments="--tokens 1.5",
    ),
    *(
        _part(f"varembed.{name}", f"varembed-{name}")
        for name in ("qvec", "tagging", "unseen", "turkish", "static")
    ),
    _part("varembed.speed", "varembed-speed", timed=True),
    _part("scale.cluster", "scale-cluster", timed=True),
    _part("scale.arithmetic", "scale-arithmetic scale-ratings"),
    _part("scale.slopes", "scale-slopes", timed=True),
    _part("scale.memory", "scale-memory"),
    *(
        _part(f"ratings.{name}", f"ratings-{kind}{data}", timed, f"--data {data}")
        for name, kind, timed in (
            ("peer_settings", "peer-settings-", False),
            ("accuracy", "", True),
        )
        for data in ("ml-100k", "ml-1m")
    ),
    _part("ratings.uncertainty", "ratings-uncertainty"),
    _part("ratings.newcomers", "ratings-newcomers"),
    _part("ratings.lists", "ratings-lists ratings-lists-more", timed=True),
    *(_part(f"ratings.{name}", f"ratings-{name}", timed=True) for name in ("speed", "scale")),
    _part(
        "ratings.thesis",
        " ".join(
            f"ratings-thesis-{study}"
            for study in (
                *("biases", "cold", "conditioning", "factorizations"),
                *("frequency", "machines", "parameters", "spread"),
            )
        ),
    ),
    *(
        _part(f"language_models.{name}", f"lm-{name.replace('_', '-')}")
        for name in (
            *("ngrams", "log_bilinear", "caches", "mixtures", "scale", "unknown", "reading"),
            *("boltzmann_ways", "state_space"),
        )
    ),
    *(
        _part(f"language_models.{name}", f"lm-{name.replace('_', '-')}", timed=True)
        for name in ("ngrams_speed", "log_bilinear_speed", "scorer")
    ),
    _part(
        "language_models.ngrams_size",
        "lm-ngrams-training lm-ngrams-arpa lm-ngrams-files",
        timed=True,
    ),
    _part("language_models.recurrent", "lm-recurrent lm-recurrent-choice"),
    _part("language_models.budgets", "lm-budgets lm-budgets-chosen"),
    _part("language_models.sizes", "lm-sizes lm-sizes-chosen"),
    *(
        _part("language_models.hidden_markov", name, name.endswith("speed"), f"--tables {name}")
        for name in (
            "lm-hidden-markov",
            *(
                f"lm-hidden-markov-{each}"
                for each in ("speed", "memory", "studies", "mixtures", "baselines", "wikitext-2")
            ),
        )
    ),
    _part(
        "language_models.thesis",
        _of_texts(
            "bias-variance diversity flat last-word machines next-word random-trees tree-figures trees widths windows"
        ),
    ),
    _part("vectors", "kernel-vectors", timed=True),
    _part("gpu", "gpu", timed=True),
    _part("lagged_counts", "lagged_counts", timed=True),
    _part("robustness", "robustness"),
)


def part_of(result: str) -> Part | None:
    """Return the part that makes this result file; None if no part of `make bench` does."""
    return next((part for part in PARTS if result in part.results), None)
