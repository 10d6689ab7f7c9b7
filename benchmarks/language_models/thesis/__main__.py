"""The tables and figures of Mnih (2010), chapters 3 and 4, on Penn Treebank and WikiText-2.

    python -m benchmarks.language_models.thesis [--data ptb|wikitext-2] [--only STUDY ...] [--without STUDY ...]

Studies: flat (Tables 3.1, 3.2), machines (3.1), predictions (Figure 3.2), frequency (3.3, 3.4, 4.10 to 4.12), pairs
(3.5, 3.6), next_words (3.7 to 3.9), random_trees (4.1), widths (4.2), trees (4.3, 4.4), speed (4.5), diversity (4.6),
windows (4.7), variance (4.8, 4.9), vectors (Figures 3.3, 3.4, 4.1, 4.2). Every fit is a cell in the cache, saved when
it is done and shared by the studies; one that was interrupted goes on. The pictures need matplotlib and scikit-learn.
"""

from __future__ import annotations

from benchmarks import reporting
from benchmarks.embeddings import common
from benchmarks.language_models.thesis import studies
from benchmarks.language_models.thesis.fits import Bench, Study
from benchmarks.language_models.thesis.recipes import PLANS
from benchmarks.language_models.thesis.texts import Texts

STUDIES = (
    "trees", "flat", "machines", "predictions", "pairs", "next_words", "random_trees", "frequency", "widths", "vectors",
    "windows", "diversity", "variance", "speed",
)  # fmt: skip


def main() -> None:
    parser = reporting.Command(__doc__, "cache", "no-save")
    parser.add_argument(
        "--data", choices=tuple(PLANS), action="append", help="one; both if left out"
    )
    parser.add_argument("--only", nargs="*", default=[], metavar="STUDY", help=", ".join(STUDIES))
    parser.add_argument("--without", nargs="*", default=[], metavar="STUDY", help="leave these out")
    options = parser.parse_args()
    unknown = sorted({*options.only, *options.without} - set(STUDIES))
    if unknown:
        parser.error(f"there is no study {unknown[0]!r}: choose from {', '.join(STUDIES)}")
    log = common.logger("lm-thesis", options.cache)
    for data in options.data or PLANS:
        bench = Bench(Texts.of(data), options.cache, log)
        study = Study(bench, PLANS[data], not options.no_save)
        for name in options.only or STUDIES:
            if name in options.without:
                continue
            getattr(studies, name)(study)


if __name__ == "__main__":
    main()
