"""The tables and figures of Mnih (2010), chapter 5, on MovieLens-1M.

    python -m benchmarks.ratings.thesis [STUDY ...] [--no-save]

Studies: machines (Table 5.1), conditioning (Figures 5.1 and 5.2), factorizations (Table 5.2, Figure 5.3),
frequency (Figures 5.4 and 5.6 to 5.8), cold (Figure 5.5), parameters (Table 5.3), spread (what other seeds change);
all if none is named. Every fit is a cell in the cache, saved when it is done and shared by the studies. Needs
matplotlib.
"""

from __future__ import annotations

from benchmarks import reporting
from benchmarks.embeddings import common
from benchmarks.ratings.thesis import fits, studies
from benchmarks.ratings.thesis.fits import Bench

STUDIES = (
    "machines", "conditioning", "factorizations", "frequency", "cold", "parameters", "spread",
)  # fmt: skip


def main() -> None:
    parser = reporting.Command(__doc__, "cache", "no-save")
    parser.add_argument("studies", nargs="*", metavar="STUDY", help=f"of {', '.join(STUDIES)}")
    options = parser.parse_args()
    unknown = sorted(set(options.studies) - set(STUDIES))
    if unknown:
        parser.error(f"there is no study {unknown[0]!r}: choose from {', '.join(STUDIES)}")
    log = common.logger("thesis", options.cache)
    cells = common.Cells(options.cache, "ratings-thesis")
    bench = Bench.of(fits.movielens(), cells, log, dry=options.no_save)
    for study in options.studies or STUDIES:
        print(f"\n{study}", flush=True)
        getattr(studies, study)(bench)


if __name__ == "__main__":
    main()
